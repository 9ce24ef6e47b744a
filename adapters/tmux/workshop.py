"""The workshop for screen profiles: judge a capture file, make one from a pane (CONTRACT `screens`)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from adapters.screens import Capture, Profile, classify_capture, dump_capture, read_capture
from adapters.tmux.occupants import Agent
from adapters.tmux.view import View
from wake_bridge.domain.errors import NotFound


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
