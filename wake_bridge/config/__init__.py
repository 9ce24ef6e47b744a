"""The configuration: where it lies, what may stand in it, what is wrong with it."""
