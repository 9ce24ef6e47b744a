"""One bounded tmux call at a time: with a timeout, its exit status and its stderr.

Titles, window names and pane options are other people's text. Fields and records are therefore told apart by a word
that nobody can know in advance, made anew for every call.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.bounded_call import BoundedCall, CallResult


def _new_word() -> str:
    return f"~{secrets.token_hex(8)}~"


@dataclass(frozen=True, slots=True)
class Separators:
    """The unforeseeable words of one call."""

    between_fields: str = field(default_factory=_new_word)
    between_records: str = field(default_factory=_new_word)

    def template(self, names: Sequence[str]) -> str:
        """A tmux format that prints the named formats as one record.

        A name that is not a bare format name is used as it stands.
        """
        formats = [f"#{{{name}}}" if name.replace("_", "").replace("@", "").isalnum() else name for name in names]
        return self.between_fields.join(formats) + self.between_records

    def records(self, text: str, names: Sequence[str]) -> list[dict[str, str]]:
        """The records in `text` by field name; a record with another number of fields is left out."""
        found = []
        for record in text.split(self.between_records)[:-1]:
            values = record.lstrip("\n").split(self.between_fields)
            if len(values) == len(names):
                found.append(dict(zip(names, values, strict=True)))
        return found


def socket_path(name: str, environment: Mapping[str, str]) -> str:
    """The path of the socket that `tmux -L name` would use."""
    directory = environment.get("TMUX_TMPDIR") or "/tmp"  # noqa: S108 - tmux's own rule
    return _real(f"{directory}/tmux-{os.getuid()}/{name}")


def _real(path: str) -> str:
    """One spelling for every path of a socket: on macOS /tmp is a link."""
    return os.path.realpath(Path(path).expanduser())


def default_socket(name: str, path: str, environment: Mapping[str, str]) -> str:
    """The server to use where a target names none.

    `path` (tmux -S) wins over `name` (tmux -L); without both it is the server this process was started in, as for
    every tmux command typed there, else tmux's default one.
    """
    if path:
        return _real(path)
    if name:
        return socket_path(name, environment)
    inside, _, _ = environment.get("TMUX", "").partition(",")
    return _real(inside) if inside else socket_path("default", environment)


def target_socket(text: str, environment: Mapping[str, str]) -> str:
    """The socket a target names: a path when there is a slash in it, else a name."""
    return _real(text) if "/" in text else socket_path(text, environment)


def why_not_ours(path: str) -> str:
    """Why a socket may not be used; empty if it may. Only sockets of our own user are."""
    try:
        found = os.stat(path)  # noqa: PTH116 - one look, mode and owner together
    except OSError as problem:
        return f"no tmux server at {path}: {problem.strerror}"
    if not stat.S_ISSOCK(found.st_mode):
        return f"{path} is no socket"
    if found.st_uid != os.getuid():
        return f"{path} belongs to another user"
    return ""


NOT_FOUND: Final = 127
"""The exit status a shell gives for a program that is not there."""

NOT_ON_PATH: Final = "tmux is not on PATH"

_AT_ONCE: Final = 16
"""Calls to one server at the same time, for one that hangs takes up its place. Each server has threads of its own."""

_HUNG_UP: Final = "server exited unexpectedly"
"""What a client says of a server that does not talk to it, alive or not."""

_OWN_VARIABLES: Final = frozenset({"TMUX", "TMUX_PANE"})


class TmuxServer:
    """The tmux server behind one socket.

    Args:
        socket: path of the socket; never the default one by accident, since it is always named.
        timeout: bound of one call in seconds.
        environment: for the tmux client; its `PATH` finds the program.
    """

    def __init__(self, socket: str, timeout: float, environment: Mapping[str, str]) -> None:
        self.socket = socket
        self._timeout = timeout
        self._environment = {name: value for name, value in environment.items() if name not in _OWN_VARIABLES}
        self._found: str | None = None
        self.own_marks: AbstractSet[object] = frozenset()
        """The marks of whose a pane is that it did not inherit, as of the last listing."""
        self._threads = ThreadPoolExecutor(_AT_ONCE, "tmux")

    @property
    def program(self) -> str | None:
        """The path of tmux; None where there is none. It is looked for anew after each call that did not go well."""
        if self._found is None:
            self._found = shutil.which("tmux", path=self._environment.get("PATH"))
        return self._found

    async def ask(self, *commands: Sequence[str], stdin: str = "") -> CallResult:
        """Run the commands as one list inside the server and return what they printed.

        tmux runs such a list in one go: nothing else happens between two of its commands, except while one waits for
        its stdin. A cancelled call is killed; what the server had taken by then it may still do.
        """
        program = self.program
        if program is None:
            return CallResult(NOT_FOUND, "", NOT_ON_PATH)
        argv = [program, "-u", "-S", self.socket, *joined(commands)]
        call = BoundedCall(argv, stdin, self._timeout, self._environment)
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, call.run)
        except asyncio.CancelledError:
            call.kill()
            raise
        if not answer.is_well:
            # tmux may have been replaced, and the server with it
            self._found = None
        if answer.stderr.strip() == _HUNG_UP:
            return replace(answer, stderr=f"{_HUNG_UP}: it ended, or it is newer than the tmux on PATH")
        return answer


def joined(commands: Sequence[Sequence[str]]) -> list[str]:
    """One argument list of several commands.

    An argument that ends in `;` would end its command; tmux wants that one escaped.
    """
    words: list[str] = []
    for command in commands:
        if words:
            words.append(";")
        words.extend(f"{word[:-1]}\\;" if word.endswith(";") else word for word in command)
    return words
