"""What the model plays: a person's message names the scene, and a test says when it goes on."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.harness.model.asked import Asked
from tests.harness.model.calls import ASK_TOOLS, SHELL_TOOLS, arguments_for, going_on, plain_command

PLAY: Final = "please play the {} scene"
"""How a person asks for a scene."""

QUESTION: Final = "Which colour shall it be?"
ASIDE: Final = "README.md is worth a look."
"""A text that makes aider ask whether it may read that file."""

COMMAND: Final = "touch started; until test -e go; do sleep 0.2; done; rm go; echo finished"
"""The command that a tool runs: it says that it has begun, and ends when the test lets it."""

LONG: Final = 60
"""Lines of the longest answer that comes at once: more than a pane shows."""

_ASKED_FOR: Final = re.compile(r"please play the (\w+) scene")
_READ: Final = re.compile(r"Read: (wake-bridge inbox .+? --consume)")
_STILL_RUNS: Final = re.compile(r"running with session ID (\d+)")
"""Codex hands a command that takes its time back to the model, which then has to wait for it."""

_TITLE: Final = "Generate a title"
"""How OpenCode asks for the title of a conversation."""

_LONGEST_TITLE: Final = 50

_PACE: Final = 0.2
_LONGEST: Final = 180.0
"""Seconds after which a scene ends by itself: no test holds one for so long."""


@dataclass(frozen=True, slots=True)
class Say:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool, and what it is to do."""

    tool: str
    arguments: Mapping[str, Any]


Piece = Say | Call


class Stage:
    """Where scenes are played. `waiting` counts the answers that stand still, or stream on, until `goes_on`."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._lock = threading.Lock()
        self._commands: list[str | Call] = []
        self._looked_up: set[str] = set()
        self.waiting = 0

    def follows(self, *commands: str | Call) -> None:
        """Let the next wake be answered by these, one after the other: commands to run, or tools of an MCP server.

        `{read}` in a command is what the wake says; a tool is named by what its server calls it.
        """
        self._commands = list(commands)

    def holds(self) -> None:
        """Let scenes wait from now on."""
        self._go.clear()

    def goes_on(self) -> None:
        """Let all scenes come to their end."""
        self._go.set()

    def play(self, asked: Asked) -> Iterator[Piece]:
        """The answer, piece by piece, as slowly as the scene is."""
        if asked.shape is not None:
            yield Say(json.dumps(filled(asked.shape)))
            return
        if asked.is_after_tool and (still := _STILL_RUNS.search(asked.tool_says)):
            yield Call("write_stdin", going_on(int(still.group(1))))
            return
        if self._commands and "[WAKE]" in asked.last and (called := self._next_call(asked)) is not None:
            yield Say("There is mail.")
            yield called
            return
        if not asked.tools and asked.messages and asked.messages[0][0].startswith(_TITLE):
            yield Say(asked.last[:_LONGEST_TITLE])
            return
        named = _ASKED_FOR.search(asked.last)
        scene = named.group(1) if named and not asked.is_after_tool else ""
        match scene:
            case "streaming":
                yield from self._streaming()
            case "long":
                yield from (Say(f"line {number} of a long answer\n\n") for number in range(1, LONG + 1))
            case "thinking":
                self._waits()
                yield Say("Thought it over.")
            case "tool":
                yield from _calling(asked, SHELL_TOOLS, f"```bash\n{COMMAND}\n```\n")
            case "question":
                yield from _calling(asked, ASK_TOOLS, ASIDE)
            case _:
                yield Say("Noted.")

    def _next_call(self, asked: Asked) -> Call | None:
        """What follows next, by a tool that the program has; None where it has none for it."""
        step = self._commands[0]
        if isinstance(step, Call):
            return self._next_tool(step, asked)
        known = [name for name in SHELL_TOOLS if name in asked.tools]
        if not known:
            return None
        del self._commands[0]
        said = _READ.search(asked.last)
        return Call(known[0], plain_command(known[0], step.replace("{read}", said[1] if said else "")))

    def _next_tool(self, step: Call, asked: Asked) -> Call | None:
        """A tool of an MCP server; what stands behind a bridge is looked up before it is called."""
        name, bridged = asked.offered(step.tool), asked.behind_bridge(step.tool)
        if not name and bridged and bridged not in self._looked_up:
            self._looked_up.add(bridged)
            return Call("tool_search", {"query": f"select:{bridged}"})
        if not name and not bridged:
            return None
        del self._commands[0]
        return (
            Call(name, step.arguments)
            if name
            else Call("tool_call", {"name": bridged, "arguments": {**step.arguments}})
        )

    def _streaming(self) -> Iterator[Piece]:
        with self._counted():
            for number in itertools.count(1):
                yield Say(f"line {number} of a long answer\n\n")
                if self._go.wait(_PACE) or number * _PACE > _LONGEST:
                    return

    def _waits(self) -> None:
        with self._counted():
            self._go.wait(_LONGEST)

    def _counted(self) -> _Counted:
        return _Counted(self, self._lock)


class _Counted:
    """Counts one answer as waiting, also when its program hangs up."""

    def __init__(self, stage: Stage, lock: threading.Lock) -> None:
        self._stage, self._lock = stage, lock

    def __enter__(self) -> None:
        with self._lock:
            self._stage.waiting += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stage.waiting -= 1


def _calling(asked: Asked, known: tuple[str, ...], prose: str) -> Iterator[Piece]:
    """Call the first of these tools that is there; where a program has none at all, say it in prose."""
    if not asked.tools:
        yield Say(prose)
        return
    tool = next((name for name in known if name in asked.tools), "")
    if not tool:
        yield Say(f"None of my tools is known to this scene: {sorted(asked.tools)}")
        return
    yield Say("I need a tool for that.")
    yield Call(tool, arguments_for(tool, asked.tools, COMMAND, QUESTION))


def filled(shape: Mapping[str, Any]) -> Any:
    """The plainest value that a JSON schema allows."""
    if shape.get("enum"):
        return shape["enum"][0]
    kind = shape.get("type", "object")
    match str(kind[0] if isinstance(kind, list) else kind).lower():
        case "object":
            return {name: filled(inner) for name, inner in shape.get("properties", {}).items()}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return 1
        case _:
            return "plain"
