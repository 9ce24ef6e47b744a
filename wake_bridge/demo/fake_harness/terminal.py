"""A terminal program that is a client of the server: `python terminal.py SOCKET`, under the name it is given.

It needs nothing but the standard library, for it runs under another name than its interpreter's.
"""

import socket
import sys
import time
from collections.abc import Callable

_GREETING = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_AGAIN = 0.05
"""Seconds before a server that is away is called again."""


def stay_connected(path: str, connected: Callable[[], None] = lambda: None) -> None:
    """Be a client for ever, also of the server that comes after one that has ended; `connected` is called each time."""
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(path)
                link.sendall(_GREETING)
                if link.recv(4096):
                    connected()
                while link.recv(4096):
                    pass
        except OSError:
            pass
        time.sleep(_AGAIN)


if __name__ == "__main__":
    stay_connected(sys.argv[1], lambda: print("connected", flush=True))
