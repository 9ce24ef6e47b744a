"""The fake's side of the socket: requests, pushes, and what was to go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed

Item = dict[str, Any]


@dataclass(slots=True)
class Turn:
    """One turn, with what was said in it."""

    id: str
    status: str = "inProgress"
    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class FakeThread:
    """One thread. `pending` are messages that wait for the end of a tool, and are on no disk; `queue` is on disk."""

    id: str
    cwd: str = ""
    ephemeral: bool = False
    status: str = "idle"
    flags: tuple[str, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    queue: list[Item] = field(default_factory=list)
    pending: list[Item] = field(default_factory=list)

    @property
    def running(self) -> Turn | None:
        """The turn that runs."""
        return self.turns[-1] if self.turns and self.turns[-1].status == "inProgress" else None

    @property
    def items(self) -> list[tuple[Turn, Item]]:
        """All that was said, oldest first."""
        return [(turn, item) for turn in self.turns for item in turn.items]

    def described(self) -> dict[str, Any]:
        """As `thread/read` tells it."""
        status: dict[str, Any] = {"type": self.status}
        if self.status == "active":
            status["activeFlags"] = list(self.flags)
        return {"id": self.id, "cwd": self.cwd, "ephemeral": self.ephemeral, "status": status, "turns": []}


def message(text: str, client_id: str | None) -> Item:
    """What a user said."""
    content = [{"type": "text", "text": text}]
    return {**_said(), "type": "userMessage", "clientId": client_id, "content": content}


def reply() -> Item:
    """What the model answered."""
    return {**_said(), "type": "agentMessage", "text": "Noted."}


def _said() -> Item:
    return {"id": str(uuid.uuid4()), "startedAtMs": int(time.time() * 1000)}


class Book:
    """All threads of one home."""

    def __init__(self, home: Path) -> None:
        self._file = home / "record.json"
        self._asked = home / "asked.jsonl"
        self.threads: dict[str, FakeThread] = {}
        for one in json.loads(self._file.read_text()) if self._file.exists() else ():
            turns = [Turn(turn["id"], _ended(turn["status"]), turn["items"]) for turn in one["turns"]]
            self.threads[one["id"]] = FakeThread(
                one["id"], one["cwd"], one["ephemeral"], "notLoaded", turns=turns, queue=one["queue"]
            )

    def keep(self) -> None:
        """Write down what is to survive: not what is pending; a turn also before anything was said in it."""
        kept = [
            {
                "id": thread.id,
                "cwd": thread.cwd,
                "ephemeral": thread.ephemeral,
                "queue": thread.queue,
                "turns": [{"id": turn.id, "status": turn.status, "items": turn.items} for turn in thread.turns],
            }
            for thread in self.threads.values()
        ]
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(kept))
        fresh.replace(self._file)

    def ask_model(self, thread: FakeThread) -> None:
        """Show the model what it has not seen yet: one line of `asked.jsonl`."""
        seen = {one for line in self.asked() for one in line["ids"]}
        new = [item for _, item in thread.items if item["type"] == "userMessage" and item["id"] not in seen]
        line = {"thread": thread.id, "ids": [one["id"] for one in new], "texts": [text_of(one) for one in new]}
        with self._asked.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def asked(self) -> Iterator[Mapping[str, Any]]:
        """What the model was shown, request by request."""
        if self._asked.exists():
            yield from (json.loads(line) for line in self._asked.read_text(encoding="utf-8").splitlines())


def text_of(item: Item) -> str:
    """The text of a message."""
    return "".join(part["text"] for part in item["content"])


def _ended(status: str) -> str:
    return "interrupted" if status == "inProgress" else status


SOCKET: Final = "app-server-control/app-server-control.sock"


class Declines(Exception):
    """An error for the client, in the real one's words."""


