"""What hosts send each other without models: which messages are meant, and flat rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from wake_bridge.domain.hosts import MailThere
from wake_bridge.domain.names import Identity

LONGEST: Final = 500
"""Characters of a text that are kept of what another host says."""


def mail_elsewhere(mail: Iterable[MailThere]) -> list[dict[str, str]]:
    """Messages, as one host names them to another."""
    return [{"agentIdentity": one.identity, "messageId": one.message_id} for one in mail]


def mail_from(told: object) -> list[MailThere]:
    """The messages that another host names, in its order; an entry that names none becomes a message to nobody."""
    return [
        MailThere(Identity(str(one.get("agentIdentity", ""))), str(one.get("messageId", "")))
        if isinstance(one, dict)
        else MailThere(Identity(""), "")
        for one in (told if isinstance(told, list) else ())
    ]


def rows_elsewhere(rows: object, names: Iterable[str]) -> list[dict[str, Any]]:
    """Rows that another host sent, with these fields alone: texts are shortened, and a value that is not flat is null."""
    wanted = tuple(names)
    return [
        {name: _flat(one.get(name)) for name in wanted}
        for one in (rows if isinstance(rows, list) else ())
        if isinstance(one, dict)
    ]


def _flat(value: object) -> object:
    if isinstance(value, list):
        return [one[:LONGEST] for one in value if isinstance(one, str)]
    return value[:LONGEST] if isinstance(value, str) else value if isinstance(value, int | None) else None
