-- From version 4 to version 5: the cause of a hold.
-- A statement never changes once released: later versions migrate.

-- What exactly a held delivery met; empty where an earlier version held it, which stands for the reason's general cause.
ALTER TABLE delivery ADD COLUMN hold_cause TEXT NOT NULL DEFAULT '';

-- Of a terminal delivery only the proof may rise: of its cause as of all else.
DROP TRIGGER delivery_terminal_stands;

CREATE TRIGGER delivery_terminal_stands BEFORE UPDATE ON delivery
WHEN OLD.state IN ('DELIVERED', 'FAILED')
    AND (
        NEW.seq, NEW.id, NEW.identity, NEW.state, NEW.owner_lease, NEW.created_at, NEW.due_at, NEW.next_look_at,
        NEW.lease_until, NEW.hold_reason, NEW.hold_cause, NEW.hold_detail, NEW.hold_where, NEW.digest, NEW.adapter,
        NEW.place, NEW.pane_key, NEW.fence, NEW.attempts, NEW.outcome, NEW.settled_at
    ) IS NOT (
        OLD.seq, OLD.id, OLD.identity, OLD.state, OLD.owner_lease, OLD.created_at, OLD.due_at, OLD.next_look_at,
        OLD.lease_until, OLD.hold_reason, OLD.hold_cause, OLD.hold_detail, OLD.hold_where, OLD.digest, OLD.adapter,
        OLD.place, OLD.pane_key, OLD.fence, OLD.attempts, OLD.outcome, OLD.settled_at
    )
BEGIN
    SELECT RAISE(ABORT, 'of a terminal delivery only the proof may rise');
END;
