"""What the daemon answers on its control socket: to commands, and to programs inside harnesses."""
