"""Programs inside a harness: who calls in, what is handed to them, lines for those that wait."""
