"""The operating system: its clock, its files, its processes."""
