"""What the configuration tells the engine; replaced as a whole at a reload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, TypeVar

from wake_bridge.domain.attention import AttentionRules
from wake_bridge.domain.channels import HUMAN, LATER, Channel, ChannelKind
from wake_bridge.domain.digest import DigestStyle
from wake_bridge.domain.escalation import EscalationRules
from wake_bridge.domain.guards import Limits, QuietHours
from wake_bridge.domain.items import SourcesTable
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.subscriptions import DEFAULT_ADAPTER
from wake_bridge.domain.values import dataclass

SENT_PER_MINUTE: Final = 60
"""Wakes that one receiver is sent within a minute, where its adapter's table says nothing else."""

LOOKED_FOR: Final = 600_000
"""Milliseconds for which a wake of unknown outcome is looked for where its news is not to be announced once more."""

LOGGED_ONE_BY_ONE: Final = 10
"""Events or deliveries of one step that get a line each; more get one line together."""

Value = TypeVar("Value")

KEY: Final = "key"
"""The metadata of a field that one key of the configuration sets."""


def set_by(key: str, default: Value) -> Value:
    """A field that the configuration's `key` sets: milliseconds where its name ends with `_ms` (the file has seconds)."""
    return field(default=default, metadata={KEY: key})


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """Where one `[targets."@id"]` table leads; it wins over the subscription's metadata (window and policy: matching).

    A key of the same name sets a field.
    """

    adapter: str = "tmux"
    pane: str = ""
    socket: str = ""
    harness: str = ""
    agent: str = ""
    directory: str = ""
    steer: bool = False
    may_start_thread: bool = False
    mcp_push: bool = False
    wants_bodies: bool = False
    allow_from: frozenset[str] = frozenset()

    @property
    def is_place(self) -> bool:
        """Whether a pane or another surface is expected; one that only lets itself be pushed to names none."""
        names_one = bool(self.pane or self.socket or self.harness or self.agent or self.directory)
        return names_one or not self.mcp_push or self.adapter != DEFAULT_ADAPTER


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Everything the engine decides by. The file has seconds; here `_ms` are milliseconds.

    `targets_written` is when `targets` were written down. `sent_per_minute` are the wakes that one receiver is sent within a
    minute by an adapter, where its table says so; 0 is no limit. `channels` are those that a person configured, `human` is
    the one of `[human]`, and `later_ms` how long something stands before a person who is away is told off this host.
    """

    targets: Mapping[Identity, TargetSettings] = field(default_factory=dict)
    targets_written: Instant = EPOCH_START
    fallback_pane: str = ""
    limits: Limits = field(default_factory=Limits)
    quiet_hours: QuietHours | None = None
    digest: DigestStyle = field(default_factory=DigestStyle)
    lease_ms: int = set_by("delivery.lease", 60_000)
    ack_deadline_ms: int = set_by("delivery.ack_deadline", 300_000)
    max_attempts: int = set_by("delivery.max_attempts", 5)
    unknown_again_ms: int = set_by("delivery.unknown_again", LOOKED_FOR)
    fresh_for_ms: int = set_by("presence.fresh_for", 5_000)
    relook_min_ms: int = set_by("presence.relook.min", 5_000)
    relook_max_ms: int = set_by("presence.relook.max", 60_000)
    heartbeat_cooldown_ms: int = set_by("heartbeat.cooldown", 300_000)
    notice_after_ms: int = set_by("human.notice_after", 900_000)
    attention: AttentionRules = field(default_factory=AttentionRules)
    default_adapter: str = DEFAULT_ADAPTER
    sent_per_minute: Mapping[str, int] = field(default_factory=dict)
    channels: Sequence[Channel] = ()
    human: Channel = field(default_factory=lambda: Channel(HUMAN, ChannelKind.COMMAND))
    later_ms: int = set_by("attention.after_off_host", LATER)
    escalation: EscalationRules = field(default_factory=EscalationRules)
    sources: SourcesTable = field(default_factory=SourcesTable)


class Current:
    """The settings in force; the wiring replaces them when the configuration was reloaded."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
