"""Mail, tasks and wakes, as commands and tools send and read them: one rule for both."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.errors import (
    LedgerError,
    LedgerUnwritable,
    NotFound,
    OperationFailed,
    RefusedForSafety,
    SourceError,
)
from wake_bridge.domain.events import Message
from wake_bridge.domain.items import ME
from wake_bridge.domain.messages import Unusable, message_from
from wake_bridge.domain.names import BROADCAST, Identity, Instant, WakePolicy
from wake_bridge.domain.values import dataclass
from wake_bridge.offline.owner import invoker, may_touch, speaker
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.graph import mailbox
from wake_bridge.storage.graph.access import Graph, Node, WritableGraph
from wake_bridge.storage.graph.mailbox import Draft, Mail, TaskMove, UnreadableMail
from wake_bridge.storage.graph.nodes import IDENTITY_LABEL, find_identity, require_identity
from wake_bridge.storage.graph.opened import open_graph, open_host_desk
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import timestamp_now

if TYPE_CHECKING:
    from wake_bridge.domain.delivery import Delivery, Hold
    from wake_bridge.domain.events import WakeEvent
    from wake_bridge.domain.graph_places import GraphPlace
    from wake_bridge.storage.graph.forecast import Forecast

FLOORS: Final = {
    "now": frozenset({WakePolicy.IMMEDIATE}),
    "next": frozenset({WakePolicy.IMMEDIATE, WakePolicy.NEXT_TURN}),
    "later": frozenset(WakePolicy),
}
"""How insistent a message must be to be shown."""

MOST_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Letter:
    """A message as it is shown: itself, and what programs are told of it."""

    message: Message
    record: Mapping[str, Any]


@dataclass(slots=True)
class Shown:
    """What was shown of a mailbox, to be written down once it has left this process.

    `is_own`: by its owner, or by somebody who may read it and takes nothing from its owner. `aside` cannot be read; `more`
    are further ones that were not shown.
    """

    identity: Identity
    is_own: bool
    mails: list[Mail] = field(default_factory=list)
    aside: list[UnreadableMail] = field(default_factory=list)
    more: int = 0

    def message_ids(self) -> list[str]:
        """All that its reader has heard of."""
        return [one.message.id for one in self.mails] + [one.message_id for one in self.aside]


def show_unread(
    work: Workplace,
    graph: Graph,
    identity: str,
    show: Callable[[Letter], None],
    *,
    floor: str,
    limit: int,
    with_body: bool,
    consume: bool,
) -> Shown:
    """Show unread mail, oldest first; what is shown is written down by `write_down`.

    Args:
        work: the act.
        graph: the graph, open as `Workplace.open_mail` opens it.
        identity: whose mailbox.
        show: is handed each letter as soon as it is read.
        floor: a key of `FLOORS`.
        limit: show at most so many.
        with_body: whether letters have their text.
        consume: whether they are to be marked read.

    Raises:
        NotFound: there is no such identity.
        RefusedForSafety: it is another's.
    """
    require_identity(graph, identity)
    is_own = may_touch(work, "inbox --consume" if consume else "inbox", identity, graph)
    judge, shown = _Judge(work, graph, identity), Shown(Identity(identity), is_own)
    for one in mailbox.mailbox_of(graph, identity):
        if isinstance(one, UnreadableMail):
            shown.aside += [one] if len(shown.aside) < MOST_AT_ONCE else []
            continue
        policy = judge.policy(one)
        if policy not in FLOORS[floor]:
            continue
        if len(shown.mails) < limit:
            show(_letter(one, policy, with_body=with_body))
            shown.mails.append(one.without_text())
        else:
            shown.more += 1
    return shown


def show_messages(
    work: Workplace,
    graph: Graph,
    identity: str,
    message_ids: Iterable[str],
    show: Callable[[Letter], None],
    *,
    keep: bool,
) -> Shown:
    """Show messages with their text, read or not; what is shown is written down by `write_down`.

    Args:
        work: the act.
        graph: the graph, open as `Workplace.open_mail` opens it.
        identity: whose mailbox.
        message_ids: which.
        show: is handed each letter.
        keep: whether they stay unread.

    Raises:
        NotFound: there is no such identity or message, or it is not addressed to the identity.
        RefusedForSafety: it is another's.
    """
    require_identity(graph, identity)
    is_own = may_touch(work, "read --keep" if keep else "read", identity, graph)
    mails = [mailbox.require_mail(graph, identity, one) for one in dict.fromkeys(message_ids)]
    judge = _Judge(work, graph, identity)
    for one in mails:
        show(_letter(one, judge.policy(one), with_body=True))
    return Shown(Identity(identity), is_own, mails)


def write_down(work: Workplace, graph: Graph, shown: Shown) -> None:
    """What was shown, and has left this process, needs no wake; where the graph is open for writing it is read."""
    message_ids = shown.message_ids() if shown.is_own else []
    if message_ids:
        _tell_other_hosts(work, shown.identity, message_ids)
        try:
            with closing(LedgerStore.open(work.settings.state_dir)) as ledger:
                ledger.announce(shown.identity, message_ids, "inbox", _now())
        except LedgerUnwritable as refusal:
            work.warn(f"note: a wake may announce it again, because the ledger could not be written: {refusal}")
    if isinstance(graph, WritableGraph):
        mailbox.mark_read(graph, shown.mails, timestamp_now())


def _tell_other_hosts(work: Workplace, identity: Identity, message_ids: Sequence[str]) -> None:
    """Where several hosts share the graph: whichever serves the identity later, has not to announce it."""
    from wake_bridge.config.hosts import HostsFile

    with suppress(SourceError, OperationFailed):
        desk = open_host_desk(work.settings.graph_place)
        if desk is not None:
            with closing(desk):
                own = HostsFile(work.settings.state_dir).known().own
                desk.note_shown(identity, message_ids, own or socket.gethostname())


def take_along_what_was_told(work: Workplace, target: GraphPlace) -> None:
    """The graph has been copied there: no other host tells anew what this one has told of the mail that is unread.

    Raises:
        SourceError: the copy cannot be used.
    """
    from wake_bridge.config.hosts import HostsFile

    desk = open_host_desk(target)
    if desk is None:
        return
    state = work.configured.state_dir
    own = HostsFile(state).known().own or socket.gethostname()
    with closing(desk), open_graph(target) as graph:
        try:
            with closing(LedgerStore.open(state, read_only=True)) as ledger:
                for node in graph.nodes(IDENTITY_LABEL):
                    unread = [one.message.id for one in mailbox.mailbox_of(graph, node.id) if isinstance(one, Mail)]
                    if told := ledger.told(Identity(node.id), unread):
                        desk.note_shown(Identity(node.id), sorted(told), own)
        except LedgerError as why:
            work.warn(f"note: another host may announce again what was told, because the ledger cannot be read: {why}")


def unread_count(graph: Graph, identity: str) -> int:
    """How much unread mail an identity has, whatever its policy."""
    return sum(isinstance(one, Mail) for one in mailbox.mailbox_of(graph, identity))


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that was sent, and what will come of it, a sentence for each recipient."""

    message_id: str
    outcomes: Sequence[str]


