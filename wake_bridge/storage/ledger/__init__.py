"""The ledger on stdlib `sqlite3`: one file, one process-safe writer at a time, nothing lost.

ledger_file  where it lies, who may read it, what becomes of a damaged one, and of one of an earlier version (`v1.sql` is the first)
database     transactions, and SQLite's errors as ours
columns      domain values to columns and back
events · coalescing · moves · reading · identity_state · upkeep   the port, part by part
"""

from wake_bridge.storage.ledger.store import LedgerStore

__all__ = ["LedgerStore"]
