"""Several hosts on one graph in PostgreSQL: one of them drives an identity, and the others say which.

Each host has its own HOME, tmux server and way to the database; both see a pane of `@x`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer
from tests.postgres_line import PostgresLine
from wake_bridge.demo.sandbox import QUICK, DaemonProcess, Sandbox
from wake_bridge.ports.leases import KEY_WITHIN
from wake_bridge.testing.crash_points import COMMAND, CRASH, HALT, Halt, Point
from wake_bridge.testing.playground import AgentPane, Playground


@dataclass
class Host:
    """One of them, with the pane of `@x` there."""

    world: Playground
    line: PostgresLine
    agent: AgentPane
    daemon: DaemonProcess

    @property
    def sandbox(self) -> Sandbox:
        """Its commands."""
        return self.world.sandbox

    @property
    def name(self) -> str:
        """How it is called on the graph."""
        text = (self.sandbox.state_dir / "hosts.json").read_text(encoding="utf-8")
        return str(json.loads(text)["own"])

    def starts(self, environment: Mapping[str, str] | None = None) -> None:
        """Its daemon, anew."""
        self.daemon = self.sandbox.daemon(environment=environment)

    def enters(self) -> int:
        """How often Enter was pressed here."""
        return len(self.agent.fake.submits())

    def told(self, subject: str) -> int:
        """How often a subject was submitted here."""
        return sum(f'"{subject}"' in text for text in self.agent.fake.submits())


@dataclass
class Hosts:
    """All of them."""

    first: Host
    second: Host
    url: str

    def owner(self, identity: str = "@x") -> str:
        """The host that holds the lease of an identity."""
        with psycopg.connect(self.url) as connection:
            statement = "SELECT host FROM wake_bridge.leases WHERE identity = %s"
            row = connection.execute(statement, (identity,)).fetchone()
        return str(row[0]) if row and row[0] else ""

    def waits_for_owner(self, host: Host) -> None:
        """Return when a host serves `@x`."""
        host.sandbox.waits_for(lambda: self.owner() == host.name, what=f"{host.name} to serve")

    def lapse(self, host: Host) -> None:
        """A host counts as dead, as a quarter of a minute after its daemon's end."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "UPDATE wake_bridge.hosts SET alive_until = clock_timestamp() - interval '1 s' WHERE host = %s",
                (host.name,),
            )

    def lapse_move(self, identity: str) -> None:
        """An identity is kept free for no host any more, as a minute after it was moved."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "UPDATE wake_bridge.leases SET wanted_until = clock_timestamp() WHERE identity = %s", (identity,)
            )

    def intents(self) -> list[tuple[str, str | None]]:
        """Whose keys may have been pressed, and what became of each, oldest first."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT host, outcome FROM wake_bridge.intents ORDER BY begun_at").fetchall()
        return [(str(host), outcome) for host, outcome in rows]

    def begun_at(self) -> str:
        """When the latest commit was."""
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT max(begun_at)::text FROM wake_bridge.intents").fetchone()
        return str(row[0]) if row else ""

    def halting(self, point: str, directory: Path) -> tuple[Host, Host, Halt]:
        """Both daemons anew; the one that serves stands still at that point."""
        serving, other = self.both()
        halt = Halt(Point.parse(point), directory)
        self.anew(serving, other, {HALT: str(halt)})
        return serving, other, halt

    def anew(self, serving: Host, other: Host, environment: Mapping[str, str]) -> None:
        """Both daemons again, one of them as the environment says; that one serves."""
        for one in (other, serving):
            one.daemon.stop()
        serving.starts(environment)
        self.waits_for_owner(serving)
        other.starts()

    def both(self) -> tuple[Host, Host]:
        """The one that serves `@x`, and the other."""
        owner = self.owner()
        return (self.first, self.second) if owner == self.first.name else (self.second, self.first)


