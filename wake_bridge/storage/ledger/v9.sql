-- From version 8 to version 9: signed wakes that were taken in, so that each counts once.
-- A statement never changes once released: later versions migrate.

CREATE TABLE signed_wake (
    sender     TEXT    NOT NULL,
    event_id   TEXT    NOT NULL,
    body       TEXT    NOT NULL, -- SHA-256, hex
    emitted_at INTEGER NOT NULL,
    taken_at   INTEGER NOT NULL,
    PRIMARY KEY (sender, event_id)
) WITHOUT ROWID;
