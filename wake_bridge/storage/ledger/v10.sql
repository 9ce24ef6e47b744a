-- From version 9 to version 10: what is known of an episode at a usage limit, and of a wake whose turn failed at once.
-- A statement never changes once released: later versions migrate.

ALTER TABLE episode ADD COLUMN program TEXT NOT NULL DEFAULT '';
ALTER TABLE episode ADD COLUMN resets_at INTEGER;
ALTER TABLE episode ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE episode ADD COLUMN was_at_work INTEGER NOT NULL DEFAULT 0;
ALTER TABLE episode ADD COLUMN wake_id TEXT NOT NULL DEFAULT '';

-- how often its news was announced in a turn that failed at once, and in which delivery last
ALTER TABLE wake_event ADD COLUMN failed_turns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wake_event ADD COLUMN failed_in TEXT NOT NULL DEFAULT '';