@pytest.fixture(scope="module")
def hosts(
    tmp_path_factory: pytest.TempPathFactory,
    tmux_program: str,  # noqa: ARG001
    postgres: PostgresServer,
) -> Iterator[Hosts]:
    """Two daemons at work on one database."""
    url, command = postgres.database(), (sys.executable, *COMMAND)
    with (
        tempfile.TemporaryDirectory(prefix="wbl") as near,
        PostgresLine(url, Path(near) / "1") as one,
        PostgresLine(url, Path(near) / "2") as other,
        Playground(tmp_path_factory.mktemp("first"), command) as first,
        Playground(tmp_path_factory.mktemp("second"), command) as second,
    ):
        made = []
        for world, line in ((first, one), (second, other)):
            world.sandbox.configure(f'graph.url = "{line.url}"\n{QUICK}')
            agent = world.agent("x")
            if world is first:
                world.sandbox.run("agent", "add", "@me", "--human")
                world.sandbox.enlist("@x", "x")
            made.append(Host(world, line, agent, world.sandbox.daemon()))
        yield Hosts(made[0], made[1], url)
    postgres.drop(url)


@pytest.fixture(autouse=True)
def _all_run(hosts: Hosts) -> None:
    """Both daemons are at work: the test before may have killed one."""
    for one in (hosts.first, hosts.second):
        if one.daemon.process.poll() is not None:
            one.starts()


def test_one_of_two_hosts_wakes_an_agent_and_the_other_says_which(hosts: Hosts) -> None:
    """The lease decides; the other host types nothing. What was told there is not told here, nor announced again after a move."""
    serving, other = hosts.both()
    hosts.anew(serving, other, {})
    serving.sandbox.run("pause", "@x")
    message = serving.sandbox.send("@x", "once")
    held = other.sandbox.waits_for_delivery(target="@x", hold_reason="other_host")
    assert held["hold_detail"] == serving.name
    for command in (("why", message), ("why", "@x"), ("hosts", "list")):
        assert serving.name in other.sandbox.run(*command).stdout
    [found] = [one for one in other.sandbox.lines("doctor", expect=None) if one["check"] == f"host {serving.name}"]
    assert (found["ok"], "@x" in found["detail"].partition(": ")[2]) == (True, True)
    listed = {one["host"]: one for one in other.sandbox.lines("hosts", "list")}
    assert {name: (one["state"], "@x" in one["agents"]) for name, one in listed.items()} == {
        serving.name: ("up", True),
        other.name: ("up", False),
    }

    serving.sandbox.run("resume", "@x")
    serving.sandbox.waits_for(lambda: serving.told("once"), what="the key")
    other.sandbox.waits_for_delivery(id=held["id"], state="DELIVERED", outcome="read")
    assert (serving.told("once"), other.told("once")) == (1, 0)

    moved = serving.sandbox.ask("hosts", "move", "@x", other.name)
    assert moved == {"agentIdentity": "@x", "from": serving.name, "host": other.name}
    hosts.waits_for_owner(other)
    serving.sandbox.send("@x", "after the move")
    other.sandbox.waits_for(lambda: other.told("after the move"), what="the wake there")
    assert (serving.told("after the move"), other.told("once")) == (0, 0)

    other.sandbox.run("pause", "@x")
    other.sandbox.send("@x", "shown here")
    assert "shown here" in serving.sandbox.run("inbox", "@x").stdout
    other.sandbox.run("resume", "@x")
    other.sandbox.waits_for(lambda: not other.sandbox.ask("status")["open"], what="nothing to be left to tell")
    assert other.told("shown here") == 0


def test_who_cannot_reach_the_database_presses_nothing_and_says_why(hosts: Hosts, tmp_path: Path) -> None:
    """The line is cut between paste and Enter: the text stands there unsent until its intent can be committed."""
    serving, _, halt = hosts.halting("staged:after", tmp_path)
    serving.sandbox.send("@x", "cut off")
    halt.waits_until_reached()
    before = serving.enters()
    serving.line.cut()
    halt.go()
    held = serving.sandbox.waits_for_delivery(target="@x", hold_reason="staged")
    assert "the database did not answer in time" in held["hold_detail"]
    assert serving.enters() == before

    serving.line.mend()
    serving.sandbox.waits_for_delivery(target="@x", outcome="submitted", digest=held["digest"])
    assert serving.told("cut off") == 1


