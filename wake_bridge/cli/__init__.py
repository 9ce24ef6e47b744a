"""The commands, thin, one module per group."""
