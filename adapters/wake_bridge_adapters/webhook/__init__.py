"""Posts wakes to programs: signed with both header sets, to addresses that were checked."""

from wake_bridge_adapters.webhook.adapter import WebhookAdapter

__all__ = ["WebhookAdapter"]
