-- From version 15 to version 16: wakes that have to be answered, and pass to a person where nobody does.
-- A statement never changes once released: later versions migrate.

-- Milliseconds in which it has to be answered; 0: it need not be.
ALTER TABLE wake_event ADD COLUMN ack_within INTEGER NOT NULL DEFAULT 0;

ALTER TABLE delivery ADD COLUMN ack_within INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delivery ADD COLUMN ack_by INTEGER;
-- The lease that the agent was told, and that its answer must name.
ALTER TABLE delivery ADD COLUMN handed_lease INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delivery ADD COLUMN escalated_at INTEGER;

CREATE INDEX delivery_ack_by ON delivery (ack_by) WHERE ack_by IS NOT NULL AND settled_at IS NULL;

-- What has to be answered is told alone, and waits beside the rest.
DROP INDEX delivery_one_unfrozen;
CREATE UNIQUE INDEX delivery_one_unfrozen ON delivery (identity)
WHERE state IN ('PENDING', 'DISPATCHED') AND ack_within = 0;

CREATE TRIGGER delivery_passes_to_a_person_once BEFORE UPDATE ON delivery
WHEN NEW.escalated_at IS NOT OLD.escalated_at AND (OLD.escalated_at IS NOT NULL OR NEW.state <> 'ESCALATED')
    OR OLD.state <> 'ESCALATED' AND NEW.state = 'ESCALATED'
        AND (NEW.escalated_at IS NULL OR NEW.owner_lease <= OLD.owner_lease)
BEGIN
    SELECT RAISE(ABORT, 'an escalation raises the lease, and happens once');
END;

CREATE TRIGGER delivery_answer_stands BEFORE UPDATE ON delivery
WHEN NEW.ack_within <> OLD.ack_within OR OLD.state IN ('DELIVERED', 'FAILED')
    AND (NEW.ack_by, NEW.handed_lease) IS NOT (OLD.ack_by, OLD.handed_lease)
BEGIN
    SELECT RAISE(ABORT, 'what has to be answered stays so, and how it ended stands');
END;

-- as before, but for what a person was told in the agent's place
DROP TRIGGER activity_of_wakes;
CREATE TRIGGER activity_of_wakes AFTER INSERT ON journal
WHEN NEW.step IN ('opened', 'joined', 'settled', 'acked')
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome, line)
    SELECT
        NEW.at,
        CASE
            WHEN NEW.step IN ('opened', 'joined') THEN 'wake.pending'
            WHEN NEW.step = 'settled' AND outcome IN ('failed', 'unknown') THEN 'wake.' || outcome
            ELSE 'wake.delivered'
        END,
        identity,
        id,
        CASE
            WHEN NEW.step = 'settled' THEN CASE WHEN escalated_at IS NOT NULL AND outcome = 'empty' THEN 'escalated' ELSE outcome END
            WHEN NEW.step = 'acked' THEN CASE WHEN proof = 3 THEN 'acknowledged' ELSE 'submitted' END
            ELSE ''
        END,
        NEW.seq
    FROM delivery WHERE id = NEW.delivery_id;
END;
