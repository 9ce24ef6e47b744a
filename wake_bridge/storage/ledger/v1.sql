-- The ledger as of version 1. A statement never changes once released: later versions migrate.
-- Instants are UTC milliseconds. What the database can refuse by itself, it refuses: see the triggers.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;

-- One matched fact for one identity. `delivery_id` is the delivery that carries it now; `replay` counts resyncs.
CREATE TABLE wake_event (
    seq                 INTEGER PRIMARY KEY,
    id                  TEXT    NOT NULL UNIQUE,
    epoch               INTEGER NOT NULL,
    log_id              INTEGER NOT NULL,
    identity            TEXT    NOT NULL,
    subject_key         TEXT    NOT NULL,
    replay              INTEGER NOT NULL DEFAULT 0,
    kind                TEXT    NOT NULL CHECK (kind IN ('message', 'task', 'permission', 'pulse')),
    detail              TEXT    NOT NULL,
    thread              TEXT    NOT NULL,
    from_human          INTEGER NOT NULL,
    subscription_id     TEXT    NOT NULL,
    other_subscriptions TEXT    NOT NULL,
    policy              TEXT    NOT NULL CHECK (policy IN ('silent', 'next_turn', 'immediate')),
    priority            TEXT    NOT NULL CHECK (priority IN ('low', 'normal', 'high')),
    window_seconds      INTEGER NOT NULL,
    matched_at          INTEGER NOT NULL,
    occurred_at         INTEGER,
    not_before          INTEGER NOT NULL,
    due_at              INTEGER GENERATED ALWAYS AS (MAX(matched_at + window_seconds * 1000, not_before)) VIRTUAL,
    status              TEXT    NOT NULL
                        CHECK (status IN ('open', 'announced', 'read', 'superseded', 'refused')),
    status_at           INTEGER NOT NULL,
    reason              TEXT    NOT NULL,
    refusals            TEXT    NOT NULL,
    delivery_id         TEXT REFERENCES delivery (id) ON DELETE SET NULL
);

CREATE UNIQUE INDEX wake_event_subject ON wake_event (subject_key, identity, replay);
CREATE UNIQUE INDEX wake_event_row ON wake_event (log_id, epoch, identity, replay) WHERE log_id > 0;
CREATE INDEX wake_event_loose ON wake_event (policy, identity, due_at) WHERE status = 'open' AND delivery_id IS NULL;
CREATE INDEX wake_event_carried ON wake_event (delivery_id) WHERE delivery_id IS NOT NULL;

-- One digest for one identity. `act_at` is when somebody must look at it; nobody looks at a terminal one.
CREATE TABLE delivery (
    seq          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    identity     TEXT    NOT NULL,
    state        TEXT    NOT NULL DEFAULT 'PENDING'
                 CHECK (state IN ('PENDING', 'DISPATCHED', 'LOCKED', 'ESCALATED', 'DELIVERED', 'FAILED')),
    owner_lease  INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    next_look_at INTEGER,
    lease_until  INTEGER,
    hold_reason  TEXT,
    hold_detail  TEXT    NOT NULL DEFAULT '',
    hold_where   TEXT    NOT NULL DEFAULT '',
    digest       TEXT    NOT NULL DEFAULT '',
    adapter      TEXT    NOT NULL DEFAULT '',
    place        TEXT    NOT NULL DEFAULT '',
    pane_key     TEXT    NOT NULL DEFAULT '',
    fence        TEXT,
    attempts     INTEGER NOT NULL DEFAULT 0,
    outcome      TEXT,
    proof        INTEGER NOT NULL DEFAULT 0 CHECK (proof BETWEEN 0 AND 3),
    settled_at   INTEGER,
    act_at       INTEGER GENERATED ALWAYS AS (
        CASE state
            WHEN 'PENDING' THEN due_at
            WHEN 'DISPATCHED' THEN next_look_at
            WHEN 'LOCKED' THEN MIN(lease_until, COALESCE(next_look_at, lease_until))
        END
    ) VIRTUAL,
    CHECK (state <> 'DISPATCHED' OR next_look_at IS NOT NULL),
    CHECK (state <> 'LOCKED' OR lease_until IS NOT NULL),
    CHECK ((state IN ('DELIVERED', 'FAILED')) = (settled_at IS NOT NULL)),
    CHECK (
        CASE state
            WHEN 'DELIVERED' THEN COALESCE(outcome, '') IN ('submitted', 'acknowledged', 'read', 'empty')
            WHEN 'FAILED' THEN COALESCE(outcome, '') IN ('failed', 'unknown')
            ELSE outcome IS NULL
        END
    )
);

