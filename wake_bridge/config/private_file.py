"""A file of the user's own that commands change and the daemon reads: the links to other hosts, the tokens of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

from wake_bridge.config.senders import is_open_to_others
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.system.files import alone_with, make_private_directory, read_own_file, replace_file

Content = TypeVar("Content")

LONGEST: Final = 4 * 1024 * 1024
"""Bytes that are read of one at most."""


class PrivateFile(Generic[Content]):
    """Its content, read again when it has changed.

    Args:
        file: where it lies; its lock file lies beside it.
        content_of: makes the content of its bytes; raises `OSError` where they are none.
        nothing: the content where there is no file.
        what: what it is, for errors: the first words of a sentence.
        hint: what to do where it cannot be used.
    """

    def __init__(
        self, file: Path, content_of: Callable[[bytes], Content], nothing: Content, *, what: str, hint: str
    ) -> None:
        self._file = file
        self._content_of = content_of
        self._nothing = nothing
        self._what, self._hint = what, hint
        self._read_at: tuple[int, int, int] | None = None
        self._content = nothing

    def now(self) -> Content:
        """The content as it is now.

        Raises:
            OSError: the file cannot be read, or is not the user's alone.
        """
        try:
            found = self._file.stat()
        except FileNotFoundError:
            self._content, self._read_at = self._nothing, None
            return self._content
        version = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        if version != self._read_at:
            if is_open_to_others(self._file):
                raise PermissionError(1, f"others may read it: run `chmod 600 {self._file}`", str(self._file))
            self._content = self._content_of(read_own_file(self._file, LONGEST))
            self._read_at = version
        return self._content

    def known(self) -> Content:
        """The same, for a command. Raises `OperationFailed`."""
        try:
            return self.now()
        except OSError as refusal:
            raise self._unusable(refusal) from refusal

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time reads it and writes it anew, so that none writes over what another wrote. Raises `OperationFailed`."""
        make_private_directory(self._file.parent)
        with ExitStack() as held:
            try:
                held.enter_context(alone_with(self._file.with_suffix(".lock")))
            except OSError as refusal:
                raise self._unusable(refusal) from refusal
            yield

    def write(self, text: str) -> None:
        """Replace it, in one step. Raises `OperationFailed`."""
        try:
            replace_file(self._file, text)
        except OSError as refusal:
            raise self._unusable(refusal) from refusal
        self._read_at = None

    def _unusable(self, refusal: OSError) -> OperationFailed:
        return OperationFailed(f"{self._what} cannot be used ({refusal.strerror})", str(self._file), hint=self._hint)
