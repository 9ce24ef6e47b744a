"""Settings that nobody prints: keys, and commands that contain one.

Where such a setting is written down again it is its SHA-256, by which two are compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_FINGERPRINT: Final = "sha256:"


class ConfiguredSecret:
    """A text that nobody prints: where it is written down again it is its SHA-256, by which two are compared."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for who needs it."""
        return self._text

    @property
    def fingerprint(self) -> str:
        """What may be written down."""
        if self._text.startswith(_FINGERPRINT):
            return self._text
        return f"{_FINGERPRINT}{hashlib.sha256(self._text.encode()).hexdigest()}"

    def __repr__(self) -> str:
        return "(withheld)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfiguredSecret) and other.fingerprint == self.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read from text; written as its fingerprint."""
        from pydantic_core import core_schema

        text = core_schema.str_schema(strict=True)
        written = core_schema.plain_serializer_function_ser_schema(lambda one: one.fingerprint)
        return core_schema.no_info_after_validator_function(cls, text, serialization=written)


class SecretArguments:
    """Program and arguments that nobody prints, as `ConfiguredSecret`."""

    __slots__ = ("_argv",)

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)

    def reveal(self) -> tuple[str, ...]:
        """The arguments themselves, for who runs them."""
        return self._argv

    @property
    def fingerprint(self) -> list[str]:
        """What may be written down."""
        is_written = len(self._argv) == 1 and self._argv[0].startswith(_FINGERPRINT)
        return list(self._argv) if is_written else [ConfiguredSecret(json.dumps(self._argv)).fingerprint]

    def __bool__(self) -> bool:
        return bool(self._argv)

    def __repr__(self) -> str:
        return "(withheld)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretArguments) and (
            other._argv == self._argv or other.fingerprint == self.fingerprint
        )

    def __hash__(self) -> int:
        return hash(tuple(self.fingerprint))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read from an array of texts; written as its fingerprint."""
        from pydantic_core import core_schema

        texts = core_schema.list_schema(core_schema.str_schema(strict=True), strict=True)
        written = core_schema.plain_serializer_function_ser_schema(lambda one: one.fingerprint)
        return core_schema.no_info_after_validator_function(cls, texts, serialization=written)
