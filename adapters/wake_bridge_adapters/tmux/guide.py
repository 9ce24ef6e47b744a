"""Takes a person to a pane and back, and writes the segment of their status line; no key goes to any agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wake_bridge.ports.adapter import Viewer
from wake_bridge_adapters.tmux.command import Separators, TmuxServer
from wake_bridge_adapters.tmux.resolve import PaneKey

BACK_OPTION: Final = "@wake_bridge_back"
"""The server option that holds the pane from which a person was taken away."""

COUNT_OPTION: Final = "@wake_bridge_attention"
"""The server option that a person's status line shows."""

KEYS_OPTION: Final = "@wake_bridge_keys"
"""The server option by which a person's configuration says that its status line shows the count."""

_NAMES: Final = ("client_name", "client_activity", "client_control_mode", "session_id", "pane_id", "pid")


async def viewer_in(server: TmuxServer, name: str, environment: Mapping[str, str]) -> Viewer | None:
    """The client of that name; else the one that shows this process's pane, or its session, and had the last key."""
    separators = Separators()
    answer = await server.ask(["list-clients", "-F", separators.template(_NAMES)])
    clients = separators.records(answer.stdout, _NAMES) if answer.is_well else []
    session = f"${environment.get('TMUX', '').rpartition(',')[2]}"
    mine = [
        one
        for one in clients
        if (one["client_name"] == name if name else one["session_id"] == session and one["client_control_mode"] != "1")
    ]
    if not mine:
        return None
    pane = environment.get("TMUX_PANE", "")
    found = max(mine, key=lambda one: (one["pane_id"] == pane, int(one["client_activity"] or 0)))
    return Viewer(server.socket, found["client_name"], str(PaneKey(server.socket, int(found["pid"]), found["pane_id"])))


async def bring(server: TmuxServer, viewer: Viewer, key: PaneKey, *, remember: bool) -> bool:
    """Switch the client to the pane, window and session included."""
    shown = PaneKey.of(viewer.shows)
    if key.server_pid != shown.server_pid or key.socket != server.socket:
        return False
    keeping = [["set-option", "-s", BACK_OPTION, shown.pane_id]] if remember else []
    return (await server.ask(["switch-client", "-c", viewer.name, "-t", key.pane_id], *keeping)).is_well


async def bring_back(server: TmuxServer, viewer: Viewer) -> bool:
    """Switch the client to the pane that was kept, and forget it."""
    kept = (await server.ask(["show-options", "-s", "-q", "-v", BACK_OPTION])).stdout.strip()
    if not kept.startswith("%"):
        return False
    went = await server.ask(["switch-client", "-c", viewer.name, "-t", kept])
    await server.ask(["set-option", "-s", "-u", "-q", BACK_OPTION])
    return went.is_well


async def show_count(server: TmuxServer, text: str) -> None:
    """Set what the status line shows, on a server whose configuration asks for it."""
    await server.ask(["if-shell", "-F", f"#{{{KEYS_OPTION}}}", f"set-option -s {COUNT_OPTION} '{text}'"])


async def forget(server: TmuxServer) -> None:
    """Leave neither a way back nor a count on the server."""
    await server.ask(*(["set-option", "-s", "-u", "-q", one] for one in (BACK_OPTION, COUNT_OPTION)))
