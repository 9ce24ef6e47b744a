"""Send, wake, task, grant, inbox, read; the installed program on real files."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.postgres_graph import PostgresEye
from wake_bridge.cli.app import cli
from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.domain.names import Identity
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG

PROGRAM = Path(sys.executable).with_name("wake-bridge")
REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"
LINE = {"messageId", "from", "subject", "priority", "policy", "tags", "inReplyTo", "task", "sentAt"}


class Post:
    """The program in a home of its own, with an embedded graph, two agents and a person."""

    def __init__(self, home: Path, url: str = "") -> None:
        self.url = url
        self.environment = {"HOME": str(home)} | {
            f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "data", "state")
        }
        self.environment["WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME"] = "wake-bridge-nobody"
        if url:
            self.environment["WAKE_BRIDGE_GRAPH_URL"] = url
        self.graph = home / "data/wake-bridge/graph.sqlite"
        self.state = home / "state/wake-bridge"
        self.config = home / "config/wake-bridge/config.toml"

    def run(self, *arguments: str, stdin: str = "") -> Result:
        """Run it in this process."""
        return CliRunner(env=self.environment).invoke(cli, arguments, input=stdin)

    def json(self, *arguments: str, stdin: str = "") -> dict[str, Any]:
        """Its one JSON answer; it must succeed."""
        result = self.run(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer

    def inbox(self, identity: str, *flags: str) -> list[dict[str, Any]]:
        """The lines of an inbox."""
        result = self.run("inbox", identity, *flags, "--json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def send(self, *arguments: str, sender: str = "@ada") -> str:
        """Send a message; answers its id."""
        answer = self.json("send", *arguments, "--from", sender)
        assert answer.keys() == {"messageId"}
        return str(answer["messageId"])

    def all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The graph, asked from outside."""
        if self.url:
            with contextlib.closing(PostgresEye(self.url)) as eye:
                return eye.all(statement, *values)
        with contextlib.closing(sqlite3.connect(self.graph)) as connection:
            return connection.execute(statement, values).fetchall()

    def properties(self, node_id: str) -> dict[str, Any]:
        """A node's inner object."""
        ((data,),) = self.all("SELECT data FROM Nodes WHERE id = ?", node_id)
        properties: dict[str, Any] = json.loads(data)["properties"]
        return properties

    def announced(self, identity: str, *messages: str) -> set[str]:
        """Which messages the ledger knows as announced."""
        ledger = LedgerStore.open(self.state)
        try:
            return ledger.announced(Identity(identity), messages)
        finally:
            ledger.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every command works on each engine; who looks at the file itself has only that one, as have the many cases of one rule."""
    is_of_the_file = "post.graph" in inspect.getsource(metafunc.function)
    if "post" in metafunc.fixturenames and not (
        is_of_the_file or metafunc.definition.get_closest_marker("parametrize")
    ):
        metafunc.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph_url: str) -> Post:
    """The program with a graph of ours; @bob is reached in a tmux pane that is there, @ada is not subscribed."""
    monkeypatch.setattr("wake_bridge.cli.context.CommandContext.unreached", lambda *_: {})
    post = Post(tmp_path / "home", graph_url)
    post.json("init")
    for arguments in (["@ada"], ["@bob"], ["@tobi", "--human"]):
        post.json("agent", "add", *arguments)
    post.json("subscribe", "@bob", "--trigger", "SENT_TO_ME", "--tmux", "agents:1.0", "--window", "5")
    return post


# -- send and wake ---------------------------------------------------------------------------------------------------


def test_a_message_is_sent_with_all_that_was_said(post: Post) -> None:
    """`send`: body from stdin, priority, tags, reply, policy."""
    first = post.send("@bob", "--subject", "Review", "--body", "Please.")
    answer = post.json(
        *("send", "@ada", "--from", "@bob", "--subject", "Re: Review", "--body", "-", "--priority", "high"),
        *("--tag", "a2a", "--tag", "concept:x", "--reply-to", first, "--policy", "next_turn"),
        stdin="On it.\nTwo lines: ✓\n",
    )
    sent = post.properties(answer["messageId"])
    assert sent["bodyText"] == "On it.\nTwo lines: ✓\n"
    assert (sent["priority"], sent["taggedConcepts"], sent["wakePolicy"]) == ("high", ["a2a", "x"], "next_turn")
    assert sent["inReplyTo"] == sent["partOfThread"] == first


def test_bytes_that_are_no_text_are_taken_as_they_come(post: Post) -> None:
    """A body is whatever a pipe delivers; what is no UTF-8 is replaced, not fatal."""
    result = CliRunner(env=post.environment).invoke(
        cli, ["send", "@bob", "--from", "@ada", "--subject", "x", "--body", "-", "--json"], input=b"a\xffb"
    )
    assert post.properties(json.loads(result.stdout)["messageId"])["bodyText"] == "a�b"


def test_the_recipient_must_exist_and_the_sender_is_made(post: Post) -> None:
    """TO must exist (8); `--from` identities are created if absent, and not for nothing."""
    lost = post.run("send", "@nobody", "--from", "@new", "--subject", "x")
    assert lost.exit_code == 8
    assert post.all("SELECT count(*) FROM Nodes WHERE id = '@new'") == [(0,)]
    post.send("@bob", "--subject", "x", sender="@new")
    assert post.properties("@new")["accountType"] == "agent"
    assert post.run("send", "@bob", "--from", "@ada", "--subject", "x", "--reply-to", "MESSAGE:none").exit_code == 8


def test_me_is_a_person_and_a_sender_that_is_made_an_agent_is_told(post: Post) -> None:
    """`@me` is the person, also where an older release has made an agent of it; whom nobody knows is said to be an agent."""
    me = post.run("send", "@bob", "--from", "@me", "--subject", "x")
    assert (post.properties("@me")["accountType"], "as an agent" in me.stderr) == ("human", False)
    new = post.run("send", "@bob", "--from", "@new", "--subject", "x")
    assert "note: @new was added as an agent" in new.stderr
    assert "`wake-bridge agent add @new --human`" in new.stderr
    assert "as an agent" not in post.run("send", "@bob", "--from", "@new", "--subject", "x").stderr
    post.run("agent", "add", "@new", "--human")
    assert post.properties("@new")["accountType"] == "human"


def test_an_agent_called_me_of_an_older_release_becomes_the_person(post: Post) -> None:
    """Else what the person writes would be braked as a loop of agents for ever."""
    post.run("agent", "add", "@me", "--display-name", "Ada")
    agent = json.dumps({"label": "AgentIdentity", "properties": post.properties("@me") | {"accountType": "agent"}})
    with contextlib.closing(sqlite3.connect(post.graph)) as connection, connection:
        connection.execute("UPDATE Nodes SET data = ? WHERE id = '@me'", (agent,))
    assert post.properties("@me")["accountType"] == "agent"
    post.send("@bob", "--subject", "x", sender="@me")
    assert (post.properties("@me")["accountType"], post.properties("@me")["displayName"]) == ("human", "Ada")


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "@bob", "--subject", "x"),
        ("send", "@bob", "--from", "@ada"),
        ("send", "bob", "--from", "@ada", "--subject", "x"),
        ("send", "@bob", "--from", "AGENT:*", "--subject", "x"),
        ("send", "@bob", "--from", "@ada", "--subject", "x", "--priority", "urgent"),
        ("task", "MESSAGE:1", "Done", "--as", "@ada"),
        ("grant", "CAN_FLY", "--to", "@ada", "--as", "@bob"),
        ("inbox", "@bob", "--limit", "51"),
        ("inbox", "@bob", "--limit", "0"),
        ("inbox", "@bob", "--floor", "all"),
        ("read", "@bob"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_mistake(post: Post, arguments: tuple[str, ...]) -> None:
    """2 is usage."""
    assert post.run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("recipient", "flags", "said"),
    [
        ("@bob", (), "@bob is due in 5 s"),
        ("@bob", ("--policy", "next_turn"), "@bob finds it at its next turn"),
        ("@bob", ("--suppress-wake",), "@bob is not woken (suppressed): it waits in the inbox"),
        ("@bob", ("--policy", "silent"), "@bob is not woken (silent): it waits in the inbox"),
        ("@ada", (), "@ada has no subscription for mail: it waits in the inbox"),
        ("@tobi", (), "@tobi has no subscription for mail: it waits in the inbox"),
        ("AGENT:*", (), "@bob is due in 5 s"),
    ],
)
def test_sending_says_what_will_happen(post: Post, recipient: str, flags: tuple[str, ...], said: str) -> None:
    """`send` says on stderr due when, or "no subscription", or "daemon not running"."""
    result = post.run("send", recipient, "--from", "@ada", "--subject", "x", *flags, "--json")
    json.loads(result.stdout)
    lines = result.stderr.splitlines()
    assert lines == [said, "the daemon is not running: no wakes until you start it (`wake-bridge run`)"]


def test_sending_to_nobody_says_so(post: Post) -> None:
    """A broadcast without another agent reaches nobody."""
    post.json("agent", "add", "@ada", "--human")
    result = post.run("send", "AGENT:*", "--from", "@bob", "--subject", "x")
    assert "no recipient" in result.stderr


def test_a_running_daemon_is_told_at_once_and_not_missed(post: Post) -> None:
    """Commands that change something poke the daemon's socket; a deaf one delays nobody."""
    post.state.mkdir(parents=True)
    with InstanceLock(post.state), contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        silent = post.run("send", "@bob", "--from", "@ada", "--subject", "x")
        starting = "the daemon is starting: it reads this as soon as it runs"
        assert (silent.exit_code, silent.stderr.splitlines()) == (0, ["@bob is due in 5 s", starting])
        with contextlib.chdir(post.state):
            # a Unix socket's path has room for about a hundred bytes
            listener.bind("daemon.sock")
        listener.listen()
        heard: list[bytes] = []

        def serve() -> None:
            channel, _ = listener.accept()
            with channel:
                heard.append(channel.recv(1000))
                channel.sendall(b'{"ok":true}\n')

        thread = threading.Thread(target=serve)
        thread.start()
        assert post.run("send", "@bob", "--from", "@ada", "--subject", "x").exit_code == 0
        thread.join(timeout=HUNG)
    assert json.loads(heard[0]) == {"command": "poke"}


