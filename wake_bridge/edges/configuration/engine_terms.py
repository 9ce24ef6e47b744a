"""The configuration in the engine's words and units; and which of its changes only a restart takes over (DESIGN §9)."""

from __future__ import annotations

from wake_bridge.domain.digest import DigestStyle, action_template
from wake_bridge.domain.guards import Limits, QuietHours
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.edges.configuration.config import Settings
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


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """The changed keys that a reload cannot take over: the graph, the daemon's places, the tmux sockets."""
    before, after = old.config, new.config
    keys = [
        f"graph.{key}"
        for key in type(before.graph).model_fields
        if getattr(before.graph, key) != getattr(after.graph, key)
    ]
    keys += [
        f"daemon.{key}"
        for key in type(before.daemon).model_fields
        if key != "log_level" and getattr(before.daemon, key) != getattr(after.daemon, key)
    ]
    keys += ["heartbeat.interval"] if before.heartbeat.interval != after.heartbeat.interval else []
    keys += [
        f"adapters.{name}"
        for name in {*before.adapters, *after.adapters}
        if before.adapters.get(name) != after.adapters.get(name)
    ]
    return sorted(keys)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _written(settings: Settings) -> Instant:
    """When the configuration was last written; long ago if there is none."""
    return Instant(max((_milliseconds(file.stat().st_mtime) for file in settings.source_files), default=EPOCH_START))
