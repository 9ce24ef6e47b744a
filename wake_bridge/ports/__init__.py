"""What the engine needs of the world: Protocols whose docstrings are the contracts."""