def test_wake_is_a_message_from_the_operator_without_a_window(post: Post) -> None:
    """`wake`: `send` from the operator, policy immediate, window 0."""
    result = post.run("wake", "@bob", "Look at the build\nIt is red.", "--json")
    answer = json.loads(result.stdout)
    assert result.stderr.startswith("@bob is due at once\n")
    sent = post.properties(answer["messageId"])
    assert (sent["from"], sent["to"], sent["wakePolicy"], sent["wakeWindow"]) == ("@operator", "@bob", "immediate", 0)
    assert (sent["subject"], sent["bodyText"]) == ("Look at the build", "Look at the build\nIt is red.")
    assert post.properties("@operator")["accountType"] == "human"
    assert post.run("wake", "@nobody", "x").exit_code == 8


# -- tasks and rights ------------------------------------------------------------------------------------------------


def test_a_task_moves_by_right(post: Post) -> None:
    """`task`: `{"taskId","previousState","newState"}`; a move without the right is 1, an unknown task 8."""
    task = post.send("@bob", "--subject", "Fix", "--task")
    assert post.json("task", task, "working", "--as", "@bob") == {
        "taskId": task,
        "previousState": "Submitted",
        "newState": "Working",
    }
    refused = post.run("task", task, "Completed", "--as", "@ada")
    assert refused.exit_code == 1
    assert refused.stderr.splitlines() == [
        f"error: @ada, as originator, may not move it from Working to Completed: {task}",
        "hint: no move of theirs is open in this state",
    ]
    assert post.run("task", "MESSAGE:none", "Working", "--as", "@ghost").exit_code == 8
    assert post.all("SELECT count(*) FROM Nodes WHERE id = '@ghost'") == [(0,)]


