"""ULIDs: ids that sort by time."""

from __future__ import annotations

from ulid import ULID


def new_ulid() -> str:
    """A new id of 26 characters."""
    return str(ULID())
