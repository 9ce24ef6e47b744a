"""What happens to a PostgreSQL server, and mail outlives it: each message is told once, and what was refused says what to do.

`pytest -m torture` on this file has them run: each has a server of its own, a daemon at work on it, and an agent.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
import psycopg
import pytest

from tests.postgres import PostgresServer, bundled, give_away, run_as_its_user
from tests.programs import cannot, needs
from wake_bridge.demo.sandbox import QUICK, end_process_with_us
from wake_bridge.testing import HUNG, until
from wake_bridge.testing.playground import Playground

pytestmark = pytest.mark.torture

OPEN_FOR: Final = float(os.environ.get("WAKE_BRIDGE_TEST_OPEN_FOR", "30"))
"""Seconds for which a transaction stays open elsewhere; the figures of the documents have 300."""


class House:
    """A daemon at work on a graph, and an agent whose pane it types into."""

    def __init__(self, stack: ExitStack, directory: Path, program: tuple[str, ...], url: str) -> None:
        self.url = url
        self.world = stack.enter_context(Playground(directory, program))
        self.box = self.world.sandbox
        self.box.config_file.unlink()
        self.box.run("init", "--graph", url)
        self.box.configure(f'graph.url = "{url}"\n{QUICK}limits.storm = 1000\nlimits.wakes_per_hour = 1000\n')
        self.agent = self.world.enlisted("agent")
        self.daemon = self.box.daemon()
        self.sent: list[str] = []

    def told(self) -> list[str]:
        """The subjects that were submitted, each as often as it was."""
        return [
            subject
            for subject in self.sent
            for text in self.agent.fake.submits()
            for _ in range(text.count(f'"{subject}"'))
        ]

    def is_told(self, subject: str) -> float:
        """Send it, wait until the agent has it; answers the seconds between."""
        self.box.send("@agent", subject)
        began = time.monotonic()
        self.sent.append(subject)
        self.box.waits_for(lambda: subject in self.told(), what=subject)
        return time.monotonic() - began

    def goes_away(self) -> str:
        """Wait until the daemon says that the graph is away; answers what a command says then."""
        until(lambda: self._last_word() == "graph_away", "the graph to be away")
        refused = self.box.run("send", "@agent", "--from", "@me", "--subject", "refused", expect=4)
        assert refused.stderr.startswith("error: the graph cannot be used now (")
        return refused.stderr.partition("hint: ")[2]

    def comes_back(self) -> None:
        """Wait until the daemon has it again."""
        until(lambda: self._last_word() == "graph_back", "the graph to be back")

    def _last_word(self) -> str:
        words = [str(one["event"]) for one in self.daemon.entries()]
        return next((one for one in reversed(words) if one in {"graph_away", "graph_back"}), "")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Ends what a test started."""
    with ExitStack() as ending:
        yield ending


@pytest.fixture
def place(stack: ExitStack) -> Path:
    """A directory with a short name that others may enter, for servers and sockets."""
    made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wbt-")))
    made.chmod(0o755)
    return made


