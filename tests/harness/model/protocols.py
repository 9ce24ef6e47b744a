"""What the four model protocols have in common: a request is read, an answer is written piece by piece."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from tests.harness.model.asked import Asked
from tests.harness.model.scenes import Piece

USED: Final = (1200, 20)
"""Tokens read and written, as every answer claims."""

_numbers = itertools.count(1)


class ModelProtocol(Protocol):
    """One provider's way to ask and to answer."""

    def serves(self, path: str) -> bool:
        """Whether a request to this path is one of the protocol's."""
        ...

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:
        """What was asked."""
        ...

    def streamed(self, pieces: Iterator[Piece]) -> Iterator[bytes]:
        """The answer as server-sent events."""
        ...

    def whole(self, pieces: Iterator[Piece]) -> dict[str, Any]:
        """The answer as one object."""
        ...


def new_id(kind: str) -> str:
    """An id that no other answer has."""
    return f"{kind}_{next(_numbers):06d}"


def event(data: Mapping[str, Any], name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def typed(kind: str, **fields: Any) -> bytes:
    """An event that says its kind twice, as Anthropic's and OpenAI's do."""
    return event({"type": kind, **fields}, kind)
