"""The adapters that ship with wake-bridge; found only through the entry points `wake_bridge.adapters`."""
