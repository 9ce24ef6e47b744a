"""The fake's threads: what of them is in memory, and what is on disk and stays."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