def test_a_grant_runs_from_grantee_to_granter(post: Post) -> None:
    """`grant`: `{"edgeId"}`; the grantee must exist (8), the granter is made."""
    answer = post.json("grant", "CAN_REPLY_TO", "--to", "@ada", "--as", "@carl")
    edge = post.all("SELECT source, target, type FROM Edges WHERE id = ?", answer["edgeId"])
    assert edge == [("@ada", "@carl", "CAN_REPLY_TO")]
    assert post.run("grant", "CAN_REPLY_TO", "--to", "@nobody", "--as", "@ada").exit_code == 8


# -- inbox and read --------------------------------------------------------------------------------------------------


def test_an_identity_may_be_written_as_a_digest_writes_it(post: Post) -> None:
    """Where `@` would read a file the digest says `＠bob`, and that is what an agent copies."""
    sent = post.send("@bob", "--subject", "One")

    assert [line["messageId"] for line in post.inbox("＠bob")] == [sent]
    assert post.run("inbox", "＠＠bob").exit_code == 2


def test_the_inbox_has_the_contracts_lines_in_order(post: Post) -> None:
    """`inbox`: lines of unread mail; bodies only when asked for."""
    first = post.send("@bob", "--subject", "One", "--body", "B1", "--tag", "t", "--priority", "high")
    task = post.send("@bob", "--subject", "Two", "--task", "--reply-to", first)
    lines = post.inbox("@bob")
    assert [set(line) for line in lines] == [LINE, LINE]
    assert lines[0] | {"sentAt": ""} == {
        "messageId": first,
        "from": "@ada",
        "subject": "One",
        "priority": "high",
        "policy": "immediate",
        "tags": ["t"],
        "inReplyTo": None,
        "task": None,
        "sentAt": "",
    }
    assert (lines[1]["messageId"], lines[1]["inReplyTo"]) == (task, first)
    assert lines[1]["task"] == {"state": "Submitted", "assignee": "@bob"}
    assert [line["body"] for line in post.inbox("@bob", "--bodies")] == ["B1", ""]


