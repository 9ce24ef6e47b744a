"""docs/many-hosts.md from "Many machines, by PostgreSQL" on, played: two hosts, and a server that is called db.example here.

The commands are typed as they stand on the page.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.postgres import PostgresServer, made_with_tls
from tests.programs import needs
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.transcript import Command, play, read_transcript

PAGE = (Path(__file__).parents[2] / "docs/many-hosts.md").read_text(encoding="utf-8")
LINES = [one.line for one in read_transcript(PAGE)]
NOT_RUN = ("sudo chown 999 ",)
"""The user of an image that is not here."""


class Machine:
    """A host with a pane of `@api`.

    Args:
        directory: an empty one.
        program: the installed one.
        login: its daemon's role in the database; the host is called like it.
    """

    def __init__(self, directory: Path, program: tuple[str, ...], login: str) -> None:
        self.login = login
        self.world = Playground(directory, program)
        self.box = self.world.sandbox
        self.agent = self.world.agent("api")
        self.box.environment["PATH"] = f"{Path(program[0]).parent}:{self.box.environment['PATH']}"

    @property
    def name(self) -> str:
        """How it is called on the graph."""
        return str(json.loads((self.box.state_dir / "hosts.json").read_text(encoding="utf-8"))["own"])

    def types(self, line: str, directory: Path | None = None) -> None:
        """One line in a shell; it has to end well."""
        play(Command(line), self.box.environment, directory or self.box.home, unwritten_is_any=True)

    def knows_the_server(self, authority: Path, port: int) -> None:
        """The CA's certificate and the passwords, as step 2 says."""
        self.box.environment |= {"PGHOSTADDR": "127.0.0.1", "PGPORT": str(port)}
        (self.box.home / ".postgresql").mkdir()
        shutil.copy(authority, self.box.home / ".postgresql/root.crt")
        passwords = self.box.home / ".pgpass"
        users = ("wake_owner", self.login)
        passwords.write_text("".join(f"db.example:{port}:*:{user}:{user}'s\n" for user in users), encoding="ascii")
        passwords.chmod(0o600)

    def starts_on(self, database: str) -> None:
        """Its daemon, as step 5 says."""
        (line,) = set(re.findall(r"\[graph\] (url = \"postgresql://laptop@\S+\")", PAGE))
        line = line.replace("/wake", f"/{database}")
        if self.login != "laptop":
            # one machine takes no second daemon for a database: to this one it is written as another
            line = line.replace("laptop@db.example", f"{self.login}@db.example:{self.box.environment['PGPORT']}")
        self.box.configure(f"graph.{line}\n{QUICK}")
        self.daemon = self.box.daemon()
        assert self.daemon.entries("caught_up")

    def told(self) -> list[str]:
        """The subjects that its agent was told, in order."""
        return [one for text in self.agent.fake.submits() for one in re.findall(r'"([^"]+)"', text)]

    def waits_until_told(self, subject: str) -> None:
        """Return when its agent has it."""
        self.box.waits_for(lambda: subject in self.told(), what=subject)


@dataclass
class Story:
    """Two hosts, a server, and what has happened so far."""

    laptop: Machine
    devbox: Machine
    server: PostgresServer
    expected: list[str]
    """What the laptop's agent has been told."""

    def is_told(self, subject: str) -> None:
        """Send it to the laptop's agent."""
        self.laptop.box.send("@api", subject)
        self.laptop.waits_until_told(subject)
        self.expected.append(subject)

    def serving(self) -> list[str]:
        """The hosts that serve `@api`."""
        return [str(one["host"]) for one in self.laptop.box.lines("hosts", "list") if "@api" in one["agents"]]


def lines(*starts: str) -> list[str]:
    """What the page has its reader type that begins like that."""
    found = [one for one in LINES if one.startswith(starts)]
    assert found, starts
    return found


@pytest.fixture
def story(
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Iterator[Story]:
    """A laptop whose graph is a file, a devbox, and the page's server with the certificate that the page makes.

    Its owner is no superuser.
    """
    needs("openssl", "psql", "pg_dump")
    with ExitStack() as ending:
        laptop, devbox = (Machine(tmp_path / name, program, name) for name in ("laptop", "devbox"))
        for one in (laptop, devbox):
            ending.enter_context(one.world)
        made, *signed = lines("mkdir tls", "openssl ")
        laptop.types(made)
        tls = laptop.box.home / "tls"
        for line in signed:
            laptop.types(line, tls)
        place = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="wbt-")))
        place.chmod(0o755)
        server, port = made_with_tls(place, tls / "server.crt", tls / "server.key")
        server.start()
        ending.callback(server.stop, "immediate")
        with server.connected() as admin:
            admin.execute("CREATE ROLE wake_owner LOGIN CREATEROLE CREATEDB PASSWORD 'wake_owner''s'")
            admin.execute("CREATE DATABASE wake OWNER wake_owner")
        for one in (laptop, devbox):
            one.knows_the_server(tls / "ca.crt", port)
        yield Story(laptop, devbox, server, [])