def send(work: Workplace, draft: Draft, *, foreign: bool, human: bool = False) -> SentMessage:
    """Send a message.

    Args:
        work: the act.
        draft: the message.
        foreign: whether another program's graph may be written.
        human: whether a person sends it with `wake`.

    Raises:
        NotFound: recipient, sender, or the message it answers does not exist.
        RefusedForSafety: the sender is another, or the graph another program's.
    """
    now = timestamp_now()
    with work.open_graph_to_write(foreign=foreign) as graph:
        if draft.recipient != BROADCAST:
            require_identity(graph, draft.recipient)
        speaker(work, "wake" if human else "send", graph, draft.sender, now, human=human)
        message_id = mailbox.send(graph, draft, now)
        outcomes = _expected_outcomes(work, graph, mailbox.require_message(graph, message_id), draft)
    work.poke_daemon()
    from wake_bridge.control.serving import DaemonState, daemon_state

    told = {
        DaemonState.STARTING: "the daemon is starting: it reads this as soon as it runs",
        DaemonState.NOT_RUNNING: "the daemon is not running: no wakes until you start it (`wake-bridge run`)",
        DaemonState.CANNOT_TELL: "cannot tell whether the daemon runs: `wake-bridge doctor` shows why",
    }
    words = told.get(daemon_state(work.settings.state_dir))
    return SentMessage(message_id, [*outcomes, *([words] if words else [])])


