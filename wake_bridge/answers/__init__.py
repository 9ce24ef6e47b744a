"""The daemon's answers on its control socket: to commands, and to programs inside harnesses."""