def test_a_daemon_that_stood_still_between_commit_and_enter_presses_nothing_late(hosts: Hosts, tmp_path: Path) -> None:
    """More than two seconds after the commit no key follows, whatever the lease says; a new commit comes first."""
    serving, _, halt = hosts.halting("intent_submit:after", tmp_path)
    serving.sandbox.send("@x", "late")
    halt.waits_until_reached()
    before, first = serving.enters(), hosts.begun_at()
    time.sleep(KEY_WITHIN)
    halt.go()
    halt.waits_until_reached()
    assert serving.enters() == before
    assert hosts.begun_at() > first
    halt.go()
    serving.sandbox.waits_for(lambda: serving.told("late"), what="the key")
    assert serving.told("late") == 1


def test_what_a_killed_daemon_may_have_typed_nobody_else_types(hosts: Hosts) -> None:
    """It dies between its commit and Enter. A person's word ends that wake as unknown; what follows is told elsewhere."""
    serving, other = hosts.both()
    hosts.anew(serving, other, {CRASH: "intent_submit:before"})
    serving.sandbox.send("@x", "maybe")
    serving.sandbox.waits_for(lambda: serving.daemon.process.poll() is not None, what="its death")
    assert hosts.intents()[-1] == (serving.name, None)

    gone = other.sandbox.ask("hosts", "gone", serving.name)
    assert gone == {"host": serving.name, "leases": 1, "unknown": 1}
    hosts.waits_for_owner(other)
    other.sandbox.send("@x", "next")
    other.sandbox.waits_for(lambda: other.told("next"), what="the next wake")
    other.sandbox.waits_for(lambda: not other.sandbox.ask("status")["open"], what="all to be settled")
    assert (serving.told("maybe"), other.told("maybe")) == (0, 0)
    assert [outcome for _, outcome in hosts.intents()][-2] == "unknown"


def test_what_was_committed_and_never_sent_is_told_by_who_took_over(hosts: Hosts) -> None:
    """As long as only the killed daemon can say whether it typed, the other host waits; then it tells what was not typed."""
    serving, other = hosts.both()
    hosts.anew(serving, other, {CRASH: "intent_submit:before"})
    serving.sandbox.send("@x", "taken back")
    serving.sandbox.waits_for(lambda: serving.daemon.process.poll() is not None, what="its death")
    hosts.lapse(serving)
    hosts.waits_for_owner(other)
    held = other.sandbox.waits_for_delivery(target="@x", hold_reason="other_host", cause="told-elsewhere")
    assert held["hold_detail"] == serving.name

    serving.starts()
    other.sandbox.waits_for(lambda: other.told("taken back"), what="the wake")
    assert (serving.told("taken back"), other.told("taken back")) == (0, 1)

    left = serving.sandbox.waits_for_delivery(target="@x", cause="left-to-host")
    serving.agent.fake.shows("idle")
    serving.sandbox.waits_for_delivery(id=left["id"], state="DELIVERED", outcome="read")


def test_what_one_host_alone_knows_of_is_told_there_and_comes_once_the_agent_is_moved(hosts: Hosts) -> None:
    """An item is no row of the graph: the host that serves cannot know of it, and a person is told where it waits."""
    serving, other = hosts.both()
    hosts.anew(serving, other, {})
    hosts.waits_for_owner(serving)
    other.sandbox.run("notify", "@x", "--source", "build", "--mode", "active", "make ended with 2")
    held = other.sandbox.waits_for_delivery(target="@x", cause="known-here-alone")
    assert held["hold_detail"] == serving.name
    assert "waits here" in other.sandbox.run("hosts", "list").stdout
    assert [one["waiting"] for one in other.sandbox.lines("hosts", "list") if one["host"] == other.name] == [["@x"]]

    other.sandbox.run("hosts", "move", "@x", other.name)
    other.sandbox.waits_for(lambda: other.told("make ended with 2"), what="the item")


