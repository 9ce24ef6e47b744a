"""Checks and acts as one step inside tmux, and reads which of the two happened.

A condition is one comparison of formats with the values just seen, and one search of the screen. Nothing from the
graph or from a title ever goes into it: every value is held against the alphabet of its format.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import SendBy
from wake_bridge_adapters.bounded_call import CallResult
from wake_bridge_adapters.tmux.command import TmuxServer
from wake_bridge_adapters.tmux.pane_facts import DRIVER_OPTION, FENCED_NAMES, PaneFacts, PaneReading

_NUMBER: Final = re.compile(r"[0-9]{0,10}")
_ID: Final = re.compile(r"[%@$][0-9]{1,10}")
_COMMAND: Final = re.compile(r"[A-Za-z0-9_.+-](?:[A-Za-z0-9 _.+-]{0,62}[A-Za-z0-9_.+-])?")
_DRIVER: Final = re.compile(r"[0-9a-f./ -]{0,1000}")
_SIGHT: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ]{4,62})[A-Za-z0-9]")
_VALUES: Final = {
    **dict.fromkeys(FENCED_NAMES, _NUMBER),
    "pane_id": _ID,
    "session_id": _ID,
    "window_id": _ID,
    "pane_current_command": _COMMAND,
    DRIVER_OPTION: _DRIVER,
}


class NotExpressible(ValueError):
    """A value could mean something to tmux's format language; no condition is made of it."""


def condition(look: PaneReading, first: PaneReading, sight: str = "", *, driver: str) -> str:
    """The pane is as `look` saw it, no key can have come in since `first`, and `sight` stands on one of its rows.

    `driver` is what its option must say by then of who drives it. `sight` is a part of our own mark or of a harness's paste chip: letters, digits and blanks.

    Raises:
        NotExpressible: a value is outside its alphabet.
    """
    facts = look.facts
    formats = [f"#{{{name}}}" for name in FENCED_NAMES]
    values = [_checked(name, facts.values[name]) for name in FENCED_NAMES]
    formats.append(f"#{{{DRIVER_OPTION}}}")
    values.append(_checked(DRIVER_OPTION, driver))
    if look.typists():
        # whole seconds: they fence only because these clients must have been quiet for two of them
        formats.append(_viewers_format(facts))
        values.append(_viewers_value(first.facts))
    as_seen = f"#{{==:{'|'.join(formats)},{'|'.join(values)}}}"
    if not sight:
        return as_seen
    if not _SIGHT.fullmatch(sight):
        raise NotExpressible(f"cannot be searched for in a condition: {sight!r}")
    return f"#{{&&:{as_seen},#{{C:{sight}}}}}"


def in_time(guard: str, send_by: SendBy) -> str:
    """The condition, and that the server itself reads one of these seconds from the wall clock when it judges.

    Whoever stands still in between, the client, the server or the machine, it is judged when the key would be pressed. Numbers
    of ten digits compare as texts.
    """
    first, last = send_by.seconds
    now = f"#{{T:{TIME_OPTION}}}"
    return f"#{{&&:{guard},#{{&&:#{{>=:{now},{first}}},#{{<=:{now},{last}}}}}}}"


TIME_OPTION: Final = "@wake_bridge_time"
"""Holds a format of strftime, which tmux fills in wherever it is asked for by `T:`."""

TIME_SHOWS: Final = ("set-option", "-s", TIME_OPTION, "%s")
TIME_SHOWS_NO_MORE: Final = ("set-option", "-s", "-u", TIME_OPTION)


def can_be_sight(text: str) -> bool:
    """Whether a condition can search the screen for `text`."""
    return _SIGHT.fullmatch(text) is not None


def _checked(name: str, value: str) -> str:
    if not _VALUES[name].fullmatch(value):
        raise NotExpressible(f"{name} cannot stand in a condition: {value!r}")
    return value


def _viewers_format(facts: PaneFacts) -> str:
    """Every session that shows the pane's window, with its last activity."""
    window = _checked("window_id", facts.window_id)
    return f"#{{S:#{{?#{{==:#{{window_id}},{window}}},#{{session_id}}=#{{session_activity}}/,}}}}"


def _viewers_value(facts: PaneFacts) -> str:
    shown = facts.sessions_showing_it()
    return "".join(f"{_checked('session_id', session)}={activity}/" for session, activity in shown.items())


class TmuxVerdict(StrEnum):
    """What tmux printed, the only thing that is believed; its exit status proves nothing."""

    DONE = "done"
    REFUSED = "refused"
    NOT_REACHED = "not_reached"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Guarded:
    """How a guarded command went.

    `NOT_REACHED` is certain: tmux failed before it came to the check, and said why. After `SILENT` it may have acted or
    not: a client that was killed, or whose words were lost, says as little when all is done.
    """

    verdict: TmuxVerdict
    answer: CallResult


async def if_still(
    server: TmuxServer,
    pane_id: str,
    guard: str,
    *,
    then: str,
    otherwise: str = "",
    before: Sequence[Sequence[str]] = (),
    after: Sequence[Sequence[str]] = (),
    stdin: str = "",
) -> Guarded:
    """Run `then` if `guard` holds for the pane, else `otherwise`, without anything in between.

    `then` and `otherwise` are single tmux commands; `before` runs first and gets `stdin`, `after` runs whatever was done.
    """
    word = secrets.token_hex(8)
    reached, done, refused = f"reached-{word}", f"done-{word}", f"refused-{word}"
    answer = await server.ask(
        *before,
        ["display-message", "-p", reached],
        ["if-shell", "-F", "-t", pane_id, guard, _and_say(then, done), _and_say(otherwise, refused)],
        *after,
        stdin=stdin,
    )
    said = answer.stdout.splitlines()
    if done in said:
        return Guarded(TmuxVerdict.DONE, answer)
    if refused in said:
        return Guarded(TmuxVerdict.REFUSED, answer)
    if reached not in said and answer.returncode > 0 and answer.stderr.strip():
        return Guarded(TmuxVerdict.NOT_REACHED, answer)
    return Guarded(TmuxVerdict.SILENT, answer)


def _and_say(command: str, word: str) -> str:
    return f"{command} ; display-message -p {word}" if command else f"display-message -p {word}"
