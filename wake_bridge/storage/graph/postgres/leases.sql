-- One driver for each identity, where several hosts share the graph. Every time here is the server's: no host's clock counts.
-- Safe to run again: a graph that was made before there were leases gets them by `wake-bridge init`.

-- a host is alive until its daemon has not renewed for a while: one row is renewed for all identities that it serves
CREATE TABLE IF NOT EXISTS wake_bridge.hosts (
    host text COLLATE "C" PRIMARY KEY,
    -- where its state lies: a copy of it on another machine has the same name and is another daemon
    place text NOT NULL,
    version text NOT NULL DEFAULT '',
    alive_until timestamptz NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- a person said that it will not come back
    gone_at timestamptz
) WITH (fillfactor = 50);

-- the token rises with every owner: what an earlier one begins is refused
CREATE TABLE IF NOT EXISTS wake_bridge.leases (
    identity text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C",
    token bigint NOT NULL DEFAULT 1,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- a person wants it to go there; for so long nobody else takes it
    wanted text COLLATE "C",
    wanted_until timestamptz
);
CREATE INDEX IF NOT EXISTS leases_by_host ON wake_bridge.leases (host);
CREATE INDEX IF NOT EXISTS leases_wanted ON wake_bridge.leases (host) WHERE wanted IS NOT NULL;

-- a key may have been pressed for each of them: without an outcome only its own host can tell
CREATE TABLE IF NOT EXISTS wake_bridge.intents (
    delivery_id text COLLATE "C" PRIMARY KEY,
    identity text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome text,
    ended_at timestamptz
);
CREATE INDEX IF NOT EXISTS intents_without_outcome ON wake_bridge.intents (host) WHERE outcome IS NULL;
CREATE INDEX IF NOT EXISTS intents_by_time ON wake_bridge.intents (begun_at);

-- what an identity was told of, or may have been
CREATE TABLE IF NOT EXISTS wake_bridge.told (
    identity text COLLATE "C" NOT NULL,
    subject_key text COLLATE "C" NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    told_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (identity, subject_key)
);
CREATE INDEX IF NOT EXISTS told_by_delivery ON wake_bridge.told (delivery_id);
CREATE INDEX IF NOT EXISTS told_by_time ON wake_bridge.told (told_at);

-- the daemons' alone: what was told to whom is not every reader's business
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'wake_bridge_daemon') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE
            ON wake_bridge.hosts, wake_bridge.leases, wake_bridge.intents, wake_bridge.told TO wake_bridge_daemon;
    END IF;
END $$;
