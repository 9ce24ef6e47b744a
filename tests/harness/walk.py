"""A walk of one version of a program through all states: what is said of each, and whether a wake waits there.

It goes on where wake-bridge recognises nothing: that is what it is to find out.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from wake_bridge_adapters.screens import classify_capture, load_profiles, read_capture

from tests.harness.house import MANY_WAKES, PATIENCE, House
from tests.harness.programs import Program
from tests.harness.states import IDLE, STATES, State, Visit
from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.demo.tmux_server import Look
from wake_bridge.domain.errors import OperationFailed

PASS: Final = "pass"
MOVED: Final = "moved"
"""The right state, by another rule than the one that the table of states names."""

HELD: Final = "held"
"""Not recognised: a wake waits, and would wait here for ever."""

FALSE_IDLE: Final = "FALSE IDLE"
"""Taken for idle, or woken, where it is not: the unforgivable answer."""

NOT_REACHED: Final = "·"
"""What a person does to get there does something else in this version."""

SOON: Final = 45.0
"""Seconds for wake-bridge to recognise a state that stands."""

COMES: Final = 150.0
"""Seconds for a wake to come where nothing is in its way, also on a busy machine."""

PATIENT: Final = 600.0
"""Seconds for one command."""

SAMPLES: Final = 3
TRIES: Final = 20
RESTS: Final = 1.5
"""Seconds."""


class _PatientSandbox(Sandbox):
    """One whose commands may take as long as they do on a busy machine."""

    def run(self, *arguments: str, timeout: float = PATIENT, **options: Any) -> subprocess.CompletedProcess[str]:
        """One command, given more time."""
        return super().run(*arguments, timeout=timeout, **options)


class SoftHouse(House):
    """A house in which a presence that never comes is noted, and the person goes on."""

    def __init__(self, program: Program, directory: Path, command: Sequence[str]) -> None:
        super().__init__(program, directory, command)
        self.bridge = _PatientSandbox(directory, self.tmux.socket_name, command)
        self.bridge.configure(QUICK + MANY_WAKES)
        self.missed: list[str] = []

    def presence(self) -> dict[str, Any]:
        """What the daemon says; one that a busy machine keeps from answering is asked again."""
        for _ in range(TRIES):
            with suppress(OperationFailed):
                return super().presence()
        return super().presence()

    def waits_for_presence(self, state: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """The first presence with that state, else the last one once the screen has stood still for long."""
        deadline = time.monotonic() + timeout
        still_since, before = time.monotonic(), self.look()
        while (found := self.presence())["state"] != state:
            now, look = time.monotonic(), self.look()
            if look.text != before.text:
                still_since, before = now, look
            if now > deadline or (now - still_since > SOON and self._is_up(look)):
                self.missed.append(state)
                return found
            time.sleep(0.2)
        return found

    def has_ended(self) -> bool:
        """Whether its shell has the terminal."""
        return self.look().flags["pane_current_command"] == "bash"

    def _is_up(self, look: Look) -> bool:
        return look.flags["pane_current_command"] != "bash" and bool(look.text.strip())


def walk(house: SoftHouse, captures: Path) -> dict[str, dict[str, Any]]:
    """Visit each state once; answers by state what came of it.

    Args:
        house: its program is up.
        captures: where the screens are put, one file a state.
    """
    found: dict[str, dict[str, Any]] = {}
    for state in STATES:
        visit = Visit(house)
        house.missed.clear()
        house.waits_for_presence(IDLE)
        began_idle = not house.missed
        try:
            state.put(visit)
            found[state.name] = _judged(visit, state, captures / f"{state.name.replace(' ', '-')}.json")
        except (TimeoutError, AssertionError, IndexError, KeyError) as wrong:
            found[state.name] = {"cell": NOT_REACHED, "why": str(wrong).partition("\n")[0]}
        if IDLE in house.missed and found[state.name]["cell"] == PASS and began_idle:
            # it was to be idle on the way there, as with 50 columns
            found[state.name] |= {"cell": HELD, "why": "not recognised as idle on the way there"}
        with suppress(TimeoutError, AssertionError, IndexError, KeyError):
            state.lift(visit)
        if message := found[state.name].pop("message", ""):
            missing = _why_no_wake(house, message)
            found[state.name] |= {"woken": not missing, **({"why_no_wake": missing} if missing else {})}
        with suppress(TimeoutError, AssertionError, IndexError, KeyError):
            state.tidy(visit)
    return found


def _judged(visit: Visit, state: State, file: Path) -> dict[str, Any]:
    """What is said of the state while it stands; mail that comes meanwhile must wait where it is not idle."""
    house, expected, rules = visit.house, state.presence(visit), state.why(visit)
    deadline = time.monotonic() + SOON
    while not _is_told(seen := _seen(house, expected), expected, rules) and time.monotonic() < deadline:
        time.sleep(0.2)
    house.bridge.run("screens", "capture", house.pane_id, "--output", str(file))
    _label(file, house.program.name, state.name, expected)
    message = house.bridge.send(house.identity, f"mail in {state.name}")
    said = {"message": message, "state": seen["state"], "rules": _deciding(seen), "why": seen["why"]}
    if expected == IDLE:
        return {**said, "cell": PASS if seen["state"] == IDLE else HELD}
    for _ in range(SAMPLES):
        time.sleep(0.5)
        woken = any(one["settledAt"] or one["state"] == "LOCKED" for one in house.deliveries_of(message))
        if woken or (house.presence()["state"] == IDLE and _reads_idle(file)):
            return {**said, "cell": FALSE_IDLE}
    if seen["state"] != expected:
        return {**said, "cell": HELD}
    return {**said, "cell": PASS if _is_told(seen, expected, rules) else MOVED}


def _seen(house: House, expected: str) -> dict[str, Any]:
    """What is said now; idle only if the screen rests: a turn that was just begun may not be drawn yet."""
    seen, before = house.presence(), house.look().text
    if expected != IDLE or seen["state"] != IDLE:
        return seen
    time.sleep(RESTS)
    return seen if house.look().text == before else {**seen, "state": "unknown", "why": "the screen moves"}


def _why_no_wake(house: SoftHouse, message: str) -> str:
    """Why the wake did not come once nothing was in its way; empty where it came."""
    deadline = time.monotonic() + COMES
    while not (found := house.deliveries_of(message)) or not all(one["settledAt"] for one in found):
        if time.monotonic() > deadline:
            return "; ".join(f"{one['hold_reason']}: {one['hold_detail']}" for one in found) or "nothing waits"
        time.sleep(0.1)
    return "" if [one["outcome"] for one in found] == ["submitted"] else "; ".join(house.story_of(message))


def _deciding(seen: dict[str, Any]) -> list[str]:
    return [one["rule"] for one in seen["evidence"] if one["decides"]]


def _is_told(seen: dict[str, Any], expected: str, rules: frozenset[str]) -> bool:
    return seen["state"] == expected and bool(rules.intersection(_deciding(seen)))


def _label(file: Path, harness: str, state: str, expected: str) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    content |= {"harness": content["harness"] or harness, "state": state, "expect": [expected]}
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _reads_idle(file: Path) -> bool:
    capture = read_capture(file)
    return classify_capture(capture, load_profiles()[capture.harness]).state == IDLE
