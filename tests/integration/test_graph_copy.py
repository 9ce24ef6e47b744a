"""`graph copy`: a file into a database and back, each row as it was, all or nothing, and nobody is woken twice by it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from tests.postgres import NOW, PostgresServer
from tests.postgres_graph import PostgresEye
from wake_bridge.cli.app import cli
from wake_bridge.domain.delivery import Outcome, Proof
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import BROADCAST, Identity, Trigger
from wake_bridge.storage.graph.graph_file import GraphWriter
from wake_bridge.storage.graph.mailbox import Draft, move_task, send
from wake_bridge.storage.graph.nodes import Wish, put_identity, subscribe
from wake_bridge.storage.graph.opened import open_graph_to_write
from wake_bridge.storage.graph.postgres.change_log import PostgresGraph
from wake_bridge.storage.graph.postgres.leases import PostgresLeases
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.testing.ledger_samples import (
    START,
    counted_ids,
    fresh_ledger,
    lock_with_its_events,
    open_delivery,
    sample_event,
)
from wake_bridge.testing.memory_core import GraphEye
from wake_bridge.testing.tail_rig import TailRig

pytestmark = pytest.mark.anyio
BOB = Identity("@bob")
TABLES = {"Nodes": "rowid", "Edges": "rowid", "GraphLog": "log_id"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A graph of ours with a little of everything in it."""
    path = tmp_path / "graph.sqlite"
    create_embedded_graph(path, NOW)
    with GraphWriter(path) as graph:
        for name in ("@ada", "@bob", "@cyd"):
            put_identity(graph, name, NOW)
        subscribe(graph, "@bob", Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="a"), NOW)
        send(graph, Draft("@ada", BROADCAST, "All ✓ 漢字", 'a "body"\\\nof two lines', tags=("a2a",)), NOW)
        move_task(graph, send(graph, Draft("@ada", "@bob", "Fix", is_task=True), NOW), "Working", "@bob", NOW)
        graph.delete_node("@cyd")
    return path


@pytest.fixture
def empty(postgres: PostgresServer, postgres_url: str) -> Iterator[str]:  # noqa: ARG001 - whose making made the roles
    """A database with nothing in it, for its owner, who is no superuser and was granted no role."""
    url = postgres.database(is_empty=True)
    name = url.partition("?")[0].rpartition("/")[2]
    with postgres.connected() as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN".encode())
        admin.execute(f"ALTER DATABASE {name} OWNER TO {name}".encode())
    yield postgres.at(name, name)
    postgres.drop(url)


def copy(source: object, target: object, home: Path = Path("/nowhere")) -> Result:
    env = {"HOME": str(home), "XDG_CONFIG_HOME": None, "XDG_DATA_HOME": None, "XDG_STATE_HOME": None}
    return CliRunner(env=env).invoke(cli, ["graph", "copy", str(source), str(target), "--json"])


def all_of(eye: GraphEye) -> dict[str, list[object]]:
    """Everything that is stored, JSON as it is meant."""
    columns = {"Nodes": "id, user_id, data", "Edges": "id, user_id, source, target, type, data"}
    columns["GraphLog"] = "log_id, entity_id, entity_type, event_id, event_payload"
    return {
        table: [
            [json.loads(value) if str(value).startswith("{") else value for value in row]
            for row in eye.all(f"SELECT {columns[table]} FROM {table} ORDER BY {order}")
        ]
        for table, order in TABLES.items()
    }


def test_a_graph_goes_over_and_back_and_every_row_is_as_it_was(file: Path, empty: str, tmp_path: Path) -> None:
    """Nodes, edges and log with their ids and order; what is written afterwards goes on behind them, and is logged."""
    before = all_of(GraphEye(file))
    over = copy(file, empty)
    assert over.exit_code == 0, over.output
    counts = json.loads(over.stdout)
    assert [counts["nodes"], counts["edges"], counts["log"]] == [len(rows) for rows in before.values()]
    with closing(PostgresEye(empty)) as eye:
        assert all_of(eye) == before
        with open_graph_to_write(GraphUrl(empty)) as graph:
            put_identity(graph, "@new", NOW)
        assert eye.all("SELECT log_id, entity_id FROM GraphLog ORDER BY log_id DESC LIMIT 1") == [
            (len(before["GraphLog"]) + 1, "@new")
        ]
        now = all_of(eye)
    back = tmp_path / "back.sqlite"
    assert copy(empty, back).exit_code == 0
    assert all_of(GraphEye(back)) == now
    with GraphWriter(back) as graph:
        put_identity(graph, "@newer", NOW)
    assert GraphEye(back).tip() == len(before["GraphLog"]) + 2