def test_the_floor_says_how_insistent_mail_must_be(post: Post) -> None:
    """Now = immediate, next adds next_turn, later adds silent; default next."""
    now = post.send("@bob", "--subject", "now")
    turn = post.send("@bob", "--subject", "turn", "--policy", "next_turn")
    silent = post.send("@bob", "--subject", "silent", "--suppress-wake")
    quiet = post.send("@bob", "--subject", "quiet", "--policy", "silent")
    ids = {
        floor: [line["messageId"] for line in post.inbox("@bob", "--floor", floor)]
        for floor in ("now", "next", "later")
    }
    assert ids == {"now": [now], "next": [now, turn], "later": [now, turn, silent, quiet]}
    assert [line["messageId"] for line in post.inbox("@bob")] == ids["next"]
    assert [line["policy"] for line in post.inbox("@bob", "--floor", "later")] == [
        "immediate",
        "next_turn",
        "silent",
        "silent",
    ]


def test_the_policy_without_a_subscription_follows_the_configuration(post: Post) -> None:
    """`auto` is immediate for an identity with a target, else next_turn; self-mail is next_turn."""
    post.send("@ada", "--subject", "x", sender="@bob")
    post.send("@bob", "--subject", "note to self", sender="@bob")
    assert [line["policy"] for line in post.inbox("@ada")] == ["next_turn"]
    assert [line["policy"] for line in post.inbox("@bob")] == ["next_turn"]
    with post.config.open("a") as file:
        file.write('\n[targets."@ada"]\npane = "a"\n')
    assert [line["policy"] for line in post.inbox("@ada")] == ["immediate"]
    post.environment["WAKE_BRIDGE_POLICY_DEFAULT"] = "silent"
    assert post.inbox("@ada") == []


