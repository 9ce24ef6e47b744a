"""One `list-panes -a` for all who ask at the same moment, so that fifty panes do not cost fifty calls.

tmux itself matches names by prefix and by pattern, and looks for a name in other sessions too. So it is never asked for
a name: the list is read and compared here.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.tmux.command import Separators, TmuxServer
from wake_bridge_adapters.tmux.pane_facts import DRIVER_OPTION, Format, NoPane, number

IDENTITY_OPTION: Final = "@wake_identity"
"""The pane option by which a pane says whose it is: one identity or several, parted by blanks."""

RENAMED_BY_PROGRAM: Final = "#{?automatic-rename,1,0}"
"""Whether the window is called after whatever runs in it."""

_IN_FRONT: Final = ("session_attached", "window_active", "pane_active", "session_activity")
"""What tells whether a person looks at a pane; a key of theirs shows nothing new in it."""

_NAMES: Final = (
    "pid",
    "start_time",
    "pane_id",
    "session_id",
    "window_id",
    "pane_pid",
    "pane_dead",
    "pane_in_mode",
    "pane_input_off",
    "pane_synchronized",
    "pane_current_command",
    "pane_current_path",
    "cursor_x",
    "cursor_y",
    "cursor_flag",
    "alternate_on",
    "pane_width",
    "pane_height",
    "window_activity",
    "session_name",
    "window_index",
    "window_name",
    "pane_index",
    RENAMED_BY_PROGRAM,
    IDENTITY_OPTION,
    DRIVER_OPTION,
    "pane_title",
    *_IN_FRONT,
)


MARKS_AT_ONCE: Final = 50
"""Panes whose marks one call asks for: tmux takes no command of more than 16 KB, and says so of 200 of them."""

_NO_SIGN_OF_LIFE: Final = frozenset({DRIVER_OPTION, *_IN_FRONT})


class Mark(NamedTuple):
    """What a pane of a server says of whose it is."""

    server_pid: str
    server_started: str
    pane_id: str
    value: str


@dataclass(frozen=True, slots=True)
class Pane:
    """A pane where one session shows it; a linked window is listed once for each of its sessions.

    `window` is how its window is called: by the name somebody gave it if that means it alone, else by its index.
    `is_fresh` says that it was listed in the very second of its window's last activity: tmux tells that in whole seconds,
    so what the pane shows later in this second changes no time.
    """

    values: Mapping[str, str]
    window: str
    is_fresh: bool = False

    pane_id = Format("pane_id", str)
    """`%5`."""

    session_id = Format("session_id", str)
    """`$3`."""

    server_pid = Format("pid", int)
    """The server's own pid."""

    server_started = Format("start_time", int)
    """When the server began to give out ids, UTC in whole seconds."""

    pane_pid = Format("pane_pid", number)
    """The process the pane was started with."""

    command = Format("pane_current_command", str)

    identities = Format(IDENTITY_OPTION, str.split)
    """Whose pane it says it is."""

    driver = Format(DRIVER_OPTION, str)
    """Which daemons drive it, as they wrote it there."""

    @property
    def label(self) -> str:
        """`session:window.pane`, the one name by which people are told of it; a tmux target as well."""
        return f"{self.values['session_name']}:{self.window}.{self.values['pane_index']}"

    @property
    def sign_of_life(self) -> str:
        """Everything that can change when a new look could show something new."""
        signs = [value for name, value in self.values.items() if name not in _NO_SIGN_OF_LIFE]
        return "\n".join([*signs, "fresh"] if self.is_fresh else signs)

    @property
    def last_key_in_front(self) -> int | None:
        """When a client that shows it in front had a key last, in the server's whole seconds; None where none shows it."""
        attached, *in_front, activity = (self.values[name] for name in _IN_FRONT)
        is_in_front = attached not in {"", "0"} and all(one == "1" for one in in_front)
        return int(activity) if is_in_front and activity.isdecimal() else None


