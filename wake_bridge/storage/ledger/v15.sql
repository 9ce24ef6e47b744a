-- From version 14 to version 15: who has sent mail, or brought a task to its end, and was not seen to idle since.
-- A statement never changes once released: later versions migrate.

CREATE TABLE own_word (
    identity TEXT PRIMARY KEY
) WITHOUT ROWID;
