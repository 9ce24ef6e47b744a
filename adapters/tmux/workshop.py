"""The workshop for screen profiles: judge a capture file, make one from a pane (CONTRACT `screens`)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from adapters.screens import (
    Capture,
    Profile,
    classify,
    classify_capture,
    dump_capture,
    learnt_from,
    profile_text,
    read_capture,
    what_is_new,
)
from adapters.tmux.occupants import Agent
from adapters.tmux.view import View
from wake_bridge.domain.errors import NotFound, RefusedForSafety
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import Lesson


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
        raise NotFound(
            "there is no screen profile of that name", name or str(path), hint=f"--harness takes one of: {known}"
        )
    reading = classify_capture(capture, profiles[name])
    return {"harness": name, "state": reading.state, "rule": reading.rule, "composer": reading.composer}


def captured(view: View) -> str:
    """A look at a pane as the text of a capture file; who judges it fills in `state` and `expect`."""
    agent = view.agent
    capture = Capture(
        view.screen,
        harness=agent.profile.name if isinstance(agent, Agent) else "",
        process_tree=(shlex.join(agent.process.argv),) if isinstance(agent, Agent) else (),
        note="" if isinstance(agent, Agent) else agent.why,
    )
    return dump_capture(capture, view.look.ansi)


def lesson(label: str, first: View, second: View) -> Lesson:
    """What two looks teach, far enough apart, at the pane called `label`, of which a person says that its agent is idle.

    Raises:
        RefusedForSafety: there is no agent, something else than prompt and placeholder speaks against idle, or the two
            looks differ.
    """
    agent = first.agent
    if not isinstance(agent, Agent):
        raise _refused(label, agent.why, "only a screen of an agent that wake-bridge recognises can be trusted")
    of_screen = first.reading.evidence if first.reading else ()
    beside = [one for one in first.evidence if one not in of_screen and one.vote is not PresenceState.IDLE]
    if beside:
        raise _refused(label, beside[0].told, "wait until nobody types there and nothing moves")
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
