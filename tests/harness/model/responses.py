"""OpenAI's Responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.harness.model.asked import Asked, texts_of
from tests.harness.model.protocols import USED, new_id, typed
from tests.harness.model.scenes import Call, Piece, Say

_NOT_THE_PERSON: Final = ("<environment_context>", "<user_instructions>", "# AGENTS.md")
"""How messages begin that the program itself puts into the user's mouth."""


_WITHIN: Final = "."


class Responses:
    """`POST /v1/responses`."""

    def serves(self, path: str) -> bool:
        return path.endswith("/responses")

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:  # noqa: ARG002 - other protocols need the path
        given = body.get("input") or ()
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        users: list[tuple[str, ...]] = []
        is_after_tool, tool_says = False, ""
        for item in items:
            texts = texts_of(item.get("content"))
            if item.get("role") == "user" and not "".join(texts).startswith(_NOT_THE_PERSON):
                users.append(texts)
                is_after_tool = False
            elif str(item.get("type", "")).endswith("_output"):
                is_after_tool, tool_says = True, str(item.get("output", ""))
        wanted = (body.get("text") or {}).get("format") or {}
        tools = frozenset(name for tool in body.get("tools") or () for name in _names(tool))
        is_streamed = bool(body.get("stream"))
        return Asked("responses", tuple(users), is_after_tool, tools, is_streamed, wanted.get("schema"), tool_says)

    def streamed(self, pieces: Iterator[Piece]) -> Iterator[bytes]:
        head = _head()
        item = {"id": new_id("msg"), "type": "message", "role": "assistant"}
        where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        yield typed("response.created", response={**head, "status": "in_progress"})
        yield typed("response.output_item.added", output_index=0, item={**item, "status": "in_progress", "content": []})
        yield typed("response.content_part.added", **where, part={"type": "output_text", "text": "", "annotations": []})
        said: list[Piece] = []
        for piece in pieces:
            said.append(piece)
            if isinstance(piece, Say):
                yield typed("response.output_text.delta", **where, delta=piece.text)
        output = _output(item, said)
        yield typed("response.output_text.done", **where, text=output[0]["content"][0]["text"])
        for index, one in enumerate(output):
            if index:
                yield typed("response.output_item.added", output_index=index, item=one)
            yield typed("response.output_item.done", output_index=index, item=one)
        yield typed("response.completed", response=_completed(head, output))

    def whole(self, pieces: Iterator[Piece]) -> dict[str, Any]:
        return _completed(_head(), _output({"id": new_id("msg"), "type": "message", "role": "assistant"}, list(pieces)))


def _head() -> dict[str, Any]:
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "model": "mock-model",
        "output": [],
    }


def _completed(head: Mapping[str, Any], output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": USED[0],
        "output_tokens": USED[1],
        "total_tokens": sum(USED),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {**head, "status": "completed", "output": output, "usage": usage}


def _output(item: Mapping[str, Any], said: list[Piece]) -> list[dict[str, Any]]:
    text = "".join(piece.text for piece in said if isinstance(piece, Say))
    content = [{"type": "output_text", "text": text, "annotations": []}]
    calls = [_function_call(piece) for piece in said if isinstance(piece, Call)]
    return [{**item, "status": "completed", "content": content}, *calls]


def _names(tool: Mapping[str, Any]) -> list[str]:
    """What a tool is called; those of an MCP server stand in a namespace of their own."""
    name = str(tool.get("name", tool.get("type")))
    return [name, *(f"{name}{_WITHIN}{inner['name']}" for inner in tool.get("tools") or ())]


def _function_call(call: Call) -> dict[str, Any]:
    namespace, _, name = call.tool.rpartition(_WITHIN)
    written = {"name": name, "arguments": json.dumps(call.arguments), "status": "completed"}
    if namespace:
        written["namespace"] = namespace
    return {"id": new_id("fc"), "call_id": new_id("call"), "type": "function_call", **written}