def test_an_agent_that_lives_on_another_host_is_no_fault_here_and_one_that_is_being_moved_says_so(hosts: Hosts) -> None:
    """To bind a pane here to it would be the wrong thing; and while it is kept free for a host, nobody is about to wake it."""
    first, second = hosts.first, hosts.second
    hosts.anew(*hosts.both(), {})
    first.world.agent("there")
    first.sandbox.enlist("@there", "there")
    first.sandbox.waits_for(lambda: hosts.owner("@there") == first.name, what="its lease")
    [found] = [one for one in second.sandbox.lines("doctor", expect=None) if one["check"] == "target @there"]
    assert (found["ok"], found["detail"], found["hint"] or "") == (True, f"{first.name} serves it", "")
    seen = second.sandbox.ask("presence", "@there")
    assert (seen["state"], seen["holdReason"], first.name in seen["why"]) == ("unknown", "other_host", True)
    assert "hosts move @there" in seen["remedy"]

    first.sandbox.run("hosts", "move", "@there", second.name)
    first.sandbox.waits_for(lambda: not hosts.owner("@there"), what="it to be free for the other")
    told = f"another host serves @there ({second.name}, which has not taken it yet)"
    assert told in first.sandbox.run("why", "@there").stdout
    first.sandbox.send("@there", "on the way")
    held = first.sandbox.waits_for_delivery(target="@there", hold_reason="other_host", cause="lease-moves")
    assert held["hold_detail"] == f"{second.name}, which has not taken it yet"
    hosts.lapse_move("@there")
    first.sandbox.waits_for_delivery(id=held["id"], outcome="submitted")
    assert hosts.owner("@there") == first.name
    first.world.tmux.run("kill-session", "-t", "=there")


def test_only_who_is_known_is_moved_and_only_to_a_host_that_was_there(hosts: Hosts) -> None:
    """A name that nobody has would be kept free for a minute, and the person would wait; who never had a lease can be moved."""
    first, second = hosts.first, hosts.second
    refused = first.sandbox.run("hosts", "move", "@typo", second.name, expect=8).stderr
    assert "there is no identity @typo" in refused
    assert "wake-bridge agent add @typo" in refused
    nowhere = first.sandbox.run("hosts", "move", "@x", "nobody-there", expect=8).stderr
    assert "no host of this graph is called so" in nowhere
    assert "one is known once its daemon runs" in nowhere

    first.sandbox.run("agent", "add", "@new")
    moved = first.sandbox.ask("hosts", "move", "@new", second.name)
    assert moved == {"agentIdentity": "@new", "from": None, "host": second.name}


def test_an_agent_whose_host_is_silent_is_told_by_that_host(hosts: Hosts) -> None:
    """No other one sees it: the wake waits for that host, and comes there once its daemon runs again."""
    first, second = hosts.first, hosts.second
    first.world.agent("alone")
    first.sandbox.enlist("@alone", "alone")
    first.sandbox.waits_for(lambda: hosts.owner("@alone") == first.name, what="its lease")
    first.daemon.kill()
    hosts.lapse(first)
    first.sandbox.send("@alone", "where are you")
    held = second.sandbox.waits_for_delivery(target="@alone", hold_reason="host_away", cause="host-silent")
    assert f"start the daemon on {first.name} again" in second.sandbox.run("why", "@alone").stdout

    first.starts()
    second.sandbox.waits_for_delivery(id=held["id"], state="DELIVERED", outcome="read")
    assert any('"where are you"' in text for text in first.world.agents["alone"].fake.submits())
    first.world.tmux.run("kill-session", "-t", "=alone")
    first.daemon.stop()
    first.starts()
