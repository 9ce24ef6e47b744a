"""Mail commands: send, wake, task, grant, inbox, read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, IdentityType, WordType, foreign_option, pass_run
from wake_bridge.domain.errors import LedgerError, LedgerUnwritable, OperationFailed, UsageMistake
from wake_bridge.domain.events import Message
from wake_bridge.domain.facts import PERMISSIONS
from wake_bridge.domain.messages import Unusable, message_from
from wake_bridge.domain.names import BROADCAST, Identity, Instant, Priority, WakePolicy
from wake_bridge.domain.tasks import TASK_STATES
from wake_bridge.offline.owner import may_touch, speaker
from wake_bridge.storage.graph.file import REPAIR, GraphFile, GraphWriter, Node
from wake_bridge.storage.graph.mailbox import (
    Draft,
    Mail,
    UnreadableMail,
    audience,
    mailbox_of,
    mark_read,
    move_task,
    require_mail,
    require_message,
)
from wake_bridge.storage.graph.mailbox import grant as give_right
from wake_bridge.storage.graph.mailbox import send as send_message
from wake_bridge.storage.graph.nodes import require_identity
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import timestamp_now

if TYPE_CHECKING:
    from wake_bridge.domain.delivery import Hold
    from wake_bridge.domain.events import WakeEvent
    from wake_bridge.storage.graph.forecast import Forecast

OPERATOR: Final = "@operator"
FLOORS: Final = {
    "now": frozenset({WakePolicy.IMMEDIATE}),
    "next": frozenset({WakePolicy.IMMEDIATE, WakePolicy.NEXT_TURN}),
    "later": frozenset(WakePolicy),
}
MOST_AT_ONCE: Final = 50


@click.command()
@click.argument("recipient", metavar="TO", type=IdentityType(BROADCAST))
@click.option("--from", "sender", type=IDENTITY, required=True, help="The sender.")
@click.option("--subject", required=True, help="The subject: the only text that a wake shows.")
@click.option("--body", default="", help="The message text; - reads stdin.")
@click.option(
    "--priority", type=WordType(Priority), default=Priority.NORMAL, help="How the digest orders and labels it."
)
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--reply-to", metavar="ID", help="The message that this one answers.")
@click.option("--task", "is_task", is_flag=True, help="Send a task.")
@click.option("--policy", type=WordType(WakePolicy), help="When to wake: never, at the next turn, or at once.")
@click.option("--suppress-wake", is_flag=True, help="Wake nobody: the message waits in the inbox.")
@foreign_option
@pass_run
def send(run: CommandContext, /, body: str, foreign: bool, **fields: Any) -> None:
    """Send a message or a task to an identity, or to every agent with AGENT:*."""
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if body == "-" else body
    _send(run, Draft(body=text, **fields), foreign=foreign)


@click.command()
@click.argument("identity", type=IDENTITY)
@click.argument("text")
@click.option(
    "--from", "sender", type=IDENTITY, default=OPERATOR, show_default=True, help="Your identity in the graph."
)
@foreign_option
@pass_run
def wake(run: CommandContext, identity: str, text: str, sender: str, foreign: bool) -> None:
    """Send a message from you that wakes one identity at once, without waiting for other events."""
    subject, _, rest = text.strip().partition("\n")
    if not subject:
        raise UsageMistake(
            "there is no text to wake it with", "wake", hint=f'`wake-bridge wake {identity} "look here"`'
        )
    draft = Draft(
        sender=sender,
        recipient=identity,
        subject=subject,
        body=text if rest else "",
        policy=WakePolicy.IMMEDIATE,
        window=0,
    )
    _send(run, draft, foreign=foreign, human=True)


@click.command()
@click.argument("task_id", metavar="ID")
@click.argument("state", metavar="STATE", type=click.Choice(sorted(TASK_STATES), case_sensitive=False))
@click.option("--as", "actor", type=IDENTITY, required=True, help="The identity that moves it.")
@foreign_option
@pass_run
def task(run: CommandContext, task_id: str, state: str, actor: str, foreign: bool) -> None:
    """Move a task to another state. The actor needs the right to do so.

    ID is the message that `send --task` created. STATE is submitted, working, inputrequired, authrequired, blocked, completed,
    failed, canceled, rejected, expired or unknown.
    """
    now = timestamp_now()
    with run.open_graph_to_write(foreign=foreign) as graph:
        require_message(graph, task_id)
        speaker(run, "task", graph, actor, now)
        move = move_task(graph, task_id, state, actor, now)
    run.poke_daemon()
    answer = {"taskId": move.task_id, "previousState": move.previous_state, "newState": move.new_state}
    run.console.object(answer, f"{move.task_id}: {move.previous_state} → {move.new_state}")


@click.command()
@click.argument("scope", metavar="SCOPE", type=click.Choice(sorted(PERMISSIONS)))
@click.option("--to", "grantee", type=IDENTITY, required=True, help="The identity that gets the right.")
@click.option("--as", "granter", type=IDENTITY, required=True, help="The identity that grants it.")
@foreign_option
@pass_run
def grant(run: CommandContext, scope: str, grantee: str, granter: str, foreign: bool) -> None:
    """Give an identity a right over what is yours.

    SCOPE is CAN_REPLY_TO, CAN_READ_INBOX_OF, CAN_READ_MEMORIES_OF or CAN_READ_SESSIONS_OF.
    """
    with run.open_graph_to_write(foreign=foreign) as graph:
        require_identity(graph, grantee)
        speaker(run, "grant", graph, granter, timestamp_now())
        edge_id = give_right(graph, scope, grantee, granter)
    run.poke_daemon()
    run.console.object({"edgeId": edge_id}, f"{grantee} has {scope} from {granter}")


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option(
    "--floor",
    type=click.Choice(tuple(FLOORS)),
    default="next",
    help="now: immediate mail; next: also next_turn; later: also silent.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MOST_AT_ONCE),
    default=10,
    show_default=True,
    help="Show at most N entries.",
)
@click.option("--bodies", is_flag=True, help="Show the message texts.")
@click.option("--consume", is_flag=True, help="Mark the shown messages as read.")
@foreign_option
@pass_run
def inbox(
    run: CommandContext, identity: str, floor: str, limit: int, bodies: bool, consume: bool, foreign: bool
) -> None:
    """Show unread mail, oldest first. Mail that is shown counts as announced and causes no further wake."""
    with run.open_mail(foreign=foreign, marking=consume) as graph:
        require_identity(graph, identity)
        is_own = may_touch(run, "inbox --consume" if consume else "inbox", identity, graph)
        judge = _Judge(run, graph, identity)
        shown: list[Mail] = []
        aside: list[UnreadableMail] = []
        more = 0
        for one in mailbox_of(graph, identity):
            if isinstance(one, UnreadableMail):
                aside += [one] if len(aside) < MOST_AT_ONCE else []
                continue
            policy = judge.policy(one)
            if policy not in FLOORS[floor]:
                continue
            if len(shown) < limit:
                _show(run, one, policy, with_body=bodies)
                shown.append(one.without_text())
            else:
                more += 1
        for row in aside:
            run.console.warn(f"note: {row.message_id} is set aside: {row.why} ({row.row_id}); {REPAIR}")
        if is_own:
            _count_as_announced(run, identity, [mail.message.id for mail in shown] + [row.message_id for row in aside])
        if isinstance(graph, GraphWriter):
            mark_read(graph, shown, timestamp_now())
    run.poke_daemon()
    if not shown:
        run.console.say(f"no unread mail for {identity}" + ("" if floor == "later" else f" (floor {floor})"))
    if more:
        run.console.warn(f"note: {more} more; read these first, or add --limit {MOST_AT_ONCE}")


@click.command()
@click.argument("identity", type=IDENTITY)
@click.argument("message_ids", metavar="MESSAGE...", nargs=-1, required=True)
@click.option("--keep", is_flag=True, help="Keep them unread.")
@foreign_option
@pass_run
def read(run: CommandContext, identity: str, message_ids: tuple[str, ...], keep: bool, foreign: bool) -> None:
    """Show messages with their text, and mark them as read."""
    with run.open_mail(foreign=foreign, marking=not keep) as graph:
        require_identity(graph, identity)
        is_own = may_touch(run, "read --keep" if keep else "read", identity, graph)
        mails = [require_mail(graph, identity, message_id) for message_id in dict.fromkeys(message_ids)]
        judge = _Judge(run, graph, identity)
        for mail in mails:
            _show(run, mail, judge.policy(mail), with_body=True)
        if is_own:
            _count_as_announced(run, identity, [mail.message.id for mail in mails])
        if isinstance(graph, GraphWriter):
            mark_read(graph, mails, timestamp_now())
    run.poke_daemon()


def _send(run: CommandContext, draft: Draft, *, foreign: bool, human: bool = False) -> None:
    now = timestamp_now()
    with run.open_graph_to_write(foreign=foreign) as graph:
        if draft.recipient != BROADCAST:
            require_identity(graph, draft.recipient)
        speaker(run, "wake" if human else "send", graph, draft.sender, now, human=human)
        message_id = send_message(graph, draft, now)
        expected_outcomes = _expected_outcomes(run, graph, require_message(graph, message_id), draft)
    run.poke_daemon()
    run.console.object({"messageId": message_id}, f"sent {message_id}")
    for expected_outcome in expected_outcomes:
        run.console.warn(expected_outcome)
    from wake_bridge.control.serving import DaemonState, daemon_state

    told = {
        DaemonState.STARTING: "the daemon is starting: it reads this as soon as it runs",
        DaemonState.NOT_RUNNING: "the daemon is not running: no wakes until you start it (`wake-bridge run`)",
        DaemonState.CANNOT_TELL: "cannot tell whether the daemon runs: `wake-bridge doctor` shows why",
    }
    if words := told.get(daemon_state(run.settings.state_dir)):
        run.console.warn(words)


def _expected_outcomes(run: CommandContext, graph: GraphFile, message: Node, draft: Draft) -> list[str]:
    recipients = audience(graph, draft.sender) if draft.recipient == BROADCAST else [draft.recipient]
    from wake_bridge.storage.graph.forecast import Forecast

    @cache
    def unreached() -> Mapping[Identity, Hold]:
        # a look takes longer than what the daemon needs to begin
        run.poke_daemon()
        return run.unreached([Identity(one) for one in recipients[:MOST_AT_ONCE]])

    def holds(identity: Identity, events: Sequence[WakeEvent]) -> Iterator[Hold]:
        from wake_bridge.offline.history import holds_of

        guards: Sequence[Hold] = ()
        # the message is sent, whatever the ledger says
        with suppress(LedgerError):
            guards = holds_of(run.settings, identity, events)
        yield from guards
        if identity in unreached():
            yield unreached()[identity]

    forecast = Forecast(graph, run.settings, _now(), holds)
    return [forecast.expected_outcome(message, Identity(recipient)) for recipient in recipients] or ["no recipient"]


class _Judge:
    """How insistent the wake of a message is. Most looks into an inbox find nothing, and need no setting to say so."""

    def __init__(self, run: CommandContext, graph: GraphFile, identity: str) -> None:
        self._run, self._graph, self._identity = run, graph, Identity(identity)
        self._forecast: Forecast | None = None

    def policy(self, mail: Mail) -> WakePolicy:
        if self._forecast is None:
            from wake_bridge.storage.graph.forecast import Forecast

            self._forecast = Forecast(self._graph, self._run.settings, _now())
        return self._forecast.policy(mail.message, self._identity)


def _show(run: CommandContext, mail: Mail, policy: WakePolicy, *, with_body: bool) -> None:
    message = message_from(mail.message.id, mail.message.properties)
    if isinstance(message, Unusable):
        raise OperationFailed(message.why, mail.message.id)
    properties = mail.message.properties
    record = {
        "messageId": message.id,
        "from": message.sender,
        "subject": message.subject,
        **({"body": message.body} if with_body else {}),
        "priority": message.priority.value,
        "policy": policy.value,
        "tags": list(message.tags),
        "inReplyTo": message.in_reply_to,
        "task": properties.get("task"),
        "sentAt": properties.get("sentAt"),
    }
    run.console.line(record, _letter(message, record))


def _letter(message: Message, record: dict[str, Any]) -> str:
    """A message for people and agents: its own words are set in, so that nothing in them looks like ours."""
    task = f"  task: {message.task.state}" if message.task else ""
    reply = f"  answers: {message.in_reply_to}" if message.in_reply_to else ""
    tags = f"  tags: {', '.join(message.tags)}" if message.tags else ""
    head = f"{message.id}  from {message.sender}  {message.priority}  {record['sentAt']}{task}{reply}{tags}"
    lines = [head, f"  {' '.join(message.subject.split())}"]
    if "body" in record:
        lines += [f"  | {line}" for line in message.body.splitlines()]
    return "\n".join(lines)


def _count_as_announced(run: CommandContext, identity: str, message_ids: list[str]) -> None:
    """What was printed, and has left this process, need not be announced by a wake."""
    run.console.flush()
    if not message_ids:
        return
    try:
        with closing(LedgerStore.open(run.settings.state_dir)) as ledger:
            ledger.announce(Identity(identity), message_ids, "inbox", _now())
    except LedgerUnwritable as refusal:
        run.console.warn(f"note: a wake may announce it again, because nothing could be written down: {refusal}")


def _now() -> Instant:
    return Instant(int(time.time() * 1000))
