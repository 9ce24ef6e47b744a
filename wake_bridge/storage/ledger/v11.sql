-- From version 10 to version 11: messages to people, on their way through channels, each with its journal.
-- A statement never changes once released: later versions migrate.

-- `channel` is empty while none is configured; nothing of a channel's recipient is ever in here.
CREATE TABLE send (
    seq           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    channel       TEXT    NOT NULL,
    subject       TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    body          TEXT    NOT NULL,
    since         INTEGER NOT NULL,
    identity      TEXT    NOT NULL,
    place         TEXT    NOT NULL,
    whose         TEXT    NOT NULL,
    sender        TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    next_try_at   INTEGER NOT NULL,
    is_for_absent INTEGER NOT NULL,
    is_patient    INTEGER NOT NULL,
    episodes      TEXT    NOT NULL,
    state         TEXT    NOT NULL DEFAULT 'PENDING'
                  CHECK (state IN ('PENDING', 'LOCKED', 'DELIVERED', 'FAILED')),
    outcome       TEXT,
    attempts      INTEGER NOT NULL DEFAULT 0,
    lease         INTEGER NOT NULL DEFAULT 0,
    lease_until   INTEGER,
    settled_at    INTEGER,
    why           TEXT    NOT NULL DEFAULT '',
    CHECK (state <> 'LOCKED' OR lease_until IS NOT NULL),
    CHECK ((state IN ('DELIVERED', 'FAILED')) = (settled_at IS NOT NULL)),
    CHECK (
        CASE state
            WHEN 'DELIVERED' THEN COALESCE(outcome, '') IN ('sent', 'withdrawn')
            WHEN 'FAILED' THEN COALESCE(outcome, '') IN ('failed', 'unknown')
            ELSE outcome IS NULL
        END
    )
);

CREATE INDEX send_open ON send (next_try_at) WHERE settled_at IS NULL;
CREATE INDEX send_settled ON send (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX send_by_sender ON send (sender, created_at) WHERE sender <> '';

CREATE TABLE send_line (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    send_id TEXT    NOT NULL REFERENCES send (id) ON DELETE CASCADE,
    at      INTEGER NOT NULL,
    step    TEXT    NOT NULL,
    lease   INTEGER NOT NULL,
    why     TEXT    NOT NULL
);

CREATE INDEX send_line_of_send ON send_line (send_id);

CREATE TRIGGER send_begins_pending BEFORE INSERT ON send
WHEN NEW.state <> 'PENDING'
BEGIN
    SELECT RAISE(ABORT, 'a message begins PENDING');
END;

CREATE TRIGGER send_moves_legally BEFORE UPDATE OF state ON send
WHEN OLD.state || ' > ' || NEW.state NOT IN (
    'PENDING > LOCKED',
    'LOCKED > PENDING',
    'PENDING > DELIVERED',
    'PENDING > FAILED',
    'LOCKED > DELIVERED',
    'LOCKED > FAILED'
)
BEGIN
    SELECT RAISE(ABORT, 'illegal transition');
END;

CREATE TRIGGER send_open_is_kept BEFORE DELETE ON send
WHEN OLD.settled_at IS NULL
BEGIN
    SELECT RAISE(ABORT, 'only a settled message may be pruned');
END;
