-- From version 5 to version 6: how receivers of webhooks stand that failed; one that works has no row.
-- A statement never changes once released: later versions migrate.

CREATE TABLE receiver (
    subscription_id TEXT PRIMARY KEY,
    as_of           TEXT    NOT NULL,
    failures        INTEGER NOT NULL,
    suspended_at    INTEGER,
    tries           INTEGER NOT NULL,
    next_try_at     INTEGER NOT NULL,
    degraded_at     INTEGER,
    why             TEXT    NOT NULL
) WITHOUT ROWID;
