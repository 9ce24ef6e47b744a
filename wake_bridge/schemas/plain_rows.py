"""What hosts tell each other that needs no models: which mail is meant, and flat records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from wake_bridge.domain.hosts import MailThere
from wake_bridge.domain.names import Identity

_LONGEST: Final = 500


def mail_elsewhere(mail: Iterable[MailThere]) -> list[dict[str, str]]:
    """As it is asked for, and told."""
    return [{"agentIdentity": one.identity, "messageId": one.message_id} for one in mail]


def mail_from(told: object) -> list[MailThere]:
    """As the other host has written it; what is none stands for nobody's mail."""
    return [
        MailThere(Identity(str(one.get("agentIdentity", ""))), str(one.get("messageId", "")))
        if isinstance(one, dict)
        else MailThere(Identity(""), "")
        for one in (told if isinstance(told, list) else ())
    ]


def rows_elsewhere(rows: object, names: Iterable[str]) -> list[dict[str, Any]]:
    """Records that another host has made, as far as they are flat: the fields of these names, texts shortened, else null."""
    wanted = tuple(names)
    return [
        {name: _flat(one.get(name)) for name in wanted}
        for one in (rows if isinstance(rows, list) else ())
        if isinstance(one, dict)
    ]


def _flat(value: object) -> object:
    if isinstance(value, list):
        return [one[:_LONGEST] for one in value if isinstance(one, str)]
    return value[:_LONGEST] if isinstance(value, str) else value if isinstance(value, int | None) else None
