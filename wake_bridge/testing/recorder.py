"""A bystander: a program in a pane that takes every byte it is sent, shows nothing of it, and writes it all down.

    python -m wake_bridge.testing.recorder FILE

Whatever should reach no pane at all must not reach this one either.
"""

from __future__ import annotations

import os
import sys
import tty
from pathlib import Path


def main() -> None:
    """Append everything from the terminal at stdin to the file, until the terminal is gone."""
    with Path(sys.argv[1]).open("ab", buffering=0) as record:
        tty.setraw(sys.stdin.fileno())
        os.write(sys.stdout.fileno(), b"recording\r\n")
        while chunk := os.read(sys.stdin.fileno(), 65536):
            record.write(chunk)


if __name__ == "__main__":
    main()
