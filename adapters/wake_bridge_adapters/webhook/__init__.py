"""Posts wakes to programs: signed with both header sets, to addresses that were checked."""

from wake_bridge_adapters.webhook.adapter import WebhookAdapter, WebhookConfig

__all__ = ["WebhookAdapter", "WebhookConfig"]
