-- From version 11 to version 12: reminders, for agents and for people.
-- A statement never changes once released: later versions migrate.

-- All instants are of the wall clock, UTC. `identity` is empty where it goes to a person, by `channel` (empty: the default).
CREATE TABLE reminder (
    id         TEXT PRIMARY KEY,
    text       TEXT    NOT NULL,
    zone       TEXT    NOT NULL,
    cron       TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    channel    TEXT    NOT NULL,
    set_by     TEXT    NOT NULL,
    due_at     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_at    INTEGER,
    ended_at   INTEGER,
    ending     TEXT    NOT NULL
) WITHOUT ROWID;

CREATE INDEX reminder_due ON reminder (due_at) WHERE ended_at IS NULL;
