"""Which names of panes last, and what makes one last: decided here alone (CONTRACT `panes`).

A window's index and a pane's index come to mean another pane when one before it is closed, or tmux is started again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from adapters.tmux.panes import RENAMED_BY_PROGRAM, Pane, has_given_name, is_id, panes_named, window_in

RENUMBERED: Final = "#{?renumber-windows,1,0}"
"""Whether windows move up when one before them is closed; asked for besides what a pane always tells."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG: Final = 24


@dataclass(frozen=True, slots=True)
class Name:
    """What a target would say to mean one pane, and why that may come to mean another one."""

    text: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mending:
    """The commands after which a pane has a name that lasts, and that name; it has one already where there are none."""

    commands: tuple[str, ...]
    name: str


def name_of(pane: Pane, panes: Sequence[Pane]) -> Name:
    """`session:window.pane`, the window by a name that somebody gave it, else by its index.

    Only a name that the resolver reads as exactly this pane is answered; where there is none, the text is empty.
    """
    if not pane.label.isprintable() or not _means(pane.label, pane, panes):
        return Name("", (f"no name means {pane.pane_id} and nothing else: rename its session or window",))
    return Name(pane.label, doubts_about(pane.label, pane, panes))


def doubts_about(text: str, pane: Pane, panes: Sequence[Pane]) -> tuple[str, ...]:
    """Why a target's text, that means this pane now, may come to mean another one; an id never does."""
    return () if is_id(text) else tuple(_doubts(text, pane, panes))


def _doubts(text: str, pane: Pane, panes: Sequence[Pane]) -> Iterator[str]:
    if pane.pane_id not in {one.pane_id for one in panes_named(panes, text)}:
        yield f"it no longer means {pane.label}"
        return
    window, is_by_index = window_in(panes, text)
    if window and not (_has_lasting_window(pane) and window == pane.window):
        yield _why_by_index(window, pane)
    if pane.values["session_name"].isdecimal():
        yield "tmux itself gave its session a number for a name, and gives it again"
    if is_by_index and len(_beside(pane, panes)) > 1:
        yield "it shares its window: panes have only indexes, which move up when one before them is closed"


def _why_by_index(window: str, pane: Pane) -> str:
    if _has_lasting_window(pane):
        why = f"its window is called {pane.window!r}"
    elif pane.values[RENAMED_BY_PROGRAM] == "1":
        why = "its window is named after the program"
    elif not has_given_name(pane.values):
        why = "the window has no name that can be written down"
    else:
        why = f"more than one window answers to {pane.values['window_name']!r}"
    if window != pane.values["window_index"]:
        return why
    moves = ", and indexes move up (renumber-windows)" if pane.values.get(RENUMBERED) == "1" else ""
    return (
        f"{why}, but the index stands here{moves}"
        if _has_lasting_window(pane)
        else f"{why}, so the index stands here{moves}"
    )


def mending_of(pane: Pane, panes: Sequence[Pane], socket: str, agents: Collection[str]) -> Mending:
    """What gives the pane a name that lasts.

    Args:
        pane: whose name is to last.
        panes: all panes of its server.
        socket: the path of the server's socket.
        agents: the ids of the panes with an agent in them, at least of this window.

    Where agents alone share a window the first one keeps it and the others get windows of their own; any other pane
    leaves a window that it shares. Whoever stays alone in a window that has no name gets one for it.
    """
    commands: list[list[str]] = []
    session = pane.values["session_name"]
    can_be_said = session.isprintable() and pane.pane_id in {one.pane_id for one in panes_named(panes, f"{session}:")}
    if session.isdecimal() or not can_be_said:
        session = _free(f"work-{pane.session_id.removeprefix('$')}", {one.values["session_name"] for one in panes})
        commands.append(["rename-session", "-t", pane.session_id, session])
    sharing = sorted(_beside(pane, panes), key=lambda one: int(one.values["pane_index"]))
    stays = sharing[0].pane_id == pane.pane_id and {one.pane_id for one in sharing} <= {pane.pane_id, *agents}
    for one in sharing[1:] if stays else [pane]:
        to = f"{one.session_id}:"
        commands.append(["break-pane", "-d", "-s", one.pane_id, "-t", to, "-n", _window_for(one, panes)])
    window = pane.window if stays and _has_lasting_window(pane) else _window_for(pane, panes)
    if stays and window != pane.window:
        commands.append(["rename-window", "-t", pane.values["window_id"], window])
    return Mending(tuple(shlex.join(["tmux", "-S", socket, *one]) for one in commands), f"{session}:{window}")


def _window_for(pane: Pane, panes: Sequence[Pane]) -> str:
    """A name for a window of its own: after the directory, and told apart from all by the pane's number."""
    directory = PurePath(pane.values["pane_current_path"]).name
    slug = _NOT_IN_NAMES.sub("-", directory.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "agent"
    return _free(f"{slug}-{pane.pane_id.removeprefix('%')}", {one.values["window_name"] for one in panes})


def _free(wanted: str, taken: Collection[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _has_lasting_window(pane: Pane) -> bool:
    """Whether somebody gave its window a name that means nothing else."""
    return has_given_name(pane.values) and pane.window == pane.values["window_name"]


def _beside(pane: Pane, panes: Sequence[Pane]) -> list[Pane]:
    """All panes of its window, itself among them."""
    return [
        one for one in panes if (one.session_id, one.values["window_id"]) == (pane.session_id, pane.values["window_id"])
    ]


def _means(text: str, pane: Pane, panes: Sequence[Pane]) -> bool:
    return [one.pane_id for one in panes_named(panes, text)] == [pane.pane_id]
