"""Programs inside a harness: who calls, what they are given, and lines for those that wait."""
