"""Reading what tmux prints without trusting any separator.

Titles, window names and pane options are other people's text. Fields and records are therefore told apart by a word
that nobody can know in advance, made anew for every call.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field


def _new_word() -> str:
    return f"~{secrets.token_hex(8)}~"


@dataclass(frozen=True, slots=True)
class Separators:
    """The unforeseeable words of one call."""

    between_fields: str = field(default_factory=_new_word)
    between_records: str = field(default_factory=_new_word)

    def template(self, names: Sequence[str]) -> str:
        """A tmux format that prints the named formats as one record.

        A name that is not a bare format name is used as it stands.
        """
        formats = [f"#{{{name}}}" if name.replace("_", "").replace("@", "").isalnum() else name for name in names]
        return self.between_fields.join(formats) + self.between_records

    def records(self, text: str, names: Sequence[str]) -> list[dict[str, str]]:
        """The records in `text` by field name; a record with another number of fields is left out."""
        found = []
        for record in text.split(self.between_records)[:-1]:
            values = record.lstrip("\n").split(self.between_fields)
            if len(values) == len(names):
                found.append(dict(zip(names, values, strict=True)))
        return found
