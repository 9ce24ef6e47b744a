-- From version 1 to version 2: what is left to the heartbeat, and what a person was told.
-- A statement never changes once released: later versions migrate.

-- The event would be immediate, had its identity another driver than the heartbeat.
ALTER TABLE wake_event ADD COLUMN by_heartbeat INTEGER NOT NULL DEFAULT 0;

CREATE INDEX wake_event_by_heartbeat ON wake_event (identity)
WHERE by_heartbeat = 1 AND status IN ('open', 'announced');

-- When an identity was last nudged, and for how many ms the heartbeat rests from then on while nothing changes.
CREATE TABLE heartbeat (
    identity  TEXT PRIMARY KEY,
    nudged_at INTEGER NOT NULL,
    cooldown  INTEGER NOT NULL
) WITHOUT ROWID;

-- What a person was told, and about what: `subject` is a delivery's id, or the name of a state of the daemon.
CREATE TABLE notice (
    subject  TEXT PRIMARY KEY,
    at       INTEGER NOT NULL,
    identity TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    title    TEXT    NOT NULL,
    body     TEXT    NOT NULL
) WITHOUT ROWID;
