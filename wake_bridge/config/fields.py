"""The shape of the configuration: every key, its default and its range.

Each key is declared here, or for the ways to a person in `channel_fields`, and nowhere else: type, unit, default, range, and
what it means. `config.example.toml` and the table of docs/settings.md are written from this (`make docs`).
"""

from __future__ import annotations

import string
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from wake_bridge.config.channel_fields import ChannelName, ChannelTable, HumanTable
from wake_bridge.config.field_types import (
    SECONDS,
    AttentionKinds,
    Days,
    Identities,
    IdentityName,
    PlainName,
    Policy,
    Seconds,
    Table,
    Texts,
    WholeSeconds,
    Window,
)
from wake_bridge.config.secrets import ConfiguredSecret
from wake_bridge.domain.attention import TOLD_BY_DEFAULT
from wake_bridge.domain.channels import HUMAN
from wake_bridge.domain.escalation import MOST_REPEATS
from wake_bridge.domain.events import ItemMode, ItemPriority, ItemTier
from wake_bridge.domain.graph_places import SCHEMES, GraphUrl
from wake_bridge.domain.guards import QuietHours
from wake_bridge.domain.items import DEBOUNCE
from wake_bridge.domain.names import AttentionKind
from wake_bridge.domain.signed_wakes import ListenAddress


class GraphTable(Table):
    """`[graph]`: the source."""

    path: str = Field("", description="the source graph; empty: <data dir>/wake-bridge/graph.sqlite, the embedded one")
    url: str = Field(
        "",
        description="a PostgreSQL database instead of a file, postgresql://USER@HOST/DATABASE without password"
        " (~/.pgpass has it); empty: graph.path",
    )
    poll_interval: Seconds = Field(1.0, ge=0.05, le=5, description="between two looks at the log without a hint")
    watch: bool = Field(default=True, description="use file events, or notices of PostgreSQL, as hints")
    user_scope: bool = Field(default=False, description="match private rows only for their owner")
    serve: Texts = Field((), description="extra harnessTargets to serve on a foreign graph")

    @field_validator("path")
    @classmethod
    def _is_a_file(cls, text: str) -> str:
        # taken for a file it would be shown wherever the file's name is, with a password that may be in it
        if text.strip().lower().startswith(SCHEMES):
            raise ValueError("is a URL: it belongs into graph.url, without a password")
        return text

    @field_validator("url")
    @classmethod
    def _is_a_database(cls, text: str) -> str:
        if text:
            GraphUrl(text)
        return text

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if self.path and self.url:
            raise ValueError("path and url name two graphs: take one of them out")
        return self


class DaemonTable(Table):
    """`[daemon]`: where it keeps its state and what it says."""

    state_dir: str = Field("", description="ledger, cursor, lock and socket; empty: the platform's state directory")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug (each look at a pane, too) | info | warning | error"
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="of stdout: auto (console on a terminal, else json) | json | console; files are json"
    )
    log_file: str = Field(
        "", description="empty: stdout; under a service a rotated file in the state directory as well"
    )
    retention_days: Days = Field(90, ge=1, description="that settled deliveries are kept")


class PolicyTable(Table):
    """`[policy]`: how insistent wakes are."""

    default: Literal["auto", "silent", "next_turn", "immediate"] = Field(
        "auto", description="auto (wake where the identity can be reached) | silent | next_turn | immediate"
    )
    catch_up: WholeSeconds = Field(604_800, ge=0, description="that mail may be old when wake-bridge first sees it")
    quiet_hours: str = Field(
        "", description='"22:00-07:00", the daemon\'s local time, may cross midnight; holds every priority'
    )

    @field_validator("quiet_hours")
    @classmethod
    def _is_a_span(cls, text: str) -> str:
        QuietHours.parse(text)
        return text


class CoalesceTable(Table):
    """`[coalesce]`: what is collected into one wake."""

    window: Window = Field(30, description="to collect before a wake; a subscription's coalesceWindow wins")
    refractory: WholeSeconds = Field(30, ge=0, le=3600, description="a pane rests after a wake (window 0 skips it)")