def test_what_is_printed_counts_as_announced_and_no_more(post: Post) -> None:
    """Printing counts as announced; our own record of it, in the ledger."""
    sent = [post.send("@bob", "--subject", str(number)) for number in range(3)]
    assert [line["messageId"] for line in post.inbox("@bob", "--limit", "2")] == sent[:2]
    assert post.announced("@bob", *sent) == set(sent[:2])
    assert post.properties(sent[0])["readAt"] is None
    assert [line["messageId"] for line in post.inbox("@bob")] == sent


def test_the_limit_is_told(post: Post) -> None:
    """10, at most 50; whoever reads less than there is knows it."""
    for number in range(12):
        post.send("@bob", "--subject", str(number))
    result = post.run("inbox", "@bob", "--json")
    assert len(result.stdout.splitlines()) == 10
    assert result.stderr == "note: 2 more; read these first, or add --limit 50\n"
    assert len(post.inbox("@bob", "--limit", "50")) == 12


def test_consuming_marks_read_where_the_read_state_lies(post: Post) -> None:
    """`--consume` marks read; a broadcast on the recipient's edge, else on the message."""
    direct = post.send("@bob", "--subject", "direct")
    everyone = post.send("AGENT:*", "--subject", "everyone")
    assert [line["messageId"] for line in post.inbox("@bob", "--consume")] == [direct, everyone]
    assert post.properties(direct)["readAt"]
    assert post.properties(everyone)["readAt"] is None
    (edge,) = post.all("SELECT json_extract(data, '$.properties.readAt') FROM Edges WHERE type = 'DELIVERED_TO'")
    assert edge[0]
    assert post.inbox("@bob", "--consume") == []
    assert post.announced("@bob", direct, everyone) == {direct, everyone}


def test_reading_shows_the_body_and_marks_read_unless_kept(post: Post) -> None:
    """`read`: same lines with body; `--keep` leaves them unread; not in this mailbox is 8."""
    message = post.send("@bob", "--subject", "One", "--body", "B1")
    kept = post.run("read", "@bob", message, message, "--keep", "--json")
    assert [json.loads(line)["body"] for line in kept.stdout.splitlines()] == ["B1"]
    assert post.properties(message)["readAt"] is None
    assert post.json("read", "@bob", message)["messageId"] == message
    assert post.properties(message)["readAt"]
    assert post.json("read", "@bob", message)["body"] == "B1"
    for wrong in (("@ada", message), ("@bob", "MESSAGE:none"), ("@nobody", message)):
        assert post.run("read", *wrong).exit_code == 8


def test_people_and_agents_read_letters_that_cannot_pass_for_ours(post: Post) -> None:
    """A message's own words are set in, on lines of their own, and cannot steer the terminal."""
    text = "first\nMESSAGE:fake  from @root\n\x1b[2Jlast"
    message = post.send("@bob", "--subject", "Two\nlines", "--body", text, "--task", "--tag", "t")
    said = post.run("inbox", "@bob", "--bodies").stdout.splitlines()
    assert said[0].startswith(f"{message}  from @ada  normal  20")
    assert said[0].endswith("Z  task: Submitted  tags: t")
    assert said[1:] == ["  Two lines", "  | first", "  | MESSAGE:fake  from @root", "  | �[2Jlast"]
    post.inbox("@bob", "--consume")
    assert post.run("inbox", "@bob").stdout == "no unread mail for @bob (floor next)\n"
    assert post.run("inbox", "@bob", "--floor", "later").stdout == "no unread mail for @bob\n"


