"""Leases in PostgreSQL; see `ports.leases` for the contract. Every condition is judged by the server, at its own time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from wake_bridge.domain.errors import NotFound, RefusedForSafety
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Identity
from wake_bridge.ports.leases import ALIVE_FOR, LEFT_AT_COMMIT, HostOnGraph, OpenIntent, Owner, Renewal, ToldBy
from wake_bridge.storage.graph.postgres.connection import PostgresConnection

NO_ATTEMPT_LASTS: Final = 120
"""Seconds after which no attempt can be under way: the longest adapter's time-out is below."""

TOLD_FOR: Final = 100
"""Days for which it is known who was told what: longer than any ledger keeps its events."""

WANTED_FOR: Final = 60
"""Seconds for which a lease waits for the host that a person wants it to go to."""

# the renewal locks nothing but its own row; the leases that were asked for come with it
_RENEW: Final = """
    WITH before AS MATERIALIZED (
        SELECT alive_until > clock_timestamp() AND gone_at IS NULL AND place = %(place)s AS was
        FROM wake_bridge.hosts WHERE host = %(host)s),
    kept AS (
        INSERT INTO wake_bridge.hosts AS h (host, place, version, alive_until)
        VALUES (%(host)s, %(place)s, %(version)s, clock_timestamp() + make_interval(secs => %(alive)s))
        ON CONFLICT (host) DO UPDATE SET place = excluded.place, version = excluded.version,
            alive_until = excluded.alive_until, seen_at = clock_timestamp(), gone_at = NULL
        WHERE h.place = excluded.place OR h.alive_until < clock_timestamp()
        RETURNING 1)
    SELECT (SELECT count(*) FROM kept), (SELECT was FROM before), l.identity, coalesce(l.host, ''), l.token,
        coalesce(l.host = %(host)s OR o.alive_until > clock_timestamp(), false),
        CASE WHEN l.wanted_until > clock_timestamp() THEN l.wanted ELSE '' END
    FROM (SELECT) AS once
    LEFT JOIN wake_bridge.leases l
        ON l.identity = ANY (%(asked)s)
            OR (l.wanted IS NOT NULL AND l.host = %(host)s AND l.wanted_until > clock_timestamp())
    LEFT JOIN wake_bridge.hosts o ON o.host = l.host
"""
# the rows of hosts that seem lapsed are locked and judged again: a renewal that is on its way is waited for
_TAKE: Final = """
    WITH lapsed AS MATERIALIZED (
        SELECT host FROM wake_bridge.hosts
        WHERE host = ANY (%(lapsed)s) AND alive_until < clock_timestamp() ORDER BY host FOR UPDATE)
    INSERT INTO wake_bridge.leases AS l (identity, host)
    SELECT identity, %(host)s FROM unnest(%(identities)s::text[]) AS identity
    WHERE EXISTS (SELECT FROM wake_bridge.hosts WHERE host = %(host)s AND place = %(place)s AND alive_until > clock_timestamp())
    ORDER BY identity
    ON CONFLICT (identity) DO UPDATE
        SET host = excluded.host, token = l.token + 1, since = clock_timestamp(), wanted = NULL, wanted_until = NULL
        WHERE (l.host IS NULL OR l.host IN (SELECT host FROM lapsed))
            AND (l.wanted IS NULL OR l.wanted = excluded.host OR l.wanted_until < clock_timestamp())
    RETURNING l.identity, l.token
"""
# the lease's row is locked: who takes it over waits, and who has taken it over is seen; what was told outlives the server's end
_COMMIT: Final = """
    WITH held AS MATERIALIZED (
        SELECT l.identity FROM wake_bridge.leases l JOIN wake_bridge.hosts h ON h.host = l.host
        WHERE l.identity = %(identity)s AND l.host = %(host)s AND l.token = %(token)s AND h.place = %(place)s
            AND h.alive_until > clock_timestamp() + make_interval(secs => %(left)s)
            AND NOT EXISTS (
                SELECT FROM wake_bridge.told t
                WHERE t.identity = %(identity)s AND t.subject_key = ANY (%(keys)s) AND t.host <> %(host)s)
            AND (current_setting('synchronous_commit') <> 'off' OR set_config('synchronous_commit', 'on', true) = 'on')
        FOR UPDATE OF l),
    telling AS (
        INSERT INTO wake_bridge.told (identity, subject_key, delivery_id, host)
        SELECT identity, key, %(delivery)s, %(host)s FROM held, unnest(%(keys)s::text[]) AS key ORDER BY key
        ON CONFLICT (identity, subject_key)
            DO UPDATE SET delivery_id = excluded.delivery_id, told_at = excluded.told_at)
    INSERT INTO wake_bridge.intents (delivery_id, identity, host, token)
    SELECT %(delivery)s, identity, %(host)s, %(token)s FROM held
    ON CONFLICT (delivery_id) DO UPDATE
        SET token = excluded.token, begun_at = excluded.begun_at, outcome = NULL, ended_at = NULL
"""
_WITHDRAW: Final = """
    WITH ended AS (
        DELETE FROM wake_bridge.intents WHERE delivery_id = %(delivery)s AND host = %(host)s AND outcome IS NULL
        RETURNING delivery_id)
    DELETE FROM wake_bridge.told WHERE delivery_id IN (SELECT delivery_id FROM ended) AND host = %(host)s
"""
_TOLD: Final = """
    SELECT t.subject_key, t.host, t.delivery_id, i.delivery_id IS NULL OR i.outcome IS NOT NULL
    FROM wake_bridge.told t LEFT JOIN wake_bridge.intents i USING (delivery_id)
    WHERE t.identity = %s AND t.subject_key = ANY (%s)
"""
_TOLD_ELSEWHERE: Final = """
    SELECT t.identity, t.subject_key, t.host
    FROM unnest(%(identities)s::text[], %(keys)s::text[]) AS asked (identity, subject_key)
    JOIN wake_bridge.told t USING (identity, subject_key) LEFT JOIN wake_bridge.intents i USING (delivery_id)
    WHERE t.host <> %(host)s AND (i.delivery_id IS NULL OR i.outcome IS NOT NULL)
"""
_SETTLE: Final = """
    UPDATE wake_bridge.intents i SET outcome = news.outcome, ended_at = clock_timestamp()
    FROM unnest(%(deliveries)s::text[], %(outcomes)s::text[]) AS news (delivery_id, outcome)
    WHERE i.delivery_id = news.delivery_id AND i.host = %(host)s
"""
_OPEN: Final = """
    SELECT delivery_id, begun_at < clock_timestamp() - make_interval(secs => %(old)s)
    FROM wake_bridge.intents WHERE host = %(host)s AND outcome IS NULL
"""
_TIDY: Final = """
    WITH silent AS (
        UPDATE wake_bridge.intents SET outcome = 'unknown', ended_at = clock_timestamp()
        WHERE outcome IS NULL AND begun_at < clock_timestamp() - make_interval(secs => %(old)s) AND host IN (
            SELECT host FROM wake_bridge.hosts WHERE alive_until < clock_timestamp() - make_interval(secs => %(old)s))),
    forgotten AS (
        DELETE FROM wake_bridge.told WHERE ctid IN (
            SELECT ctid FROM wake_bridge.told
            WHERE told_at < clock_timestamp() - make_interval(days => %(days)s) LIMIT 1000))
    DELETE FROM wake_bridge.intents WHERE ctid IN (
        SELECT ctid FROM wake_bridge.intents
        WHERE begun_at < clock_timestamp() - make_interval(days => %(days)s) LIMIT 1000)
"""
_HOSTS: Final = """
    SELECT h.host, h.version, h.alive_until > clock_timestamp() AND h.gone_at IS NULL, h.gone_at IS NOT NULL,
        floor(extract(epoch FROM clock_timestamp() - h.seen_at) * 1000)::bigint,
        ARRAY(SELECT identity FROM wake_bridge.leases l WHERE l.host = h.host ORDER BY identity),
        (SELECT count(*) FROM wake_bridge.intents i WHERE i.host = h.host AND i.outcome IS NULL)
    FROM wake_bridge.hosts h ORDER BY 3 DESC, h.host
"""
_MOVE: Final = """
    INSERT INTO wake_bridge.leases AS l (identity, wanted, wanted_until)
    VALUES (%(identity)s, %(to)s, clock_timestamp() + make_interval(secs => %(wanted)s))
    ON CONFLICT (identity) DO UPDATE SET wanted = excluded.wanted, wanted_until = excluded.wanted_until
    RETURNING coalesce(l.host, '')
"""
# a key that was committed to a moment ago may still be pressed: until then nobody takes over
_GONE: Final = """
    WITH gone AS (
        UPDATE wake_bridge.hosts SET gone_at = clock_timestamp(), place = '',
            alive_until = least(alive_until, clock_timestamp() + make_interval(secs => %(left)s))
        WHERE host = %(host)s RETURNING host),
    ended AS (
        UPDATE wake_bridge.intents SET outcome = 'unknown', ended_at = clock_timestamp()
        WHERE host IN (SELECT host FROM gone) AND outcome IS NULL RETURNING 1)
    SELECT (SELECT count(*) FROM wake_bridge.leases WHERE host IN (SELECT host FROM gone)), (SELECT count(*) FROM ended)
"""


