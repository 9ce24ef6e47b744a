"""Tokens of sources: made and replaced by a command, known again by the server, kept in a file of the user's own."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wake_bridge.config.private_file import PrivateFile

TOKENS_FILE: Final = "sources.json"
FIRST_SOURCE: Final = "inbox"
"""The source of the token that the first `serve` makes."""

_UNUSABLE: Final = "make this user its owner, with nobody else's access; what is no JSON must be removed, and each source given a new token"
_BYTES: Final = 32


def has_source_tokens(directory: Path) -> bool:
    """Whether a source has a token that can be used."""
    try:
        return bool(SourceTokens(directory).now())
    except OSError:
        return False


class SourceTokens(PrivateFile[Mapping[str, str]]):
    """The tokens of a state directory, by source.

    Args:
        directory: the state directory.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / TOKENS_FILE, _read, {}, what="the tokens of sources", hint=_UNUSABLE)

    def source_of(self, token: str) -> str | None:
        """Whose a token is. Takes as long for a wrong one as for a right one. Raises `OSError`."""
        asked, whose = _digest(token), None
        for source, known in self.now().items():
            if hmac.compare_digest(_digest(known), asked):
                whose = source
        return whose

    def renew(self, source: str) -> str:
        """Make a token for a source; the one that it had is worth nothing from then on.

        Raises:
            OperationFailed: the file cannot be read or written.
        """
        token = f"wbs_{secrets.token_urlsafe(_BYTES)}"
        with self.alone():
            self._write({**self.known(), source: token})
        return token

    def forget(self, source: str) -> bool:
        """Take the token of a source away; answers whether it had one. Raises `OperationFailed`."""
        with self.alone():
            known = dict(self.known())
            if known.pop(source, None) is None:
                return False
            self._write(known)
        return True

    def _write(self, tokens: Mapping[str, str]) -> None:
        self.write(json.dumps(dict(sorted(tokens.items())), indent=1))


def _read(text: bytes) -> Mapping[str, str]:
    try:
        tokens = json.loads(text)
    except ValueError as broken:
        raise OSError(22, f"it is no JSON ({broken})") from broken
    if not isinstance(tokens, dict) or not all(isinstance(one, str) and one for one in tokens.values()):
        raise OSError(22, "it is no table of tokens")
    return tokens


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
