"""OpenCode by the server that its terminal program opens with `--port`: presence, wakes and their proof."""

from wake_bridge_adapters.opencode.adapter import OpenCodeAdapter

__all__ = ["OpenCodeAdapter"]
