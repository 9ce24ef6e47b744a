"""The file of a captured screen, as models; `workshop` says what each field is. Only commands import them."""

from __future__ import annotations

from pydantic import BaseModel

from wake_bridge.domain.presence import PresenceState


class Cursor(BaseModel):
    """Where the cursor stands."""

    x: int
    y: int
    visible: bool


class CaptureFile(BaseModel):
    """One file; keys that are not named here are ignored."""

    harness: str = ""
    version: str = ""
    state: str = ""
    width: int
    height: int
    ansi: str
    cursor: Cursor
    flags: dict[str, str] = {}
    process_tree: tuple[str, ...] = ()
    note: str = ""
    expect: tuple[PresenceState, ...] = ()
