"""What each tool does: what a command does, for the calling identity. Imported at the first call, because it is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from wake_bridge.domain import names
from wake_bridge.domain.errors import SourceMissing, UsageMistake, WakeBridgeError
from wake_bridge.domain.events import ItemMode, ItemPriority, ItemState, ItemTier, WakeEvent
from wake_bridge.domain.items import ItemDraft
from wake_bridge.domain.names import Identity
from wake_bridge.domain.text import harmless
from wake_bridge.domain.values import dataclass
from wake_bridge.mcp import models
from wake_bridge.mcp.tools import TOOLS, ToolKind
from wake_bridge.offline import items, mail, subscriptions
from wake_bridge.offline.mail import Letter, Shown
from wake_bridge.offline.owner import may_touch
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.graph.mailbox import Draft
from wake_bridge.storage.graph.nodes import Wish, shown_subscription

if TYPE_CHECKING:
    from wake_bridge.domain.channels import Send

_LONGEST_ITEM: Final = 2_000
"""Characters of one item's text."""

ROOM: Final = 24_000
"""Characters of texts that one look into the inbox shows: harnesses cut longer answers, and what is cut was not read."""


class Desk(Workplace):
    """Where one call of a tool is done.

    Args:
        config_option: the value of `--config`, if given.
        foreign: whether another program's graph may be written.
    """

    def __init__(self, config_option: str | None, *, foreign: bool) -> None:
        super().__init__(config_option)
        self.foreign = foreign
        self.notes: list[str] = []

    def warn(self, text: str) -> None:
        """See `Workplace.warn`: the caller reads it in the result."""
        self.notes.append(text.removeprefix("note: "))


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers. `afterwards` is owed once the answer has left: only then was anything shown to anybody."""

    result: models.Gives
    afterwards: Callable[[], None] | None = None
    consumed: int = 0


# -- mail -------------------------------------------------------------------------------------------------------------


def _check_inbox(desk: Desk, who: Identity, asked: models.CheckInboxArguments) -> ToolAnswer:
    letters: list[Letter] = []
    shown = _mail_shown(desk, who, asked, letters)
    fitting = _fitting(letters)
    shown.more += len(letters) - fitting
    del shown.mails[fitting:]
    found = items.unread(desk, who, floor=asked.floor, limit=asked.limit, is_own=shown.is_own)
    more = shown.more + found.total - len(found.items)
    result = models.InboxResult(messages=[_letter(one) for one in letters[:fitting]], more=more)
    if found.items:
        result.items = [_item(one, with_text=asked.consume) for one in found.items]
    if shown.aside:
        result.set_aside = [models.UnreadableRecord(message_id=one.message_id, why=one.why) for one in shown.aside]
    answer = _outcome(desk, result, shown, consume=asked.consume)

    def write_down() -> None:
        if answer.afterwards is not None:
            answer.afterwards()
        items.write_down(desk, found, consume=asked.consume)

    return replace(answer, afterwards=write_down) if found.items or found.has_leased else answer


def _mail_shown(desk: Desk, who: Identity, asked: models.CheckInboxArguments, letters: list[Letter]) -> Shown:
    """The mail of an inbox; none on a host without a graph to which items come. Raises as `mail.show_unread` does."""
    try:
        with desk.open_mail(foreign=desk.foreign, marking=asked.consume) as graph:
            return mail.show_unread(
                desk,
                graph,
                who,
                letters.append,
                floor=asked.floor,
                limit=asked.limit,
                with_body=asked.consume,
                consume=asked.consume,
            )
    except SourceMissing:
        if items.are_all_there_is(desk):
            return Shown(who, is_own=may_touch(desk, "inbox", who))
        raise


def _item(event: WakeEvent, *, with_text: bool) -> models.ItemRecord:
    from wake_bridge.records import item_record  # noqa: PLC0415 - see _presence

    record = item_record(event)
    text = str(record["text"]) if with_text else harmless(str(record["text"]))
    return models.ItemRecord.model_validate({**record, "text": text[:_LONGEST_ITEM]})


def _notify(desk: Desk, who: Identity, asked: models.NotifyArguments) -> ToolAnswer:  # noqa: ARG001 - the desk's invoker is the caller
    draft = ItemDraft(
        Identity(asked.to),
        asked.source,
        asked.text,
        ItemMode(asked.mode) if asked.mode else None,
        ItemTier(asked.tier) if asked.tier else None,
        ItemPriority(asked.priority),
        asked.key or "",
        ItemState(asked.state or ""),
    )
    taken = items.notify(desk, draft)
    return ToolAnswer(models.NotifiedResult(id=taken.event.id, was=taken.was.value))


def _fitting(letters: list[Letter]) -> int:
    """How many are shown: as many as there is room for, and one at least."""
    taken = 0
    for number, one in enumerate(letters):
        taken += len(one.record.get("body", ""))
        if number and taken > ROOM:
            return number
    return len(letters)


def _read_message(desk: Desk, who: Identity, asked: models.ReadMessageArguments) -> ToolAnswer:
    letters: list[Letter] = []
    with desk.open_mail(foreign=desk.foreign, marking=not asked.keep) as graph:
        shown = mail.show_messages(desk, graph, who, [asked.message_id], letters.append, keep=asked.keep)
    return _outcome(desk, models.MessageResult(message=_letter(letters[0])), shown, consume=not asked.keep)


def _outcome(desk: Desk, result: models.Gives, shown: Shown, *, consume: bool) -> ToolAnswer:
    def write_down() -> None:
        with desk.open_mail(foreign=desk.foreign, marking=consume) as graph:
            mail.write_down(desk, graph, shown)
        desk.poke_daemon()

    consumed = sum(not one.is_read for one in shown.mails) if consume else 0
    return ToolAnswer(result, write_down if shown.message_ids() else None, consumed)


def _letter(letter: Letter) -> models.MessageRecord:
    return models.MessageRecord.model_validate(letter.record)


def _send_message(desk: Desk, who: Identity, asked: models.SendMessageArguments) -> ToolAnswer:
    draft = Draft(
        sender=who,
        recipient=asked.to,
        subject=asked.subject,
        body=asked.body,
        priority=names.Priority(asked.priority),
        tags=tuple(asked.tags),
        reply_to=asked.reply_to,
        is_task=asked.task,
        policy=_policy("immediate" if asked.ack_within else asked.policy),
        suppress_wake=asked.suppress_wake and not asked.ack_within,
        ack_within=asked.ack_within,
    )
    sent = mail.send(desk, draft, foreign=desk.foreign)
    return ToolAnswer(models.SentResult(message_id=sent.message_id, outcomes=list(sent.outcomes)))


def _policy(asked: str | None) -> names.WakePolicy | None:
    return None if asked is None else names.WakePolicy(asked)


def _acknowledge(desk: Desk, who: Identity, asked: models.AcknowledgeArguments) -> ToolAnswer:  # noqa: ARG001 - all tools look alike
    if asked.lease is None and (item := items.acknowledge(desk, asked.delivery_id)) is not None:
        return ToolAnswer(
            models.AcknowledgedResult(delivery_id=item.id, state="READ", outcome=None, proof=3, waited=False)
        )
    done = mail.acknowledge(desk, asked.delivery_id, asked.lease)
    after = done.delivery
    return ToolAnswer(
        models.AcknowledgedResult(
            delivery_id=after.id, state=after.state, outcome=after.outcome, proof=int(after.proof), waited=done.waited
        )
    )


def _update_task(desk: Desk, who: Identity, asked: models.UpdateTaskArguments) -> ToolAnswer:
    move = mail.move_task(desk, asked.task_id, asked.state, who, foreign=desk.foreign)
    return ToolAnswer(
        models.TaskResult(task_id=move.task_id, previous_state=move.previous_state, new_state=move.new_state)
    )


def _presence(desk: Desk, who: Identity, asked: models.PresenceArguments) -> ToolAnswer:
    from wake_bridge.offline.looks import presence_now  # noqa: PLC0415 - it loads what looks at panes

    record = presence_now(desk.settings, Identity(asked.agent_identity or who))
    told = ("agentIdentity", "state", "why", "where", "route", "remedy")
    return ToolAnswer(models.PresenceResult.model_validate({name: record[name] for name in told}))


def _list_channels(desk: Desk, who: Identity, asked: models.ListChannelsArguments) -> ToolAnswer:  # noqa: ARG001 - all tools look alike
    from wake_bridge.domain.channels import by_default  # noqa: PLC0415 - see _presence
    from wake_bridge.offline.channels import channels_here  # noqa: PLC0415

    known = channels_here(desk)
    default = by_default(known)
    return ToolAnswer(
        models.ChannelsResult(
            channels=[
                models.ChannelRecord(channel=one.name, label=one.label or None, is_default=one is default)
                for one in known
            ]
        )
    )


def _send_to_channel(desk: Desk, who: Identity, asked: models.SendToChannelArguments) -> ToolAnswer:  # noqa: ARG001 - the desk's invoker is the caller
    from wake_bridge.offline.channels import send_text  # noqa: PLC0415 - see _presence

    sent = send_text(desk, asked.text, asked.channel or "")
    if sent.channel is None:
        desk.warn("your user has no channel: the text is kept for 24 hours, and sent once there is one")
    send = sent.send
    return ToolAnswer(
        models.SentToChannelResult(
            message_id=send.id, channel=send.channel or None, outcome=_how_it_went(send), why=send.why or None
        )
    )


def _how_it_went(send: Send) -> Literal["sent", "waiting", "failed", "unknown"]:
    from wake_bridge.domain.channels import SendOutcome  # noqa: PLC0415 - see _presence

    match send.outcome:
        case None:
            return "waiting"
        case SendOutcome.SENT:
            return "sent"
        case SendOutcome.UNKNOWN:
            return "unknown"
        case _:
            return "failed"


def _remind_me(desk: Desk, who: Identity, asked: models.RemindMeArguments) -> ToolAnswer:
    from wake_bridge.offline.reminders import remind  # noqa: PLC0415 - see _presence
    from wake_bridge.records import reminder_record  # noqa: PLC0415

    in_ms = names.duration_of(asked.after) if asked.after else None
    reminder = remind(desk, asked.text, identity=who, in_ms=in_ms, at=asked.at or "", cron=asked.cron or "")
    record = reminder_record(reminder)
    return ToolAnswer(models.ReminderResult(reminder_id=reminder.id, due_at=str(record["dueAt"]), zone=reminder.zone))


# -- subscriptions ----------------------------------------------------------------------------------------------------

_FIELDS: Final = MappingProxyType(
    {
        "--webhook": "harnessTargetMetadata.url",
        "--tmux": "harnessTargetMetadata.tmuxSession",
        "subscribe": "harnessTarget",
    }
)
"""What the command's options are called here."""


