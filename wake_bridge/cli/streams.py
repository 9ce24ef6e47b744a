"""The three standard streams, made safe whatever started the program: closed, narrow, or without a reader."""

from __future__ import annotations

import io
import os
import sys

NOBODY_READS = 141
"""The exit code of a program whose reader went away."""

NO_ROOM = "the disk is full where the output goes"
"""What failed, where the system takes no more of it."""


def prepare_streams() -> None:
    """Let closed streams lead to nowhere, and a narrow locale turn no message into a fault."""
    _open_closed_streams()
    # what we write goes to the person's terminal
    encoding = None if "PYTHONIOENCODING" in os.environ else _narrow_locale()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def arguments_given() -> list[str]:
    """What was typed, also where it is no UTF-8 because the terminal speaks the locale's encoding."""
    encoding = _narrow_locale()
    return [_decoded(one, encoding) if encoding else one for one in sys.argv[1:]]


def _narrow_locale() -> str | None:
    """The locale's encoding, where `start` chose UTF-8 in spite of it; None elsewhere."""
    if "utf8" not in sys._xoptions:  # noqa: SLF001 - documented so
        return None
    import locale

    return locale.getencoding()


def _decoded(argument: str, encoding: str) -> str:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.fsencode(argument).decode(encoding, "surrogateescape")
    return argument


def stop_writing() -> None:
    """Give the interpreter somewhere to flush what nobody reads."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Let a stream that was closed (`>&-`) lead to nowhere: else its number goes to the next file that is opened."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
