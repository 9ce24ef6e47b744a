"""Runs all checks, in the order in which a person would: from the configuration to the panes."""

from __future__ import annotations

import asyncio
import os

from wake_bridge.control.settings_in_force import last_good_settings
from wake_bridge.doctor.agents import (
    adapters,
    channels,
    heartbeat,
    hooks,
    mcp_server,
    names,
    pushes,
    rules,
    targets,
    word_to_the_human,
)
from wake_bridge.doctor.daemons import (
    as_the_daemon_has_them,
    clock,
    daemon,
    hosts,
    hosts_on_graph,
    other_daemons,
    program_version_of_the_daemon,
    service,
    settings_of_the_daemon,
    tmux_as_the_daemon_sees_it,
    upstream_daemon,
)
from wake_bridge.doctor.disk import (
    configuration,
    file_hints,
    free_disk,
    graph,
    graph_file_system,
    ledger,
    locale_in_force,
    log_file,
    pruner,
    quiet_hours,
    screen_profiles,
    signed_wakes,
    state_directory,
    state_file_system,
)
from wake_bridge.doctor.finding import Finding, ill, untold
from wake_bridge.domain.errors import ConfigurationInvalid, OperationFailed, WakeBridgeError
from wake_bridge.integrations.adapters import checked_settings
from wake_bridge.offline.inspection import Inspection


async def examine(config_option: str | None) -> list[Finding]:
    """Run every check by what the daemon that runs goes by, else by the configuration; none of them changes anything.

    A configuration that cannot be used ends it at the first, where no daemon goes on by its last good settings.
    """
    try:
        configured = checked_settings(config_option)
        first = configuration(configured)
    except ConfigurationInvalid as error:
        first = Finding("configuration", ok=False, detail="; ".join(error.problems) or str(error), hint=error.hint)
        good = last_good_settings(config_option, os.environ)
        if good is None:
            return [first]
        configured = good
    try:
        settings = as_the_daemon_has_them(configured)
    except OperationFailed as untellable:
        return [first, ill("daemon", str(untellable), untellable.hint)]
    findings = [
        first,
        *settings_of_the_daemon(config_option, configured, settings),
        locale_in_force(),
        *graph(settings),
        *([graph_file_system(settings), file_hints(settings), pruner(settings)] if settings.has_graph else []),
        *signed_wakes(settings),
        state_directory(settings),
        state_file_system(settings),
        free_disk(settings),
        log_file(settings),
        ledger(settings),
        daemon(settings),
        *program_version_of_the_daemon(settings),
        *other_daemons(configured),
        upstream_daemon(settings),
        *hosts(settings),
        *hosts_on_graph(settings),
        *tmux_as_the_daemon_sees_it(settings),
        *service(config_option, settings),
        *hooks(settings),
        *mcp_server(settings),
        *rules(settings),
        clock(settings),
        quiet_hours(settings),
    ]
    try:
        view = Inspection(settings)
    except ConfigurationInvalid as error:
        # an adapter refuses what its table leads to; no pane can be looked at without it
        return [*findings, screen_profiles(settings, error)]
    except WakeBridgeError as error:
        return [*findings, untold("targets", f"cannot be looked at: {error}", error.hint)]
    # side by side: whoever asks for the same panes at the same moment shares the answer
    of_adapters, of_targets, of_names = await asyncio.gather(
        adapters(view), targets(view, settings), names(view, settings)
    )
    return [
        *findings,
        screen_profiles(settings),
        *of_adapters,
        *of_targets,
        *pushes(view, settings),
        of_names,
        heartbeat(view),
        word_to_the_human(view, settings),
        *await channels(view, settings),
    ]
