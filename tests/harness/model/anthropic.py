"""Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.harness.model.asked import Asked, texts_of
from tests.harness.model.protocols import USED, new_id, typed
from tests.harness.model.scenes import Call, Piece, Say


class Anthropic:
    """`POST /v1/messages`."""

    def serves(self, path: str) -> bool:
        return path.endswith("/messages")

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:  # noqa: ARG002 - other protocols need the path
        users: list[tuple[str, ...]] = []
        is_after_tool = False
        for message in body.get("messages", ()):
            content = message.get("content")
            if message.get("role") == "system" and (noticed := tuple(filter(_is_notice, texts_of(content)))):
                users.append(noticed)
            if message.get("role") != "user":
                continue
            parts = content if isinstance(content, list) else []
            texts = tuple(
                text
                for text in texts_of(content)
                if _is_notice(text) or not text.lstrip().startswith("<system-reminder>")
            )
            is_after_tool = not texts and any(part.get("type") == "tool_result" for part in parts)
            if texts:
                users.append(texts)
        wanted = (body.get("output_config") or {}).get("format") or {}
        tools = frozenset(str(tool["name"]) for tool in body.get("tools") or () if "name" in tool)
        return Asked("anthropic", tuple(users), is_after_tool, tools, bool(body.get("stream")), wanted.get("schema"))

    def streamed(self, pieces: Iterator[Piece]) -> Iterator[bytes]:
        usage = {"input_tokens": USED[0], "output_tokens": 1}
        yield typed("message_start", message={**_message(), "content": [], "stop_reason": None, "usage": usage})
        yield typed("content_block_start", index=0, content_block={"type": "text", "text": ""})
        calls: list[Call] = []
        for piece in pieces:
            if isinstance(piece, Say):
                yield typed("content_block_delta", index=0, delta={"type": "text_delta", "text": piece.text})
            else:
                calls.append(piece)
        yield typed("content_block_stop", index=0)
        for index, call in enumerate(calls, 1):
            yield typed("content_block_start", index=index, content_block={**_tool_use(call), "input": {}})
            written = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
            yield typed("content_block_delta", index=index, delta=written)
            yield typed("content_block_stop", index=index)
        ending = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        yield typed("message_delta", delta=ending, usage={"input_tokens": USED[0], "output_tokens": USED[1]})
        yield typed("message_stop")

    def whole(self, pieces: Iterator[Piece]) -> dict[str, Any]:
        said = list(pieces)
        text = "".join(piece.text for piece in said if isinstance(piece, Say))
        calls = [{**_tool_use(piece), "input": dict(piece.arguments)} for piece in said if isinstance(piece, Call)]
        usage = {"input_tokens": USED[0], "output_tokens": USED[1]}
        stop = "tool_use" if calls else "end_turn"
        return {**_message(), "content": [{"type": "text", "text": text}, *calls], "stop_reason": stop, "usage": usage}


def _is_notice(text: str) -> bool:
    """Whether it came from a monitor or a hook: in Claude Code that is a system's word, a turn of its own all the same."""
    return "<task-notification>" in text


def _message() -> dict[str, Any]:
    return {"id": new_id("msg"), "type": "message", "role": "assistant", "model": "mock-model", "stop_sequence": None}


def _tool_use(call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": new_id("toolu"), "name": call.tool}
