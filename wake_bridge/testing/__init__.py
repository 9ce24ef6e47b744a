"""Shipped test tools: fakes, a hand-turned clock, a scriptable fake harness, crash points."""
