"""ULIDs: ids that sort by time."""

from __future__ import annotations


def new_ulid() -> str:
    """A new id of 26 characters."""
    from ulid import ULID  # noqa: PLC0415 - a tenth of a short command, and most commands make no id

    return str(ULID())
