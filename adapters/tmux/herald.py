"""A line for the person, in the terminal that was used last (DESIGN §3: a notice)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from adapters.tmux.command import TmuxServer
from adapters.tmux.records import Separators
from adapters.tmux.sockets import why_not_ours

SHOWN_FOR: Final = 5_000
"""Milliseconds; a key press ends it earlier, and still reaches the pane. tmux may stand still meanwhile: not longer."""

_NAMES: Final = ("client_activity", "client_control_mode", "client_name")
_FORMATS: Final = str.maketrans({"#": "＃", "%": "％"})
"""tmux expands messages: `#(…)` would run a shell, `%H` would be a time."""


async def show_line(servers: Iterable[TmuxServer], text: str) -> bool:
    """Show `text` to the client, of any of the servers, that last had a key; answers whether there is one."""
    found: list[tuple[int, str, TmuxServer]] = []
    for server in servers:
        if why_not_ours(server.socket):
            continue
        separators = Separators()
        answer = await server.ask(["list-clients", "-F", separators.template(_NAMES)])
        found += [
            (int(client["client_activity"]), client["client_name"], server)
            for client in separators.records(answer.stdout, _NAMES)
            if client["client_control_mode"] != "1" and client["client_activity"].isdecimal()
        ]
    if not found:
        return False
    _, name, server = max(found, key=lambda one: one[0])
    line = text.translate(_FORMATS)
    answer = await server.ask(["display-message", "-c", name, "-d", str(SHOWN_FOR), line])
    return answer.is_well
