"""The envelope of a wake that leaves as JSON: one shape for all channels that programs answer.

`python -m wake_bridge.schemas.envelope` writes the JSON Schemas beside this file; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

SCHEMA_VERSION: Final = "1.0"

MOST_EVENTS: Final = 10
"""Events that a digest names one by one; `total` counts all of them."""

Timestamp = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$")]
"""UTC with milliseconds, as JavaScript's `toISOString` writes it."""


class EnvelopePart(BaseModel):
    """What all parts have in common: camelCase names, no unknown ones, fixed once made."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class SentToMe(EnvelopePart):
    """`wake/sent_to_me`: a message arrived. `bodyText` only where the target asked for bodies and allows the sender.

    `ackWithin` are the seconds in which it has to be answered; told to a linked host alone, which hands the answer back.
    """

    message_id: str
    sender: str = Field(alias="from")
    subject: Annotated[str, Field(max_length=200)]
    priority: Literal["high", "normal", "low"]
    tagged_concepts: tuple[str, ...]
    is_reply_to: str | None
    is_broadcast: bool
    body_text: str | None = None
    ack_within: Annotated[int, Field(ge=1)] | None = None


class TaskStateChanged(EnvelopePart):
    """`wake/task_state_changed`: a task moved."""

    task_id: str
    previous_state: str
    new_state: str
    originator: str
    assignee: str | None
    last_modified_at: str | None


class PermissionGranted(EnvelopePart):
    """`wake/permission_granted`: somebody gave a right."""

    scope: Literal["CAN_REPLY_TO", "CAN_READ_INBOX_OF", "CAN_READ_MEMORIES_OF", "CAN_READ_SESSIONS_OF"]
    granted_by: str
    granted_at: Timestamp


class HeartbeatPulse(EnvelopePart):
    """`wake/heartbeat_pulse`: a pulse of the graph, mail that waits for somebody whom nothing else wakes, or an item of an inbox.

    `ackWithin` as of a message.
    """

    pulse_id: str
    source: str
    reason: str
    next_action: str
    ack_within: Annotated[int, Field(ge=1)] | None = None


class InboxItem(SentToMe):
    """`wake/inbox_item`: one message as it lies in the inbox, whether or not it was announced.

    Part of the envelope's types; nothing here sends one yet.
    """

    sent_at: str | None
    read_at: str | None


class TypedEvent(EnvelopePart):
    """One of the events of a digest."""

    event_type: str
    log_id: Annotated[int, Field(ge=0)]
    subscription_id: str
    payload: SentToMe | TaskStateChanged | PermissionGranted | HeartbeatPulse


class Window(EnvelopePart):
    """From when to when the events of a digest were gathered."""

    since: Timestamp = Field(alias="from")
    until: Timestamp = Field(alias="to")


class Digest(EnvelopePart):
    """`wake/digest`: several events in one wake. `text` is what an agent would be shown; `events` are the first ten."""

    text: str
    counts: Mapping[Literal["message", "task", "permission", "pulse"], Annotated[int, Field(ge=1)]]
    window: Window
    events: Annotated[tuple[TypedEvent, ...], Field(max_length=MOST_EVENTS)]
    total: Annotated[int, Field(ge=1)]
    shown: Annotated[int, Field(ge=0, le=MOST_EVENTS)]


class _Envelope(EnvelopePart):
    """What every wake says, whatever it is about.

    `eventId` is a ULID, one for each emission and the same over its retries; `logId` is the log row's, a digest's the
    highest of its events'.
    """

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    event_id: Annotated[str, Field(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
    log_id: Annotated[int, Field(ge=0)]
    agent_identity: Annotated[str, Field(pattern=r"^@[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    subscription_id: str
    emitted_at: Timestamp


class SentToMeEnvelope(_Envelope):
    """One message."""

    event_type: Literal["wake/sent_to_me"] = "wake/sent_to_me"
    payload: SentToMe


class TaskStateChangedEnvelope(_Envelope):
    """One move of a task."""

    event_type: Literal["wake/task_state_changed"] = "wake/task_state_changed"
    payload: TaskStateChanged


class PermissionGrantedEnvelope(_Envelope):
    """One right."""

    event_type: Literal["wake/permission_granted"] = "wake/permission_granted"
    payload: PermissionGranted


class HeartbeatPulseEnvelope(_Envelope):
    """One pulse."""

    event_type: Literal["wake/heartbeat_pulse"] = "wake/heartbeat_pulse"
    payload: HeartbeatPulse


class DigestEnvelope(_Envelope):
    """Several events that were gathered into one wake."""

    event_type: Literal["wake/digest"] = "wake/digest"
    payload: Digest


Envelope = Annotated[
    SentToMeEnvelope | TaskStateChangedEnvelope | PermissionGrantedEnvelope | HeartbeatPulseEnvelope | DigestEnvelope,
    Field(discriminator="event_type"),
]
"""Any wake that leaves as JSON."""


def written(envelope: Envelope) -> str:
    """The envelope as it is sent and signed: one line, the same bytes whenever it is written."""
    fields = envelope.model_dump(mode="json", by_alias=True)
    return json.dumps(_without_absent(fields), ensure_ascii=False, separators=(",", ":"))


_ABSENT: Final = frozenset({"bodyText", "ackWithin"})
"""Fields that are left out where they have no value: a body that may not leave, an answer that nobody waits for."""


def _without_absent(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_absent(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if not (name in _ABSENT and one is None)}
    return [_without_absent(one) for one in value] if isinstance(value, list) else value


SCHEMAS: Final[Mapping[str, Any]] = {"envelope.schema.json": Envelope, "inbox-item.schema.json": InboxItem}
"""The files beside this one, and the model that each is made from."""


def schema_text(model: Any) -> str:
    """The JSON Schema of a model, as its file holds it."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - only who writes or compares schemas needs it

    schema = TypeAdapter(model).json_schema(by_alias=True)
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "wake-bridge envelope"} | schema
    return json.dumps(named, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for file_name, shape in SCHEMAS.items():
        Path(__file__).with_name(file_name).write_text(schema_text(shape), encoding="utf-8")
