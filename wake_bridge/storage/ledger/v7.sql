-- From version 6 to version 7: the episodes in which an agent needs a person; at most one open for an identity.
-- A statement never changes once released: later versions migrate.

CREATE TABLE episode (
    id        TEXT PRIMARY KEY,
    identity  TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    began_at  INTEGER NOT NULL,
    evidence  TEXT    NOT NULL,
    place_key TEXT    NOT NULL,
    place     TEXT    NOT NULL,
    told_at   INTEGER,
    ended_at  INTEGER,
    ending    TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;

CREATE UNIQUE INDEX episode_open ON episode (identity) WHERE ended_at IS NULL;