async def panes_of(server: TmuxServer, *also: str) -> list[Pane] | NoPane:
    """Every pane of the server, with the formats in `also` besides; `NoPane` when the server cannot be asked."""
    separators, names = Separators(), (*also, *_NAMES)
    second = int(time.time())
    answer = await server.ask(["list-panes", "-a", "-F", separators.template(names)])
    if not answer.is_well:
        return NoPane.of(answer)
    records = separators.records(answer.stdout, names)
    if why := await _without_inherited_marks(server, records):
        return why
    answering = _windows_answering(records)
    return [
        Pane(record, _window_of(record, answering), is_fresh=int(record["window_activity"] or 0) >= second)
        for record in records
    ]


async def _without_inherited_marks(server: TmuxServer, records: Sequence[dict[str, str]]) -> NoPane | None:
    """Empty the mark of each pane that only inherits it, as from its window; why that cannot be told.

    tmux shows both alike, and is asked only for marks that are new or that several panes show. A pane that goes
    meanwhile ends the whole answer: whoever asks next learns more.
    """
    shown = {_mark_of(record) for record in records if record[IDENTITY_OPTION].strip()}
    times = Counter(mark.value for mark in shown)
    unsure = [mark for mark in shown if times[mark.value] > 1 or mark not in server.own_marks]
    own = shown.difference(unsure)
    for first in range(0, len(unsure), MARKS_AT_ONCE):
        some = unsure[first : first + MARKS_AT_ONCE]
        separators = Separators()
        commands = [
            command
            for mark in some
            for command in (
                ["show-options", "-p", "-q", "-v", "-t", mark.pane_id, IDENTITY_OPTION],
                ["display-message", "-p", "-t", mark.pane_id, separators.between_records],
            )
        ]
        answer = await server.ask(*commands)
        if not answer.is_well:
            return NoPane.of(answer)
        own |= {
            mark
            for mark, value in zip(some, answer.stdout.split(separators.between_records), strict=False)
            if value.split() == mark.value.split()
        }
    server.own_marks = own
    for record in records:
        if record[IDENTITY_OPTION].strip() and _mark_of(record) not in own:
            record[IDENTITY_OPTION] = ""
    return None


def _mark_of(record: Mapping[str, str]) -> Mark:
    return Mark(record["pid"], record["start_time"], record["pane_id"], record[IDENTITY_OPTION])


def has_given_name(values: Mapping[str, str]) -> bool:
    """Whether somebody gave the window a name, and one that can be written down."""
    name = values["window_name"]
    return values[RENAMED_BY_PROGRAM] != "1" and name.isprintable() and bool(name.strip())


def _windows_answering(records: Iterable[Mapping[str, str]]) -> Mapping[tuple[str, str], set[str]]:
    """Which windows of a session a word means, read as `panes_named` reads it."""
    answering: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        for word in (record["window_name"], record["window_index"]):
            answering[record["session_id"], word].add(record["window_id"])
    return dict(answering)


def _window_of(record: Mapping[str, str], answering: Mapping[tuple[str, str], set[str]]) -> str:
    session, name = record["session_id"], record["window_name"]
    means_it = answering[session, name] == {record["window_id"]}
    is_hidden = (session, f"{name}.{record['pane_index']}") in answering
    return name if has_given_name(record) and means_it and not is_hidden else record["window_index"]


def panes_named(panes: Iterable[Pane], target: str) -> list[Pane]:
    """The panes that `target` means: `%id`, `session`, `session:window` or `session:window.pane`, exact.

    A window is given by its index or its whole name. A session is found by the name that it was to have, too: tmux
    writes `_` for the dots in it. A pane is listed once, however many sessions show it.
    """
    name = target.removeprefix("=")
    if is_id(name):
        return _each_once(pane for pane in panes if pane.pane_id == name)
    panes = list(panes)
    session, inside = session_in(panes, target)
    there = [pane for pane in panes if pane.values["session_name"] == session]
    if not inside:
        return _each_once(there)
    window, has_index = window_in(panes, target)
    index = inside.rpartition(".")[2]
    found = (pane for pane in there if _is_window(pane, window))
    return _each_once(pane for pane in found if not has_index or pane.values["pane_index"] == index)


