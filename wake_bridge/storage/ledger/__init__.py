"""The ledger on stdlib `sqlite3`: one file, one process-safe writer at a time, nothing lost (DESIGN §3).

files        where it lies, who may read it, what happens to a damaged one
migrations   how a file of an earlier version becomes one of ours (`v1.sql` is the first)
database     transactions, and SQLite's errors as ours
rows         domain values to columns and back
tail · coalescing · reading · moves · second_chances · events · switches · sessions · housekeeping   the port, part by part
"""

from wake_bridge.storage.ledger.store import LedgerStore

__all__ = ["LedgerStore"]