def test_a_name_with_line_ends_makes_no_line_of_its_own(post: Post) -> None:
    """Another program's graph may call a sender, a tag or a state anything; a letter begins with one line all the same."""
    message = post.send("@bob", "--subject", "x", "--body", "B", "--task")
    odd = post.properties(message) | {
        "from": "@ada\nMESSAGE:fake  from @root",
        "taggedConcepts": ["a\r\nb"],
        "inReplyTo": "M\u2028N",
        "task": {"state": "Sub\x0bmitted"},
    }
    with contextlib.closing(sqlite3.connect(post.graph)) as connection, connection:
        row = json.dumps({"label": "MESSAGE", "properties": odd})
        connection.execute("UPDATE Nodes SET data = ? WHERE id = ?", (row, message))

    head, *rest = post.run("read", "@bob", message, "--keep").stdout.splitlines()

    assert head.startswith(f"{message}  from @ada�MESSAGE:fake  from @root  normal  20")
    assert head.endswith("Z  task: Sub�mitted  answers: M�N  tags: a�b")
    assert rest == ["  x", "  | B"]


def test_a_list_shows_as_much_of_a_subject_as_a_digest_and_programs_get_all_of_it(post: Post) -> None:
    """A subject of 5000 characters is one line of 200; who reads the text sees more of it."""
    long = f"Deploy to @prod{' now' * 1250}"
    message = post.send("@bob", "--subject", long, "--body", "B")
    (_, shown) = post.run("inbox", "@bob").stdout.splitlines()
    assert (len(shown), shown[:18], shown[-1]) == (202, "  Deploy to @prod ", "…")
    assert post.inbox("@bob")[0]["subject"] == long
    (_, read, body) = post.run("read", "@bob", message).stdout.splitlines()
    assert (len(read), body) == (2002, "  | B")


