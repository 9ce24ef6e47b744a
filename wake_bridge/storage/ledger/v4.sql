-- From version 3 to version 4: remembered panes, and news that is told once more.
-- A statement never changes once released: later versions migrate.

-- The pane where an identity's agent was found: from then on it counts, `name` is only how it was found.
CREATE TABLE remembered_pane (
    identity TEXT PRIMARY KEY,
    name     TEXT    NOT NULL,
    socket   TEXT    NOT NULL,
    fence    TEXT    NOT NULL,
    since    INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL
) WITHOUT ROWID;

-- Where an identity was found before, and the agent it had there, until when.
CREATE TABLE former_agent (
    identity TEXT    NOT NULL,
    fence    TEXT    NOT NULL,
    until    INTEGER NOT NULL,
    PRIMARY KEY (identity, fence)
) WITHOUT ROWID;

-- Whom the earlier version woke last, and where: after the update no name leads to that agent for another identity.
INSERT INTO former_agent (identity, fence, until)
SELECT identity, fence, COALESCE(settled_at, created_at) FROM delivery AS last
WHERE fence IS NOT NULL
    AND seq = (SELECT MAX(seq) FROM delivery WHERE identity = last.identity AND fence IS NOT NULL);

-- The delivery of unknown outcome after which an event was opened again; empty where it never was (decision 11).
ALTER TABLE wake_event ADD COLUMN again_of TEXT NOT NULL DEFAULT '';

-- `Delivery.is_seen_late`: of unknown outcome, and seen since to have arrived.
ALTER TABLE delivery ADD COLUMN is_seen_late INTEGER GENERATED ALWAYS AS (
    COALESCE(outcome, '') = 'unknown' AND proof >= 2
) VIRTUAL;
