"""Who may use the page: one-time codes that `open` prints, and the session tokens that they are exchanged for.

A cookie would go to every port of localhost, and so to the agents' own dev servers. A token is sent by the page's own script.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wake_bridge.domain.names import DAY, MINUTE, Instant
from wake_bridge.system.files import read_own_file, replace_file

KEY_FILE: Final = "page.key"

CODE_LASTS: Final = 5 * MINUTE
"""Milliseconds in which a code must be used; it counts once."""

TOKEN_LASTS: Final = 7 * DAY
"""Milliseconds; a browser forgets the token with its tab."""

MOST_CODES: Final = 16
"""Codes that wait to be used; one more makes the oldest worthless."""

_BYTES: Final = 32
_LONGEST: Final = 200


class PageTokens:
    """Makes codes and tokens, and knows them again, also after a restart of the daemon: tokens are signed by a key on disk.

    Used by the daemon's thread and by the server's.

    Args:
        directory: the state directory, where the key lies in a file of the user's own.
        wall: the wall clock.
    """

    def __init__(self, directory: Path, wall: Callable[[], Instant]) -> None:
        self._file = directory / KEY_FILE
        self._wall = wall
        self._codes: dict[str, Instant] = {}
        self._lock = threading.Lock()

    def new_code(self) -> str:
        """A code for a link."""
        code = secrets.token_urlsafe(_BYTES)
        with self._lock:
            while len(self._codes) >= MOST_CODES:
                del self._codes[next(iter(self._codes))]
            self._codes[_digest(code)] = Instant(self._wall() + CODE_LASTS)
        return code

    def token_for(self, code: str) -> str | None:
        """A token for a code that was not used yet; None for any other. Raises `OSError` as `new_token` does."""
        # what is compared are digests, so the time that it takes tells nothing of a code
        with self._lock:
            ends_at = self._codes.pop(_digest(code[:_LONGEST]), None)
        return self.new_token() if ends_at is not None and self._wall() < ends_at else None

    def new_token(self) -> str:
        """A token. Raises `OSError` where the key cannot be read or written."""
        told = f"{self._wall() + TOKEN_LASTS}.{secrets.token_hex(16)}"
        return f"{told}.{_sign(self._key(), told)}"

    def is_valid(self, token: str) -> bool:
        """Whether we made it, and it has not run out."""
        told, _, signature = token[:_LONGEST].rpartition(".")
        try:
            right = _sign(self._key(), told)
        except OSError:
            return False
        if not hmac.compare_digest(right.encode(), signature.encode("utf-8", "replace")):
            return False
        return self._wall() < int(told.partition(".")[0])

    def forget_all(self) -> None:
        """Make every code and token worthless. Raises `OSError`."""
        with self._lock:
            self._codes.clear()
            self._write_key()

    def _key(self) -> bytes:
        with self._lock:
            try:
                key = bytes.fromhex(read_own_file(self._file).decode("ascii", "replace").strip())
            except (FileNotFoundError, ValueError):
                return self._write_key()
            return key if len(key) == _BYTES else self._write_key()

    def _write_key(self) -> bytes:
        key = secrets.token_bytes(_BYTES)
        replace_file(self._file, f"{key.hex()}\n")
        return key


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


def _sign(key: bytes, told: str) -> str:
    return hmac.new(key, told.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
