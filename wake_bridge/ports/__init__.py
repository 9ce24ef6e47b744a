"""What the engine needs from outside: Protocols whose docstrings are the contracts."""