class PostgresLeases:
    """See `LeaseStore`, for one host.

    Args:
        place: the database.
        host: by which name this host is known, made once in its state directory.
        state_place: where that directory lies, alike for every run of its daemon, and for no copy of it.
        version: of this program.
    """

    def __init__(self, place: GraphUrl, host: str, state_place: str, version: str) -> None:
        self._base = PostgresConnection(place)
        self._us: dict[str, object] = {"host": host, "place": state_place}
        self._version = version

    def renew(self, asked: Collection[Identity]) -> Renewal:
        """See `LeaseStore.renew`."""
        values = self._us | {"version": self._version, "alive": ALIVE_FOR, "asked": list(asked)}
        rows = self._base.rows(_RENEW, values)
        kept, was_alive = rows[0][:2]
        owners = {Identity(row[2]): Owner(*row[3:]) for row in rows if row[2] is not None}
        us = self._us["host"]
        unwanted = [who for who, one in owners.items() if one.host == us and one.wanted not in {"", us}]
        return Renewal(bool(kept), not was_alive, owners, unwanted)

    def take(self, identities: Sequence[Identity], lapsed: Sequence[str]) -> Mapping[Identity, int]:
        """See `LeaseStore.take`."""
        values = self._us | {"identities": list(identities), "lapsed": list(lapsed)}
        return {Identity(row[0]): row[1] for row in self._base.rows(_TAKE, values)}

    def give_back(self, identities: Sequence[Identity]) -> None:
        """See `LeaseStore.give_back`."""
        self._base.run(
            "UPDATE wake_bridge.leases SET host = NULL WHERE host = %(host)s AND identity = ANY (%(identities)s)",
            self._us | {"identities": list(identities)},
        )

    def leave(self) -> None:
        """See `LeaseStore.leave`."""
        self._base.run("UPDATE wake_bridge.leases SET host = NULL WHERE host = %(host)s", self._us)
        self._base.run(
            "UPDATE wake_bridge.hosts SET alive_until = clock_timestamp(), seen_at = clock_timestamp()"
            " WHERE host = %(host)s AND place = %(place)s",
            self._us,
        )

    def commit_intent(self, identity: Identity, token: int, delivery_id: str, subject_keys: Sequence[str]) -> bool:
        """See `LeaseStore.commit_intent`."""
        values = self._us | {
            "identity": identity,
            "token": token,
            "delivery": delivery_id,
            "keys": sorted(set(subject_keys)),
            "left": LEFT_AT_COMMIT,
        }
        return bool(self._base.run(_COMMIT, values))

    def withdraw(self, delivery_id: str) -> None:
        """See `LeaseStore.withdraw`."""
        self._base.run(_WITHDRAW, self._us | {"delivery": delivery_id})

    def settle(self, outcomes: Mapping[str, str]) -> None:
        """See `LeaseStore.settle`."""
        self._base.run(_SETTLE, self._us | {"deliveries": [*outcomes], "outcomes": [*outcomes.values()]})

    def open_intents(self) -> Sequence[OpenIntent]:
        """See `LeaseStore.open_intents`."""
        return [OpenIntent(*row) for row in self._base.rows(_OPEN, self._us | {"old": NO_ATTEMPT_LASTS})]

    def tidy(self) -> None:
        """See `LeaseStore.tidy`."""
        self._base.run(_TIDY, {"old": NO_ATTEMPT_LASTS, "days": TOLD_FOR})

    def told(self, identity: Identity, subject_keys: Sequence[str]) -> Mapping[str, ToldBy]:
        """See `LeaseStore.told`."""
        rows = self._base.rows(_TOLD, (identity, list(subject_keys)))
        return {key: ToldBy(host, delivery_id, is_settled) for key, host, delivery_id, is_settled in rows}

    def told_elsewhere(self, subjects: Sequence[tuple[Identity, str]]) -> Sequence[tuple[Identity, str, str]]:
        """See `LeaseStore.told_elsewhere`."""
        asked = {"identities": [one for one, _ in subjects], "keys": [key for _, key in subjects]}
        return [(Identity(who), key, host) for who, key, host in self._base.rows(_TOLD_ELSEWHERE, self._us | asked)]

    def close(self) -> None:
        """See `LeaseStore.close`."""
        self._base.close()


