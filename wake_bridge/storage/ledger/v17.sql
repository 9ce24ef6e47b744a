-- From version 16 to version 17: items, which come from outside, are a kind of event of their own.
-- A statement never changes once released: later versions migrate.

-- SQLite changes no CHECK in place: the table is made anew, and with it the one that refers to it.
DROP TRIGGER delivery_takes_no_open_event_along;
ALTER TABLE wake_event RENAME TO former_wake_event;
ALTER TABLE delivery_event RENAME TO former_delivery_event;

CREATE TABLE wake_event (
    seq                 INTEGER PRIMARY KEY,
    id                  TEXT    NOT NULL UNIQUE,
    epoch               INTEGER NOT NULL,
    log_id              INTEGER NOT NULL,
    identity            TEXT    NOT NULL,
    subject_key         TEXT    NOT NULL,
    replay              INTEGER NOT NULL DEFAULT 0,
    kind                TEXT    NOT NULL CHECK (kind IN ('message', 'task', 'permission', 'pulse', 'presence', 'item')),
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
    delivery_id         TEXT REFERENCES delivery (id) ON DELETE SET NULL,
    by_heartbeat        INTEGER NOT NULL DEFAULT 0,
    again_of            TEXT    NOT NULL DEFAULT '',
    passed_by           TEXT    NOT NULL DEFAULT '',
    failed_turns        INTEGER NOT NULL DEFAULT 0,
    failed_in           TEXT    NOT NULL DEFAULT '',
    ack_within          INTEGER NOT NULL DEFAULT 0,
    -- the reading of an item: until when its reader has to come again, before it counts as unread again
    leased_until        INTEGER,
    item_key            TEXT GENERATED ALWAYS AS (json_extract(detail, '$.key')) VIRTUAL,
    item_source         TEXT GENERATED ALWAYS AS (json_extract(detail, '$.source')) VIRTUAL,
    item_tier           INTEGER GENERATED ALWAYS AS (
        CASE json_extract(detail, '$.tier') WHEN 'now' THEN 0 WHEN 'next' THEN 1 ELSE 2 END
    ) VIRTUAL,
    item_rank           INTEGER GENERATED ALWAYS AS (
        CASE json_extract(detail, '$.priority') WHEN 'critical' THEN 3 WHEN 'high' THEN 2 WHEN 'low' THEN 0 ELSE 1 END
    ) VIRTUAL
);

INSERT INTO wake_event (
    seq, id, epoch, log_id, identity, subject_key, replay, kind, detail, thread, from_human, subscription_id,
    other_subscriptions, policy, priority, window_seconds, matched_at, occurred_at, not_before, status, status_at, reason,
    refusals, delivery_id, by_heartbeat, again_of, passed_by, failed_turns, failed_in, ack_within
)
SELECT
    seq, id, epoch, log_id, identity, subject_key, replay,
    kind, detail, thread, from_human, subscription_id,
    other_subscriptions, policy, priority, window_seconds, matched_at, occurred_at, not_before, status, status_at, reason,
    refusals, delivery_id, by_heartbeat, again_of, passed_by, failed_turns, failed_in, ack_within
FROM former_wake_event;

CREATE TABLE delivery_event (
    delivery_id TEXT NOT NULL REFERENCES delivery (id) ON DELETE CASCADE,
    event_id    TEXT NOT NULL REFERENCES wake_event (id),
    PRIMARY KEY (delivery_id, event_id)
) WITHOUT ROWID;

INSERT INTO delivery_event SELECT delivery_id, event_id FROM former_delivery_event;

-- the indexes and the trigger of a table go with it
DROP TABLE former_delivery_event;
DROP TABLE former_wake_event;

CREATE INDEX delivery_event_by_event ON delivery_event (event_id);
CREATE UNIQUE INDEX wake_event_subject ON wake_event (subject_key, identity, replay);
CREATE UNIQUE INDEX wake_event_row ON wake_event (log_id, epoch, identity, replay) WHERE log_id > 0;
CREATE INDEX wake_event_loose ON wake_event (policy, identity, kind, due_at) WHERE status = 'open' AND delivery_id IS NULL;
CREATE INDEX wake_event_carried ON wake_event (delivery_id) WHERE delivery_id IS NOT NULL;
CREATE INDEX wake_event_by_heartbeat ON wake_event (identity)
WHERE by_heartbeat = 1 AND status IN ('open', 'announced');

CREATE TRIGGER wake_event_open_is_kept BEFORE DELETE ON wake_event
WHEN OLD.status = 'open'
BEGIN
    SELECT RAISE(ABORT, 'an open event is never lost');
END;

CREATE TRIGGER delivery_takes_no_open_event_along AFTER UPDATE OF state ON delivery
WHEN NEW.state = 'DELIVERED'
    AND EXISTS (SELECT 1 FROM wake_event WHERE delivery_id = NEW.id AND status = 'open')
BEGIN
    SELECT RAISE(ABORT, 'an open event would be lost in a delivered delivery');
END;

-- unread items in the order of a list, those that wait for the next turn in the order of a block, by key, and by source
CREATE INDEX wake_event_unread_items ON wake_event (identity, item_tier, seq)
WHERE kind = 'item' AND status IN ('open', 'announced');
CREATE INDEX wake_event_waiting_items ON wake_event (identity, item_rank, seq)
WHERE kind = 'item' AND status = 'open' AND policy = 'next_turn' AND delivery_id IS NULL;
CREATE INDEX wake_event_leased_items ON wake_event (identity, leased_until)
WHERE kind = 'item' AND status IN ('open', 'announced') AND leased_until IS NOT NULL;
CREATE INDEX wake_event_item_keys ON wake_event (identity, item_key, seq) WHERE kind = 'item' AND item_key <> '';
CREATE INDEX wake_event_item_sources ON wake_event (identity, item_source, matched_at) WHERE kind = 'item';

CREATE TRIGGER activity_of_items AFTER INSERT ON wake_event
WHEN NEW.kind = 'item'
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.matched_at, 'inbox.item', NEW.identity, NEW.id, json_extract(NEW.detail, '$.mode'));
END;
