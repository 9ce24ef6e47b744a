"""One request to the model, reduced to what a scene needs to know, whatever the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program asked.

    Attributes:
        protocol: whose words it was said in.
        messages: the user's messages, oldest first, each as the texts it is made of.
        is_after_tool: the last thing said is what a tool answered.
        tool_says: that answer, where the scenes need it.
        tools: the tools that may be called.
        is_streamed: the answer is to come piece by piece.
        shape: the JSON schema that the answer must have, None where it is prose.
    """

    protocol: str
    messages: tuple[tuple[str, ...], ...]
    is_after_tool: bool = False
    tools: frozenset[str] = frozenset()
    is_streamed: bool = True
    shape: Mapping[str, Any] | None = field(default=None, hash=False)
    tool_says: str = ""

    @property
    def last(self) -> str:
        """The last message, its texts joined by newlines."""
        return "\n".join(self.messages[-1]) if self.messages else ""

    def offered(self, tool: str) -> str:
        """The tool of an MCP server that may be called, by the program's own name for it; empty where there is none."""
        return next((name for name in sorted(self.tools) if name.endswith(tool)), "")

    def behind_bridge(self, tool: str) -> str:
        """The same, of one that is only named in the conversation, and that Qwen Code calls by a tool of its own."""
        if not {"tool_search", "tool_call"} <= self.tools:
            return ""
        said = "\n".join(part for message in self.messages for part in message)
        found = re.search(rf'"(mcp__[\w-]+__{re.escape(tool)})"', said)
        return found.group(1) if found else ""

    def count(self, text: str) -> int:
        """How many texts of the whole conversation are exactly this one."""
        return sum(part == text for message in self.messages for part in message)

    def mentions(self, mark: str) -> int:
        """How many texts of the whole conversation hold the mark."""
        return sum(mark in part for message in self.messages for part in message)


def texts_of(content: Any) -> tuple[str, ...]:
    """The texts of a message's content: a plain string, or a list of parts of which some have a text."""
    if isinstance(content, str):
        return (content,) if content else ()
    parts = content if isinstance(content, list) else []
    return tuple(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))
