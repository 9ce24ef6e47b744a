"""Mail commands: send, wake, task, grant, inbox, read."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import click

from wake_bridge.cli.context import (
    IDENTITY,
    CommandContext,
    IdentityType,
    WordType,
    foreign_option,
    limit_option,
    pass_run,
)
from wake_bridge.cli.wakes import DURATION
from wake_bridge.domain.errors import SourceMissing, UsageMistake
from wake_bridge.domain.events import ItemDetail, Message, WakeEvent
from wake_bridge.domain.facts import PERMISSIONS
from wake_bridge.domain.items import ME
from wake_bridge.domain.messages import LONGEST_ACK
from wake_bridge.domain.names import BROADCAST, Identity, Instant, Priority, WakePolicy
from wake_bridge.domain.tasks import TASK_STATES
from wake_bridge.domain.text import SUBJECT_LIMIT, harmless
from wake_bridge.offline import items, mail
from wake_bridge.offline.owner import invoker, may_touch, speaker
from wake_bridge.storage.graph.access import REPAIR
from wake_bridge.storage.graph.mailbox import Draft
from wake_bridge.storage.graph.mailbox import grant as give_right
from wake_bridge.storage.graph.nodes import find_identity, require_identity
from wake_bridge.system.clock import timestamp_now, timestamp_of_instant

OPERATOR: Final = "@operator"

_LINE: Final = 2000
"""Characters of one line of a text that are shown."""


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
@click.option(
    "--ack-within",
    type=DURATION,
    help="Wake at once; if nobody has answered after this long, such as 5m, tell a person.",
)
@click.option("--suppress-wake", is_flag=True, help="Wake nobody: the message waits in the inbox.")
@foreign_option
@pass_run
def send(run: CommandContext, /, body: str, foreign: bool, ack_within: int | None, **fields: Any) -> None:
    """Send a message or a task to an identity, or to every agent with AGENT:*."""
    if ack_within is not None:
        fields |= {"ack_within": _seconds_to_answer(ack_within), "policy": _at_once(fields)}
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if body == "-" else body
    _send(run, Draft(body=text, **fields), foreign=foreign)


def _seconds_to_answer(milliseconds: int) -> int:
    seconds = milliseconds // 1000
    if not 1 <= seconds <= LONGEST_ACK:
        raise UsageMistake("that is no time to answer in", "--ack-within", hint="give 1s to 7d, such as 5m")
    return seconds


def _at_once(fields: Mapping[str, Any]) -> WakePolicy:
    """What has to be answered wakes at once."""
    if fields["suppress_wake"] or fields["policy"] not in {None, WakePolicy.IMMEDIATE}:
        raise UsageMistake(
            "what has to be answered wakes its agent at once",
            "--ack-within",
            hint="leave out --suppress-wake and any other --policy",
        )
    return WakePolicy.IMMEDIATE


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
    move = mail.move_task(run, task_id, state, actor, foreign=foreign)
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
    type=click.Choice(tuple(mail.FLOORS)),
    default="next",
    help="now: immediate mail; next: also next_turn; later: also silent.",
)
@limit_option(mail.MOST_AT_ONCE, 10)
@click.option("--bodies", is_flag=True, help="Show the message texts.")
@click.option("--consume", is_flag=True, help="Mark the shown messages as read.")
@foreign_option
@pass_run
def inbox(
    run: CommandContext, identity: str, floor: str, limit: int, bodies: bool, consume: bool, foreign: bool
) -> None:
    """Show unread mail, oldest first, and then items from outside. What is shown counts as announced and causes no further wake.

    An item stays unread until `ack ID`, or the next `inbox` within ten minutes; with --consume it is read at once. The inbox of a
    person, and @me, begins with what agents did not answer in time; what is shown of it counts as acknowledged.
    """
    passed_on: list[str] = []
    if invoker(run).is_person and mail.is_persons(run, identity):
        passed_on = mail.show_passed_on(run, partial(_print_passed_on, run))
        run.console.flush()
        mail.acknowledge_shown(run, passed_on)
    from wake_bridge.records import item_record

    shown = _show_mail(run, identity, floor, limit, bodies=bodies, consume=consume, foreign=foreign)
    is_own = shown.is_own if shown is not None else may_touch(run, "inbox", identity)
    found = items.unread(run, Identity(identity), floor=floor, limit=limit, is_own=is_own)
    for one in found.items:
        run.console.line(item_record(one, found.delivered_at), item_words(one, with_text=bodies))
    run.console.flush()
    items.write_down(run, found, consume=consume)
    run.poke_daemon()
    if not (passed_on or found.items or (shown is not None and shown.mails)):
        run.console.say(f"no unread mail for {identity}" + ("" if floor == "later" else f" (floor {floor})"))
    if more := (shown.more if shown is not None else 0) + found.total - len(found.items):
        run.console.warn(f"note: {more} more; read these first, or add --limit {mail.MOST_AT_ONCE}")


def _show_mail(
    run: CommandContext, identity: str, floor: str, limit: int, *, bodies: bool, consume: bool, foreign: bool
) -> mail.Shown | None:
    """Show the mail of an inbox; None where there is no graph but items come, and for the person whom the graph does not know."""
    try:
        with run.open_mail(foreign=foreign, marking=consume) as graph:
            if identity == ME and find_identity(graph, identity) is None:
                return None
            shown = mail.show_unread(
                run, graph, identity, partial(_print, run), floor=floor, limit=limit, with_body=bodies, consume=consume
            )
            for row in shown.aside:
                run.console.warn(f"note: {row.message_id} is set aside: {row.why} ({row.row_id}); {REPAIR}")
            run.console.flush()
            mail.write_down(run, graph, shown)
            return shown
    except SourceMissing:
        if items.are_all_there_is(run):
            return None
        raise


@click.command()
@click.argument("identity", type=IDENTITY)
@click.argument("message_ids", metavar="MESSAGE...", nargs=-1, required=True)
@click.option("--keep", is_flag=True, help="Keep them unread.")
@foreign_option
@pass_run
def read(run: CommandContext, identity: str, message_ids: tuple[str, ...], keep: bool, foreign: bool) -> None:
    """Show messages with their text, and mark them as read."""
    with run.open_mail(foreign=foreign, marking=not keep) as graph:
        shown = mail.show_messages(run, graph, identity, message_ids, partial(_print, run), keep=keep)
        run.console.flush()
        mail.write_down(run, graph, shown)
    run.poke_daemon()


def _send(run: CommandContext, draft: Draft, *, foreign: bool, human: bool = False) -> None:
    sent = mail.send(run, draft, foreign=foreign, human=human)
    run.console.object({"messageId": sent.message_id}, f"sent {sent.message_id}")
    for outcome in sent.outcomes:
        run.console.warn(outcome)


def item_words(event: WakeEvent, *, with_text: bool) -> str:
    """An item for people and agents: its own words are set in, so that nothing in them looks like ours."""
    item = event.detail
    if not isinstance(item, ItemDetail):
        raise TypeError(f"{event.id} is no item")
    state = f"  {item.state}" if item.state else ""
    about = f"  about {item.about}" if item.about else ""
    at = timestamp_of_instant(event.matched_at)
    speaker = f" by {harmless(item.by)}" if item.by else ""
    before = f"  delivered {timestamp_of_instant(event.delivered_at)}" if event.delivered_at else ""
    lines = [f"{event.id}  item from {item.source}{speaker}  {item.priority}  {at}{state}{about}{before}"]
    said = item.text.splitlines()
    if with_text:
        return "\n".join([*lines, *(f"  | {harmless(line, _LINE)}" for line in said)])
    more = f" (+{len(said) - 1} lines: --bodies)" if len(said) > 1 else ""
    return "\n".join([*lines, f"  {harmless(item.text)}{more}"])


def _print(run: CommandContext, letter: mail.Letter) -> None:
    run.console.line(letter.record, _words(letter.message, letter.record))


def _print_passed_on(run: CommandContext, record: Mapping[str, Any]) -> None:
    head = f"{record['deliveryId']}  {record['agentIdentity']} did not answer  {record['escalatedAt']}  from {record['from']}"
    run.console.line(record, f"{_one_line(head)}\n  {_subject(str(record['subject'] or ''))}")


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option("--since", "age", type=DURATION, default="7d", show_default=True, help="Only the last 8h, 30m, …")
@pass_run
def seen(run: CommandContext, identity: str, age: int) -> None:
    """Show what a person was told in the place of an agent that did not answer. It is history: nothing is to be done."""
    found = mail.seen(run, identity, Instant(int(time.time() * 1000) - age))
    for record in found:
        told = "acknowledged" if record["isAcknowledged"] else "not acknowledged yet"
        head = f"{record['escalatedAt']}  {record['deliveryId']}  from {record['from']}  {told}"
        run.console.line(record, f"{_one_line(head)}\n  {_subject(str(record['subject'] or ''))}")
    if not found:
        run.console.say(f"no person was told anything in the place of {identity}")


def _one_line(text: str) -> str:
    """A line of ours with others' names in it: their line ends are shown as what cannot be shown."""
    return "�".join(text.splitlines())


def _subject(text: str, most: int = SUBJECT_LIMIT) -> str:
    """A subject on one line, as much of it as digests show; who reads the text sees more of it."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _words(message: Message, record: Mapping[str, Any]) -> str:
    """A message for people and agents: its own words are set in, so that nothing in them looks like ours."""
    task = f"  task: {message.task.state}" if message.task else ""
    reply = f"  answers: {message.in_reply_to}" if message.in_reply_to else ""
    tags = f"  tags: {', '.join(message.tags)}" if message.tags else ""
    head = _one_line(f"{message.id}  from {message.sender}  {message.priority}  {record['sentAt']}{task}{reply}{tags}")
    lines = [head, f"  {_subject(message.subject, most=_LINE if 'body' in record else SUBJECT_LIMIT)}"]
    if "body" in record:
        lines += [f"  | {line}" for line in message.body.splitlines()]
    return "\n".join(lines)
