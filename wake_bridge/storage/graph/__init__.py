"""Reads the graph: its log, its mail and the hints that it changed. Commands also write to it, by `WritableGraph`."""
