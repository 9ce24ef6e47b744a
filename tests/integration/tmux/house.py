"""Where the traps are laid: one tmux server, a session for every kind of onlooker and size, and rooms to put an agent in.

A cell of the matrix is one agent in one room of one session. Everything else that lives there records what it is sent,
and must be sent nothing.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from tests.integration.tmux.conftest import Resident, Scene
from wake_bridge.demo.tmux_server import PrivateTmux, Typist
from wake_bridge.domain.presence import PresenceState
from wake_bridge.testing import until

SIZES: Final = {"80x24": (80, 24), "200x50": (200, 50), "50x20": (50, 20)}
ONLOOKERS: Final = ("nobody", "a client", "a nested client")
"""Who is attached: nobody, a terminal, or a terminal inside a pane of another tmux server. They press no key."""

SPARE: Final = "spare"
"""A session that has no agent of its own."""


class Start(Enum):
    """What started the agent: tmux itself, a person's shell that takes over when it ends, or a script."""

    ALONE = "alone"
    SHELL = "shell"
    SCRIPT = "script"


class House:
    """One server with all its sessions, a second one that shows the nested ones, and a third that nobody means."""

    def __init__(self, directory: Path, tmux: PrivateTmux, outer: PrivateTmux, stranger: PrivateTmux) -> None:
        self.directory = directory
        self.tmux = tmux
        self.outer = outer
        self.stranger = stranger
        self.clients: dict[str, Typist] = {}
        self._records: list[Path] = []
        self.recorder(SPARE)
        self._open_stranger()
        for onlooker in ONLOOKERS:
            for size in SIZES:
                self._open(onlooker, size)

    @staticmethod
    def session(onlooker: str, size: str) -> str:
        """The session of a kind of onlooker and a size."""
        return f"{onlooker.replace(' ', '-')}-{size}"

    def recorder(self, session: str = "", *, beside: str = "", width: int = 80, height: int = 24) -> str:
        """A pane that records what it gets, in a new session, or three rows high beside a pane; its id."""
        record = self.directory / f"bystander-{len(self._records)}"
        self._records.append(record)
        # a shell with a letter of its own in its command: no harness is ever taken for it
        command = f"stty raw -echo; exec cat > {shlex.quote(str(record))}"
        if beside:
            made = self.tmux.run("split-window", "-d", "-l", "3", "-P", "-F", "#{pane_id}", "-t", beside, command)
        else:
            size = ["-x", str(width), "-y", str(height)]
            made = self.tmux.run("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, *size, command)
        return self._once_it_records(self.tmux, made.strip())

    def strays(self) -> list[str]:
        """Bystanders that were sent anything."""
        return [
            f"{path.name}: {path.read_bytes()!r}" for path in self._records if path.exists() and path.stat().st_size
        ]

    def client_of(self, session: str) -> str:
        """The name of the client that is attached to a session; empty when there is none."""
        return self.tmux.run("list-clients", "-t", f"={session}", "-F", "#{client_name}").strip()

    def _open(self, onlooker: str, size: str) -> None:
        session, (width, height) = self.session(onlooker, size), SIZES[size]
        self.recorder(session, width=width, height=height)
        if onlooker == "a client":
            self.clients[session] = self.tmux.attach(session, width, height + 1)
        if onlooker == "a nested client":
            attach = ["tmux", "-u", "-L", self.tmux.socket_name, "attach-session", "-t", f"={session}"]
            self.outer.run(
                "new-session", "-d", "-s", session, "-x", str(width), "-y", str(height + 1), "-e", "TERM=screen-256color",
                "env", "-u", "TMUX", *attach,
            )  # fmt: skip
        if onlooker != "nobody":
            until(lambda: self.client_of(session) != "")

    def _open_stranger(self) -> None:
        """A server whose pane has the name of one of ours, in `$TMUX` of whoever looks there."""
        record = self.directory / "stranger"
        self._records.append(record)
        command = f"stty raw -echo; exec cat > {shlex.quote(str(record))}"
        for onlooker in ONLOOKERS:
            self.stranger.run("new-session", "-d", "-s", self.session(onlooker, "80x24"), command)
        self._once_it_records(self.stranger, "%0")

    @staticmethod
    def _once_it_records(tmux: PrivateTmux, pane: str) -> str:
        until(lambda: tmux.run("display-message", "-p", "-t", pane, "#{pane_current_command}").strip() == "cat")
        return pane


@dataclass
class Cell:
    """One agent in one room, with all a trap may need to be laid."""

    house: House
    scene: Scene
    onlooker: str
    size: str
    room: str
    agent: Resident
    beside: str = ""
    persons: bytes = b""
    target: str = ""
    socket: str = ""
    undo: list[Callable[[], object]] = field(default_factory=list)

    @classmethod
    def furnished(cls, house: House, scene: Scene, place: tuple[str, str, str], start: Start) -> Cell:
        """Put an agent into a room; a client that looks on has it before its eyes."""
        onlooker, size, room = place
        session = house.session(onlooker, size)
        agent = scene.resident("agent", session=session, shell=start is Start.SHELL, script=start is Start.SCRIPT)
        cell = cls(house, scene, onlooker, size, room, agent)
        ROOMS[room](cell)
        if onlooker != "nobody":
            cell.comes_into_view()
        scene.waits_until_quiet()
        until(agent.has_been_drawn_in_its_size)
        # looked at by another adapter: to the one that wakes, the first look is its own
        eye = Scene(house.tmux, scene.directory)
        until(lambda: eye.verdict(cell.agent.id).vote is PresenceState.IDLE)
        return cell

    @property
    def session(self) -> str:
        return self.house.session(self.onlooker, self.size)

    @property
    def client(self) -> Typist | None:
        """The person at the terminal, if there is one whose keys can be pressed."""
        return self.house.clients.get(self.session)

    def tmux(self, *arguments: str) -> str:
        """One tmux command; `{pane}`, `{session}` and `{beside}` stand for this cell's."""
        names = {"{pane}": self.agent.id, "{session}": self.session, "{beside}": self.beside}
        words = [_filled(argument, names) for argument in arguments]
        return self.scene.tmux.run(*words).strip()

    def format(self, text: str) -> str:
        return self.tmux("display-message", "-p", "-t", "{pane}", text)

    def comes_into_view(self) -> None:
        """The window becomes the session's current one, and the pane the window's, unless another one hides it."""
        windows = self.tmux("list-panes", "-s", "-t", "={session}:", "-F", "#{pane_id} #{window_index}")
        index = dict(line.split() for line in windows.splitlines())[self.agent.id]
        self.tmux("select-window", "-t", f"={self.session}:{index}")
        if self.room != "behind a zoomed pane":
            self.tmux("select-pane", "-Z", "-t", "{pane}")

    def has_a_neighbour(self) -> str:
        """A pane beside the agent's, made when there is none yet."""
        self.beside = self.beside or self.house.recorder(beside=self.agent.id)
        return self.beside

    def lift(self) -> None:
        """Take the trap away, and what the room needed."""
        while self.undo:
            self.undo.pop()()

    def clear(self) -> None:
        """Take all of it away."""
        self.lift()
        panes = self.tmux("list-panes", "-a", "-F", "#{pane_id}").split()
        for pane in {self.agent.id, self.beside} & set(panes):
            self.tmux("kill-pane", "-t", pane)


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def _alone(_cell: Cell) -> None:
    """A window of its own."""


def _split(cell: Cell) -> None:
    cell.has_a_neighbour()


def _behind_a_zoomed_pane(cell: Cell) -> None:
    cell.tmux("resize-pane", "-Z", "-t", cell.has_a_neighbour())


def _zoomed(cell: Cell) -> None:
    cell.has_a_neighbour()
    cell.tmux("resize-pane", "-Z", "-t", "{pane}")


def _renamed(cell: Cell) -> None:
    cell.tmux("rename-window", "-t", "{pane}", "a|b,c}d #{pid}'\"")


def _moved(cell: Cell) -> None:
    """To another index, where no window is."""
    taken = [int(one) for one in cell.tmux("list-windows", "-t", "={session}", "-F", "#{window_index}").split()]
    cell.tmux("move-window", "-d", "-s", "{pane}", "-t", f"={cell.session}:{max(taken) + 7}")


def _joined(cell: Cell) -> None:
    """Into a window that another pane was there before."""
    cell.tmux("new-window", "-d", "-t", "={session}:", "-n", "joined", "cat")
    first = cell.tmux("list-panes", "-t", "={session}:=joined", "-F", "#{pane_id}")
    cell.tmux("join-pane", "-d", "-b", "-l", "80%", "-s", "{pane}", "-t", first)
    cell.undo.append(lambda: cell.tmux("kill-pane", "-t", first))


def _linked(cell: Cell) -> None:
    cell.tmux("link-window", "-d", "-s", "{pane}", "-t", f"={SPARE}:")


def _grouped(cell: Cell) -> None:
    """A second session that shares all windows of the first."""
    cell.tmux("new-session", "-d", "-t", "={session}", "-s", "twin")
    cell.undo.append(lambda: cell.tmux("kill-session", "-t", "=twin"))


def _under_a_popup(cell: Cell) -> None:
    """A popup that takes the client's keys; only a client can have one."""
    client = cell.house.client_of(cell.session)
    if not client:
        return
    command = ["tmux", "-u", "-L", cell.scene.tmux.socket_name, "display-popup", "-c", client, "-E", "sleep 60"]
    popup = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    cell.undo += [popup.wait, lambda: cell.tmux("display-popup", "-C", "-c", client)]


def _under_a_floating_pane(cell: Cell) -> None:
    """A pane of the same window that lies above it; tmux has them since 3.7, and before it is one beside."""
    if cell.format("#{pane_floating_flag}") == "":
        cell.has_a_neighbour()
        return
    floating = cell.tmux("new-pane", "-d", "-P", "-F", "#{pane_id}", "-t", "{pane}", "cat")
    cell.undo.append(lambda: cell.tmux("kill-pane", "-t", floating))


def _kept_when_it_ends(cell: Cell) -> None:
    cell.tmux("set-option", "-p", "-t", "{pane}", "remain-on-exit", "on")


def _seen_from_a_plain_c_locale(cell: Cell) -> None:
    cell.scene.adapter = cell.scene.new_adapter(LC_ALL="C", LANG="C")


def _seen_from_another_server(cell: Cell) -> None:
    """The looker's own `$TMUX` is a server with a session of the same name."""
    cell.scene.adapter = cell.scene.new_adapter(TMUX=f"{cell.house.stranger.socket_path},1,0", TMUX_PANE="%0")


ROOMS: Final[dict[str, Callable[[Cell], None]]] = {
    "alone": _alone,
    "split": _split,
    "behind a zoomed pane": _behind_a_zoomed_pane,
    "zoomed": _zoomed,
    "renamed": _renamed,
    "moved": _moved,
    "joined": _joined,
    "linked": _linked,
    "grouped": _grouped,
    "under a popup": _under_a_popup,
    "under a floating pane": _under_a_floating_pane,
    "kept when it ends": _kept_when_it_ends,
    "seen from a plain C locale": _seen_from_a_plain_c_locale,
    "seen from another server": _seen_from_another_server,
}
