"""Leases, on a real PostgreSQL: who may take one, and whose commits count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
import pytest

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.errors import NotFound, RefusedForSafety
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.guards import OtherDriver, moved_to
from wake_bridge.domain.names import Identity
from wake_bridge.engine.deliver.host_leases import HostLeases
from wake_bridge.ports.leases import LEFT_AT_COMMIT, OpenIntent, Owner, ToldBy
from wake_bridge.storage.graph.postgres.leases import PostgresHostDesk, PostgresLeases
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock

X = Identity("@x")


class Database:
    """Two hosts on it, `a` and `b`, both alive."""

    def __init__(self, url: str) -> None:
        self.place = GraphUrl(url)
        self.a, self.b = self.host("a"), self.host("b")
        self.desk = PostgresHostDesk(self.place)
        for one in (self.a, self.b):
            one.renew([])
        self.connection = psycopg.connect(url, autocommit=True)

    def host(self, name: str, state: str = "") -> PostgresLeases:
        """One more; `state` is where its state directory lies."""
        return PostgresLeases(self.place, name, state or f"state of {name}", "0.3.0")

    def lasts(self, host: str, seconds: float) -> None:
        """So long a host counts as alive from now on."""
        self.connection.execute(
            "UPDATE wake_bridge.hosts SET alive_until = clock_timestamp() + make_interval(secs => %s) WHERE host = %s",
            (seconds, host),
        )

    def close(self) -> None:
        """End all connections."""
        for one in (self.a, self.b, self.desk, self.connection):
            one.close()


@pytest.fixture
def base(postgres_url: str) -> Iterator[Database]:
    """A database with an empty graph."""
    made = Database(postgres_url)
    yield made
    made.close()


def test_a_lease_has_one_owner_and_a_token_that_rises_with_each(base: Database) -> None:
    """Taken by the first, given back, taken by the other; a living owner's is nobody's to take."""
    assert base.a.take([X], []) == {X: 1}
    assert base.b.take([X], ["a"]) == {}
    assert base.b.renew([X]).owners == {X: Owner("a", 1, is_alive=True)}

    base.a.give_back([X])
    assert base.b.take([X], []) == {X: 2}
    assert base.a.commit_intent(X, 1, "d1", ["m1"]) is False
    assert base.b.commit_intent(X, 2, "d2", ["m1"]) is True

    base.b.give_back([X])
    assert base.a.take([X], []) == {X: 3}
    assert base.a.commit_intent(X, 1, "d3", ["m3"]) is False, "what began under the first token"
    assert base.a.commit_intent(X, 3, "d3", ["m3"]) is True


def test_the_leases_of_a_host_that_is_not_renewed_are_free(base: Database) -> None:
    """By the database's time; whoever renews in time keeps all of its leases by that one update."""
    base.a.take([X, Identity("@y")], [])
    base.lasts("a", -1)
    assert base.b.renew([X]).owners == {X: Owner("a", 1, is_alive=False)}
    assert base.a.renew([]).was_lapsed is True
    assert base.b.take([X], ["a"]) == {}

    base.lasts("a", -1)
    assert base.b.take([X], ["a"]) == {X: 2}
    assert base.a.renew([X, Identity("@y")]).owners == {
        X: Owner("b", 2, is_alive=True),
        Identity("@y"): Owner("a", 1, is_alive=True),
    }


def test_a_key_is_committed_to_only_while_its_lease_lasts_longer_than_the_key_may_take(base: Database) -> None:
    """What is committed falls into the lease, whatever comes between commit and key."""
    base.a.take([X], [])
    base.lasts("a", LEFT_AT_COMMIT - 0.5)
    assert base.a.commit_intent(X, 1, "d1", ["m1"]) is False
    assert base.b.told(X, ["m1"]) == {}
    base.a.renew([])
    assert base.a.commit_intent(X, 1, "d1", ["m1"]) is True


