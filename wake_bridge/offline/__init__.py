"""What commands and tools do themselves on graph and ledger, without asking the daemon."""
