"""Copilot CLI by the server that its terminal program opens with `--ui-server`: presence, wakes and their proof."""

from wake_bridge_adapters.copilot_cli.adapter import CopilotAdapter

__all__ = ["CopilotAdapter"]
