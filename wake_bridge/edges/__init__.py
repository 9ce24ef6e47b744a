"""Where the engine meets files, SQLite, the environment and the service manager."""
