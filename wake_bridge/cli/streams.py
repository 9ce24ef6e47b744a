"""The three standard streams, made fit for whatever started the program: closed, narrow, or with nobody at the other end."""

from __future__ import annotations

import io
import os
import sys

NOBODY_READS = 141
"""The exit code of a program whose reader went away."""


def prepare_streams() -> None:
    """Let closed streams lead to nowhere, and a narrow locale turn no message into a fault."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