def _manage(desk: Desk, who: Identity, asked: models.SubscriptionArguments) -> ToolAnswer:
    try:
        return _ACTIONS[asked.action](desk, who, asked)
    except WakeBridgeError as error:
        error.where = _FIELDS.get(error.where, error.where)
        raise


def _subscribe(desk: Desk, who: Identity, asked: models.SubscriptionArguments) -> ToolAnswer:
    wish = _wish(asked)
    if wish.harness_target is None and wish.pane is None:
        wish = subscriptions.served_somehow(desk, who, wish)
    outcome = subscriptions.subscribe(desk, who, wish, foreign=desk.foreign)
    if outcome.why_unwoken:
        desk.warn(f"you are not woken by it: {outcome.why_unwoken}")
    done = outcome.done
    return _managed(done.subscription_id, done.signing_key, harness_target=done.harness_target)


def _unsubscribe(desk: Desk, who: Identity, asked: models.SubscriptionArguments) -> ToolAnswer:  # noqa: ARG001 - all look alike
    removed = subscriptions.unsubscribe(desk, asked.subscription_id or "", foreign=desk.foreign)
    return _managed(removed, status="removed")


def _update(desk: Desk, who: Identity, asked: models.SubscriptionArguments) -> ToolAnswer:  # noqa: ARG001 - all look alike
    done = subscriptions.update(desk, asked.subscription_id or "", _wish(asked), foreign=desk.foreign)
    return _managed(done.node.id, done.signing_key, current_state=shown_subscription(done.node))


