"""Finds the caller of a tool: one identity, from the call's origin or a token, never from what the model says."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from wake_bridge.control.client import ask
from wake_bridge.domain.errors import LedgerError, NotRunning, OperationFailed, RefusedForSafety
from wake_bridge.domain.names import Identity, is_identity
from wake_bridge.domain.ownership import Invoker
from wake_bridge.integrations.hook.caller import told
from wake_bridge.offline.owner import invoker, is_known
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.files import AGENT_VARIABLE, make_private_directory, open_own_file

CODEX_TURN: Final = "x-codex-turn-metadata"
"""Where Codex names the conversation of a call: one app-server serves all of a user's conversations."""

_THREAD: Final = ("thread_id", "threadId")
_PATIENCE: Final = 2.0
"""Seconds to wait for the daemon, which may know a conversation that the ledger does not."""

_BIND: Final = "run `wake-bridge bind @ID` in the agent's own pane, or start the harness with WAKE_BRIDGE_AGENT=@ID"


def threads_of(meta: Mapping[str, Any] | None) -> list[str]:
    """The conversations that a call's `_meta` names, each once; normally one or none."""
    said = meta or {}
    turn = said.get(CODEX_TURN)
    if isinstance(turn, str):
        try:
            turn = json.loads(turn)
        except (ValueError, RecursionError):
            turn = None
    named = [turn.get(name) for name in _THREAD] if isinstance(turn, Mapping) else []
    return [*dict.fromkeys(one for one in (*named, said.get("threadId")) if isinstance(one, str) and one)]


def who_calls(work: Workplace, meta: Mapping[str, Any] | None) -> Identity:
    """The one identity that calls; from now on it is the invoker of this act.

    Args:
        work: the act.
        meta: the call's `_meta`, which the harness writes and not the model.

    Raises:
        RefusedForSafety: it is nobody that is known, or it could be several.
    """
    threads = threads_of(meta)
    found = _of_threads(work, threads) if threads else _of_process(work)
    if len(found.identities) != 1:
        raise _refused(found)
    work.invoker = found
    return next(iter(found.identities))


def _of_threads(work: Workplace, threads: Sequence[str]) -> Invoker:
    """Whose conversations of Codex these are: as was recorded, else as the daemon knows it, which looks at the panes."""
    identities: frozenset[Identity] = frozenset()
    whys = []
    for thread in threads:
        why, theirs = f"conversation {thread} is recorded", _recorded(work, thread)
        if not theirs:
            why, theirs = f"the daemon knows conversation {thread}", _known_to_daemon(work, thread)
        whys.append(why if theirs else f"conversation {thread} belongs to no known identity")
        identities |= theirs
    return Invoker("codex", os.getppid(), identities, ", ".join(whys))


def _recorded(work: Workplace, thread: str) -> frozenset[Identity]:
    try:
        with closing(LedgerStore.open(work.places.state_dir, read_only=True)) as ledger:
            session = ledger.session(thread)
    except LedgerError:
        return frozenset()
    return frozenset([session.identity] if session is not None and session.identity else [])


def _known_to_daemon(work: Workplace, thread: str) -> frozenset[Identity]:
    """As for a hook of that conversation; nothing is handed over."""
    caller = told("codex", {"session_id": thread}, os.environ)
    try:
        identity = ask(work.places.state_dir, "session", timeout=_PATIENCE, **caller).get("identity")
    except (NotRunning, OperationFailed):
        return frozenset()
    return frozenset([Identity(identity)] if isinstance(identity, str) and identity else [])


def _of_process(work: Workplace) -> Invoker:
    """By the processes above this server, as for commands; a program without a harness says it by its environment."""
    found = invoker(work)
    if not found.is_person:
        return found
    claimed = os.environ.get(AGENT_VARIABLE, "")
    identities = frozenset([Identity(claimed)] if is_identity(claimed) and is_known(work, claimed) else [])
    why = f"it was started with {AGENT_VARIABLE}" if identities else "no harness started it"
    return Invoker("a program", os.getppid(), identities, why)


def _refused(found: Invoker) -> RefusedForSafety:
    if found.identities:
        names = " and ".join(sorted(found.identities))
        return RefusedForSafety(
            f"the caller could be {names}, and a tool serves one identity",
            found.told,
            hint="give one of them its own pane: `wake-bridge unbind @ID`, then `wake-bridge bind @ID` inside that pane",
        )
    return RefusedForSafety("wake-bridge cannot tell which agent calls", found.told, hint=_BIND)


_TOKEN_BYTES: Final = 32
_LONGEST_TOKEN: Final = 1024
_NEW_ONE: Final = "delete the file: a new token is made at the next start"


def token_of(state_dir: Path, identity: str) -> tuple[str, Path]:
    """The token that stands for an identity over HTTP, and the file that holds it; made where there is none.

    Raises:
        OperationFailed: the file cannot be written or read, is not the user's own, or others can read it.
    """
    path = state_dir / f"mcp{identity}.token"
    make_private_directory(state_dir)
    try:
        with (
            suppress(FileExistsError),
            open(open_own_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="ascii") as new,  # noqa: PTH123 - a descriptor
        ):
            new.write(f"{secrets.token_urlsafe(_TOKEN_BYTES)}\n")
        with open(open_own_file(path, os.O_RDONLY), "rb") as file:  # noqa: PTH123 - a descriptor
            is_private = not os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            token = file.read(_LONGEST_TOKEN).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as refusal:
        raise OperationFailed(f"the token cannot be kept ({refusal})", str(path), hint=_NEW_ONE) from refusal
    if not is_private:
        raise OperationFailed("others can read the token", str(path), hint=_NEW_ONE)
    if len(token) < _TOKEN_BYTES:
        raise OperationFailed("the token is too short", str(path), hint=_NEW_ONE)
    return token, path
