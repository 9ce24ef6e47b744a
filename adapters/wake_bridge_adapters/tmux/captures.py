"""Tools for screen profiles: classify a capture file, make one from a pane."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil

from wake_bridge.domain.errors import NotFound, OperationFailed, RefusedForSafety
from wake_bridge.domain.names import Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import Check, Lesson
from wake_bridge.ports.screens import RunningVersion, ScreenProfile, ScreenReport
from wake_bridge_adapters.bounded_call import BoundedCall
from wake_bridge_adapters.screens import (
    Capture,
    Profile,
    Screen,
    classify,
    classify_capture,
    dump_capture,
    learnt_from,
    load_profile,
    profile_text,
    read_capture,
    what_is_new,
)
from wake_bridge_adapters.screens.personal import Personal
from wake_bridge_adapters.screens.version import Drift, drift_of, in_order, is_newest
from wake_bridge_adapters.tmux.command import NOT_ON_PATH, TmuxServer, why_not_ours
from wake_bridge_adapters.tmux.occupants import PaneAgent
from wake_bridge_adapters.tmux.view import PaneView

OLDEST: Final = (3, 2)
_GLYPHS: Final = "✳❯─é漢"
_NOT_STRICT: Final = "take strict_version out of its profile, or install it where its files tell the version"
_PANE_FLAGS: Final = ("pane_in_mode", "pane_mode", "pane_dead", "pane_input_off")
_INSTALL: Final = "install tmux 3.2 or later, and see that the service's PATH has it"


async def checks(server: TmuxServer, timeout: float, environment: Mapping[str, str]) -> list[Check]:
    """Program, version, server and UTF-8, in this order; what hangs on a failed one is left out."""
    program = shutil.which("tmux", path=environment.get("PATH"))
    if program is None:
        return [("tmux", False, NOT_ON_PATH, _INSTALL)]
    found = await asyncio.to_thread(BoundedCall([program, "-V"], "", timeout, environment).run)
    name = found.stdout.strip() or found.complaint
    report: list[Check] = [("tmux", is_new_enough(name), f"{name} at {program}", _INSTALL)]
    if why := why_not_ours(server.socket):
        return [
            *report,
            ("tmux socket", False, why, "start the agents in tmux, or name their server in [adapters.tmux]"),
        ]
    answer = await server.ask(["display-message", "-p", f"#{{pid}} {_GLYPHS}"])
    if not answer.is_well:
        hint = (
            f"see whether `{program} -S {server.socket} list-sessions` answers; "
            "if not, put the server's own tmux first on the service's PATH"
        )
        return [*report, ("tmux socket", False, f"{server.socket}: {answer.complaint}", hint)]
    pid, _, glyphs = answer.stdout.strip().partition(" ")
    return [
        *report,
        ("tmux socket", True, f"{server.socket}, server pid {pid}", ""),
        ("tmux UTF-8", glyphs == _GLYPHS, f"tmux printed {glyphs}", "start the tmux server in a UTF-8 locale"),
    ]


def version_check(agent: PaneAgent, label: str) -> Check:
    """Whether the screens of the running version are known; a drift is a warning, and fatal to a strict profile alone."""
    profile, drift = agent.profile, drift_of(agent.profile, agent.version)
    name = f"{profile.name} {agent.version}".strip()
    known = ", ".join(profile.versions)
    if drift is Drift.SEEN:
        return ("version", True, f"{name}: its screens are known", "")
    if drift is Drift.PATCH:
        return ("version", True, f"{name}, a patch of a version whose screens are known ({known})", "")
    if drift is Drift.UNTOLD:
        detail = f"the version of {name} cannot be told from its files; screens are known of {known}"
    elif drift is Drift.NEWER:
        detail = f"{name} is newer than the versions whose screens are known ({known})"
    else:
        detail = f"{name} is none of the versions whose screens are known ({known})"
    trust = f"`wake-bridge screens trust {label}` while it is idle"
    if profile.strict_version and drift is Drift.UNTOLD:
        return ("version", False, f"{detail}, and its profile is strict: it is never woken", _NOT_STRICT)
    if profile.strict_version:
        return ("version", False, f"{detail}, and its profile is strict: it is never woken", trust)
    return ("version", None, detail, f"if a wake waits although the agent is idle: {trust}")


def untested(agent: PaneAgent) -> RunningVersion | None:
    """The agent's version, where it can be told and is none of those that the rules were tested with."""
    profile, version = agent.profile, agent.version
    if not version or not profile.versions or version in profile.versions:
        return None
    try:
        since = psutil.Process(agent.process.pid).create_time()
    except psutil.Error:
        return None
    is_newer = is_newest(version, profile.versions)
    return RunningVersion(profile.name, version, in_order(profile.versions), is_newer, Instant(int(since * 1000)))


