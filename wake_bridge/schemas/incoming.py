"""What `/api/wake` accepts: the bodies of our webhooks and of upstream's daemon. Unknown names are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, TypeAdapter
from pydantic import ValidationError as _ValidationError
from pydantic.alias_generators import to_camel

from wake_bridge.domain.messages import LONGEST_ACK, seconds_from
from wake_bridge.domain.names import IDENTITY_PATTERN, parse_instant
from wake_bridge.schemas.envelope import SCHEMA_VERSION

_PRIORITIES: Final = ("high", "normal", "low")
_MOST_NAMED: Final = 100


def _instant(text: str) -> str:
    if parse_instant(text) is None:
        raise ValueError("is no ISO-8601 time")
    return text


def _priority(value: object) -> object:
    return value if value in _PRIORITIES else "normal"


def _seconds_to_answer(value: object) -> object:
    # what is no such time asks for no answer: the wake counts all the same
    return seconds_from(value, LONGEST_ACK) or None


def _text(value: object) -> object:
    return "" if value is None else value


Id = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, BeforeValidator(_text)]
Time = Annotated[str, AfterValidator(_instant)]
Priority = Annotated[Literal["high", "normal", "low"], BeforeValidator(_priority)]
Count = Annotated[int, Field(ge=0)]
SecondsToAnswer = Annotated[int | None, BeforeValidator(_seconds_to_answer)]


class IncomingPart(BaseModel):
    """What all parts have in common: camelCase names, unknown ones passed over, fixed once read."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class IncomingMessage(IncomingPart):
    """A message arrived. `sentAt` is upstream's; `ackWithin` a linked host's, which follows the answer."""

    message_id: Id
    sender: Annotated[Text, Field(alias="from")] = ""
    subject: Text = ""
    priority: Priority = "normal"
    is_reply_to: Id | None = None
    is_broadcast: bool = False
    sent_at: Time | None = None
    ack_within: SecondsToAnswer = None


class IncomingTask(IncomingPart):
    """A task moved."""

    task_id: Id
    previous_state: Text = ""
    new_state: Text = ""
    originator: Text = ""
    assignee: str | None = None
    last_modified_at: str | None = None


class IncomingPermission(IncomingPart):
    """Somebody gave a right."""

    scope: Id
    granted_by: Text = ""
    granted_at: Time | None = None


class IncomingPulse(IncomingPart):
    """A pulse of the graph, or an item of an inbox; `ackWithin` as of a message."""

    pulse_id: Id
    source: Text = ""
    reason: Text = ""
    next_action: Text = ""
    ack_within: SecondsToAnswer = None


IncomingPayload = IncomingMessage | IncomingTask | IncomingPermission | IncomingPulse


class MessageEvent(IncomingPart):
    """One message of a digest."""

    event_type: Literal["wake/sent_to_me"]
    payload: IncomingMessage


class TaskEvent(IncomingPart):
    """One move of a task, of a digest."""

    event_type: Literal["wake/task_state_changed"]
    payload: IncomingTask


class PermissionEvent(IncomingPart):
    """One right, of a digest."""

    event_type: Literal["wake/permission_granted"]
    payload: IncomingPermission


class PulseEvent(IncomingPart):
    """One pulse, of a digest."""

    event_type: Literal["wake/heartbeat_pulse"]
    payload: IncomingPulse


IncomingEvent = Annotated[MessageEvent | TaskEvent | PermissionEvent | PulseEvent, Field(discriminator="event_type")]


class GatheredDigest(IncomingPart):
    """Our digest: counts of all events by kind, and the newest of them."""

    counts: Mapping[Literal["message", "task", "permission", "pulse"], Count]
    events: Annotated[tuple[IncomingEvent, ...], Field(max_length=_MOST_NAMED)]


class MessageBucket(IncomingPart):
    """Upstream's count of messages, the latest of them, and the highest priority among them."""

    count: Count = 0
    latest: IncomingMessage | None = None
    highest_priority: Priority = "normal"


class TaskBucket(IncomingPart):
    """Upstream's count of moves of tasks, and the latest."""

    count: Count = 0
    latest: IncomingTask | None = None


class PermissionBucket(IncomingPart):
    """Upstream's count of rights, and the latest."""

    count: Count = 0
    latest: IncomingPermission | None = None


class PulseBucket(IncomingPart):
    """Upstream's count of pulses, and the latest."""

    count: Count = 0
    latest: IncomingPulse | None = None


class Breakdown(IncomingPart):
    """Upstream's digest by kind."""

    sent_to_me: Annotated[MessageBucket, Field(alias="sent_to_me")] = MessageBucket()
    task_state_changed: Annotated[TaskBucket, Field(alias="task_state_changed")] = TaskBucket()
    permission_granted: Annotated[PermissionBucket, Field(alias="permission_granted")] = PermissionBucket()
    heartbeat_pulse: Annotated[PulseBucket, Field(alias="heartbeat_pulse")] = PulseBucket()


class UpstreamDigest(IncomingPart):
    """Upstream's digest: of each kind how many, and the latest."""

    breakdown: Breakdown
    source_event_ids: tuple[str, ...] = ()


class _Incoming(IncomingPart):
    """What every wake says."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    event_id: Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]
    agent_identity: Annotated[str, Field(pattern=rf"^{IDENTITY_PATTERN.pattern}$")]
    subscription_id: Id
    emitted_at: Time


class IncomingMessageWake(_Incoming, MessageEvent):
    """One message."""


class IncomingTaskWake(_Incoming, TaskEvent):
    """One move of a task."""


class IncomingPermissionWake(_Incoming, PermissionEvent):
    """One right."""


class IncomingPulseWake(_Incoming, PulseEvent):
    """One pulse."""


def _digest_of(payload: Any) -> str:
    return "upstream" if isinstance(payload, Mapping) and "breakdown" in payload else "gathered"


class IncomingDigestWake(_Incoming):
    """Several events that were gathered into one wake."""

    event_type: Literal["wake/digest"]
    payload: Annotated[
        Annotated[GatheredDigest, Tag("gathered")] | Annotated[UpstreamDigest, Tag("upstream")],
        Discriminator(_digest_of),
    ]


Incoming = IncomingMessageWake | IncomingTaskWake | IncomingPermissionWake | IncomingPulseWake | IncomingDigestWake
"""Any wake that comes in."""

_ADAPTER: Final[TypeAdapter[Incoming]] = TypeAdapter(Annotated[Incoming, Field(discriminator="event_type")])
_TAGS: Final = frozenset(
    {
        "wake/sent_to_me",
        "wake/task_state_changed",
        "wake/permission_granted",
        "wake/heartbeat_pulse",
        "wake/digest",
        "gathered",
        "upstream",
    }
)


class NotAWake(ValueError):
    """A body that is no wake; `field` names what is wrong with it, empty for the whole."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}" if field else why)
        self.field = field
        self.why = why


def read_wake(body: bytes) -> Incoming:
    """Read a wake. Raises `NotAWake`, naming the field."""
    try:
        return _ADAPTER.validate_json(body)
    except _ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part not in _TAGS)
        is_type = first["type"].startswith("union_tag")
        raise NotAWake(where or ("eventType" if is_type else ""), str(first["msg"])) from None
