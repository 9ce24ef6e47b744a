"""Tokens of sources: made and replaced by a command, known again by the server, kept in a file of the user's own."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from wake_bridge.config.senders import is_open_to_others
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.system.files import alone_with, make_private_directory, read_own_file, replace_file

TOKENS_FILE: Final = "sources.json"
FIRST_SOURCE: Final = "inbox"
"""The source of the token that the first `serve` makes."""

_LOCK_FILE: Final = "sources.lock"
_BYTES: Final = 32
_LONGEST_FILE: Final = 1024 * 1024


def has_source_tokens(directory: Path) -> bool:
    """Whether a source has a token that can be used."""
    try:
        return bool(SourceTokens(directory).now())
    except OSError:
        return False


class SourceTokens:
    """The tokens of a state directory, by source. The file is read again when it has changed.

    Args:
        directory: the state directory.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / TOKENS_FILE
        self._read_at: tuple[int, int, int] | None = None
        self._tokens: Mapping[str, str] = {}

    def now(self) -> Mapping[str, str]:
        """All of them, as they are now; none where there is no file.

        Raises:
            OSError: the file cannot be read, or is not the user's alone.
        """
        try:
            found = self._file.stat()
        except FileNotFoundError:
            self._tokens, self._read_at = {}, None
            return self._tokens
        version = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        if version != self._read_at:
            if is_open_to_others(self._file):
                raise PermissionError(1, f"others may read it: run `chmod 600 {self._file}`", str(self._file))
            self._tokens = _read(read_own_file(self._file, _LONGEST_FILE))
            self._read_at = version
        return self._tokens

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
        with self._alone():
            self._write({**self.known(), source: token})
        return token

    def forget(self, source: str) -> bool:
        """Take the token of a source away; answers whether it had one. Raises `OperationFailed`."""
        with self._alone():
            known = dict(self.known())
            if known.pop(source, None) is None:
                return False
            self._write(known)
        return True

    def known(self) -> Mapping[str, str]:
        """The same as `now`, for a command. Raises `OperationFailed`."""
        try:
            return self.now()
        except OSError as refusal:
            raise _unusable(refusal, self._file) from refusal

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time reads and writes them, so that none writes over another's token."""
        make_private_directory(self._file.parent)
        with ExitStack() as held:
            try:
                held.enter_context(alone_with(self._file.with_name(_LOCK_FILE)))
            except OSError as refusal:
                raise _unusable(refusal, self._file) from refusal
            yield

    def _write(self, tokens: Mapping[str, str]) -> None:
        try:
            replace_file(self._file, json.dumps(dict(sorted(tokens.items())), indent=1))
        except OSError as refusal:
            raise _unusable(refusal, self._file) from refusal
        self._read_at = None


def _unusable(refusal: OSError, file: Path) -> OperationFailed:
    return OperationFailed(
        f"the tokens of sources cannot be used ({refusal.strerror})",
        str(file),
        hint="make this user its owner, with nobody else's access; what is no JSON must be removed, and each source given a new token",
    )


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
