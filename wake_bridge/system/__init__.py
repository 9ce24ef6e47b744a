"""The system below us: its clock, its files, its processes."""