def move_task(work: Workplace, task_id: str, state: str, actor: str, *, foreign: bool) -> TaskMove:
    """Move a task to another state in an identity's name.

    Raises:
        NotFound: there is no such message, it is no task, or there is no such identity.
        OperationFailed: the identity has no right to this move, or somebody else moved the task first.
        RefusedForSafety: the identity is another, or the graph another program's.
    """
    now = timestamp_now()
    with work.open_graph_to_write(foreign=foreign) as graph:
        mailbox.require_message(graph, task_id)
        speaker(work, "task", graph, actor, now)
        move = mailbox.move_task(graph, task_id, state, actor, now)
    work.poke_daemon()
    return move


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A wake that was acknowledged, as programs are told of it; `waited`: it was not sent yet, and is not any more."""

    delivery: Delivery
    record: Mapping[str, Any]
    waited: bool


def acknowledge(work: Workplace, delivery_id: str, lease: int | None = None) -> Acknowledged:
    """Say that a wake was seen and understood; one that still waits ends without being sent.

    Args:
        work: the act.
        delivery_id: the id that the wake names, or the beginning of it.
        lease: the lease that the wake names; an agent must say it of one that has to be answered.

    Raises:
        NotFound: there is no such delivery.
        RefusedForSafety: it is another's, or an agent names no lease.
        LateAnswer: the lease is no longer in force, or an agent answers what is a person's now; nothing was changed.
        LedgerError: the ledger cannot be written.
    """
    answer = partial(LedgerStore.answer, is_person=invoker(work).is_person)
    return _under_lease(work, "ack", delivery_id, lease, answer)


def call_person(work: Workplace, delivery_id: str, lease: int | None = None) -> Acknowledged:
    """Pass a wake to a person before its time is over; arguments and errors are those of `acknowledge`.

    Raises:
        IllegalTransition: it has ended, or is a person's already.
    """
    return _under_lease(work, "escalate", delivery_id, lease, LedgerStore.call_person)


def _under_lease(
    work: Workplace,
    command: str,
    delivery_id: str,
    lease: int | None,
    act: Callable[[LedgerStore, str, int | None, str, Instant], Delivery],
) -> Acknowledged:
    from wake_bridge.domain.delivery import DeliveryState
    from wake_bridge.records import delivery_record
    from wake_bridge.system.clock import SteadyClock

    with closing(LedgerStore.open(work.places.state_dir)) as ledger:
        delivery = find_delivery(ledger, delivery_id)
        may_touch(work, command, delivery.identity)
        if lease is None and delivery.ack_within and not invoker(work).is_person:
            raise RefusedForSafety(
                "it has to be answered under its lease, and none is given",
                delivery.id,
                hint=f"the wake names it: `wake-bridge {command} {delivery.id} --lease N`",
            )
        waited = delivery.state in {DeliveryState.PENDING, DeliveryState.DISPATCHED}
        after = act(ledger, delivery.id, lease, command, SteadyClock().now())
        record = delivery_record(after, ledger.events_of(after.id))
    work.poke_daemon()
    return Acknowledged(after, record, waited)


def passed_on_record(delivery: Delivery, events: Sequence[WakeEvent]) -> dict[str, Any]:
    """What a person was told in an agent's place, as programs are told of it: a line of an inbox, and of whom it comes."""
    from wake_bridge.domain.delivery import Proof
    from wake_bridge.domain.digest import subject_of
    from wake_bridge.domain.events import ItemDetail, MessageDetail
    from wake_bridge.records import time_or_none

    detail = events[0].detail if events else None
    sender, subject = None, None
    if isinstance(detail, MessageDetail):
        sender, subject = detail.sender, detail.subject
    elif isinstance(detail, ItemDetail):
        sender, subject = detail.source, detail.text
    return {
        "messageId": subject_of(events[0]) if events else None,
        "from": sender,
        "subject": subject,
        "priority": events[0].priority.value if events else None,
        "deliveryId": delivery.id,
        "agentIdentity": delivery.identity,
        "escalatedAt": time_or_none(delivery.escalated_at),
        "isAcknowledged": delivery.proof is Proof.ACKNOWLEDGED,
    }