class FakeServer:
    """One process's life."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._book = Book(home)
        self._knobs: dict[str, Any] = {"version": "0.171.0", "record_ms": 20, "ask_ms": 20, "reply_ms": 20}
        self._faults: dict[str, str] = {}
        self._clients: dict[ServerConnection, bool] = {}
        self._requests: list[dict[str, Any]] = []
        self._answers: list[Any] = []
        self._work: set[asyncio.Task[None]] = set()

    async def meet(self, client: ServerConnection) -> None:
        """Serve one connection until it ends."""
        self._clients[client] = False
        try:
            with contextlib.suppress(ConnectionClosed):
                async for frame in client:
                    await self._take(client, json.loads(frame))
        finally:
            del self._clients[client]

    async def _take(self, client: ServerConnection, asked: Mapping[str, Any]) -> None:
        method = asked.get("method")
        if method is None:
            self._answers.append(asked)
            return
        if "id" not in asked:
            return
        told = asked.get("params") or {}
        if not method.startswith("fake/"):
            self._requests.append({"method": method, "params": told})
        fault = self._faults.pop(method, "")
        if _goes_wrong(client, fault, "before"):
            return
        try:
            answer = {"result": await self._answered(client, method, told, fault)}
        except Declines as no:
            answer = {"error": {"code": -32600, "message": str(no)}}
        if not _goes_wrong(client, fault, "after"):
            await client.send(json.dumps({"id": asked["id"], **answer}))

    async def _answered(self, client: ServerConnection, method: str, told: Mapping[str, Any], fault: str) -> Any:
        if fault and not fault.startswith(("die_", "drop_", "silent_", "busy_", "approval_")):
            raise Declines(fault)
        if method == "initialize":
            if self._clients[client]:
                raise Declines("Already initialized")
            self._clients[client] = True
            return {"userAgent": f"codex-tui/{self._knobs['version']} (fake; x86_64)", "codexHome": str(self._home)}
        if method.startswith("fake/"):
            return await self._play(method, told)
        if not self._clients[client]:
            raise Declines("Not initialized")
        if method == "thread/loaded/list":
            return {"data": [one.id for one in self._book.threads.values() if one.status != "notLoaded"]}
        thread = self._book.threads.get(str(told.get("threadId")))
        if thread is None:
            raise Declines(f"thread not loaded: {told.get('threadId')}")
        if method.startswith("turn/"):
            return self._turn(method, thread, told, fault)
        return _read(method, thread, told)

    def _turn(self, method: str, thread: FakeThread, told: Mapping[str, Any], fault: str) -> Any:
        if thread.status == "notLoaded":
            raise Declines(f"thread not found: {thread.id}")
        texts = [one["text"] for one in told.get("input") or ()]
        said = message("".join(texts), told.get("clientUserMessageId")) if texts else None
        if fault in {"busy_before", "approval_before"}:
            self._scene({"threadId": thread.id, "scene": fault.partition("_")[0]})
        running = thread.running
        if method == "turn/steer":
            if running is None:
                raise Declines("no active turn to steer")
            if running.id != told.get("expectedTurnId"):
                raise Declines(f"expected active turn id `{told.get('expectedTurnId')}` but found `{running.id}`")
            self._add(thread, running, said)
            return {"turnId": running.id}
        if running is not None:
            self._add(thread, running, said)
            return {"turn": {"id": running.id, "items": [], "status": "inProgress"}}
        begun = Turn(str(uuid.uuid4()))
        thread.turns.append(begun)
        self._change(thread, "active")
        self._go_on(self._runs(thread, begun, said, fault))
        return {"turn": {"id": begun.id, "items": [], "status": "inProgress"}}

    def _add(self, thread: FakeThread, running: Turn, said: Item | None) -> None:
        """To a turn that answers at once; behind a dialog it waits, and is on no disk."""
        if said is None:
            return
        if thread.flags:
            thread.pending.append(said)
            return
        running.items.append(said)
        self._book.keep()
        self._book.ask_model(thread)

    async def _runs(self, thread: FakeThread, turn: Turn, said: Item | None, fault: str) -> None:
        self._book.keep()
        if fault == "die_begun":
            _die()
        await asyncio.sleep(self._knobs["record_ms"] / 1000)
        if said is not None:
            turn.items.append(said)
            self._book.keep()
        if fault == "die_recorded":
            _die()
        await asyncio.sleep(self._knobs["ask_ms"] / 1000)
        self._book.ask_model(thread)
        if fault == "die_asked":
            _die()
        await asyncio.sleep(self._knobs["reply_ms"] / 1000)
        turn.items.append(reply())
        turn.status = "completed"
        self._book.keep()
        self._change(thread, "idle")

    async def _play(self, method: str, told: Mapping[str, Any]) -> Any:
        if method == "fake/next":
            self._faults[told["method"]] = told["fault"]
        elif method == "fake/set":
            self._knobs |= told
        elif method == "fake/ask":
            asked = {"id": 0, "method": "item/commandExecution/requestApproval", "params": dict(told)}
            await self._push(asked)
        elif method == "fake/thread":
            self._scene(told)
        elif method == "fake/queue":
            thread = self._book.threads[told["threadId"]]
            thread.queue.append({"input": [{"type": "text", "text": told["text"]}]})
            self._book.keep()
            if told.get("resume"):
                self._scene({"threadId": thread.id, "scene": "idle"})
        else:
            return {"requests": self._requests, "answers": self._answers}
        return {}

    def _scene(self, told: Mapping[str, Any]) -> None:
        thread = self._book.threads.setdefault(told["threadId"], FakeThread(told["threadId"]))
        thread.cwd = told.get("cwd", thread.cwd)
        thread.ephemeral = told.get("ephemeral", thread.ephemeral)
        scene = told.get("scene", "idle")
        if thread.running is None and scene in {"busy", "approval"}:
            thread.turns.append(Turn(str(uuid.uuid4()), items=[message("hello", None)]))
        thread.flags = ("waitingOnApproval",) if scene == "approval" else ()
        if thread.running is not None and not thread.flags and thread.pending:
            thread.running.items += thread.pending
            thread.pending = []
            self._book.ask_model(thread)
        if scene in {"idle", "notLoaded"} and thread.running is not None:
            thread.running.status = "completed"
        status = {"busy": "active", "approval": "active"}.get(scene, scene)
        self._change(thread, status)
        if scene == "idle" and thread.queue:
            queued = thread.queue.pop(0)
            begun = Turn(str(uuid.uuid4()))
            thread.turns.append(begun)
            self._change(thread, "active")
            self._go_on(self._runs(thread, begun, message(queued["input"][0]["text"], str(uuid.uuid4())), ""))
        self._book.keep()

    def _change(self, thread: FakeThread, status: str) -> None:
        thread.status = status
        told = {"threadId": thread.id, "status": thread.described()["status"]}
        self._go_on(self._push({"method": "thread/status/changed", "params": told}))

    async def _push(self, told: Mapping[str, Any]) -> None:
        for client in [client for client, initialized in self._clients.items() if initialized]:
            await client.send(json.dumps(told))

    def _go_on(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _read(method: str, thread: FakeThread, told: Mapping[str, Any]) -> Any:
    if method == "thread/read":
        return {"thread": thread.described()}
    if method == "thread/queue/list":
        return {"data": thread.queue, "nextCursor": None}
    if not thread.turns:
        raise Declines(f"thread {thread.id} is not materialized yet; {method} is unavailable before first user message")
    first = int(told.get("cursor") or 0)
    if method == "thread/turns/list":
        turns = reversed(thread.turns)
        found: list[Any] = [{"id": one.id, "status": one.status, "items": one.items} for one in turns]
    elif method == "thread/items/list":
        items = [(turn, one) for turn, one in thread.items if told.get("turnId") in {None, turn.id}]
        ordered = reversed(items) if told.get("sortDirection") == "desc" else iter(items)
        found = [{"turnId": turn.id, "item": one, "startedAtMs": one["startedAtMs"]} for turn, one in ordered]
    else:
        raise Declines(f"Invalid request: unknown variant `{method}`, expected one of …")
    limit = first + int(told.get("limit") or 25)
    return {"data": found[first:limit], "nextCursor": str(limit) if found[limit:] else None}


def _goes_wrong(client: ServerConnection, fault: str, when: str) -> bool:
    """Whether the request ends here, before or after it was done."""
    if fault == f"die_{when}":
        _die()
    if fault == f"drop_{when}":
        client.transport.abort()
    return fault in {f"drop_{when}", f"silent_{when}"}


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def serve(home: Path, real: Path) -> None:
    """Listen at `real`, behind the link in `home`, until the process is ended; say so on stdout."""
    link = home / SOCKET
    link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for stale in (link, real):
        stale.unlink(missing_ok=True)
    link.symlink_to(real)
    async with unix_serve(FakeServer(home).meet, str(real), compression=None):
        print("listening", flush=True)
        await asyncio.Event().wait()
