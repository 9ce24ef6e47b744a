-- The graph in PostgreSQL, version 1: the tables of the embedded one, with jsonb. Everything lies in the schema wake_bridge
-- and is named with it, for a pooler in transaction mode keeps no search_path.
CREATE SCHEMA wake_bridge;

CREATE TABLE wake_bridge.graph (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    schema_version integer NOT NULL,
    -- another life is another epoch: the log was emptied, or came from a dump
    life uuid NOT NULL DEFAULT gen_random_uuid(),
    -- where the transaction ids of the log were given; see settle_in
    home text NOT NULL DEFAULT '',
    pruned_upto bigint NOT NULL DEFAULT 0,
    kept_at timestamptz NOT NULL DEFAULT now(),
    made_at timestamptz NOT NULL DEFAULT now()
);

-- what cannot be read again is not stored: no broken shape, nothing that would fill a reader's memory
CREATE TABLE wake_bridge.nodes (
    id text COLLATE "C" PRIMARY KEY,
    user_id text COLLATE "C",
    data jsonb NOT NULL
        CONSTRAINT nodes_data_is_an_object CHECK (jsonb_typeof(data) = 'object'
            AND coalesce(jsonb_typeof(data -> 'properties'), 'object') = 'object')
        CONSTRAINT nodes_data_is_not_too_large CHECK (octet_length(data::text) <= 2097152),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    -- columns of their own: under row-level security no index is used for what an operator of jsonb finds
    label text COLLATE "C" GENERATED ALWAYS AS (data ->> 'label') STORED,
    sent_at text COLLATE "C" GENERATED ALWAYS AS (
        CASE data ->> 'label' WHEN 'MESSAGE' THEN data #>> '{properties,sentAt}' END) STORED,
    is_task boolean GENERATED ALWAYS AS (
        data ->> 'label' = 'MESSAGE' AND jsonb_typeof(data #> '{properties,task}') <> 'null') STORED,
    is_shared boolean GENERATED ALWAYS AS (coalesce(data #> '{properties,sharedEntity}' = 'true', false)) STORED
);
CREATE INDEX nodes_by_label ON wake_bridge.nodes (label, id);
CREATE INDEX nodes_by_time ON wake_bridge.nodes (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX nodes_of_tasks ON wake_bridge.nodes (seq) WHERE is_task;

CREATE TABLE wake_bridge.edges (
    id text COLLATE "C" PRIMARY KEY,
    user_id text COLLATE "C",
    source text COLLATE "C" NOT NULL REFERENCES wake_bridge.nodes (id) ON DELETE CASCADE,
    target text COLLATE "C" NOT NULL REFERENCES wake_bridge.nodes (id) ON DELETE CASCADE,
    type text COLLATE "C" NOT NULL,
    data jsonb NOT NULL
        CONSTRAINT edges_data_is_an_object CHECK (jsonb_typeof(data) = 'object'
            AND coalesce(jsonb_typeof(data -> 'properties'), 'object') = 'object')
        CONSTRAINT edges_data_is_not_too_large CHECK (octet_length(data::text) <= 2097152),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    is_shared boolean GENERATED ALWAYS AS (coalesce(data #> '{properties,sharedEntity}' = 'true', false)) STORED
);
CREATE INDEX edges_by_source ON wake_bridge.edges (source, type);
CREATE INDEX edges_by_target ON wake_bridge.edges (target, type);

-- log ids are given before the commit, so they are no order to read by: xid is what a snapshot is asked about
CREATE SEQUENCE wake_bridge.graphlog_ids;
CREATE TABLE wake_bridge.graphlog (
    log_id bigint NOT NULL DEFAULT nextval('wake_bridge.graphlog_ids'),
    logged_at timestamptz NOT NULL DEFAULT now(),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    entity_id text COLLATE "C" NOT NULL,
    entity_type text COLLATE "C" NOT NULL,
    event_id text COLLATE "C",
    event_payload jsonb,
    user_id text COLLATE "C",
    is_shared boolean NOT NULL DEFAULT false,
    -- whether a daemon may have to look at what changed: of the rest nothing is loaded
    is_news boolean NOT NULL DEFAULT true
) PARTITION BY RANGE (logged_at);
CREATE INDEX graphlog_by_id ON wake_bridge.graphlog (log_id);
CREATE INDEX graphlog_by_xid ON wake_bridge.graphlog (xid, log_id);
CREATE INDEX graphlog_by_entity ON wake_bridge.graphlog (entity_id, log_id);
CREATE TABLE wake_bridge.graphlog_rest PARTITION OF wake_bridge.graphlog DEFAULT;

-- how far each daemon has read: nothing is pruned that one of them has not seen
CREATE TABLE wake_bridge.cursors (
    daemon text PRIMARY KEY,
    snapshot pg_snapshot NOT NULL,
    log_id bigint NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION wake_bridge.log_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    it record;
    is_news boolean;
BEGIN
    it := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    IF TG_TABLE_NAME = 'edges' THEN
        is_news := it.type IN ('SENT_TO', 'DELIVERED_TO') OR it.type ^@ 'CAN_';
    ELSE
        is_news := it.id ^@ 'WAKE_SUB:' OR it.id ^@ '@' OR coalesce(it.is_task, false)
            OR coalesce(it.label IN ('WAKE_SUBSCRIPTION', 'AgentIdentity', 'AGENT'), false);
    END IF;
    INSERT INTO wake_bridge.graphlog (entity_id, entity_type, user_id, is_shared, is_news)
    VALUES (it.id, TG_TABLE_NAME, it.user_id, it.is_shared, is_news);
    RETURN NULL;
END $$;
CREATE TRIGGER node_changed AFTER INSERT OR UPDATE OR DELETE ON wake_bridge.nodes
    FOR EACH ROW EXECUTE FUNCTION wake_bridge.log_change();
CREATE TRIGGER edge_changed AFTER INSERT OR UPDATE OR DELETE ON wake_bridge.edges
    FOR EACH ROW EXECUTE FUNCTION wake_bridge.log_change();

CREATE FUNCTION wake_bridge.begin_life() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE wake_bridge.graph SET life = gen_random_uuid();
    RETURN NULL;
END $$;
CREATE TRIGGER nodes_emptied AFTER TRUNCATE ON wake_bridge.nodes
    FOR EACH STATEMENT EXECUTE FUNCTION wake_bridge.begin_life();
CREATE TRIGGER edges_emptied AFTER TRUNCATE ON wake_bridge.edges
    FOR EACH STATEMENT EXECUTE FUNCTION wake_bridge.begin_life();
CREATE TRIGGER log_emptied AFTER TRUNCATE ON wake_bridge.graphlog
    FOR EACH STATEMENT EXECUTE FUNCTION wake_bridge.begin_life();

CREATE FUNCTION wake_bridge.here() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (SELECT system_identifier FROM pg_control_system()) || '.'
        || (SELECT oid FROM pg_database WHERE datname = current_database()) || '.'
        || 'wake_bridge.graphlog'::regclass::oid
$$;

-- What tells one life of the log from every other: the server, its timeline (another one after a failover), the table.
CREATE FUNCTION wake_bridge.log_life() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(
        wake_bridge.here() || '.' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '.'
        || (SELECT life FROM wake_bridge.graph), 'UTF8')), 'hex')
$$;

-- After a dump was restored the transaction ids of its log mean nothing here, and may lie in the future: its rows count as
-- old ones, and a new life begins.
CREATE FUNCTION wake_bridge.settle_in() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM wake_bridge.graph FOR UPDATE;
    IF EXISTS (SELECT FROM wake_bridge.graph WHERE home <> wake_bridge.here()) THEN
        UPDATE wake_bridge.graphlog SET xid = '3' WHERE xid <> '3';
        DELETE FROM wake_bridge.cursors;
        UPDATE wake_bridge.graph SET life = gen_random_uuid(), home = wake_bridge.here();
    END IF;
END $$;

-- The partitions of today and the next days; safe to repeat. A day whose rows lie in graphlog_rest already stays there.
CREATE FUNCTION wake_bridge.make_partitions() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this_day date;
BEGIN
    FOR this_day IN SELECT (now() AT TIME ZONE 'UTC')::date + ahead FROM generate_series(0, 7) AS ahead LOOP
        IF to_regclass(format('wake_bridge.graphlog_%s', to_char(this_day, 'YYYYMMDD'))) IS NULL THEN
            BEGIN
                EXECUTE format(
                    'CREATE TABLE wake_bridge.graphlog_%s PARTITION OF wake_bridge.graphlog FOR VALUES FROM (%L) TO (%L)',
                    to_char(this_day, 'YYYYMMDD'), this_day || ' 00:00:00+00', this_day + 1 || ' 00:00:00+00');
            EXCEPTION WHEN check_violation THEN NULL;
            END;
        END IF;
    END LOOP;
END $$;

-- Drops partitions that lie a week back, the oldest first, up to the first that a reader has not seen whole. The row at a
-- cursor stays: by it an epoch is known. A reader that was silent for ninety days counts no more; without one nothing is dropped.
CREATE FUNCTION wake_bridge.prune() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part record;
    last_id bigint;
    is_needed boolean;
    dropped integer := 0;
BEGIN
    DELETE FROM wake_bridge.cursors WHERE seen_at < now() - interval '90 days';
    IF NOT EXISTS (SELECT FROM wake_bridge.cursors) THEN
        RETURN 0;
    END IF;
    FOR part IN
        SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid
        WHERE inhparent = 'wake_bridge.graphlog'::regclass AND relname ~ '^graphlog_[0-9]{8}$'
            AND to_date(right(relname, 8), 'YYYYMMDD') < (now() AT TIME ZONE 'UTC')::date - 7
        ORDER BY relname
    LOOP
        -- with the lock nobody is writing there any more, and what is open there has been waited for or not: then another time
        EXECUTE format('LOCK TABLE wake_bridge.graphlog, wake_bridge.%I IN ACCESS EXCLUSIVE MODE', part.relname);
        EXECUTE format(
            'SELECT max(g.log_id), coalesce(bool_or(NOT pg_visible_in_snapshot(g.xid, c.snapshot) OR g.log_id >= c.log_id), false)
             FROM wake_bridge.%I g CROSS JOIN wake_bridge.cursors c', part.relname) INTO last_id, is_needed;
        EXIT WHEN is_needed;
        EXECUTE format('DROP TABLE wake_bridge.%I', part.relname);
        UPDATE wake_bridge.graph SET pruned_upto = greatest(pruned_upto, coalesce(last_id, 0));
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END $$;

-- What a daemon says of itself every minute; once an hour the log is looked after besides.
CREATE FUNCTION wake_bridge.note_reader(reader text, seen pg_snapshot, cursor_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO wake_bridge.cursors (daemon, snapshot, log_id) VALUES (reader, seen, cursor_id)
    ON CONFLICT (daemon) DO UPDATE SET snapshot = excluded.snapshot, log_id = excluded.log_id, seen_at = now();
    UPDATE wake_bridge.graph SET kept_at = now() WHERE kept_at < now() - interval '1 hour';
    IF FOUND THEN
        PERFORM set_config('lock_timeout', '200ms', true);
        BEGIN
            PERFORM wake_bridge.make_partitions();
        EXCEPTION WHEN lock_not_available THEN NULL;
        END;
        PERFORM wake_bridge.prune();
    END IF;
END $$;

-- Who may see and write what: readers and writers by userId, daemons all. A login role is given one of these; where they
-- cannot be made, everybody who may use the tables at all counts as a daemon; who owns the graph always does.
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['wake_bridge_reader', 'wake_bridge_writer', 'wake_bridge_daemon'] LOOP
        IF to_regrole(role_name) IS NULL THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
        END IF;
    END LOOP;
    EXECUTE format('GRANT wake_bridge_daemon TO %I', current_user);
EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
    RAISE NOTICE 'the roles of wake_bridge were not made: %', SQLERRM;
END $$;

-- for whom a login role speaks besides the userId that it is named like
CREATE TABLE wake_bridge.members (
    role_name text NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (role_name, user_id)
);

CREATE FUNCTION wake_bridge.is_daemon() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN to_regrole('wake_bridge_daemon') IS NULL THEN true
        ELSE pg_has_role(session_user, 'wake_bridge_daemon', 'MEMBER') END
        OR pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = 'wake_bridge.graphlog'::regclass), 'MEMBER')
$$;

-- whether a function of the owner is at work; session_user is still who logged in
CREATE FUNCTION wake_bridge.is_owner() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'wake_bridge.graphlog'::regclass)
$$;

CREATE FUNCTION wake_bridge.my_users() RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_append(array_agg(m.user_id COLLATE "C"), session_user::text COLLATE "C")
    FROM wake_bridge.members m WHERE m.role_name = session_user
$$;

-- whether a message is mail of this login role: to one of its identities, or to everybody
CREATE FUNCTION wake_bridge.is_mail_of_mine(message text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM wake_bridge.edges e WHERE e.source = message AND e.type IN ('SENT_TO', 'DELIVERED_TO')
        AND (e.target = 'AGENT:*' OR ltrim(e.target, '@') = ANY (wake_bridge.my_users())))
$$;

CREATE FUNCTION wake_bridge.is_task_of_mine(task text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT wake_bridge.is_mail_of_mine(task) OR EXISTS (
        SELECT FROM wake_bridge.nodes n WHERE n.id = task AND n.user_id = ANY (wake_bridge.my_users()))
$$;

-- What a policy cannot compare: nobody signs with another one's name, and nobody takes over what is another one's.
CREATE FUNCTION wake_bridge.check_writer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mine text[];
    sender text;
BEGIN
    IF wake_bridge.is_daemon() THEN
        RETURN NEW;
    END IF;
    mine := wake_bridge.my_users();
    IF TG_OP = 'UPDATE' AND (NEW.id <> OLD.id OR NEW.user_id IS DISTINCT FROM OLD.user_id) THEN
        RAISE insufficient_privilege USING MESSAGE = 'a row keeps its id and its owner';
    END IF;
    IF NEW.data #>> '{properties,userId}' IS DISTINCT FROM NEW.user_id THEN
        RAISE insufficient_privilege USING MESSAGE = 'userId says another owner than the row';
    END IF;
    IF TG_TABLE_NAME = 'edges' THEN
        IF TG_OP = 'UPDATE' AND (NEW.source <> OLD.source OR NEW.target <> OLD.target OR NEW.type <> OLD.type) THEN
            RAISE insufficient_privilege USING MESSAGE = 'an edge keeps its ends';
        END IF;
        IF NEW.type = 'SENT_BY' AND NOT ltrim(NEW.target, '@') = ANY (mine)
            OR NEW.type ^@ 'CAN_' AND NOT ltrim(NEW.target, '@') = ANY (mine)
            OR NEW.type = 'SUBSCRIBES_TO' AND NOT ltrim(NEW.source, '@') = ANY (mine) THEN
            RAISE insufficient_privilege USING MESSAGE = 'this edge is another identity''s to make';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.user_id IS NULL AND coalesce(NEW.data ->> 'label', '') NOT IN ('CONCEPT', 'AgentIdentity') THEN
        RAISE insufficient_privilege USING MESSAGE = 'only identities and concepts belong to nobody';
    END IF;
    sender := coalesce(NEW.data #>> '{properties,from}', NEW.data #>> '{properties,agentIdentity}');
    IF TG_OP = 'INSERT' AND NEW.data ->> 'label' IN ('MESSAGE', 'WAKE_SUBSCRIPTION')
        AND (sender IS NULL OR NOT ltrim(sender, '@') = ANY (mine)) THEN
        RAISE insufficient_privilege USING MESSAGE = 'nobody writes or subscribes in another identity''s name';
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.data -> 'label' IS DISTINCT FROM OLD.data -> 'label'
        OR NEW.data #> '{properties,from}' IS DISTINCT FROM OLD.data #> '{properties,from}'
        OR NEW.data #> '{properties,agentIdentity}' IS DISTINCT FROM OLD.data #> '{properties,agentIdentity}'
        OR (NOT OLD.user_id = ANY (mine) AND (NEW.data #- '{properties,readAt}' #- '{properties,archivedAt}'
                #- '{properties,task}' #- '{properties,lastModifiedAt}' #- '{properties,taskAssignmentAuthority}')
            IS DISTINCT FROM (OLD.data #- '{properties,readAt}' #- '{properties,archivedAt}'
                #- '{properties,task}' #- '{properties,lastModifiedAt}' #- '{properties,taskAssignmentAuthority}'))) THEN
        RAISE insufficient_privilege USING MESSAGE = 'of another one''s message only its state may be changed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER node_writer BEFORE INSERT OR UPDATE ON wake_bridge.nodes
    FOR EACH ROW EXECUTE FUNCTION wake_bridge.check_writer();
CREATE TRIGGER edge_writer BEFORE INSERT OR UPDATE ON wake_bridge.edges
    FOR EACH ROW EXECUTE FUNCTION wake_bridge.check_writer();

ALTER TABLE wake_bridge.nodes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE wake_bridge.edges ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE wake_bridge.graphlog ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY see ON wake_bridge.nodes FOR SELECT USING (
    (SELECT wake_bridge.is_daemon()) OR user_id IS NULL OR is_shared OR user_id = ANY ((SELECT wake_bridge.my_users())::text[]));
CREATE POLICY add ON wake_bridge.nodes FOR INSERT WITH CHECK (
    (SELECT wake_bridge.is_daemon()) OR user_id IS NULL OR user_id = ANY ((SELECT wake_bridge.my_users())::text[]));
CREATE POLICY change ON wake_bridge.nodes FOR UPDATE USING (
    (SELECT wake_bridge.is_daemon()) OR user_id = ANY ((SELECT wake_bridge.my_users())::text[])
    OR wake_bridge.is_mail_of_mine(id));
CREATE POLICY remove ON wake_bridge.nodes FOR DELETE USING (
    (SELECT wake_bridge.is_daemon()) OR user_id = ANY ((SELECT wake_bridge.my_users())::text[]));
CREATE POLICY see ON wake_bridge.edges FOR SELECT USING (
    (SELECT wake_bridge.is_daemon()) OR user_id IS NULL OR is_shared OR user_id = ANY ((SELECT wake_bridge.my_users())::text[]));
CREATE POLICY add ON wake_bridge.edges FOR INSERT WITH CHECK (
    (SELECT wake_bridge.is_daemon()) OR user_id = ANY ((SELECT wake_bridge.my_users())::text[]));
CREATE POLICY change ON wake_bridge.edges FOR UPDATE USING (
    (SELECT wake_bridge.is_daemon()) OR user_id = ANY ((SELECT wake_bridge.my_users())::text[])
    OR type = 'DELIVERED_TO' AND ltrim(target, '@') = ANY ((SELECT wake_bridge.my_users())::text[]));
CREATE POLICY remove ON wake_bridge.edges FOR DELETE USING (
    (SELECT wake_bridge.is_daemon()) OR user_id = ANY ((SELECT wake_bridge.my_users())::text[]));
CREATE POLICY see ON wake_bridge.graphlog FOR SELECT USING (
    (SELECT wake_bridge.is_daemon()) OR user_id IS NULL OR is_shared OR user_id = ANY ((SELECT wake_bridge.my_users())::text[]));
-- what the triggers write, and typed rows of one's own tasks
CREATE POLICY add ON wake_bridge.graphlog FOR INSERT WITH CHECK (
    (SELECT wake_bridge.is_daemon()) OR wake_bridge.is_owner()
    OR entity_type = 'task_state_changed' AND wake_bridge.is_task_of_mine(entity_id));
CREATE POLICY settle ON wake_bridge.graphlog FOR UPDATE USING (
    (SELECT wake_bridge.is_daemon()) OR wake_bridge.is_owner());
CREATE POLICY remove ON wake_bridge.graphlog FOR DELETE USING (
    (SELECT wake_bridge.is_daemon()) OR wake_bridge.is_owner());

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA wake_bridge FROM PUBLIC;
DO $$
BEGIN
    GRANT USAGE ON SCHEMA wake_bridge TO wake_bridge_reader, wake_bridge_writer, wake_bridge_daemon;
    GRANT SELECT ON wake_bridge.graph, wake_bridge.nodes, wake_bridge.edges, wake_bridge.graphlog
        TO wake_bridge_reader, wake_bridge_writer, wake_bridge_daemon;
    GRANT EXECUTE ON FUNCTION wake_bridge.here(), wake_bridge.log_life(), wake_bridge.is_daemon(), wake_bridge.is_owner(),
        wake_bridge.my_users(),
        wake_bridge.is_mail_of_mine(text), wake_bridge.is_task_of_mine(text)
        TO wake_bridge_reader, wake_bridge_writer, wake_bridge_daemon;
    GRANT INSERT (id, user_id, data), UPDATE (user_id, data), DELETE ON wake_bridge.nodes
        TO wake_bridge_writer, wake_bridge_daemon;
    GRANT INSERT (id, user_id, source, target, type, data), UPDATE (user_id, data), DELETE ON wake_bridge.edges
        TO wake_bridge_writer, wake_bridge_daemon;
    GRANT INSERT (entity_id, entity_type, event_id, event_payload, user_id) ON wake_bridge.graphlog
        TO wake_bridge_writer, wake_bridge_daemon;
    GRANT USAGE ON SEQUENCE wake_bridge.graphlog_ids TO wake_bridge_writer, wake_bridge_daemon;
    GRANT SELECT ON wake_bridge.cursors TO wake_bridge_daemon;
    GRANT EXECUTE ON FUNCTION wake_bridge.settle_in(), wake_bridge.note_reader(text, pg_snapshot, bigint)
        TO wake_bridge_daemon;
EXCEPTION WHEN undefined_object THEN NULL;
END $$;

INSERT INTO wake_bridge.graph (schema_version) VALUES (1);
SELECT wake_bridge.settle_in();
SELECT wake_bridge.make_partitions();