def moves_to_the_server(story: Story) -> None:
    """`init` and `graph copy`, as the owner: the daemon goes on from where it stood."""
    laptop = story.laptop
    laptop.box.run("init")
    laptop.box.enlist("@api", "api")
    in_file = laptop.box.daemon()
    story.is_told("in the file")
    in_file.stop()
    laptop.box.send("@api", "while it moved")
    for line in lines("wake-bridge init --graph ", "wake-bridge graph copy "):
        laptop.types(line)
    (role,) = re.findall(r"wake=> (CREATE ROLE .*)", PAGE)
    for one in (laptop, story.devbox):
        laptop.box.environment["ROLE"] = role.replace("laptop", one.login).replace("…", f"{one.login}''s")
        laptop.types('psql -h db.example -U wake_owner -v ON_ERROR_STOP=1 -c "$ROLE" wake')
    laptop.starts_on("wake")
    laptop.waits_until_told("while it moved")
    story.expected.append("while it moved")
    assert laptop.daemon.entries("epoch_began") == []


def comes_and_goes(story: Story) -> None:
    """`hosts list`, `move` and `gone`: another host takes the agent by a person's word, and is given up by one."""
    laptop, devbox = story.laptop, story.devbox
    devbox.starts_on("wake")
    laptop.box.waits_for(lambda: len(laptop.box.lines("hosts", "list")) == 2, what="two hosts")
    assert story.serving() == [laptop.name]
    laptop.box.run("hosts", "move", "@api", devbox.name[:-1])
    laptop.box.waits_for(lambda: story.serving() == [devbox.name], what="the other to serve")
    laptop.box.send("@api", "after the move")
    devbox.waits_until_told("after the move")
    devbox.box.waits_for_delivery(outcome="submitted")
    devbox.daemon.kill()
    # what it settled last it may not have written down
    gone = laptop.box.ask("hosts", "gone", devbox.name)
    assert (gone["host"], gone["leases"]) == (devbox.name, 1)
    story.is_told("after the other was gone")


def is_restored(story: Story) -> None:
    """`pg_dump`, `createdb`, `psql`, as the owner: another life of the log, in which nothing old is told."""
    laptop = story.laptop
    for line in lines("pg_dump ", "createdb ", "psql "):
        laptop.types(line)
    laptop.daemon.stop()
    laptop.starts_on("wake_again")
    assert len(laptop.daemon.entries("epoch_began")) == 1
    story.is_told("after the restore")


def is_of_a_later_schema(story: Story) -> None:
    """It is refused with 4, and nothing is written."""
    box, change = story.laptop.box, "UPDATE wake_bridge.graph SET schema_version = schema_version"
    with story.server.connected("wake_again") as admin:
        count = "SELECT count(*) FROM wake_bridge.graphlog"
        before = admin.execute(count).fetchone()
        admin.execute(f"{change} + 1".encode())
        for words in (("send", "@api", "--from", "@me", "--subject", "refused"), ("init",)):
            assert "update wake-bridge on this host" in box.run(*words, expect=4).stderr
        admin.execute(f"{change} - 1".encode())
        assert admin.execute(count).fetchone() == before


def moves_back(story: Story) -> None:
    """`graph copy` with the two exchanged: a new epoch."""
    laptop = story.laptop
    laptop.daemon.stop()
    ((*command, file, url),) = (line.split() for line in lines("wake-bridge graph copy "))
    laptop.types(f"rm {file} && {' '.join(command)} {url}_again {file}")
    laptop.box.configure(QUICK)
    again = laptop.box.daemon()
    assert len(again.entries("epoch_began")) == 1
    story.is_told("in the file again")


@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_the_page_of_many_hosts_goes_as_it_says(story: Story) -> None:
    """A graph moves to the server and back, a host comes and goes, a back-up is restored; each message is told once."""
    for chapter in (moves_to_the_server, comes_and_goes, is_restored, is_of_a_later_schema, moves_back):
        chapter(story)
    assert story.laptop.told() == story.expected
    assert story.devbox.told() == ["after the move"]


def test_every_command_of_the_page_is_played() -> None:
    """Who adds one has it played above."""
    first = ("mkdir tls", "openssl ", "wake-bridge init --graph ", "wake-bridge graph copy ")
    later = ("pg_dump ", "createdb ", "psql ")
    assert [one for one in LINES if not one.startswith((*first, *later, *NOT_RUN))] == []