def session_in(panes: Iterable[Pane], target: str) -> tuple[str, str]:
    """What tmux calls the session of a target, and what stands behind the colon.

    No session has a dot in its name; but `app.0` may be meant for a pane of a session that is there.
    """
    session, _, inside = target.removeprefix("=").partition(":")
    before, dot, after = session.rpartition(".")
    if not dot or (after.isdecimal() and any(pane.values["session_name"] == before for pane in panes)):
        return session, inside
    return session.replace(".", "_"), inside


def window_in(panes: Iterable[Pane], target: str) -> tuple[str, bool]:
    """How a target calls the window, and whether a pane's index stands behind it; empty where it names none."""
    panes = list(panes)
    session, inside = session_in(panes, target)
    if any(_is_window(pane, inside) for pane in panes if pane.values["session_name"] == session):
        return inside, False
    return inside.rpartition(".")[0], bool(inside)


def is_id(target: str) -> bool:
    """Whether a target is a pane's id: such ids begin anew with every server."""
    return target.removeprefix("=").startswith("%")


def panes_claimed_by(panes: Iterable[Pane], identity: str) -> list[Pane]:
    """The panes whose option names the identity."""
    return _each_once(pane for pane in panes if identity in pane.identities)


def rests_on_an_index(target: str, panes: Sequence[Pane]) -> bool:
    """Whether a name may come to mean another pane by itself: tmux gives numbers to sessions, windows and panes anew.

    A name that means no pane now, or several, is judged by its words alone.
    """
    session, inside = session_in(panes, target)
    if session.isdecimal():
        return True
    if not inside:
        return False
    found = panes_named(panes, target)
    if not found:
        return (inside.rpartition(".")[0] or inside).isdecimal()
    if len(found) > 1:
        return True
    given = found[0].values["window_name"] if has_given_name(found[0].values) else ""
    beside = {one.pane_id for one in panes if one.values["window_id"] == found[0].values["window_id"]}
    return not given or inside not in {given, f"{given}.{found[0].values['pane_index']}"} or len(beside) > 1


def _is_window(pane: Pane, name: str) -> bool:
    return name in {pane.values["window_index"], pane.values["window_name"]}


def _each_once(panes: Iterable[Pane]) -> list[Pane]:
    once: dict[str, Pane] = {}
    for pane in panes:
        once.setdefault(pane.pane_id, pane)
    return list(once.values())


ASKED_AGAIN_AFTER: Final = 0.5
"""Seconds without an answer, for which 10 ms is usual, until tmux is asked once more beside it: many wait for this call."""


class Listing:
    """Lists the panes of servers. An answer is never older than the question: who asks later asks tmux anew.

    A call that hangs is not waited for alone: another one is made, and whichever answers is the answer.
    """

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Task[list[Pane] | NoPane]] = {}

    async def of(self, server: TmuxServer) -> list[Pane] | NoPane:
        """Every pane of the server; `NoPane` when it cannot be asked."""
        first = self._join(server)
        # one who gives up waiting takes the answer from nobody else
        if (await asyncio.wait({first}, timeout=ASKED_AGAIN_AFTER))[0]:
            return first.result()
        asked = {first, self._join(server)}
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    def _join(self, server: TmuxServer) -> asyncio.Task[list[Pane] | NoPane]:
        """The call that has not begun yet, or a new one."""
        asked = self._asked.get(server.socket)
        if asked is None:
            asked = asyncio.create_task(self._ask(server))
            self._asked[server.socket] = asked
            asked.add_done_callback(lambda _: self._begun(server.socket, asked))
        return asked

    async def _ask(self, server: TmuxServer) -> list[Pane] | NoPane:
        await asyncio.sleep(0)
        self._begun(server.socket, asyncio.current_task())
        return await panes_of(server)

    def _begun(self, socket: str, asked: object) -> None:
        """From now on the answer may be older than a question."""
        if self._asked.get(socket) is asked:
            del self._asked[socket]