def seen(work: Workplace, identity: str, since: Instant) -> list[dict[str, Any]]:
    """What a person was told since then in the place of the identity's agent; it changes nothing.

    Raises:
        RefusedForSafety: it is another's.
        LedgerError: the ledger cannot be read.
    """
    may_touch(work, "seen", identity)
    with closing(LedgerStore.open(work.places.state_dir, read_only=True)) as ledger:
        return [passed_on_record(*one) for one in ledger.passed_on(Identity(identity), since)]


def is_persons(work: Workplace, identity: str) -> bool:
    """Whether an inbox is a person's: `@me`, which needs no node in the graph, or that of an identity that is one."""
    if identity == ME:
        return True
    # without a graph there is nobody in it
    with suppress(SourceError), work.open_mail(foreign=False, marking=False) as graph:
        node = find_identity(graph, identity)
        return node is not None and node.properties.get("accountType") == "human"
    return False


def show_passed_on(work: Workplace, show: Callable[[dict[str, Any]], None]) -> list[str]:
    """Show what has passed to the person, and is not acknowledged yet; answers the deliveries, for `acknowledge_shown`.

    Raises:
        RefusedForSafety: an agent asks.
        LedgerError: the ledger cannot be read.
    """
    if not invoker(work).is_person:
        raise RefusedForSafety(
            "what has passed to a person is shown to a person",
            invoker(work).told,
            hint="`wake-bridge seen` shows what your person was told in your place",
        )
    with closing(LedgerStore.open(work.places.state_dir, read_only=True)) as ledger:
        found = ledger.unacknowledged_by_person()
    for one in found:
        show(passed_on_record(*one))
    return [delivery.id for delivery, _ in found]


def acknowledge_shown(work: Workplace, delivery_ids: Sequence[str]) -> None:
    """What was shown to the person, and has left this process, is theirs: nobody reminds them of it any more."""
    if not delivery_ids:
        return
    with closing(LedgerStore.open(work.places.state_dir)) as ledger:
        for one in delivery_ids:
            ledger.answer(one, None, "inbox", _now())
    work.poke_daemon()


def find_delivery(ledger: LedgerStore, delivery_id: str) -> Delivery:
    """The delivery meant by an id or its beginning. Raises `NotFound`."""
    delivery = ledger.delivery(delivery_id)
    if delivery is None:
        raise NotFound("no such delivery", delivery_id, hint="`wake-bridge deliveries` lists them")
    return delivery


def _expected_outcomes(work: Workplace, graph: Graph, message: Node, draft: Draft) -> list[str]:
    recipients = mailbox.audience(graph, draft.sender) if draft.recipient == BROADCAST else [draft.recipient]
    from wake_bridge.control.settings_in_force import as_the_daemon_goes
    from wake_bridge.storage.graph.forecast import Forecast

    @cache
    def unreached() -> Mapping[Identity, Hold]:
        # a look takes longer than what the daemon needs to begin
        work.poke_daemon()
        return work.unreached([Identity(one) for one in recipients[:MOST_AT_ONCE]])

    def holds(identity: Identity, events: Sequence[WakeEvent]) -> Iterator[Hold]:
        from wake_bridge.offline.holds import holds_of

        guards: Sequence[Hold] = ()
        # the message is sent, whatever the ledger says
        with suppress(LedgerError):
            guards = holds_of(work.settings, identity, events)
        yield from guards
        if identity in unreached():
            yield unreached()[identity]

    forecast = Forecast(graph, as_the_daemon_goes(work.settings), _now(), holds)
    return [forecast.expected_outcome(message, Identity(recipient)) for recipient in recipients] or ["no recipient"]


class _Judge:
    """How insistent the wake of a message is. Most looks into an inbox find nothing, and need no setting to say so."""

    def __init__(self, work: Workplace, graph: Graph, identity: str) -> None:
        self._work, self._graph, self._identity = work, graph, Identity(identity)
        self._forecast: Forecast | None = None

    def policy(self, mail: Mail) -> WakePolicy:
        if self._forecast is None:
            from wake_bridge.storage.graph.forecast import Forecast

            self._forecast = Forecast(self._graph, self._work.settings, _now())
        return self._forecast.policy(mail.message, self._identity)


def _letter(mail: Mail, policy: WakePolicy, *, with_body: bool) -> Letter:
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
    return Letter(message, record)


def _now() -> Instant:
    return Instant(int(time.time() * 1000))
