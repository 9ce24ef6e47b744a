"""Checks whether wakes can go out: adapters, each identity's place, and the hooks in the harnesses' settings."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain
from typing import Any, Final

from wake_bridge.config.settings import Settings
from wake_bridge.control.client import ask
from wake_bridge.doctor.finding import Finding, ill, untold, well
from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.errors import NotRunning, OperationFailed
from wake_bridge.domain.guards import spent_budget
from wake_bridge.domain.homes import Reach
from wake_bridge.domain.names import DAY, Identity, Instant
from wake_bridge.domain.nudges import HEARTBEAT
from wake_bridge.domain.presence import Presence
from wake_bridge.domain.reasons import held_because
from wake_bridge.domain.receivers import PUSH
from wake_bridge.domain.routing import Route, hold_because_of
from wake_bridge.domain.usage_limits import clock_time
from wake_bridge.engine.presence.watch import LOOKS_AT_ONCE
from wake_bridge.integrations.agent_files import has_mcp_server, read_files_record, wide_rules
from wake_bridge.integrations.agent_files.hook_settings import PURPOSES
from wake_bridge.integrations.channels import ChannelSenders
from wake_bridge.offline.fragile_names import complaint, steps
from wake_bridge.offline.holds import holds_of, served_elsewhere
from wake_bridge.offline.inspection import Inspection
from wake_bridge.panes import fragile_names
from wake_bridge.ports.adapter import Notifier, Nowhere, Place
from wake_bridge.records import time_or_none
from wake_bridge.storage.graph.forecast import PASSING
from wake_bridge.storage.ledger import LedgerStore

_MINUTE: Final = 60
_HOUR: Final = 3600
_WHAT_FIRST: Final = {"codex": "restart Codex; it asks once whether to trust them (`/hooks`)"}


def hooks(settings: Settings) -> list[Finding]:
    """One finding for each harness that has ours."""
    try:
        written = {one.what for one in read_files_record(settings.state_dir)}
    except OperationFailed as damaged:
        return [untold("hooks", str(damaged), damaged.hint)]
    installed = [harness for harness, what in PURPOSES.items() if what in written]
    if not installed:
        return []
    try:
        called = ask(settings.state_dir, "sessions")["sessions"]
    except (NotRunning, OperationFailed):
        return [untold(PURPOSES[one], "installed; the daemon that they call does not answer") for one in installed]
    return [_finding(one, [each for each in called if each["harness"] == one]) for one in installed]


def rules(settings: Settings) -> list[Finding]:
    """Rules of an earlier release that let more by than the mail commands; nothing where there are none."""
    try:
        files = wide_rules(read_files_record(settings.state_dir))
    except OperationFailed:
        # the record is told of by the check of the hooks
        return []
    why = "Qwen Code runs more than the mail commands without a question"
    hint = "delete the lines `Bash(wake-bridge …)` there"
    return [ill("rules", f"{why}: {', '.join(files)}", hint)] if files else []


def mcp_server(settings: Settings) -> list[Finding]:
    """Whether the server that was registered with harnesses can start; nothing where none was."""
    try:
        if not has_mcp_server(read_files_record(settings.state_dir)):
            return []
    except OperationFailed:
        # the record is told of by the check of the hooks
        return []
    missing = [one for one in ("mcp", "mcp_types") if find_spec(one) is None]
    if missing:
        why = f"registered with harnesses, and it cannot start: {', '.join(missing)} is not installed"
        return [ill("MCP server", why, "run `pip install 'wake-bridge[mcp]'`")]
    return [well("MCP server", "registered with harnesses, and it can start")]


def pushes(view: Inspection, settings: Settings) -> list[Finding]:
    """One finding for each identity that may be pushed to."""
    found: list[Finding] = []
    for identity, target in sorted(view.current.settings.targets.items()):
        receivers = [one for one in view.routes.receivers_of(identity) if one.adapter == PUSH]
        if not target.mcp_push or not receivers:
            continue
        check, shut = f"pushes to {identity}", view.routes.shut_now(receivers[0])
        if shut is not None:
            found.append(ill(check, shut.detail, shut.remedy(identity, receivers[0].subscription_id)))
            continue
        try:
            client = ask(settings.state_dir, "push_client", identity=identity)["client"]
        except (NotRunning, OperationFailed):
            found.append(untold(check, "the daemon, which its client takes wakes from, does not answer"))
            continue
        found.append(well(check, str(client)) if client else untold(check, "no MCP client takes wakes now"))
    return found


def _finding(harness: str, called: Sequence[Mapping[str, Any]]) -> Finding:
    check = PURPOSES[harness]
    if not called:
        first = _WHAT_FIRST.get(harness, f"restart {harness}: it reads its settings when it starts")
        return untold(check, "installed; no hook has called since the daemon started", first)
    known = [one for one in called if one["identity"]]
    latest = min(known or called, key=lambda one: one["ago"])
    if not known:
        return untold(
            check, f"last call {_ago(latest['ago'])}, for no identity", "run `wake-bridge bind @ID` inside that agent"
        )
    named = ", ".join(sorted({one["identity"] for one in known}))
    return well(check, f"last call {_ago(latest['ago'])}, for {named}")


def _ago(seconds: int) -> str:
    if seconds < _MINUTE:
        return f"{seconds} s ago"
    return f"{seconds // _MINUTE} min ago" if seconds < _HOUR else f"{seconds // _HOUR} h ago"


NOBODY_THERE: Final = frozenset({HoldReason.NO_AGENT, HoldReason.PANE_DEAD, HoldReason.UNREACHABLE})


Found = Sequence[tuple[Route, Place | Nowhere]]
"""The routes of an identity, and where each leads now."""

_ITS_SCREEN_SERVES: Final = "its screen is used instead; docs/native.md says how the channel is opened"


async def adapters(view: Inspection) -> list[Finding]:
    """Each one that is installed, and what it says of its surroundings."""
    findings = [
        ill(
            f"adapter {entry.name}",
            entry.trouble,
            "reinstall it in an environment where no other package has its name",
        )
        if entry.trouble or entry.kind is None
        else untold(f"adapter {entry.name}", entry.unavailable)
        if entry.unavailable
        else well(f"adapter {entry.name}", entry.module)
        for entry in view.loaded.catalogue
    ]
    if not findings:
        hint = "install the package: a bare checkout has no entry points"
        findings.append(ill("adapters", "none is installed", hint))
    needed = {route.adapter for who in (*view.identities(), *view.bound()) for route in view.routes.of(who)}
    for name, adapter in view.loaded.adapters.items():
        for check, ok, detail, hint in await adapter.probe():
            if ok is False and name not in needed:
                findings.append(untold(check, f"{detail}; no agent here is woken by it", hint))
            else:
                findings.append(Finding(check, ok, detail, "" if ok else hint))
    return findings


async def targets(view: Inspection, settings: Settings) -> list[Finding]:
    """Where each identity is reached now, and whether it may still be woken there."""
    findings: list[Finding] = []
    reaches = list((await view.reach(view.identities())).items())
    for first in range(0, len(reaches), LOOKS_AT_ONCE):
        # side by side they share the listings of their panes
        some = reaches[first : first + LOOKS_AT_ONCE]
        findings += chain.from_iterable(await asyncio.gather(*(_target(view, settings, *one) for one in some)))
    return findings


async def _target(view: Inspection, settings: Settings, identity: Identity, reach: Reach) -> list[Finding]:
    findings = [*_set_aside(view, identity), *_held(settings, identity)]
    if reach.hold is not None and (other := served_elsewhere(settings, identity)) is not None:
        return [*findings, well(f"target {identity}", f"{other.detail} serves it")]
    if reach.hold is not None:
        return [*findings, ill(f"target {identity}", reach.hold.detail, reach.hold.remedy(identity))]
    found = [(route, await view.watch.locate(route)) for route in view.routes.of(identity)]
    reached = [(route, place) for route, place in found if isinstance(place, Place) and place.key == reach.key]
    if not reached:
        # only the daemon sees it
        where = f"{reach.where}, by {reach.adapter}"
        return [*findings, well(f"target {identity}", where), _budget(view, settings, identity, reach.key)]
    route, place = reached[0]
    seen = await view.watch.look(route, place)
    findings += [_occupied(identity, place, seen), *_own_channels(identity, found, seen)]
    findings.append(_budget(view, settings, identity, place.key))
    return findings + [
        Finding(f"{check} {identity}", ok, detail, hint)
        for check, ok, detail, hint in await view.checks_of_agent(identity)
    ]


async def names(view: Inspection, settings: Settings) -> Finding:
    """Whether what leads to each identity goes on to mean it."""
    fragile = await fragile_names(view, settings, view.identities())
    return untold("names", complaint(fragile), steps(fragile)) if fragile else well("names", "they last")


def heartbeat(view: Inspection) -> Finding:
    """Whom the heartbeat nudges now."""
    if HEARTBEAT not in view.loaded.adapters:
        return untold("heartbeat", "switched off", "`[adapters.heartbeat] enabled` switches it on")
    served = ", ".join(view.nudged()) or "no identity: each has another driver, or no place"
    return well("heartbeat", f"nudges {served}")


def word_to_the_human(view: Inspection, settings: Settings) -> Finding:
    """Whether a person can be told (`[human] command`)."""
    command = settings.config.human.command
    check = "word to the human"
    if not command and not any(isinstance(one, Notifier) for one in view.loaded.adapters.values()):
        return untold(check, "notices go to the log and to `status` only", "set [human] command")
    if not command:
        return well(check, "notices go to the tmux client that was used last")
    found = shutil.which(command[0])
    if found:
        return well(check, found)
    hint = "give its whole path in [human] command: a service has another PATH than your shell"
    return ill(check, f"there is no {command[0]}", hint)


async def channels(view: Inspection, settings: Settings) -> list[Finding]:
    """One finding for each configured channel, without sending anything; none says where a channel leads."""
    config = settings.config
    timeout, adapters_loaded = config.delivery.adapter_timeout, view.loaded.adapters.values()
    senders = ChannelSenders(config, settings.config_file, timeout, adapters_loaded)
    findings = []
    for name, table in config.channels.items():
        trouble = await senders.trouble_of(name)
        hint = f"mend [channels.{name}], then try it: `wake-bridge channels test {name}`"
        kind = table.kind.value
        findings.append(ill(f"channel {name}", trouble, hint) if trouble else well(f"channel {name}", kind))
    return findings


def _set_aside(view: Inspection, identity: Identity) -> list[Finding]:
    """The routes that failed and have not answered since."""
    hint = f"the daemon asks it again by itself; `wake-bridge routes {identity}` shows which route serves"
    return [
        untold(f"route {one.adapter} {identity}", f"set aside since {time_or_none(one.at)}: {one.why}", hint)
        for one in view.degraded
        if one.identity == identity
    ]


def _held(settings: Settings, identity: Identity) -> list[Finding]:
    """What people have switched off, and limits that last: the same that `routes` and `send` say; a budget is told anyway."""
    return [
        untold(f"hold {identity}", held_because(hold, identity), hold.remedy(identity))
        for hold in holds_of(settings, identity)
        if hold.reason not in {*PASSING, HoldReason.BUDGET}
    ]


def _own_channels(identity: Identity, found: Found, seen: Presence) -> list[Finding]:
    """Why the own channel of the program that was seen does not serve, where it has one."""
    return [
        untold(f"own channel {identity}", f"{route.adapter}: {place.detail}", _ITS_SCREEN_SERVES)
        for route, place in found
        if route.adapter in seen.capabilities and isinstance(place, Nowhere)
    ]


def _occupied(identity: Identity, place: Place, seen: Presence) -> Finding:
    if seen.hold not in NOBODY_THERE:
        return well(f"target {identity}", place.label)
    detail = f"{place.label}: {seen.detail}"
    return ill(f"target {identity}", detail, replace(hold_because_of(seen), where=place.label).remedy(identity))


def _budget(view: Inspection, settings: Settings, identity: Identity, key: str) -> Finding:
    now = view.clock.now()
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    lifted_at = ledger.limits_lifted_at(identity)
    past = ledger.past_wakes(Instant(now - DAY))
    here = [one.at for one in past if one.counts_for(identity, key) and one.at > lifted_at]
    ledger.close()
    spent = spent_budget(here, view.current.settings.limits, now)
    check = f"budget {identity}"
    if spent is None:
        return well(check, f"{len(here)} wakes since yesterday")
    why, frees_at = spent
    until = clock_time(frees_at, now, view.clock.wall(), view.clock.local())
    return ill(check, f"spent: {why}, until {until}", f"`wake-bridge resume {identity}` lifts it")
