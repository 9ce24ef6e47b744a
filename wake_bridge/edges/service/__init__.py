"""What the daemon shares with the machine: its lock, its socket, the service manager, other drivers (DESIGN §9)."""