def test_what_is_committed_before_a_key_outlives_the_end_of_the_server(base: Database) -> None:
    """Whatever the server is set to: else it forgets, with the last moments before a crash, what was told in them."""
    base.connection.execute(
        "CREATE TABLE seen (how text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;"
        " CREATE TRIGGER note AFTER INSERT ON wake_bridge.intents FOR EACH ROW EXECUTE FUNCTION note()"
    )
    try:
        base.a.take([X], [])
        assert base.a.commit_intent(X, 1, "d1", ["m1"]) is True
        assert base.connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
        assert base.connection.execute("SELECT how FROM seen").fetchall() == [("on",)]
    finally:
        base.connection.execute("DROP TABLE seen; DROP FUNCTION note CASCADE")


def test_what_another_host_has_told_no_commit_tells_again(base: Database) -> None:
    """Not even with the lease in hand; what its own host tells again by a person's word may be told."""
    base.a.take([X], [])
    base.a.commit_intent(X, 1, "d1", ["m1", "m2"])
    base.a.give_back([X])
    base.b.take([X], [])

    assert base.b.told(X, ["m1", "m3"]) == {"m1": ToldBy("a", "d1", is_settled=False)}
    assert base.b.commit_intent(X, 2, "d2", ["m2", "m3"]) is False
    assert base.b.told(X, ["m3"]) == {}
    assert base.b.commit_intent(X, 2, "d2", ["m3"]) is True
    assert base.b.commit_intent(X, 2, "d3", ["m3"]) is True


def test_what_another_host_has_told_is_known_for_many_at_once_as_soon_as_it_has_said_so(base: Database) -> None:
    """Not while only that host can say whether it did; and what we told ourselves our ledger knows."""
    base.a.take([X], [])
    base.a.commit_intent(X, 1, "d1", ["m1"])
    asked = [(X, "m1"), (X, "m2"), (Identity("@y"), "m1")]

    assert base.b.told_elsewhere(asked) == []
    base.a.settle({"d1": "submitted"})
    assert base.b.told_elsewhere(asked) == [(X, "m1", "a")]
    assert base.a.told_elsewhere(asked) == []


def test_what_a_command_has_shown_no_host_tells(base: Database) -> None:
    """`inbox` writes it down beside the daemons, whichever of them serves the identity."""
    base.desk.note_shown(X, ["m1"], "b")
    base.desk.note_shown(X, ["m1"], "a")
    base.a.take([X], [])
    assert base.a.told(X, ["m1", "m2"]) == {"m1": ToldBy("b", "", is_settled=True)}
    assert base.a.commit_intent(X, 1, "d1", ["m1"]) is False
    assert base.a.commit_intent(X, 1, "d1", ["m2"]) is True


def test_an_intent_is_settled_by_its_owner_or_unknown_by_a_person(base: Database) -> None:
    """Nothing else ends it while its host may come back; what was never sent leaves no trace."""
    base.a.take([X], [])
    for delivery, message in (("d1", "m1"), ("d2", "m2"), ("d3", "m3")):
        base.a.commit_intent(X, 1, delivery, [message])
    base.b.tidy()
    base.a.withdraw("d1")
    base.a.settle({"d2": "submitted"})
    assert base.a.open_intents() == [OpenIntent("d3", is_old=False)]
    assert base.b.told(X, ["m1", "m2", "m3"]) == {
        "m2": ToldBy("a", "d2", is_settled=True),
        "m3": ToldBy("a", "d3", is_settled=False),
    }

    assert base.desk.gone("a") == ("a", 1, 1)
    assert base.a.commit_intent(X, 1, "d4", ["m4"]) is False
    assert base.a.open_intents() == []
    assert base.b.take([X], ["a"]) == {}, "a key of the moment before may still come"
    base.lasts("a", -1)
    assert base.b.take([X], ["a"]) == {X: 2}


def test_what_a_silent_host_may_have_typed_ends_as_unknown(base: Database) -> None:
    """Long after its lease: by then no attempt can be under way."""
    base.a.take([X], [])
    base.a.commit_intent(X, 1, "d1", ["m1"])
    base.connection.execute("UPDATE wake_bridge.intents SET begun_at = begun_at - interval '1 hour'")
    base.b.tidy()
    assert base.a.open_intents() == [OpenIntent("d1", is_old=True)]
    base.lasts("a", -3600)
    base.b.tidy()
    assert base.a.open_intents() == []
    assert base.b.told(X, ["m1"]) == {"m1": ToldBy("a", "d1", is_settled=True)}


