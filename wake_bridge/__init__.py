"""wake-bridge: wakes idle terminal coding agents when something arrives for them in a shared graph."""

__version__ = "0.2.0.dev0"
