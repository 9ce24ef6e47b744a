-- From version 7 to version 8: what a receiver left to another route.
-- A statement never changes once released: later versions migrate.

-- The subscription whose receiver has left the event to the next route, and is not sent it again; empty where none has.
ALTER TABLE wake_event ADD COLUMN passed_by TEXT NOT NULL DEFAULT '';
