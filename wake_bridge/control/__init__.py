"""The daemon and other processes: its lock, its socket, the settings in force, other drivers."""
