"""Qwen Code by the inbox of its own session: the record says where it is, a controller's token lets a wake in."""

from wake_bridge_adapters.qwen_code.adapter import QwenCodeAdapter

__all__ = ["QwenCodeAdapter"]
