"""Follows the log: reads it by `lastSyncId`, matches it, and writes the events into the ledger with the cursor."""
