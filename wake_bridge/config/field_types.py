"""The types of keys, with their units, and what all tables of the configuration have in common."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wake_bridge.domain.names import AttentionKind, WakePolicy, is_identity


def _checked_identity(name: str) -> str:
    if not is_identity(name):
        raise ValueError("must be an identity such as @neo-gpt")
    return name


IdentityName = Annotated[str, AfterValidator(_checked_identity)]
"""How an identity is spelt: `@login`."""

Texts = Annotated[tuple[str, ...], Field(strict=False)]
"""A TOML array of strings."""

Identities = Annotated[tuple[IdentityName, ...], Field(strict=False)]
"""A TOML array of identities."""

SECONDS: Final = "seconds"
"""The unit of a key, beside its type."""

Seconds = Annotated[float, SECONDS]
WholeSeconds = Annotated[int, SECONDS]
Days = Annotated[int, "days"]

Window = Annotated[int, SECONDS, Field(ge=0, le=300)]
"""How long a subscription collects before it wakes."""

AttentionKinds = Annotated[tuple[Annotated[AttentionKind, Field(strict=False)], ...], Field(strict=False)]
"""A TOML array of what an agent can stand at."""

Policy = Annotated[WakePolicy, Field(strict=False)]


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", name):
        raise ValueError("must be letters, digits, - and _")
    return name


PlainName = Annotated[str, AfterValidator(_checked_name)]
"""How a sender, a source or a channel may be called."""


class Table(BaseModel):
    """What all tables have in common: fixed once read, no unknown keys, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