CREATE UNIQUE INDEX delivery_one_unfrozen ON delivery (identity) WHERE state IN ('PENDING', 'DISPATCHED');
CREATE INDEX delivery_acting ON delivery (act_at) WHERE act_at IS NOT NULL;
CREATE INDEX delivery_settled ON delivery (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX delivery_by_state ON delivery (state, outcome, hold_reason);

-- Every event a delivery's digest speaks of, also after the event went on to another delivery.
CREATE TABLE delivery_event (
    delivery_id TEXT NOT NULL REFERENCES delivery (id) ON DELETE CASCADE,
    event_id    TEXT NOT NULL REFERENCES wake_event (id),
    PRIMARY KEY (delivery_id, event_id)
) WITHOUT ROWID;

CREATE INDEX delivery_event_by_event ON delivery_event (event_id);

CREATE TABLE journal (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id TEXT    NOT NULL REFERENCES delivery (id) ON DELETE CASCADE,
    at          INTEGER NOT NULL,
    step        TEXT    NOT NULL,
    lease       INTEGER NOT NULL,
    detail      TEXT    NOT NULL
);

CREATE INDEX journal_of_delivery ON journal (delivery_id);
CREATE INDEX journal_submits ON journal (at) WHERE step = 'intent_submit';

CREATE TABLE announced (
    identity    TEXT    NOT NULL,
    subject_key TEXT    NOT NULL,
    via         TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (identity, subject_key)
) WITHOUT ROWID;

CREATE TABLE task_state (
    task_id          TEXT PRIMARY KEY,
    state            TEXT NOT NULL,
    assignee         TEXT,
    last_modified_at TEXT
) WITHOUT ROWID;

CREATE TABLE quarantine (
    epoch     INTEGER NOT NULL,
    log_id    INTEGER NOT NULL,
    entity_id TEXT    NOT NULL,
    why       TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (epoch, log_id)
) WITHOUT ROWID;

CREATE TABLE binding (
    identity TEXT PRIMARY KEY,
    fence    TEXT    NOT NULL,
    at       INTEGER NOT NULL
) WITHOUT ROWID;

-- `identity` may be `*` in the next two: all of them.
CREATE TABLE paused (
    identity TEXT PRIMARY KEY,
    since    INTEGER NOT NULL,
    until    INTEGER
) WITHOUT ROWID;

CREATE TABLE limit_lift (
    identity TEXT PRIMARY KEY,
    at       INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE degraded (
    identity TEXT    NOT NULL,
    adapter  TEXT    NOT NULL,
    why      TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (identity, adapter)
) WITHOUT ROWID;

-- The promises, kept by the database itself -----------------------------------------------------------------------

CREATE TRIGGER delivery_begins_pending BEFORE INSERT ON delivery
WHEN NEW.state <> 'PENDING' OR EXISTS (SELECT 1 FROM delivery WHERE id = NEW.id OR seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'a delivery begins PENDING, and once');
END;

CREATE TRIGGER delivery_moves_legally BEFORE UPDATE OF state ON delivery
WHEN OLD.state || ' > ' || NEW.state NOT IN (
    'PENDING > DISPATCHED',
    'DISPATCHED > LOCKED',
    'LOCKED > DISPATCHED',
    'LOCKED > DELIVERED',
    'LOCKED > FAILED',
    'LOCKED > ESCALATED',
    'ESCALATED > DELIVERED',
    'ESCALATED > FAILED'
)
BEGIN
    SELECT RAISE(ABORT, 'illegal transition');
END;

CREATE TRIGGER delivery_lease_only_rises BEFORE UPDATE ON delivery
WHEN NEW.owner_lease < OLD.owner_lease
    OR (
        NEW.owner_lease = OLD.owner_lease
        AND OLD.state || ' > ' || NEW.state IN ('DISPATCHED > LOCKED', 'LOCKED > DISPATCHED')
    )
BEGIN
    SELECT RAISE(ABORT, 'the lease rises with every change of owner');
END;

CREATE TRIGGER delivery_is_never_postponed BEFORE UPDATE OF due_at ON delivery
WHEN NEW.due_at > OLD.due_at
BEGIN
    SELECT RAISE(ABORT, 'a due instant only moves to an earlier one');
END;

CREATE TRIGGER delivery_digest_stays_frozen BEFORE UPDATE OF digest ON delivery
WHEN OLD.state IN ('LOCKED', 'ESCALATED') AND NEW.digest <> OLD.digest AND NEW.state <> 'DISPATCHED'
BEGIN
    SELECT RAISE(ABORT, 'a frozen digest thaws only by release');
END;

CREATE TRIGGER delivery_proof_only_rises BEFORE UPDATE OF proof ON delivery
WHEN NEW.proof < OLD.proof
BEGIN
    SELECT RAISE(ABORT, 'proof only rises');
END;

CREATE TRIGGER delivery_terminal_stands BEFORE UPDATE ON delivery
WHEN OLD.state IN ('DELIVERED', 'FAILED')
    AND (
        NEW.seq, NEW.id, NEW.identity, NEW.state, NEW.owner_lease, NEW.created_at, NEW.due_at, NEW.next_look_at,
        NEW.lease_until, NEW.hold_reason, NEW.hold_detail, NEW.hold_where, NEW.digest, NEW.adapter, NEW.place,
        NEW.pane_key, NEW.fence, NEW.attempts, NEW.outcome, NEW.settled_at
    ) IS NOT (
        OLD.seq, OLD.id, OLD.identity, OLD.state, OLD.owner_lease, OLD.created_at, OLD.due_at, OLD.next_look_at,
        OLD.lease_until, OLD.hold_reason, OLD.hold_detail, OLD.hold_where, OLD.digest, OLD.adapter, OLD.place,
        OLD.pane_key, OLD.fence, OLD.attempts, OLD.outcome, OLD.settled_at
    )
BEGIN
    SELECT RAISE(ABORT, 'of a terminal delivery only the proof may rise');
END;

CREATE TRIGGER delivery_takes_no_open_event_along AFTER UPDATE OF state ON delivery
WHEN NEW.state = 'DELIVERED'
    AND EXISTS (SELECT 1 FROM wake_event WHERE delivery_id = NEW.id AND status = 'open')
BEGIN
    SELECT RAISE(ABORT, 'an open event would be lost in a delivered delivery');
END;

CREATE TRIGGER delivery_open_is_kept BEFORE DELETE ON delivery
WHEN OLD.state NOT IN ('DELIVERED', 'FAILED')
BEGIN
    SELECT RAISE(ABORT, 'only a terminal delivery may be pruned');
END;

CREATE TRIGGER wake_event_open_is_kept BEFORE DELETE ON wake_event
WHEN OLD.status = 'open'
BEGIN
    SELECT RAISE(ABORT, 'an open event is never lost');
END;

CREATE TRIGGER journal_lines_stand BEFORE UPDATE ON journal
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER journal_lines_are_not_replaced BEFORE INSERT ON journal
WHEN EXISTS (SELECT 1 FROM journal WHERE seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER journal_goes_with_its_delivery BEFORE DELETE ON journal
WHEN EXISTS (SELECT 1 FROM delivery WHERE id = OLD.delivery_id)
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;