@pytest.fixture
def house_on(
    stack: ExitStack,
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Callable[[str], House]:
    """Puts the house of a test on the graph behind a URL."""
    return lambda url: House(stack, tmp_path, program, url)


def runs(stack: ExitStack, place: Path, *settings: str) -> PostgresServer:
    """A server of the test's own."""
    server = PostgresServer.made(place / "data", settings)
    server.start()
    stack.callback(ends, server)
    return server


def ends(server: PostgresServer) -> None:
    """End it, if it was not ended."""
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
        server.kill()


def test_a_server_that_is_killed_and_comes_back(
    stack: ExitStack, place: Path, house_on: Callable[[str], House]
) -> None:
    """Kill -9 of all of it, three times: what was committed is there, the daemon waits and goes on in the same epoch."""
    server = runs(stack, place)
    house = house_on(server.at("postgres"))
    house.is_told("before")
    for number in range(3):
        server.kill()
        assert "see that the server runs" in house.goes_away()
        server.start()
        house.comes_back()
        house.is_told(f"after {number}")
    assert sorted(house.told()) == sorted(house.sent)
    assert len(house.daemon.entries("epoch_began")) == 1


def test_a_server_that_stands_still(stack: ExitStack, place: Path, house_on: Callable[[str], House]) -> None:
    """SIGSTOP: nobody waits for it without end, a command neither, and nothing is lost when it goes on."""
    server = runs(stack, place)
    house = house_on(server.at("postgres"))
    house.is_told("before")
    postmaster = server.postmaster
    all_of_it = [postmaster, *postmaster.children()]
    for one in all_of_it:
        one.suspend()
    try:
        assert "see that the server runs" in house.goes_away()
    finally:
        for one in reversed(all_of_it):
            one.resume()
    house.comes_back()
    house.is_told("after")
    assert sorted(house.told()) == sorted(house.sent)
    assert len(house.daemon.entries("epoch_began")) == 1


@pytest.mark.timeout(10 * HUNG + OPEN_FOR)
def test_a_transaction_that_stays_open_elsewhere(
    stack: ExitStack, place: Path, house_on: Callable[[str], House]
) -> None:
    """In another database, and in this one: mail is woken meanwhile, as quickly as ever."""
    server = runs(stack, place)
    with server.connected() as admin:
        admin.execute("CREATE DATABASE wake")
    house = house_on(server.at("wake"))
    usual, meanwhile = [house.is_told(f"before {number}") for number in range(5)], list[float]()
    with psycopg.connect(server.url) as elsewhere, psycopg.connect(server.at("wake")) as here:
        for one in (elsewhere, here):
            one.execute("SELECT pg_current_xact_id()")
        began = time.monotonic()
        while time.monotonic() < began + OPEN_FOR:
            meanwhile.append(house.is_told(f"meanwhile {len(meanwhile)}"))
            time.sleep(OPEN_FOR / 30)
    for name, took in (("before it", usual), ("beside it", meanwhile)):
        print(f"{len(took)} messages {name}: median {statistics.median(took):.2f} s, at most {max(took):.2f} s")
    assert sorted(house.told()) == sorted(house.sent)


class Pooler:
    """PgBouncer in transaction mode before a server: each transaction may get another connection."""

    def __init__(self, place: Path, server: PostgresServer) -> None:
        needs("pgbouncer")
        self._place = place / "pooler"
        give_away(self._place)
        self._file, self._pid = self._place / "pgbouncer.ini", self._place / "pid"
        self._file.write_text(
            f"[databases]\n* = host={server.data} user=postgres\n[pgbouncer]\npool_mode = transaction\nlisten_addr =\n"
            f"unix_socket_dir = {self._place}\nlisten_port = 6432\nauth_type = any\ndefault_pool_size = 3\n"
            f"logfile = {self._place}/log\npidfile = {self._place}/pid\n",
            encoding="utf-8",
        )
        give_away(self._file)
        self.url = f"postgresql://postgres@/postgres?host={self._place}&port=6432"

    def start(self) -> None:
        """Start it, as a daemon of its own."""
        run_as_its_user(["pgbouncer", "-d", self._file])
        until(lambda: self._pid.exists() and self._pid.read_text(encoding="ascii").strip(), "the pooler")
        end_process_with_us(int(self._pid.read_text(encoding="ascii")))

    def kill(self) -> None:
        """End it at once."""
        process = psutil.Process(int(self._pid.read_text(encoding="ascii")))
        process.kill()
        psutil.wait_procs([process])
        self._pid.unlink(missing_ok=True)


def test_a_pooler_in_transaction_mode(stack: ExitStack, place: Path, house_on: Callable[[str], House]) -> None:
    """PgBouncer: `init`, commands and the daemon work through it, without notices; it is killed, and comes back."""
    pooler = Pooler(place, runs(stack, place))
    pooler.start()
    stack.callback(pooler.kill)
    house = house_on(pooler.url)
    for number in range(5):
        house.is_told(f"through it {number}")
    assert [one["agents"] for one in house.box.lines("hosts", "list")] == [["@agent"]]
    pooler.kill()
    house.goes_away()
    pooler.start()
    house.comes_back()
    house.is_told("after")
    assert sorted(house.told()) == sorted(house.sent)
    assert len(house.daemon.entries("epoch_began")) == 1


def test_a_failover_to_a_replica_that_lags(stack: ExitStack, place: Path, house_on: Callable[[str], House]) -> None:
    """The replica lacks the last message, and gives its log ids anew: another epoch, nothing twice, nothing new is missed."""
    primary = runs(stack, place, "hot_standby = on")
    assert primary.data is not None
    copy = place / "copy"
    give_away(copy)
    run_as_its_user(
        [bundled() / "pg_basebackup", "-h", primary.data, "-U", "postgres", "-D", copy, "-R", "-X", "stream"]
    )
    # the socket's, which lies beside the data
    (copy / ".s.PGSQL.5432.lock").unlink()
    with (copy / "postgresql.conf").open("a", encoding="utf-8") as settings:
        settings.write(f"unix_socket_directories = '{copy}'\n")
    standby = PostgresServer(f"postgresql://postgres@/postgres?host={copy}", copy, bundled())
    standby.start()
    stack.callback(ends, standby)
    url = f"postgresql://postgres@/postgres?host={primary.data},{copy}&target_session_attrs=read-write"
    house = house_on(url)
    house.is_told("before")
    refused = house.box.run("agent", "add", "@x", expect=4, environment={"WAKE_BRIDGE_GRAPH_URL": standby.url})
    assert "graph.url has to name the primary" in refused.stderr
    house.box.run("pause", "@agent")
    house.box.send("@agent", "held")
    house.sent.append("held")
    house.box.waits_for_delivery(hold_reason="paused")
    with standby.connected() as admin, primary.connected() as source:
        tip = source.execute("SELECT pg_current_wal_lsn()").fetchone()
        until(lambda: admin.execute("SELECT pg_last_wal_replay_lsn() >= %s", tip).fetchone() == (True,), "the replica")
        admin.execute("ALTER SYSTEM SET primary_conninfo = ''")
        admin.execute("SELECT pg_reload_conf()")
        until(lambda: not admin.execute("SELECT FROM pg_stat_wal_receiver").fetchall(), "the replica to lag")
    house.box.send("@agent", "lost with the primary")
    house.daemon.waits_for_log("event_matched", 3)

    primary.kill()
    house.goes_away()
    standby.control("promote", "-w")
    house.comes_back()
    house.box.run("resume", "@agent")
    house.box.waits_for(lambda: "held" in house.told(), what="what was held")
    house.is_told("after")

    assert sorted(house.told()) == sorted(house.sent)
    assert "lost with the primary" not in "".join(house.agent.fake.submits())
    assert len(house.daemon.entries("epoch_began")) == 2


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A disk of its own, in a mount namespace; answers the way to it, which leads past whoever lives there."""
    if os.geteuid() != 0:
        cannot("only root can mount")
    needs("unshare", "setpriv")
    place.mkdir()
    script = (
        f"mount -t tmpfs -o size={size},mode=0777 small {place} && echo mounted"
        " && exec setpriv --reuid nobody --clear-groups sleep 7200"
    )
    with subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE) as keeper:
        end_process_with_us(keeper.pid)
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.readline() == b"mounted\n"
            until(lambda: psutil.Process(keeper.pid).name() == "sleep", "who keeps the disk")
            yield Path(f"/proc/{keeper.pid}/root{place}")
        finally:
            keeper.kill()


def test_a_server_whose_disk_is_full(stack: ExitStack, place: Path, house_on: Callable[[str], House]) -> None:
    """What is refused is said to be, with advice; what was taken is told, also where the server fell for want of room."""
    disk = stack.enter_context(small_disk(place / "small", "160m"))
    server = runs(stack, disk, "max_wal_size = 64MB", "min_wal_size = 32MB", "shared_buffers = 16MB")
    house = house_on(server.at("postgres"))
    house.is_told("before")
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 65536):
            pass
    refused = ""
    for number in range(200):
        done = house.box.run(
            *("send", "@agent", "--from", "@me", "--subject", f"large {number}", "--body", "-"),
            text="ab" * 400_000,
            expect=None,
        )
        if done.returncode:
            refused = done.stderr
            break
        house.sent.append(f"large {number}")
    assert refused.startswith("error: the graph cannot be used now (")
    assert "make room on the server's disk" in refused or "see that the server runs" in refused
    filler.unlink()
    with contextlib.suppress(AssertionError):
        server.start()
    house.is_told("after")
    until(lambda: set(house.told()) == set(house.sent), "all that was taken")
    assert sorted(house.told()) == sorted(house.sent)
    assert len(house.daemon.entries("epoch_began")) == 1
