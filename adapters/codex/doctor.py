"""What `doctor` asks of Codex (CONTRACT "Daemon and diagnosis")."""

from __future__ import annotations

from typing import Final

from adapters.codex.app_server import AppServer
from adapters.codex.connection import Declined, Lost, NotThere, Unfamiliar
from adapters.codex.threads import loaded_threads
from wake_bridge.ports.adapter import Check

_NAME: Final = "codex app-server"
_START: Final = "start codex once, or `codex app-server daemon start`; until then its screen is used"
_VERSIONS: Final = "its screen is used; if you trust it to work as before, add it to `versions` in [adapters.codex]"


async def checks(app_server: AppServer) -> list[Check]:
    """Socket and version, then the threads; none of it is a fault, for whom no server answers the screen serves."""
    try:
        connection = await app_server.connection()
    except Unfamiliar as stranger:
        return [(_NAME, None, str(stranger), _VERSIONS)]
    except NotThere as gone:
        return [(_NAME, None, str(gone), _START)]
    server = connection.server
    report: list[Check] = [(_NAME, True, f"Codex {server.version}, pid {server.peer.pid}, in {app_server.home}", "")]
    try:
        threads = [one for one in await loaded_threads(connection) if one.is_a_persons]
    except (Lost, Declined) as no:
        return [*report, ("codex threads", None, str(no), "")]
    told = ", ".join(f"{one.id} {one.evidence.saw} in {one.directory}" for one in threads)
    return [*report, ("codex threads", True, told or "none is open", "")]
