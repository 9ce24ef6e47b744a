"""The shape of the configuration: every key, its default and its range.

Keys and defaults are fixed by the contract; `config.example.toml` explains each in a line.
"""

from __future__ import annotations

import re
import string
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from wake_bridge.domain.names import WakePolicy, is_identity

_CLOCK: Final = r"(?:[01]\d|2[0-3]):[0-5]\d"
QUIET_HOURS: Final = re.compile(rf"({_CLOCK})-({_CLOCK})")


PLACE_HOLDER: Final = re.compile(r"\{(?:title|body)\}")
WHOLE_ARGUMENT: Final = re.compile(r"(?:--[\w-]+=)?\{(?:title|body)\}")
CODE_FOLLOWS: Final = re.compile(r"-[A-Za-z]*[ceE]|--(?:command|eval|execute|exec)|eval|exec|source|\.")
"""Arguments after which programs take the next one for code: `sh -c`, `python -c`, `osascript -e`, `perl -E`."""


def _checked_identity(name: str) -> str:
    if not is_identity(name):
        raise ValueError("must be an identity such as @neo-gpt")
    return name


IdentityName = Annotated[str, AfterValidator(_checked_identity)]
"""How an identity is spelt: `@login`."""

Texts = Annotated[tuple[str, ...], Field(strict=False)]
"""A TOML array of strings."""

Identities = Annotated[tuple[IdentityName, ...], Field(strict=False)]
"""A TOML array of identities."""

Window = Annotated[int, Field(ge=0, le=300)]
"""Seconds a subscription collects before it wakes."""

Policy = Annotated[WakePolicy, Field(strict=False)]


class Table(BaseModel):
    """What all tables have in common: fixed once read, no unknown keys, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class GraphTable(Table):
    """`[graph]`: the source."""

    path: str = ""
    poll_interval: float = Field(1.0, ge=0.05, le=5)
    watch: bool = True
    user_scope: bool = False
    serve: Texts = ()


class DaemonTable(Table):
    """`[daemon]`: where it keeps its state and what it says."""

    state_dir: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    log_file: str = ""
    retention_days: int = Field(90, ge=1)


class PolicyTable(Table):
    """`[policy]`: how insistent wakes are."""

    default: Literal["auto", "silent", "next_turn", "immediate"] = "auto"
    catch_up: int = Field(604_800, ge=0)
    quiet_hours: str = ""

    @field_validator("quiet_hours")
    @classmethod
    def _is_a_span(cls, text: str) -> str:
        if not text:
            return text
        span = QUIET_HOURS.fullmatch(text)
        if span is None:
            raise ValueError('must be "HH:MM-HH:MM", such as "22:00-07:00"')
        if span[1] == span[2]:
            raise ValueError("begins when it ends; leave it empty to have none")
        return text


class CoalesceTable(Table):
    """`[coalesce]`: what is collected into one wake."""

    window: Window = 30
    refractory: int = Field(30, ge=0, le=3600)


class LimitsTable(Table):
    """`[limits]`: how often a pane, an agent and a thread may be woken."""

    storm: int = Field(8, ge=1)
    storm_period: int = Field(60, ge=1)
    wakes_per_hour: int = Field(20, ge=1)
    wakes_per_day: int = Field(150, ge=1)
    thread_wakes: int = Field(12, ge=1)


class DigestTable(Table):
    """`[digest]`: how a wake reads."""

    max_lines: int = Field(10, ge=3, le=10)
    header: Literal["short", "neo"] = "short"
    action: str = "auto"

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

    lease: float = Field(60.0, ge=1, le=3600)
    adapter_timeout: float = Field(10.0, ge=0.1, le=600)
    ack_deadline: float = Field(300.0, ge=1, le=86_400)
    max_attempts: int = Field(5, ge=1)
    unknown_again: float = Field(600.0, ge=0, le=86_400)

    @field_validator("adapter_timeout")
    @classmethod
    def _fits_into_the_lease(cls, seconds: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease")
        if lease is not None and seconds >= lease:
            raise ValueError(f"must be shorter than delivery.lease ({lease:g})")
        return seconds


class RelookTable(Table):
    """`[presence.relook]`: how soon a held delivery is looked at again."""

    min: float = Field(5.0, ge=0.1)
    max: float = Field(60.0, ge=0.1, le=3600)

    @field_validator("max")
    @classmethod
    def _is_not_below_min(cls, seconds: float, info: ValidationInfo) -> float:
        least = info.data.get("min")
        if least is not None and seconds < least:
            raise ValueError(f"must not be below presence.relook.min ({least:g})")
        return seconds


class PresenceTable(Table):
    """`[presence]`: how fresh evidence must be."""

    fresh_for: float = Field(5.0, ge=0.5, le=60)
    typing_quiet: float = Field(10.0, ge=2, le=3600)
    relook: RelookTable = RelookTable()


class HeartbeatTable(Table):
    """`[heartbeat]`: how often those are nudged whom nothing else wakes."""

    interval: float = Field(60.0, ge=1, le=3600)
    cooldown: float = Field(300.0, ge=1, le=3600)


class HumanTable(Table):
    """`[human]`: how a person is told what needs them."""

    command: Texts = ()
    notice_after: float = Field(900.0, ge=1, le=86_400)

    @field_validator("command")
    @classmethod
    def _keeps_texts_out_of_shells(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        for before, argument in pairwise(("", *argv)):
            if not PLACE_HOLDER.search(argument):
                continue
            if not WHOLE_ARGUMENT.fullmatch(argument):
                raise ValueError(f"{argument!r}: a place-holder is an argument of its own, or --option={{title}}")
            if not before:
                raise ValueError("must begin with a program, not with a place-holder")
            if CODE_FOLLOWS.fullmatch(before):
                raise ValueError(
                    f"{argument!r} after {before!r} would be run as code: add arguments behind it, or read the JSON on stdin"
                )
        return argv


class ScreensTable(Table):
    """`[screens]`: profiles that override or add to the bundled ones."""

    directory: str = ""


class TargetTable(Table):
    """`[targets."@id"]`: where one identity lives; wins over its subscriptions' metadata."""

    adapter: str = Field("tmux", min_length=1)
    pane: str = ""
    socket: str = ""
    harness: str = ""
    agent: str = ""
    directory: str = ""
    steer: bool = False
    may_start_thread: bool = False
    window: Window | None = None
    policy: Policy | None = None
    digest: Literal["doorbell", "full"] = "doorbell"
    allow_from: Identities = ()


class Configuration(Table):
    """All of it. `adapters` stays as written: each adapter validates its own table with its own model."""

    graph: GraphTable = GraphTable()
    daemon: DaemonTable = DaemonTable()
    policy: PolicyTable = PolicyTable()
    coalesce: CoalesceTable = CoalesceTable()
    limits: LimitsTable = LimitsTable()
    digest: DigestTable = DigestTable()
    delivery: DeliveryTable = DeliveryTable()
    presence: PresenceTable = PresenceTable()
    human: HumanTable = HumanTable()
    heartbeat: HeartbeatTable = HeartbeatTable()
    adapters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    screens: ScreensTable = ScreensTable()
    targets: dict[IdentityName, TargetTable] = Field(default_factory=dict)
