"""Following the log: read by `lastSyncId`, matched, written into the ledger with the cursor."""
