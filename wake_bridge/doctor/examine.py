"""All checks, in the order in which a person would go about it: from the configuration to the panes."""

from __future__ import annotations

from wake_bridge.doctor.clock import clock
from wake_bridge.doctor.configuration import configuration, locale_in_force, quiet_hours, screen_profiles
from wake_bridge.doctor.daemons import daemon, other_daemons, tmux_as_the_daemon_sees_it, upstream_daemon
from wake_bridge.doctor.finding import Finding, untold
from wake_bridge.doctor.graph import file_hints, graph, graph_file_system, pruner
from wake_bridge.doctor.hooks import hooks
from wake_bridge.doctor.reach import adapters, heartbeat, names, targets, word_to_the_human
from wake_bridge.doctor.service import service
from wake_bridge.doctor.state import free_disk, ledger, log_file, state_directory, state_file_system
from wake_bridge.domain.errors import ConfigurationInvalid, WakeBridgeError
from wake_bridge.viewpoint import Viewpoint
from wake_bridge.wiring import checked_settings


async def examine(config_option: str | None) -> list[Finding]:
    """Run every check; none of them changes anything. A configuration that cannot be used ends it at the first."""
    try:
        settings = checked_settings(config_option)
    except ConfigurationInvalid as error:
        return [Finding("configuration", ok=False, detail="; ".join(error.problems) or str(error), hint=error.hint)]
    findings = [
        configuration(settings),
        locale_in_force(),
        *graph(settings),
        graph_file_system(settings),
        file_hints(settings),
        pruner(settings),
        state_directory(settings),
        state_file_system(settings),
        free_disk(settings),
        log_file(settings),
        ledger(settings),
        daemon(settings),
        *other_daemons(settings),
        upstream_daemon(settings),
        *tmux_as_the_daemon_sees_it(settings),
        *service(config_option, settings),
        *hooks(settings),
        clock(settings),
        quiet_hours(settings),
    ]
    try:
        view = Viewpoint(settings)
    except ConfigurationInvalid as error:
        # an adapter refuses what its table leads to; no pane can be looked at without it
        return [*findings, screen_profiles(settings, error)]
    except WakeBridgeError as error:
        return [*findings, untold("targets", f"cannot be looked at: {error}", error.hint)]
    return [
        *findings,
        screen_profiles(settings),
        *await adapters(view),
        *await targets(view, settings),
        await names(view, settings),
        heartbeat(view),
        word_to_the_human(view, settings),
    ]