class LimitsTable(Table):
    """`[limits]`: how often a pane, an agent and a thread may be woken."""

    storm: int = Field(8, ge=1, description="wakes per storm_period and pane")
    storm_period: WholeSeconds = Field(60, ge=1, description="in which storm counts wakes")
    wakes_per_hour: int = Field(20, ge=1, description="for a pane, and for an agent on all its routes")
    wakes_per_day: int = Field(150, ge=1, description="for a pane, and for an agent on all its routes")
    thread_wakes: int = Field(
        12, ge=1, description="agent-to-agent wakes per thread and hour without a person's message"
    )


class DigestTable(Table):
    """`[digest]`: how a wake reads."""

    max_lines: int = Field(10, ge=3, le=10, description="lines of one wake")
    header: Literal["short", "neo"] = Field(
        "short", description="short | neo (always names the priority, as the upstream daemon does)"
    )
    action: str = Field("auto", description='auto | "" | your own text, which may hold {identity}')

    @field_validator("action")
    @classmethod
    def _names_only_the_identity(cls, text: str) -> str:
        try:
            fields = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
        except ValueError as broken:
            raise ValueError(f"has an unpaired brace ({broken}); write {{{{ for a plain one") from broken
        foreign = [name for name in fields if name != "identity"]
        if foreign:
            raise ValueError(f"may hold {{identity}} and no other place-holder, not {{{foreign[0]}}}")
        return text


