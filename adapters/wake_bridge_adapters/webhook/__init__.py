"""Wakes posted to programs: signed by both header sets, to addresses that were checked (docs/webhook.md)."""

from wake_bridge_adapters.webhook.adapter import WebhookAdapter, WebhookConfig

__all__ = ["WebhookAdapter", "WebhookConfig"]
