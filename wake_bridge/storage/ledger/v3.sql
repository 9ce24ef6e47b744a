-- From version 2 to version 3: the conversations of harnesses that are known to be an identity's.
-- A statement never changes once released: later versions migrate.

CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    harness    TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    directory  TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    started    TEXT    NOT NULL,
    socket     TEXT    NOT NULL,
    pane       TEXT    NOT NULL,
    seen_at    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX session_of_identity ON session (identity, seen_at);