class DeliveryTable(Table):
    """`[delivery]`: how long an attempt may take and how often it is made."""

    lease: Seconds = Field(60.0, ge=1, le=3600, description="one attempt may own a delivery")
    adapter_timeout: Seconds = Field(10.0, ge=0.1, le=600, description="for one external call; shorter than the lease")
    ack_deadline: Seconds = Field(300.0, ge=1, le=86_400, description="to wait for an acknowledgement")
    max_attempts: int = Field(5, ge=1, description="an adapter's own failures before a delivery counts as failed")
    unknown_again: Seconds = Field(
        600.0,
        ge=0,
        le=86_400,
        description="a wake of unknown outcome is looked for before its unread mail is announced once more; 0: never",
    )

    @field_validator("adapter_timeout")
    @classmethod
    def _fits_into_the_lease(cls, seconds: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease")
        if lease is not None and seconds >= lease:
            raise ValueError(f"must be shorter than delivery.lease ({lease:g})")
        return seconds


class RelookTable(Table):
    """`[presence.relook]`: how soon a held delivery is looked at again."""

    min: Seconds = Field(5.0, ge=0.1, description="until a held delivery is looked at again, at first")
    max: float = Field(60.0, ge=0.1, le=3600, description="until it is looked at again, at most")

    @field_validator("max")
    @classmethod
    def _is_not_below_min(cls, seconds: float, info: ValidationInfo) -> float:
        least = info.data.get("min")
        if least is not None and seconds < least:
            raise ValueError(f"must not be below presence.relook.min ({least:g})")
        return seconds


class PresenceTable(Table):
    """`[presence]`: how fresh evidence must be."""

    fresh_for: Seconds = Field(5.0, ge=0.5, le=60, description="a look counts as evidence")
    typing_quiet: Seconds = Field(
        10.0, ge=2, le=3600, description="without a key press before nobody counts as typing in a pane"
    )
    relook: RelookTable = RelookTable()


class HeartbeatTable(Table):
    """`[heartbeat]`: for identities that nothing else wakes: subscription disabled, none, degraded, or missing."""

    interval: Seconds = Field(60.0, ge=1, le=3600, description="between two looks for unread mail")
    cooldown: Seconds = Field(
        300.0, ge=1, le=3600, description="of rest after a nudge; doubles up to an hour while nothing changes"
    )


class AttentionTable(Table):
    """`[attention]`: when you are told that an agent needs you, with or without mail for it; by the ways of [human]."""

    tell: AttentionKinds = Field(
        tuple(kind for kind in AttentionKind if kind in TOLD_BY_DEFAULT),
        description="the kinds that cause a notice, once each: approval, question, finished (idle after mail or a task's end), stopped (idle after work), failed, limited, gone",
    )
    after: Seconds = Field(
        60.0,
        ge=0,
        le=86_400,
        description="an approval or a question lasts before its notice; the other kinds cause theirs at once",
    )
    on_limit_reset: Literal["nothing", "continue"] = Field(
        "nothing",
        description="continue: an agent that a usage limit stopped in the middle of its work is told to go on when it resets",
    )
    after_off_host: Seconds = Field(
        300.0,
        ge=0,
        le=86_400,
        description="it lasts before a channel off this host (webhook, apprise) gets a notice, while no client is active",
    )


class EscalationStepTable(Table):
    """One step of `escalation.steps`."""

    channel: str = Field(min_length=1)
    after: Seconds = Field(0.0, ge=0, le=86_400)


class EscalationTable(Table):
    """`[escalation]`: mail that an agent has to answer, and that passes to you where it does not; off until asked for."""

    ack_within: Seconds = Field(
        0.0, ge=0, le=604_800, description="in which agents have to answer mail; 0: only where sender or target says so"
    )
    sources: dict[IdentityName, Annotated[float, SECONDS, Field(ge=0, le=604_800)]] = Field(
        {},
        description='the same for mail from single senders, such as { "@lead" = 300.0 }',
    )
    steps: Annotated[tuple[EscalationStepTable, ...], Field(strict=False)] = Field(
        (),
        description='the channels that are told, each `after` seconds after the one before: [{ channel = "phone" }, { channel = "ops", after = 300.0 }]; empty: the default one',
    )
    repeats: int = Field(0, ge=0, le=MOST_REPEATS, description="times that all steps come again, until you acknowledge")


class ScreensTable(Table):
    """`[screens]`: profiles that override or add to the bundled ones."""

    directory: str = Field(
        "",
        description="screen profiles of your own over the bundled ones; empty: screens/ beside the default config file",
    )


class TargetTable(Table):
    """`[targets."@id"]`: where one identity lives; wins over its subscriptions' metadata."""

    adapter: str = Field("tmux", min_length=1, description="the adapter that reaches it")
    pane: str = Field(
        "", examples=["agents:1.0"], description="%id, session, session:window or session:window.pane; always exact"
    )
    socket: str = Field("", description="another tmux server")
    harness: str = Field("", description='names the program (such as "codex") instead of recognising it')
    agent: str = Field(
        "", description="the pane counts only while this program runs there; names can come to mean other panes"
    )
    directory: str = Field("", description="and only while it runs in this directory")
    steer: bool = Field(
        default=False,
        description="true: through a native channel a wake may be added to a turn that runs, instead of waiting",
    )
    may_start_thread: bool = Field(
        default=False, description="true: wake-bridge may resume a conversation that no program has open"
    )
    mcp_push: bool = Field(
        default=False,
        description="true: its `mcp-notifications` subscriptions are pushed to an MCP client that takes wakes",
    )
    window: Window | None = Field(None, examples=[30], description="to collect before a wake")
    policy: Policy | None = Field(None, examples=["immediate"], description="silent | next_turn | immediate")
    digest: Literal["doorbell", "full"] = Field(
        "doorbell", description="doorbell | full (with message bodies, from allow_from only)"
    )
    allow_from: Identities = Field((), description="the senders whose bodies `full` may show")
    ack_within: Seconds | None = Field(
        None, ge=0, le=604_800, examples=[300.0], description="in which it has to answer mail; 0: need not"
    )
    attention: AttentionKinds | None = Field(
        None,
        examples=[["approval", "gone"]],
        description="the kinds that cause a notice for this identity, instead of attention.tell",
    )


class SenderTable(Table):
    """`[http.senders.NAME]`: who may post signed wakes, and whom they wake; one for each key."""

    key: ConfiguredSecret | None = Field(
        None,
        examples=["whsec_…"],
        description="the key of its signatures; only you may be able to read this file then (or use key_file)",
    )
    key_file: str = Field(
        "",
        description="instead: a file that only you can read, with one key a line, the new one beside the old; a changed file counts at once",
    )
    identities: Identities = Field((), examples=[("@neo-gpt",)], description="the identities that it may wake")
    legacy: bool = Field(
        default=False,
        description="true: X-Neo-Wake-Signature alone is enough, which has no timestamp (upstream sends it)",
    )

    @model_validator(mode="after")
    def _has_a_key_and_somebody_to_wake(self) -> SenderTable:
        if bool(self.key and self.key.reveal()) == bool(self.key_file):
            raise ValueError("needs either key or key_file")
        if not self.identities:
            raise ValueError("needs identities: those that the sender may wake")
        return self


class HttpTable(Table):
    """`[http]`: signed wakes from other hosts, for `wake-bridge serve` and, where `listen` is set, for the daemon."""

    listen: str = Field(
        "",
        description="ADDRESS:PORT or unix:/path; empty: `serve` takes 127.0.0.1:8787, the daemon does not listen",
    )
    hosts: Texts = Field((), description="names by which senders call this host, besides the address and localhost")
    tls_certificate_file: str = Field("", description="PEM, with the chain; needed if other hosts can connect")
    tls_key_file: str = Field("", description="PEM, which only you can read")
    behind_proxy: bool = Field(default=False, description="true: a proxy in front of it does TLS")
    senders: dict[PlainName, SenderTable] = Field(default_factory=dict)

    @field_validator("listen")
    @classmethod
    def _is_an_address(cls, text: str) -> str:
        if text:
            ListenAddress.parse(text)
        return text

    @model_validator(mode="after")
    def _is_safe(self) -> HttpTable:
        if bool(self.tls_certificate_file) != bool(self.tls_key_file):
            raise ValueError("tls_certificate_file and tls_key_file go together")
        if not self.listen:
            return self
        if not (ListenAddress.parse(self.listen).is_local or self.tls_certificate_file or self.behind_proxy):
            raise ValueError(
                f"{self.listen} is open to other hosts: set tls_certificate_file and tls_key_file, or behind_proxy = true"
            )
        return self


class SourceTable(Table):
    """`[sources.NAME]`: who sends items from outside, such as a build; NAME is its word for itself (docs/intake.md)."""

    mode: Annotated[ItemMode, Field(strict=False)] = Field(
        ItemMode.PASSIVE,
        description="what an item is that does not say: passive (at the next turn) | prompt (for you) | active (wakes)",
    )
    threshold: Annotated[ItemPriority, Field(strict=False)] = Field(
        ItemPriority.NORMAL,
        description="low | normal | high | critical: below it an active item waits for the next turn",
    )
    debounce: Seconds = Field(DEBOUNCE, ge=0, le=300, description="that an active item waits for others")
    ack_within: Seconds = Field(
        0.0, ge=0, le=604_800, description="in which an item that wakes has to be answered; 0: it need not be"
    )
    identities: Identities = Field(
        (),
        examples=[("@neo-gpt",)],
        description="whom its token reaches, the first one by default; empty: everybody here",
    )
    tiers: Annotated[tuple[Annotated[ItemTier, Field(strict=False)], ...], Field(strict=False)] = Field(
        tuple(ItemTier), description="what its token may send: now, next, later"
    )


class Configuration(Table):
    """All of it. `adapters` stays as written: each adapter checks its own table with its own model."""

    graph: GraphTable = GraphTable()
    daemon: DaemonTable = DaemonTable()
    policy: PolicyTable = PolicyTable()
    coalesce: CoalesceTable = CoalesceTable()
    limits: LimitsTable = LimitsTable()
    digest: DigestTable = DigestTable()
    delivery: DeliveryTable = DeliveryTable()
    presence: PresenceTable = PresenceTable()
    human: HumanTable = HumanTable()
    attention: AttentionTable = AttentionTable()
    escalation: EscalationTable = EscalationTable()
    heartbeat: HeartbeatTable = HeartbeatTable()
    channels: dict[ChannelName, ChannelTable] = Field(default_factory=dict)
    http: HttpTable = HttpTable()
    sources: dict[PlainName, SourceTable] = Field(default_factory=dict)
    adapters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    screens: ScreensTable = ScreensTable()
    targets: dict[IdentityName, TargetTable] = Field(default_factory=dict)

    @field_validator("channels")
    @classmethod
    def _has_one_default(cls, channels: dict[str, ChannelTable]) -> dict[str, ChannelTable]:
        defaults = [name for name, one in channels.items() if one.default]
        if len(defaults) > 1:
            raise ValueError(f"{' and '.join(defaults)} are both the default: one can be")
        return channels

    @model_validator(mode="after")
    def _escalates_to_channels(self) -> Configuration:
        unknown = [one.channel for one in self.escalation.steps if one.channel not in {HUMAN, *self.channels}]
        if unknown:
            raise ValueError(f"escalation.steps names {unknown[0]!r}, and there is no [channels.{unknown[0]}]")
        return self
