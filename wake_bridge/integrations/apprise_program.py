"""Hands one message to Apprise, in a process of its own: `python -m …`, with the URL on stdin; exit 0 only where it was taken.

Without a message it only looks at the URL.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

UNKNOWN_SERVICE: Final = 2
"""The exit status where the URL means no service."""


def main() -> int:
    """Send what stdin says: `url`, `title`, `body`. 0: the service took it; 1: it did not; 2: the URL means no service.

    Where stdin has a `url` alone nothing is sent, and 0 means that it is well formed.
    """
    # they log recipients
    logging.disable(logging.CRITICAL)
    from apprise import Apprise, NotifyType  # noqa: PLC0415 - an extra, and the log must be off before it

    asked = json.load(sys.stdin)
    services = Apprise()
    if not services.add(asked["url"]):
        return UNKNOWN_SERVICE
    if "title" not in asked:
        return 0
    return 0 if services.notify(title=asked["title"], body=asked["body"], notify_type=NotifyType.INFO) else 1


if __name__ == "__main__":
    sys.exit(main())
