"""Reading the graph: its log, its mail and the hints that it changed (DESIGN §2). Nothing here writes to it."""