def _list(desk: Desk, who: Identity, asked: models.SubscriptionArguments) -> ToolAnswer:  # noqa: ARG001 - all look alike
    return ToolAnswer(models.SubscriptionResult(subscriptions=subscriptions.listed(desk, who).shown))


def _resync(desk: Desk, who: Identity, asked: models.SubscriptionArguments) -> ToolAnswer:  # noqa: ARG001 - all look alike
    subscription_id, again = subscriptions.resync(desk, asked.subscription_id or "", asked.since_log_id or 0)
    gone: dict[str, Any] = {} if again.first_available is None else {"first_available_log_id": again.first_available}
    return _managed(subscription_id, events_replayed=len(again.events), last_log_id=again.last_log_id, **gone)


_ACTIONS: Final[Mapping[str, Callable[[Desk, Identity, models.SubscriptionArguments], ToolAnswer]]] = MappingProxyType(
    {
        "subscribe": _subscribe,
        "unsubscribe": _unsubscribe,
        "update": _update,
        "list": _list,
        "resync": _resync,
    }
)


def _managed(subscription_id: str, signing_key: str = "", **fields: Any) -> ToolAnswer:
    key = {"signing_key": signing_key} if signing_key else {}
    return ToolAnswer(models.SubscriptionResult(subscription_id=subscription_id, **fields, **key))


