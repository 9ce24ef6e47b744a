"""The heartbeat: a route without a surface of its own (DESIGN §7)."""

from adapters.heartbeat.adapter import HeartbeatAdapter

__all__ = ["HeartbeatAdapter"]
