"""The graph in a PostgreSQL database; needs the extra `postgres`."""
