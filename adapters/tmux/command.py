"""One bounded tmux call at a time (DESIGN §6: every external call is bounded, its exit status and stderr are read)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from adapters.bounded_call import Answer, BoundedCall

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

    async def ask(self, *commands: Sequence[str], stdin: str = "") -> Answer:
        """Run the commands as one list inside the server and return what they printed.

        tmux runs such a list in one go: nothing else happens between two of its commands, except while one waits for
        its stdin. A cancelled call is killed; what the server had taken by then it may still do.
        """
        program = self.program
        if program is None:
            return Answer(NOT_FOUND, "", NOT_ON_PATH)
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
