"""OpenCode's conversations, which it calls sessions: which one its program shows, and how that stands.

The server does not say what the program shows. The program itself does, by the title of its window: `OC | ` and the
conversation's title, `OpenCode` on its first screen and until a conversation has a title (seen on 1.18.33).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wake_bridge.domain.presence import Evidence, PresenceSource, PresenceState
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.opencode.server import OpenCodeServer

HARNESS: Final = "opencode"

_SHOWS: Final = "OC | "
_LONGEST: Final = 40
_KEPT: Final = 37
"""UTF-16 units of a title: a longer one than the first loses all behind the second."""

_UNTITLED: Final = re.compile(r"(New session|Child session) - \d{4}-\d\d-\d\dT[\d:.]+Z")
"""What a conversation is called before it has a title."""

_ID: Final = re.compile(r"ses_[A-Za-z0-9]{8,64}")

_LISTED: Final = "500"
"""Conversations that are listed, the newest first: an older one of the same title would be taken for the only one."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session as the server lists it; `parent` is empty of one that a person began."""

    id: str
    title: str
    parent: str = ""

    @property
    def window_title(self) -> str:
        """How a program that shows it calls its window; empty where that tells nothing."""
        if not self.title or _UNTITLED.fullmatch(self.title):
            return ""
        units = self.title.encode("utf-16-le", "surrogatepass")
        is_long = len(units) > 2 * _LONGEST
        shown = units[: 2 * _KEPT].decode("utf-16-le", "replace") + "…" if is_long else self.title
        return f"{_SHOWS}{shown}"


async def all_conversations(connection: OpenCodeServer) -> list[Conversation]:
    """Those of the program's directory, the newest first. Raises `AnswerLost` and `Declined`."""
    answer = await connection.get("/session", limit=_LISTED)
    found = [
        Conversation(str(one["id"]), str(one.get("title") or ""), str(one.get("parentID") or ""))
        for one in answer
        if isinstance(one, dict) and _ID.fullmatch(str(one.get("id")))
    ]
    return found if isinstance(answer, list) else []


def shown_by(title: str, conversations: Sequence[Conversation]) -> list[Conversation]:
    """The conversations that a window of that title may show."""
    return [one for one in conversations if one.window_title and one.window_title == title]


@dataclass(frozen=True, slots=True)
class ConversationStanding:
    """How a conversation stands: `status` in the server's word, `asks` what a person is to answer, `turn_id` of the running turn."""

    status: str
    asks: str = ""
    turn_id: str = ""

    @property
    def is_at_rest(self) -> bool:
        """Whether no turn runs and nothing is asked."""
        return self.status == "idle" and not self.asks

    @property
    def evidence(self) -> Evidence:
        """The server's own word, as it weighs for presence."""
        vote = PresenceState.ACTIVE
        if self.asks:
            vote = PresenceState.WAITING_ON_APPROVAL
        elif self.status == "idle":
            vote = PresenceState.IDLE
        elif self.status not in {"busy", "retry"}:
            vote = PresenceState.UNKNOWN
        saw = " ".join(word for word in (self.status, self.asks) if word)
        return Evidence("session-status", vote, saw, "session", PresenceSource.OPENCODE_SERVER)


async def standing_of(
    connection: OpenCodeServer, conversation: Conversation, conversations: Sequence[Conversation]
) -> ConversationStanding:
    """How it stands, with what it has begun for itself: a sub-agent asks on the same screen.

    Raises:
        AnswerLost: no answer.
        Declined: an error.
    """
    family = _family_of(conversation.id, conversations)
    # what is asked ends before the turn does: read first, it is never missed between the two
    asks = await _asked_by(family, connection)
    statuses = await connection.get("/session/status")
    standing = [_type_of(statuses.get(one)) for one in family] if isinstance(statuses, dict) else ["?"]
    busy = next((one for one in standing if one != "idle"), "idle")
    turn_id = await _running_turn(connection, conversation.id) if busy != "idle" else ""
    return ConversationStanding(busy, asks, turn_id)


def _type_of(status: Any) -> str:
    """The server lists only those that are at something."""
    if status is None:
        return "idle"
    return str(status.get("type", "?")) if isinstance(status, dict) else "?"


async def _asked_by(family: frozenset[str], connection: OpenCodeServer) -> str:
    for what in ("permission", "question"):
        pending = await connection.get(f"/{what}")
        if any(isinstance(one, dict) and one.get("sessionID") in family for one in pending):
            return what
    return ""


def _family_of(root: str, conversations: Sequence[Conversation]) -> frozenset[str]:
    family = {root}
    while found := {one.id for one in conversations if one.parent in family} - family:
        family |= found
    return frozenset(family)


async def _running_turn(connection: OpenCodeServer, conversation: str) -> str:
    """The person's message that is being answered."""
    latest = await messages_of(connection, conversation, 1)
    info = latest[-1].get("info") or {} if latest else {}
    return str(info.get("parentID") or info.get("id") or "")


async def messages_of(connection: OpenCodeServer, conversation: str, limit: int) -> list[Mapping[str, Any]]:
    """The last messages, the newest last. Raises `AnswerLost` and `Declined`."""
    answer = await connection.get(f"/session/{conversation}/message", limit=str(limit))
    return [one for one in answer if isinstance(one, dict)] if isinstance(answer, list) else []
