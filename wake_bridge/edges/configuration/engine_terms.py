"""The configuration in the engine's words and units; and which of its changes only a restart takes over (DESIGN §9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from wake_bridge.domain.digest import DigestStyle, action_template
from wake_bridge.domain.guards import Limits, QuietHours
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.configuration.fields import Table
from wake_bridge.edges.configuration.mistakes import Key, spelled
from wake_bridge.engine.settings import EngineSettings, TargetSettings


def engine_settings(settings: Settings, *, embedded: bool) -> EngineSettings:
    """The configuration in the engine's words and units."""
    config = settings.config
    return EngineSettings(
        targets={
            Identity(name): TargetSettings(
                adapter=table.adapter,
                pane=table.pane,
                socket=table.socket,
                harness=table.harness,
                agent=table.agent,
                directory=table.directory,
                steer=table.steer,
                may_start_thread=table.may_start_thread,
                wants_bodies=table.digest == "full",
                allow_from=frozenset(table.allow_from),
            )
            for name, table in config.targets.items()
        },
        targets_written=_written(settings),
        fallback_pane=settings.fallback_pane,
        limits=Limits(
            refractory=config.coalesce.refractory,
            storm=config.limits.storm,
            storm_period=config.limits.storm_period,
            wakes_per_hour=config.limits.wakes_per_hour,
            wakes_per_day=config.limits.wakes_per_day,
            thread_wakes=config.limits.thread_wakes,
        ),
        quiet_hours=QuietHours.parse(config.policy.quiet_hours),
        digest=DigestStyle(
            max_lines=config.digest.max_lines,
            header=config.digest.header,
            action=action_template(config.digest.action, embedded=embedded),
        ),
        lease=_milliseconds(config.delivery.lease),
        ack_deadline=_milliseconds(config.delivery.ack_deadline),
        max_attempts=config.delivery.max_attempts,
        unknown_again=_milliseconds(config.delivery.unknown_again),
        fresh_for=_milliseconds(config.presence.fresh_for),
        relook_min=_milliseconds(config.presence.relook.min),
        relook_max=_milliseconds(config.presence.relook.max),
        notice_after=_milliseconds(config.human.notice_after),
        heartbeat_cooldown=_milliseconds(config.heartbeat.cooldown),
    )


NEEDS_RESTART: Final = ("adapters", "daemon", "graph", "heartbeat.interval")
"""Tables and keys that a reload leaves as they were when the daemon started: its places, what it opened, its timers."""

RELOADED: Final = ("daemon.log_level",)
"""What lies in such a table, and is taken over all the same."""


def waits_for_restart(key: str) -> bool:
    """Whether a reload leaves the key as it was; spelled as TOML spells it."""
    return key not in RELOADED and any(key == one or key.startswith(f"{one}.") for one in NEEDS_RESTART)


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """The changed keys that a reload cannot take over: the graph, the daemon's places, the tmux sockets."""
    return [key for key in changed_keys(old, new) if waits_for_restart(key)]


def changed_keys(old: Settings, new: Settings) -> list[str]:
    """Every key that differs, spelled as TOML spells it; a target or an adapter's table as a whole.

    What either was told by its environment is no difference: two processes may have different ones.
    """
    overridden = {spelled(key) for one in (old, new) for key, origin in one.origins.items() if origin.startswith("$")}
    return sorted(
        key
        for key in _differences(old.config, new.config, ())
        if not any(one == key or one.startswith(f"{key}.") for one in overridden)
    )


def _differences(old: Any, new: Any, key: Key) -> Iterator[str]:
    if isinstance(old, Table) and key[:1] not in {("targets",), ("adapters",)}:
        for name in type(old).model_fields:
            yield from _differences(getattr(old, name), getattr(new, name), (*key, name))
    elif isinstance(old, Mapping) and len(key) == 1:
        for name in {*old, *new}:
            yield from _differences(old.get(name), new.get(name), (*key, name))
    elif old != new:
        yield spelled(key)


def taken_over(started: Settings, read: Settings) -> Settings:
    """What a daemon goes by that started with the one and has read the other since.

    Args:
        started: the settings with which it started.
        read: those that a reload has read.
    """
    before, after = started.config, read.config
    config = after.model_copy(
        update={
            "graph": before.graph,
            "daemon": before.daemon.model_copy(update={"log_level": after.daemon.log_level}),
            "heartbeat": after.heartbeat.model_copy(update={"interval": before.heartbeat.interval}),
            "adapters": before.adapters,
        }
    )
    origins = {key: origin for key, origin in read.origins.items() if not waits_for_restart(spelled(key))}
    origins |= {key: origin for key, origin in started.origins.items() if waits_for_restart(spelled(key))}
    return replace(
        read,
        config=config,
        graph_path=started.graph_path,
        state_dir=started.state_dir,
        log_file=started.log_file,
        origins=origins,
    )


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _written(settings: Settings) -> Instant:
    """When the configuration was last written; long ago if there is none."""
    return Instant(max((_milliseconds(file.stat().st_mtime) for file in settings.source_files), default=EPOCH_START))
