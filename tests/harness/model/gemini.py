"""Google's generateContent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.harness.model.asked import Asked, texts_of
from tests.harness.model.protocols import USED, event, new_id
from tests.harness.model.scenes import Piece, Say


class Gemini:
    """`POST …/models/MODEL:generateContent` and `:streamGenerateContent`."""

    def serves(self, path: str) -> bool:
        return path.endswith("enerateContent")

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:
        users: list[tuple[str, ...]] = []
        is_after_tool = False
        for content in body.get("contents") or ():
            if content.get("role", "user") != "user":
                continue
            parts = content.get("parts") or []
            is_after_tool = any("functionResponse" in part for part in parts)
            if not is_after_tool:
                users.append(texts_of(parts))
        wanted = body.get("generationConfig") or {}
        groups = [group.get("functionDeclarations") or () for group in body.get("tools") or ()]
        return Asked(
            "gemini",
            tuple(users),
            is_after_tool,
            frozenset(str(tool["name"]) for group in groups for tool in group),
            "streamGenerateContent" in path,
            wanted.get("responseJsonSchema") or wanted.get("responseSchema"),
        )

    def streamed(self, pieces: Iterator[Piece]) -> Iterator[bytes]:
        for piece in pieces:
            yield event(_answer([_part(piece)]))
        yield event(_answer([{"text": ""}], "STOP"))

    def whole(self, pieces: Iterator[Piece]) -> dict[str, Any]:
        return _answer([_part(piece) for piece in pieces], "STOP")


def _part(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, Say):
        return {"text": piece.text}
    return {"functionCall": {"name": piece.tool, "args": dict(piece.arguments), "id": new_id("fc")}}


def _answer(parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
    usage = {"promptTokenCount": USED[0], "candidatesTokenCount": USED[1], "totalTokenCount": sum(USED)}
    return {
        "candidates": [{**candidate, "finishReason": finish} if finish else candidate],
        "modelVersion": "mock-model",
        "responseId": new_id("r"),
        "usageMetadata": usage,
    }
