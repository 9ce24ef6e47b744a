"""The daemon among others: its lock, its socket, the settings it goes by, other drivers."""
