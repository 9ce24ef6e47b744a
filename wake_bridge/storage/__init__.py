"""What is kept on disk: the graph (read), the ledger and the logs (written)."""
