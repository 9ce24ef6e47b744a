"""What is kept: the graph that is read, the ledger that is written, the logs."""
