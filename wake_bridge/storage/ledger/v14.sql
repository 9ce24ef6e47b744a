-- From version 13 to version 14: the feed of what happened, a row for each thing that a person may want to know.
-- A statement never changes once released: later versions migrate.

-- The triggers below write it, in the transaction of what a row tells of: whoever writes that, no row is forgotten. A row
-- says what it is about, and where the rest stands: `subject` is a delivery, an episode, a message or a reminder, `line`
-- the line of the delivery's journal. Ids rise with every row and are never used again, so they serve as cursors.
CREATE TABLE activity (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    identity TEXT    NOT NULL,
    subject  TEXT    NOT NULL,
    outcome  TEXT    NOT NULL,
    line     INTEGER
);

CREATE INDEX activity_of_subject ON activity (subject);
CREATE INDEX activity_by_age ON activity (at);

-- a hold that is looked at again for the same reason is told once
CREATE TRIGGER activity_of_holds AFTER INSERT ON journal
WHEN NEW.step IN ('held', 'released')
    AND json_extract(NEW.detail, '$.reason') IS NOT (
        SELECT outcome FROM activity WHERE subject = NEW.delivery_id AND kind = 'wake.held' ORDER BY seq DESC LIMIT 1
    )
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome, line)
    SELECT NEW.at, 'wake.held', identity, id, json_extract(NEW.detail, '$.reason'), NEW.seq
    FROM delivery WHERE id = NEW.delivery_id;
END;

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
            WHEN NEW.step = 'settled' THEN outcome
            WHEN NEW.step = 'acked' THEN CASE WHEN proof = 3 THEN 'acknowledged' ELSE 'submitted' END
            ELSE ''
        END,
        NEW.seq
    FROM delivery WHERE id = NEW.delivery_id;
END;

CREATE TRIGGER activity_of_notices AFTER INSERT ON notice
WHEN NOT EXISTS (SELECT 1 FROM episode WHERE id = NEW.subject)
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    SELECT
        NEW.at,
        CASE WHEN EXISTS (SELECT 1 FROM delivery WHERE id = NEW.subject) THEN 'wake.escalated' ELSE 'attention' END,
        NEW.identity,
        NEW.subject,
        NEW.reason;
END;

CREATE TRIGGER activity_of_episodes_begun AFTER INSERT ON episode
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.began_at, 'attention', NEW.identity, NEW.id, NEW.kind);
END;

CREATE TRIGGER activity_of_episodes_ended AFTER UPDATE OF ended_at ON episode
WHEN OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.ended_at, 'attention', NEW.identity, NEW.id, NEW.ending);
END;

CREATE TRIGGER activity_of_messages AFTER INSERT ON send_line
WHEN NEW.step IN ('created', 'settled')
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    SELECT NEW.at, 'activity.message', COALESCE(NULLIF(identity, ''), sender), id, COALESCE(outcome, 'pending')
    FROM send WHERE id = NEW.send_id;
END;

CREATE TRIGGER activity_of_reminders AFTER UPDATE OF ended_at ON reminder
WHEN OLD.ended_at IS NULL AND NEW.ending = 'missed'
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.ended_at, 'activity.message', NEW.identity, NEW.id, NEW.ending);
END;

CREATE TRIGGER activity_of_pauses AFTER INSERT ON paused
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.since, 'activity.message', NEW.identity, '', 'paused');
END;

CREATE TRIGGER activity_of_pauses_anew AFTER UPDATE ON paused
WHEN NEW.since > OLD.since
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.since, 'activity.message', NEW.identity, '', 'paused');
END;

CREATE TRIGGER activity_of_resumes AFTER INSERT ON limit_lift
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.at, 'activity.message', NEW.identity, '', 'resumed');
END;

-- a clock that was set back moves the instant of the last one to an earlier one
CREATE TRIGGER activity_of_resumes_anew AFTER UPDATE OF at ON limit_lift
WHEN NEW.at > OLD.at
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome)
    VALUES (NEW.at, 'activity.message', NEW.identity, '', 'resumed');
END;
