-- From version 19 to version 20: when an item was delivered: told in a wake, shown in the inbox, or sent to the person.
-- A statement never changes once released: later versions migrate.

ALTER TABLE wake_event ADD COLUMN delivered_at INTEGER;

UPDATE wake_event SET delivered_at = status_at
WHERE kind = 'item' AND status = 'announced' AND reason IN ('submitted', 'acknowledged', 'inbox');