def test_a_person_moves_a_lease_to_a_host_that_lives(base: Database) -> None:
    """Its owner is told; nobody but the wanted one takes it meanwhile."""
    base.a.take([X], [])
    assert base.desk.move(X, "b") == ("a", "b")
    assert base.desk.wanted_for(X) == "b"
    assert base.a.renew([]).unwanted == [X]
    assert base.b.renew([X]).owners == {X: Owner("a", 1, is_alive=True, wanted="b")}
    base.a.give_back([X])
    assert base.a.take([X], []) == {}
    assert base.b.take([X], []) == {X: 2}
    assert base.b.renew([]).unwanted == []
    assert base.b.renew([X]).owners == {X: Owner("b", 2, is_alive=True)}
    assert [(one.host, one.identities) for one in base.desk.hosts()] == [("a", ()), ("b", (X,))]
    assert (base.desk.server_of(X), base.desk.wanted_for(X)) == ("b", "")

    base.lasts("a", -1)
    with pytest.raises(RefusedForSafety, match="no daemon of a is alive"):
        base.desk.move(X, "a")
    with pytest.raises(NotFound):
        base.desk.move(X, "nobody")


def test_who_is_moved_is_said_to_wait_for_that_host_until_it_or_another_one_serves(
    base: Database, tmp_path: Path
) -> None:
    """On the host that gave it back and on a third one, with a look at the lease or without; none of them says that the graph is away."""
    here, third = leases_of(base.a, "a", tmp_path), leases_of(base.host("c"), "c", tmp_path)
    asyncio.run(here.keep())
    asyncio.run(third.keep())
    base.desk.move(X, "b")
    asyncio.run(here.keep())
    for one in (here, third):
        assert asyncio.run(one.take(X)) == moved_to("b")
        assert one.elsewhere(X) == moved_to("b")

    base.b.take([X], [])
    assert asyncio.run(third.take(X)) == OtherDriver("b", Cause.OTHER_HOST)
    base.b.give_back([X])
    base.desk.move(X, "b")
    asyncio.run(here.keep())
    assert here.elsewhere(X) == moved_to("b")
    base.connection.execute("UPDATE wake_bridge.leases SET wanted_until = clock_timestamp()")
    assert asyncio.run(here.take(X)) is None
    here.close()
    third.close()


def test_who_was_too_late_for_a_lease_says_who_was_quicker(base: Database, tmp_path: Path) -> None:
    """Another host takes it between the question who has it and the taking."""

    class Late(PostgresLeases):
        def take(self, identities: Sequence[Identity], lapsed: Sequence[str]) -> Mapping[Identity, int]:
            base.b.take(identities, [])
            return super().take(identities, lapsed)

    here = leases_of(Late(base.place, "a", "state of a", "0.3.0"), "a", tmp_path)
    assert asyncio.run(here.take(X)) == OtherDriver("b", Cause.OTHER_HOST)
    here.close()


def leases_of(store: PostgresLeases, host: str, directory: Path) -> HostLeases:
    """The leases of a host that sees `@x`."""
    return HostLeases(
        store,
        host,
        LedgerStore.open(directory / host),
        SteadyClock(),
        seen=lambda: {X},
        waiting=set,
        changed=lambda _: None,
        told=lambda _: None,
    )


def test_a_copy_of_a_state_directory_is_another_daemon(base: Database) -> None:
    """It has the name, and drives nothing while the first one lives."""
    base.a.take([X], [])
    copy = base.host("a", state="another machine")
    assert copy.renew([X]).is_enrolled is False
    assert copy.take([Identity("@y")], []) == {}
    assert copy.commit_intent(X, 1, "d1", ["m1"]) is False
    base.a.leave()
    assert copy.renew([X]).is_enrolled is True
    copy.close()
