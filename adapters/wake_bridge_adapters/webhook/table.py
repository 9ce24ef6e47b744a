"""The table of the webhooks in the configuration, as a model."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from wake_bridge_adapters.webhook.addresses import why_not_allowed


class WebhookConfig(BaseModel):
    """`[adapters.webhook]`: needs the extra `webhook`: docs/webhook.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="post wakes to the receivers that subscriptions name")
    allow: tuple[str, ...] = Field(
        (), description="networks and hosts that are not public and may get posts; a host also without TLS"
    )
    per_minute: Annotated[int, Field(ge=0, le=100_000)] = Field(
        60, description="wakes for one receiver within a minute; 0: no limit"
    )

    @field_validator("allow")
    @classmethod
    def _means_something(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        for entry in entries:
            if why := why_not_allowed(entry):
                raise ValueError(f"{entry!r} {why}")
        return entries