def test_a_target_that_holds_something_is_refused_and_stays(file: Path, postgres_url: str) -> None:
    """Never over what is there (7)."""
    with open_graph_to_write(GraphUrl(postgres_url)) as graph:
        put_identity(graph, "@theirs", NOW)
    with closing(PostgresEye(postgres_url)) as eye:
        before = all_of(eye)
        refused = copy(file, postgres_url)
        assert refused.exit_code == 7
        assert "there is something in the target already, @theirs for one" in refused.stderr
        assert all_of(eye) == before


def test_rows_that_cannot_be_moved_are_named_and_nothing_is_changed(file: Path, postgres_url: str) -> None:
    """What jsonb cannot hold as it is: broken JSON, NUL, half a character; an edge without its ends fails the whole."""
    with closing(sqlite3.connect(file)) as graph, graph:
        graph.execute("INSERT INTO Nodes (id, data) VALUES ('broken', '{')")
        graph.execute("INSERT INTO Nodes (id, data) VALUES ('nul', ?)", ('{"properties": {"a": "\\u0000"}}',))
        graph.execute("INSERT INTO Nodes (id, data) VALUES ('half', ?)", ('{"properties": {"a": "\\ud800"}}',))
        graph.execute("INSERT INTO Nodes (id, data) VALUES ('fine', ?)", ('{"properties": {"a": "\\\\u0000"}}',))
    refused = copy(file, postgres_url)
    assert refused.exit_code == 1
    assert "3 rows cannot be moved as they are: broken (its JSON is broken), nul (NUL" in refused.stderr
    with closing(sqlite3.connect(file)) as graph, graph:
        graph.execute("DELETE FROM Nodes WHERE id IN ('broken', 'nul', 'half')")
        graph.execute("INSERT INTO Edges VALUES ('loose', NULL, '@gone', '@ada', 'SENT_TO', '{}')")
    assert copy(file, postgres_url).exit_code == 1
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT id FROM wake_bridge.nodes").fetchall() == [(BROADCAST,)]


def test_what_was_told_is_known_to_every_host_of_the_new_place(file: Path, postgres_url: str, tmp_path: Path) -> None:
    """The ledger of this host alone knew of it: one that comes later would look back and tell it anew."""
    with GraphWriter(file) as graph:
        told, untold = (send(graph, Draft("@ada", "@bob", subject), NOW) for subject in ("told", "untold"))
    with fresh_ledger(tmp_path / ".local/state/wake-bridge") as ledger:
        ids = counted_ids()
        ended, waiting = (
            replace(sample_event(nth, identity=BOB), subject_key=key) for nth, key in ((1, told), (2, untold))
        )
        delivery = ledger.dispatch(open_delivery(ledger, ended, new_id=ids), START)
        ledger.settle(lock_with_its_events(ledger, delivery, START), Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
        open_delivery(ledger, waiting, new_id=ids)

    assert copy(file, postgres_url, tmp_path).exit_code == 0

    with closing(PostgresLeases(GraphUrl(postgres_url), "later", "its state", "0.3.0")) as later:
        assert set(later.told(BOB, [told, untold])) == {told}


async def test_a_daemon_goes_on_from_where_it_stood(file: Path, postgres_url: str, tmp_path: Path) -> None:
    """The row at its cursor stands in the database, too: no new epoch, mail since then wakes, and nothing does twice."""
    state = tmp_path / "state"
    async with TailRig(file, state) as rig:
        await rig.until(rig.is_at_the_tip)
    with GraphWriter(file) as graph:
        away = send(graph, Draft("@ada", "@bob", "while it was down"), NOW)
    assert copy(file, postgres_url).exit_code == 0
    async with TailRig(file, state, hints=False, log=PostgresGraph(GraphUrl(postgres_url))) as rig:
        await rig.until(lambda: rig.tail.tip > 0 and rig.is_at_the_tip())
        assert rig.tail.epoch == 1
        assert {event.subject_key for event in rig.ledger.recorded} == {away}
        position = rig.ledger.position()
        assert position is not None
        assert position.snapshot