class PostgresHostDesk:
    """See `HostDesk`."""

    def __init__(self, place: GraphUrl) -> None:
        self._base = PostgresConnection(place)

    def hosts(self) -> Sequence[HostOnGraph]:
        """See `HostDesk.hosts`."""
        rows = self._base.rows(_HOSTS)
        return [
            HostOnGraph(host, version, alive, gone, ago, tuple(map(Identity, theirs)), intents)
            for host, version, alive, gone, ago, theirs, intents in rows
        ]

    def server_of(self, identity: Identity) -> str:
        """See `HostDesk.server_of`."""
        rows = self._base.rows(
            "SELECT host FROM wake_bridge.leases JOIN wake_bridge.hosts USING (host)"
            " WHERE identity = %s AND alive_until > clock_timestamp()",
            (identity,),
        )
        return str(rows[0][0]) if rows else ""

    def wanted_for(self, identity: Identity) -> str:
        """See `HostDesk.wanted_for`."""
        rows = self._base.rows(
            "SELECT wanted FROM wake_bridge.leases WHERE identity = %s AND wanted_until > clock_timestamp()",
            (identity,),
        )
        return str(rows[0][0]) if rows else ""

    def note_shown(self, identity: Identity, subject_keys: Sequence[str], host: str) -> None:
        """See `HostDesk.note_shown`."""
        self._base.run(
            "INSERT INTO wake_bridge.told (identity, subject_key, delivery_id, host)"
            " SELECT %s, key, '', %s FROM unnest(%s::text[]) AS key ORDER BY key ON CONFLICT DO NOTHING",
            (identity, host, list(subject_keys)),
        )

    def move(self, identity: Identity, host: str) -> tuple[str, str]:
        """See `HostDesk.move`."""
        wanted = self._named(host)
        if not wanted.is_alive:
            raise RefusedForSafety(
                f"no daemon of {wanted.host} is alive", identity, hint="start it there first: `wake-bridge run`"
            )
        values = {"identity": identity, "to": wanted.host, "wanted": WANTED_FOR}
        return str(self._base.rows(_MOVE, values)[0][0]), wanted.host

    def gone(self, host: str) -> tuple[str, int, int]:
        """See `HostDesk.gone`."""
        name = self._named(host).host
        leases, intents = self._base.rows(_GONE, {"host": name, "left": LEFT_AT_COMMIT})[0]
        return name, leases, intents

    def close(self) -> None:
        """See `HostDesk.close`."""
        self._base.close()

    def _named(self, name: str) -> HostOnGraph:
        """The host of that name, or the only one whose name begins so."""
        known = self.hosts()
        found = [one for one in known if one.host == name] or [one for one in known if one.host.startswith(name)]
        if len(found) != 1:
            why = "several hosts are called so" if found else "no host of this graph is called so"
            raise NotFound(why, name, hint="`wake-bridge hosts list` shows them; one is known once its daemon runs")
        return found[0]
