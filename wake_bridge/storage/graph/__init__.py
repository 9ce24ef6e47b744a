"""Reading the graph: its log, its mail and the hints that it changed. Nothing here writes to it."""
