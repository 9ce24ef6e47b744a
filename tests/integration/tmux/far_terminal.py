"""Plays `docker exec -it BOX COMMAND…`: the command has a terminal of its own, and is no child of what shows it here.

Called as a script of the carrier's name, for that is what it is recognised by.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import sys
import termios
import tty

SCRIPT = "#!{python}\nfrom tests.integration.tmux.far_terminal import carry\ncarry()\n"


def carry() -> None:
    """Start the command behind `exec -it BOX`, whose parent goes away, and show its terminal until it ends."""
    ours, theirs = pty.openpty()
    size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(ours)
            os.login_tty(theirs)
            os.execvp(sys.argv[4], sys.argv[4:])
        os._exit(0)
    os.wait()
    os.close(theirs)
    tty.setraw(0)
    while True:
        for ready in select.select([0, ours], [], [])[0]:
            try:
                data = os.read(ready, 65536)
            except OSError:
                return
            if not data:
                return
            os.write(ours if ready == 0 else 1, data)