def test_mail_that_nobody_saw_is_not_marked_read(post: Post) -> None:
    """`--consume | head` that goes away before reading: nothing is announced and nothing read."""
    message = post.send("@bob", "--subject", "One")
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [PROGRAM, "inbox", "@bob", "--consume"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            env=post.environment | {"PATH": os.environ["PATH"]},
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")
    assert post.properties(message)["readAt"] is None
    assert post.announced("@bob", message) == set()


def test_the_installed_program_reads_mail_without_a_terminal(post: Post) -> None:
    """Everything works without a terminal; an agent's tool call has none."""
    message = post.send("@bob", "--subject", "Ünicode ✓", "--body", "B")
    environment = post.environment | {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run(
        [PROGRAM, "inbox", "@bob", "--bodies", "--consume"], capture_output=True, env=environment, check=True
    )
    assert done.stdout.decode().splitlines()[1:] == ["  Ünicode ✓", "  | B"]
    assert post.properties(message)["readAt"]
    narrow = subprocess.run(
        [PROGRAM, "read", "@bob", message],
        capture_output=True,
        env=environment | {"PYTHONIOENCODING": "latin-1"},
        check=True,
    )
    assert narrow.stdout.splitlines()[1] == b"  \xdcnicode \\u2713"


# -- foreign graphs --------------------------------------------------------------------------------------------------


@pytest.fixture
def foreign(tmp_path: Path) -> Post:
    """The program on a copy of a graph that the real services wrote."""
    post = Post(tmp_path / "home")
    post.graph = tmp_path / "real.sqlite"
    shutil.copy(REAL, post.graph)
    post.environment["WAKE_BRIDGE_GRAPH_PATH"] = str(post.graph)
    return post


def test_a_foreign_mailbox_is_shown_and_not_consumed_unless_it_is_said(foreign: Post) -> None:
    """Only writing a foreign graph needs `--foreign` (7)."""
    before = foreign.graph.read_bytes()
    assert len(foreign.inbox("@neo-gpt", "--floor", "later")) == 4
    assert foreign.run("inbox", "@neo-gpt", "--consume").exit_code == 7
    assert foreign.graph.read_bytes() == before
    assert len(foreign.inbox("@neo-gpt", "--floor", "later", "--consume", "--foreign")) == 4
    assert foreign.inbox("@neo-gpt", "--floor", "later") == []


def test_nobody_is_made_in_a_foreign_graph(foreign: Post) -> None:
    """Identities are created if absent in the embedded graph only."""
    flags = ("--subject", "x", "--foreign")
    assert foreign.run("send", "@neo-gpt", "--from", "@new", *flags).exit_code == 8
    assert foreign.run("wake", "@neo-gpt", "x", "--foreign").exit_code == 8
    assert foreign.run("wake", "@neo-gpt", "x", "--from", "@tobiu", "--foreign").exit_code == 0
    assert foreign.run("send", "@neo-gpt", "--from", "@neo-fable", "--subject", "x").exit_code == 7


def test_an_inbox_names_the_rows_it_sets_aside_and_shows_the_rest(post: Post) -> None:
    """Which row, why, and what to do; it counts as told, so that no wake sends the agent there again."""
    post.send("@bob", "--subject", "first")
    with contextlib.closing(sqlite3.connect(post.graph)) as graph, graph:
        graph.execute("INSERT INTO Nodes(id, data) VALUES ('MESSAGE:bad', '[]')")
        graph.execute('INSERT INTO Nodes(id, data) VALUES (\'MESSAGE:5\', \'{"label":"MESSAGE","properties":{}}\')')
        for message in ("MESSAGE:bad", "MESSAGE:5"):
            graph.execute(
                "INSERT INTO Edges(id, source, target, type, data) VALUES (?1, ?1, '@bob', 'SENT_TO', '{}')", [message]
            )
    post.send("@bob", "--subject", "second")

    seen = post.run("inbox", "@bob")
    assert seen.exit_code == 0
    assert "first" in seen.stdout
    assert "second" in seen.stdout
    assert "MESSAGE:bad is set aside: its JSON is not an object (MESSAGE:bad); repair or delete that row" in seen.stderr
    assert "MESSAGE:5 is set aside: the message names no sender" in seen.stderr
    ledger = LedgerStore.open(post.state)
    try:
        assert "MESSAGE:bad" in ledger.known_subjects(Identity("@bob"), ["MESSAGE:bad"])
    finally:
        ledger.close()
    assert len(post.inbox("@bob", "--consume")) == 2
    assert post.inbox("@bob") == []


def test_an_inbox_counts_what_it_does_not_show(post: Post) -> None:
    """Only what is shown is held, and marked; the rest is a number."""
    for number in range(3):
        post.send("@bob", "--subject", f"subject {number}")
    seen = post.run("inbox", "@bob", "--limit", "1", "--consume")
    assert "subject 0" in seen.stdout
    assert "subject 1" not in seen.stdout
    assert "2 more" in seen.stderr
    assert [one["subject"] for one in post.inbox("@bob")] == ["subject 1", "subject 2"]


def test_what_is_printed_as_json_is_json(post: Post) -> None:
    """A number beyond all numbers, and half a character, come from the graph as it is."""
    data = '{"label":"MESSAGE","properties":{"from":"@ada","subject":"\\ud83d","task":{"state":"\\udc00","n":[1e999]}}}'
    with contextlib.closing(sqlite3.connect(post.graph)) as graph, graph:
        graph.execute("INSERT INTO Nodes(id, data) VALUES ('MESSAGE:odd', ?)", [data])
        graph.execute(
            "INSERT INTO Edges(id, source, target, type, data) VALUES ('e', 'MESSAGE:odd', '@bob', 'SENT_TO', '{}')"
        )
    (line,) = post.run("inbox", "@bob", "--json").stdout.splitlines()
    told = json.loads(line, parse_constant=pytest.fail)
    assert told["messageId"] == "MESSAGE:odd"
    assert post.run("inbox", "@bob").exit_code == 0