def is_new_enough(version: str) -> bool | None:
    """Whether `tmux -V` names a version we know how to talk to; None for one without a number."""
    numbers = re.search(r"\b(?:next-)?(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) >= OLDEST if numbers else None


def judge(path: Path, harness: str, profiles: Mapping[str, Profile]) -> dict[str, str]:
    """What a captured screen speaks for, taken alone; by its own harness's profile unless `harness` names another.

    Raises:
        OperationFailed: the file is no capture.
        NotFound: there is no profile of that name.
    """
    capture = read_capture(path)
    name = harness or capture.harness
    if name not in profiles:
        known = ", ".join(sorted(profiles))
        raise NotFound("no screen profile has that name", name or str(path), hint=f"--harness takes one of: {known}")
    reading = classify_capture(capture, profiles[name])
    return {"harness": name, "state": reading.state, "rule": reading.rule, "composer": reading.composer}


def captured(view: PaneView) -> str:
    """A look at a pane as the text of a capture file; who judges it fills in `state` and `expect`."""
    agent = view.agent
    capture = Capture(
        _with_pane(view, view.screen),
        harness=agent.profile.name if isinstance(agent, PaneAgent) else "",
        version=agent.version if isinstance(agent, PaneAgent) else "",
        process_tree=(shlex.join(agent.process.argv),) if isinstance(agent, PaneAgent) else (),
        note="" if isinstance(agent, PaneAgent) else agent.why,
    )
    return dump_capture(capture, view.look.ansi)


def _with_pane(view: PaneView, screen: Screen) -> Screen:
    """The screen with what tmux said of the pane itself: a live look has that beside the screen, a file has only flags."""
    return replace(screen, flags={name: view.look.facts.values[name] for name in _PANE_FLAGS})


def report(view: PaneView, words: Sequence[str], program: str) -> ScreenReport:
    """A look at a pane without personal text, for a bug report.

    Args:
        view: the look.
        words: names to be replaced besides that of the directory that the agent works in, such as the user's.
        program: what draws the pane, with its version.
    """
    agent = view.agent if isinstance(view.agent, PaneAgent) else None
    project = [_directory_name(agent.process.pid)] if agent else []
    personal = Personal(agent.profile if agent else None, [*words, *project], view.screen.width)
    ansi, before = personal.ansi(view.look.ansi), _with_pane(view, view.screen)
    screen = Screen.parse(
        ansi,
        width=before.width,
        height=before.height,
        cursor_x=before.cursor_x,
        cursor_y=before.cursor_y,
        cursor_visible=before.cursor_visible,
        title=personal.text(before.title),
        command=before.command,
        flags=before.flags,
    )
    tree = (personal.text(shlex.join(agent.process.argv)),) if agent else ()
    capture = Capture(screen, agent.profile.name if agent else "", agent.version if agent else "", process_tree=tree)
    evidence = [
        {"rule": one.rule, "vote": one.vote, "region": one.region, "saw": personal.text(one.saw), "weighs": one.weighs}
        for one in view.evidence
    ]
    readings = [classify(one, agent.profile) for one in (before, screen)] if agent else []
    trouble = ""
    if readings and (readings[0].state, readings[0].rule) != (readings[1].state, readings[1].rule):
        trouble = f"the screen reads {readings[0].state} ({readings[0].rule}), and without personal text {readings[1].state} ({readings[1].rule})"
    return ScreenReport(json.loads(dump_capture(capture, ansi)), evidence, dict(personal.replaced), program, trouble)


def _directory_name(pid: int) -> str:
    """The name of the directory that a process works in; empty where it cannot be told."""
    try:
        return Path(psutil.Process(pid).cwd()).name
    except psutil.Error:
        return ""


def shelved(harness: str, path: Path) -> ScreenProfile:
    """The profile of a harness, with its text. Raises `ConfigurationInvalid`, and `OperationFailed` where it cannot be read."""
    profile = load_profile(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OperationFailed(f"the profile cannot be read ({error.strerror})", str(path)) from error
    return ScreenProfile(harness or profile.name, profile.versions, path, text)


def lesson(label: str, first: PaneView, second: PaneView) -> Lesson:
    """What two looks teach, far enough apart, at the pane called `label`, of which a person says that its agent is idle.

    Raises:
        RefusedForSafety: there is no agent, something else than prompt and placeholder speaks against idle, the two
            looks differ, or a strict profile has no version to learn.
    """
    agent = first.agent
    if not isinstance(agent, PaneAgent):
        raise _refused(label, agent.why, "only a screen of an agent that wake-bridge recognises can be trusted")
    of_screen = first.reading.evidence if first.reading else ()
    beside = [one for one in first.evidence if one not in of_screen and one.vote is not PresenceState.IDLE]
    if beside:
        raise _refused(label, beside[0].told, "wait until nobody types there and nothing moves")
    if agent.profile.strict_version and drift_of(agent.profile, agent.version) is Drift.UNTOLD:
        raise _refused(label, "its version cannot be read, and its profile is strict", _NOT_STRICT)
    learnt = learnt_from(first.screen, agent.profile, agent.version)
    readings = [classify(view.screen, learnt) for view in (first, second)]
    if readings[1].state is not PresenceState.IDLE or readings[0].fingerprint != readings[1].fingerprint:
        raise _refused(label, "something moved between two looks", "wait for the turn to end")
    return Lesson(
        harness=agent.profile.name,
        version=agent.version,
        where=label,
        screen="\n".join(row.text.rstrip() for row in first.screen.rows).rstrip(),
        learnt=tuple(what_is_new(agent.profile, learnt)),
        profile=profile_text(learnt),
    )


def _refused(label: str, why: str, hint: str) -> RefusedForSafety:
    return RefusedForSafety("the screen cannot be trusted", f"{label}: {why}", hint=hint)
