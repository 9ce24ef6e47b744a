"""OpenAI's Chat Completions, which most others speak as well."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tests.harness.model.asked import Asked, texts_of
from tests.harness.model.protocols import USED, event, new_id
from tests.harness.model.scenes import Call, Piece, Say


class ChatCompletions:
    """`POST /v1/chat/completions`."""

    def serves(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:  # noqa: ARG002 - other protocols need the path
        messages = body.get("messages") or []
        users = [texts_of(message.get("content")) for message in messages if message.get("role") == "user"]
        tools = frozenset(str(tool["function"]["name"]) for tool in body.get("tools") or () if "function" in tool)
        is_after_tool = bool(messages) and messages[-1].get("role") == "tool"
        return Asked("completions", tuple(users), is_after_tool, tools, bool(body.get("stream")))

    def streamed(self, pieces: Iterator[Piece]) -> Iterator[bytes]:
        head = {**_head(), "object": "chat.completion.chunk"}

        def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return event({**head, "choices": [choice], **({"usage": _usage()} if reason else {})})

        yield chunk({"role": "assistant", "content": ""})
        reason = "stop"
        for piece in pieces:
            if isinstance(piece, Say):
                yield chunk({"content": piece.text})
            else:
                reason = "tool_calls"
                yield chunk({"tool_calls": [_tool_call(piece)]})
        yield chunk({}, reason)
        yield b"data: [DONE]\n\n"

    def whole(self, pieces: Iterator[Piece]) -> dict[str, Any]:
        said = list(pieces)
        calls = [_tool_call(piece) for piece in said if isinstance(piece, Call)]
        text = "".join(piece.text for piece in said if isinstance(piece, Say))
        message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return {**_head(), "object": "chat.completion", "choices": [choice], "usage": _usage()}


def _head() -> dict[str, Any]:
    return {"id": new_id("chatcmpl"), "created": int(time.time()), "model": "mock-model"}


def _usage() -> dict[str, int]:
    return {"prompt_tokens": USED[0], "completion_tokens": USED[1], "total_tokens": sum(USED)}


def _tool_call(call: Call) -> dict[str, Any]:
    written = {"name": call.tool, "arguments": json.dumps(call.arguments)}
    return {"index": 0, "id": new_id("call"), "type": "function", "function": written}
