"""The protocol between two hosts, over the stdin and stdout of `wake-bridge relay`: one JSON object a line.

The relay speaks first: it says `hello`, and until then whatever a login shell prints is passed over. Then this side says
`hello`, and from then on either side sends frames. Unknown frames and fields are passed over, so that one release more or less
makes no difference. A line that is cut off is no frame: what it would have said is sent again, and known by its eventId.
docs/many-hosts.md shows the frames.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

PROTOCOL: Final = 1
"""What we speak; each side speaks the lower of both."""

OLDEST: Final = 1
"""The oldest protocol that we still speak."""

LONGEST: Final = 4 * 1024 * 1024
"""Bytes of a frame."""

PASSED_OVER: Final = 256 * 1024
"""Bytes before the hello that are passed over: what a login shell prints."""

ALIVE_EVERY: Final = 5.0
"""Seconds without a frame after which a side says that it is there."""

DEAD_AFTER: Final = 20.0
"""Seconds without a byte of the other side after which the link counts as cut."""

HELLO: Final = "hello"
JOIN: Final = "join"
LEAVE: Final = "leave"
WAKE: Final = "wake"
ASK: Final = "ask"
ANSWER: Final = "answer"
STATE: Final = "state"
ALIVE: Final = "alive"

ITSELF: Final = 409
"""The status of a `join` that has come back to the host that sent it."""

Frame = Mapping[str, Any]


class NotAFrame(ValueError):
    """A line that is none, or one that is too long."""


def written(kind: str, **fields: Any) -> bytes:
    """A frame as it is sent. Raises `NotAFrame` where it is too long."""
    line = json.dumps({"frame": kind, **fields}, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    if len(line) > LONGEST:
        raise NotAFrame(f"a frame of {len(line)} bytes")
    return line


def read(line: bytes) -> Frame:
    """A line as a frame; its `frame` is a text. Raises `NotAFrame`."""
    if not line.endswith(b"\n"):
        raise NotAFrame("it is cut off")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as wrong:
        raise NotAFrame("it is no JSON") from wrong
    if not isinstance(found, dict) or not isinstance(found.get("frame"), str):
        raise NotAFrame("it is no frame")
    return found


def hello_in(line: bytes) -> Frame | None:
    """The other side's hello, if the line is it; None for anything that a shell prints."""
    try:
        frame = read(line)
    except NotAFrame:
        return None
    return frame if frame["frame"] == HELLO and type(frame.get("protocol")) is int else None


def why_not_spoken(hello: Frame) -> str:
    """Why we cannot speak with the other side, one clause; empty where we can."""
    theirs, version = int(hello["protocol"]), str(hello.get("version", "?"))
    if theirs >= OLDEST and int(hello.get("oldest", OLDEST)) <= PROTOCOL:
        return ""
    return f"it speaks protocol {theirs} (wake-bridge {version}), here is {PROTOCOL}: install the same release on both hosts"