def _wish(asked: models.SubscriptionArguments) -> Wish:
    filters = asked.filters or models.EventFilters()
    where = asked.harness_target_metadata or models.TargetMetadata()
    return subscriptions.wish_of(
        pane=where.tmux_session,
        adapter=None,
        harness_target=asked.harness_target,
        webhook=where.url,
        window=where.coalesce_window,
        policy=_policy(asked.wake_policy),
        priority=filters.priority,
        # an empty list removes the filter
        senders=_filter(filters.sender_filter),
        tags=_filter(filters.tagged_concepts),
        in_reply_to=_filter(filters.in_reply_to_filter),
        stands_at=None if filters.presence_filter is None else tuple(filters.presence_filter),
        trigger=None if asked.trigger is None else names.Trigger(asked.trigger),
        rotate_key=asked.rotate_key,
        recover=asked.recover,
    )


def _filter(given: list[str] | None) -> tuple[str, ...]:
    """As the command's options say it: nothing keeps the filter, a blank one alone removes it."""
    return () if given is None else (tuple(given) or ("",))


ACTS: Final[Mapping[str, Callable[[Desk, Identity, Any], ToolAnswer]]] = MappingProxyType(
    {
        "check_inbox": _check_inbox,
        "read_message": _read_message,
        "send_message": _send_message,
        "acknowledge": _acknowledge,
        "update_task": _update_task,
        "presence": _presence,
        "list_channels": _list_channels,
        "send_to_channel": _send_to_channel,
        "remind_me": _remind_me,
        "notify": _notify,
        "manage_wake_subscription": _manage,
    }
)
"""What each of `tools.TOOLS` does."""


def call(desk: Desk, who: Identity, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
    """Do what a tool does, for an identity.

    Args:
        desk: where; its invoker is the caller.
        who: the caller.
        name: of the tool.
        arguments: as the client sent them.

    Raises:
        UsageMistake: there is no such tool, or the arguments are wrong; every mistake is named.
        WakeBridgeError: as the command that does the same.
    """
    if name not in TOOLS:
        raise UsageMistake(f"there is no tool {name!r}", hint=f"there are {', '.join(TOOLS)}")
    outcome = ACTS[name](desk, who, _taken(TOOLS[name], arguments))
    result = outcome.result
    unread = _unread_mail(desk, who) - outcome.consumed
    if desk.notes:
        result.notes = list(desk.notes)
    if unread > 0:
        result.unread = unread
    return outcome


def _unread_mail(desk: Desk, who: Identity) -> int:
    """How much waits for the caller; none on a host without a graph."""
    try:
        with desk.open_mail(foreign=desk.foreign, marking=False) as graph:
            return mail.unread_count(graph, who)
    except SourceMissing:
        if desk.has_no_graph():
            return 0
        raise


def _taken(tool: ToolKind, arguments: Mapping[str, Any]) -> models.Takes:
    try:
        return tool.takes.model_validate(dict(arguments))
    except ValidationError as mistakes:
        takes = ", ".join(tool.takes.model_json_schema()["properties"])
        raise UsageMistake(
            "; ".join(_told(one) for one in mistakes.errors()), tool.name, hint=f"{tool.name} takes {takes}"
        ) from None


def _told(mistake: Any) -> str:
    """A mistake with the field first; the valid values are in pydantic's own words."""
    field = ".".join(str(one) for one in mistake["loc"])
    message = mistake["msg"].removeprefix("Value error, ")
    given = mistake["input"]
    is_said = isinstance(given, str | int | float | bool) and mistake["type"] not in {"extra_forbidden", "missing"}
    said = f" (got {str(given)[:80]!r})" if is_said else ""
    return f"{field}: {message}{said}" if field else message
