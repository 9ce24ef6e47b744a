-- From version 18 to version 19: what a person was told in an agent's place reaches the agent once.
-- A statement never changes once released: later versions migrate.

-- The delivery that told its agent of it, as history; empty while none has.
ALTER TABLE delivery ADD COLUMN told_in TEXT NOT NULL DEFAULT '';

CREATE INDEX delivery_passed_on ON delivery (identity, settled_at) WHERE escalated_at IS NOT NULL;
