-- From version 20 to version 21: what is asked often is answered by an index, however much is kept.
-- A statement never changes once released: later versions migrate.

-- When a submit was begun last, as its journal says (`intent_submit`).
ALTER TABLE delivery ADD COLUMN submit_at INTEGER;

UPDATE delivery SET submit_at = (SELECT MAX(at) FROM journal WHERE delivery_id = delivery.id AND step = 'intent_submit')
WHERE id IN (SELECT delivery_id FROM journal WHERE step = 'intent_submit');

CREATE TRIGGER delivery_submit_begins AFTER INSERT ON journal
WHEN NEW.step = 'intent_submit'
BEGIN
    UPDATE delivery SET submit_at = MAX(NEW.at, COALESCE(submit_at, NEW.at)) WHERE id = NEW.delivery_id;
END;

CREATE INDEX delivery_submits ON delivery (identity, submit_at) WHERE submit_at IS NOT NULL AND state <> 'DISPATCHED';
CREATE INDEX delivery_beats ON delivery (identity, settled_at) WHERE adapter = 'heartbeat';
CREATE INDEX delivery_told_in ON delivery (told_in) WHERE told_in <> '';
CREATE INDEX activity_held ON activity (identity, at) WHERE kind = 'wake.held';
CREATE INDEX episode_of_identity ON episode (identity, began_at);
CREATE INDEX send_of_subject ON send (subject);
