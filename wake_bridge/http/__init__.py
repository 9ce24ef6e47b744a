"""Signed wakes from other hosts: the only place that knows the extra `http` (docs/serve.md)."""
