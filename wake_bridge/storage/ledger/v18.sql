-- From version 17 to version 18: the feed leaves out that a second look must agree: it is no hold for a person.
-- A statement never changes once released: later versions migrate.

DROP TRIGGER activity_of_holds;
CREATE TRIGGER activity_of_holds AFTER INSERT ON journal
WHEN NEW.step IN ('held', 'released')
    AND json_extract(NEW.detail, '$.cause') IS NOT 'one-look'
    AND json_extract(NEW.detail, '$.reason') IS NOT (
        SELECT outcome FROM activity WHERE subject = NEW.delivery_id AND kind = 'wake.held' ORDER BY seq DESC LIMIT 1
    )
BEGIN
    INSERT INTO activity (at, kind, identity, subject, outcome, line)
    SELECT NEW.at, 'wake.held', identity, id, json_extract(NEW.detail, '$.reason'), NEW.seq
    FROM delivery WHERE id = NEW.delivery_id;
END;
