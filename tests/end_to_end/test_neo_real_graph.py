"""A graph made by the real services: what wakes whom, through the whole way."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.memory_core import MemoryCoreProcess
from wake_bridge.testing.playground import AgentPane, Playground

REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"
ADA, GPT, GRACE, VEGA, HUMAN = "@neo-opus-ada", "@neo-gpt", "@neo-opus-grace", "@neo-opus-vega", "@tobiu"
BENCHED = "@neo-gemini-pro"
OLD_CONTENT = 116
"""The highest log id of the file as it was made."""


class Neo:
    """The real graph at work: two of its identities live in panes, a writer of its own process stands for the core."""

    def __init__(self, world: Playground, core: MemoryCoreProcess) -> None:
        self.world = world
        self.core = core
        self.ada = world.agent("ada")
        self.gpt = world.agent("gpt")
        self.gem = world.agent("gem")

    def about(self, identity: str, subject: str) -> list[dict[str, Any]]:
        """The deliveries of an identity, in whatever state, that carry an event about a subject."""
        return [
            one
            for one in self.world.sandbox.deliveries("--target", identity)
            if any(event["subject_key"].startswith(subject) for event in one["events"])
        ]

    def wakes_for(self, identity: str, subject: str) -> dict[str, Any]:
        """The one delivery of an identity about a subject, once it was submitted."""

        def settled() -> list[dict[str, Any]]:
            return [one for one in self.about(identity, subject) if one["settledAt"]]

        (one,) = self.world.sandbox.waits_for(settled, what=f"a wake of {identity} for {subject}")
        assert (one["state"], one["outcome"]) == ("DELIVERED", "submitted"), one
        return one

    def decides(self) -> None:
        """Return when every row written before has been judged, and what matched lies in a delivery.

        The fence is mail for one who is benched: its delivery opens, with all others, and stays held.
        """
        fence = self.core.do("send", HUMAN, BENCHED, "fence")
        self.world.sandbox.waits_for(lambda: self.about(BENCHED, fence), what="the fence")

    def submitted(self, agent: AgentPane, delivery: dict[str, Any]) -> str:
        """The text with that delivery's mark; it was submitted exactly once."""
        (text,) = [text for text in agent.fake.submits() if str(delivery["id"]) in text]
        return text


@contextmanager
def _at_work(directory: Path, program: tuple[str, ...], *, with_events: bool) -> Iterator[Neo]:
    """A copy of the real graph in WAL mode, with a daemon on it."""
    graph = directory / "memory-core-graph.sqlite"
    shutil.copyfile(REAL, graph)
    _move_into_panes(graph, with_events=with_events)
    with Playground(directory, program) as world, MemoryCoreProcess(graph) as core:
        limits = "limits.storm = 1000\nlimits.wakes_per_hour = 1000\nlimits.wakes_per_day = 1000\n"
        world.sandbox.configure(f'{QUICK}{limits}graph.path = "{graph}"\n')
        neo = Neo(world, core)
        world.sandbox.daemon()
        yield neo


@pytest.fixture(scope="module")
def neo(tmp_path_factory: pytest.TempPathFactory, program: tuple[str, ...], tmux_program: str) -> Iterator[Neo]:  # noqa: ARG001
    """The graph as the services of 13.1.0 made it: a log of three columns."""
    with _at_work(tmp_path_factory.mktemp("neo"), program, with_events=False) as at_work:
        yield at_work


@pytest.fixture(scope="module")
def newer_neo(tmp_path_factory: pytest.TempPathFactory, program: tuple[str, ...], tmux_program: str) -> Iterator[Neo]:  # noqa: ARG001
    """The same with the columns of typed rows, as newer services have them."""
    with _at_work(tmp_path_factory.mktemp("neo"), program, with_events=True) as at_work:
        yield at_work


def _move_into_panes(graph: Path, *, with_events: bool) -> None:
    """Give the subscriptions of two identities tmux targets, as their owners would."""
    with closing(sqlite3.connect(graph, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        if with_events:
            connection.execute("ALTER TABLE GraphLog ADD COLUMN event_id TEXT")
            connection.execute("ALTER TABLE GraphLog ADD COLUMN event_payload TEXT")
        for node_id, data in connection.execute("SELECT id, data FROM Nodes WHERE id LIKE 'WAKE_SUB:%'").fetchall():
            node = json.loads(data)
            session = {ADA: "ada", GPT: "gpt"}.get(node["properties"]["agentIdentity"])
            if session is None:
                continue
            window = 2 if node["properties"]["trigger"] == "TASK_STATE_CHANGED" else 0
            node["properties"] |= {
                "filters": {},
                "harnessTarget": "bridge-daemon",
                "harnessTargetMetadata": {"adapter": "tmux", "tmuxSession": session, "coalesceWindow": window},
            }
            connection.execute("UPDATE Nodes SET data = ? WHERE id = ?", (json.dumps(node), node_id))


def test_old_content_wakes_nobody(neo: Neo) -> None:
    """A new epoch begins at the tip, and looks back for unread mail of the last hour only."""
    neo.decides()

    events = [event for one in neo.world.sandbox.deliveries() for event in one["events"]]
    assert events, "the fence at least"
    assert all(event["logId"] > OLD_CONTENT for event in events)
    assert neo.gem.fake.bytes_received() == b""


def test_new_mail_wakes_exactly_once_whatever_is_written_about_it_afterwards(neo: Neo) -> None:
    """One message wakes an identity once, however many rows mention it: edges again, upsert, markRead."""
    message = neo.core.do("send", GPT, ADA, "Review request: PR #10717")
    wake = neo.wakes_for(ADA, message)
    neo.core.do("touch_edges", message)
    neo.core.do("touch", message)
    neo.core.do("set", message, "priority", "high")
    neo.core.do("mark_read", message)
    neo.core.do("touch_edges", message)
    neo.decides()

    text = neo.submitted(neo.ada, wake)
    assert '1 new message (latest: "Review request: PR #10717" from @neo-gpt)' in text
    assert text == wake["digest"]
    assert len(neo.about(ADA, message)) == 1
    assert neo.about(GPT, message) == []


def test_two_rows_for_one_message_are_one_wake_even_pages_apart(neo: Neo) -> None:
    """A subject wakes an identity once; the second row comes before the first was announced."""
    message = neo.core.do("send", GRACE, GPT, "two rows")
    neo.core.do("touch_edges", message)
    neo.core.do("noise", 1500)
    neo.core.do("touch_edges", message)
    wake = neo.wakes_for(GPT, message)
    neo.decides()

    assert [event["subject_key"] for event in wake["events"]] == [message]
    assert "1 new message (" in neo.submitted(neo.gpt, wake)
    assert len(neo.about(GPT, message)) == 1


def test_a_broadcast_wakes_its_audience_once_however_late_the_audience_is_written(neo: Neo) -> None:
    """SENT_TO → AGENT:* commits before its DELIVERED_TO edges; the audience is checked again at the guards."""
    everyone = [ADA, GPT, VEGA]
    sent = {
        neo.core.do("send", GRACE, "AGENT:*", f"broadcast {pause}", audience, pause=pause): audience
        for pause in (0.8, 0.2, 0.05, 0.0)
        for audience in ([GPT], everyone)
    }
    expected = sorted((one, message) for message, audience in sent.items() for one in (ADA, GPT) if one in audience)

    def told() -> list[tuple[str, str]]:
        """Who was told of which, as often as it was; a delivery that was opened for nothing ends as `empty`."""
        wakes = [one for one in neo.world.sandbox.deliveries() if one["outcome"] == "submitted"]
        keys = [(one["target"], event["subject_key"]) for one in wakes for event in one["events"]]
        return sorted(pair for pair in keys if pair[1] in sent)

    neo.world.sandbox.waits_for(lambda: set(told()) >= set(expected), what="every broadcast to be told")
    neo.decides()

    assert told() == expected
    open_deliveries = [one for one in neo.world.sandbox.deliveries() if one["target"] != BENCHED and not one["outcome"]]
    assert open_deliveries == []


def test_reading_a_broadcast_wakes_nobody_again(neo: Neo) -> None:
    """A broadcast is read on its recipient's own edge, which leaves a row like that of a new one."""
    message = neo.core.do("send", GRACE, "AGENT:*", "lane claim", [ADA, GPT])
    neo.wakes_for(ADA, message)
    neo.wakes_for(GPT, message)
    neo.core.do("mark_read", message, ADA)
    neo.decides()

    assert len(neo.about(ADA, message)) == 1
    assert len(neo.about(GPT, message)) == 1


def test_a_grant_wakes_the_grantee_and_not_the_granter(neo: Neo) -> None:
    """Permission edges run grantee → granter; the grantee is told, and by whom."""
    by_ada = neo.core.do("grant", GRACE, ADA, "CAN_READ_INBOX_OF")
    by_gpt = neo.core.do("grant", ADA, GPT, "CAN_READ_SESSIONS_OF")
    wake = neo.wakes_for(ADA, by_gpt)
    neo.decides()

    assert "1 permission granted (latest: CAN_READ_SESSIONS_OF by @neo-gpt)" in neo.submitted(neo.ada, wake)
    assert len(neo.about(ADA, by_gpt)) == 1
    assert neo.about(ADA, by_ada) == []
    assert neo.about(GPT, by_gpt) == []


@pytest.mark.parametrize("typed", [False, True], ids=["derived", "typed"])
def test_a_task_that_moves_twice_is_one_digest_for_its_originator_naming_the_latest(
    neo: Neo, newer_neo: Neo, *, typed: bool
) -> None:
    """Submitted → Working → Completed, 200 ms apart: the step that is over is not told, nor is the mover."""
    neo = newer_neo if typed else neo
    task = neo.core.do("give_task", ADA, GPT, "count the rows")
    time.sleep(0.2)
    neo.core.do("move_task", task, "Working", typed=typed)
    time.sleep(0.2)
    neo.core.do("move_task", task, "Completed", typed=typed)
    wake = neo.wakes_for(ADA, task)
    neo.decides()

    # an untyped row does not say what was before: that is what the daemon had read by then
    before = "Working" if typed else "(?:Working|Submitted)"
    told = rf"1 task transition \(latest: {before} → Completed on task {task}\)"
    assert re.search(told, neo.submitted(neo.ada, wake))
    assert len(neo.about(ADA, task)) == 1
    kinds = [event["kind"] for one in neo.about(GPT, task) for event in one["events"]]
    assert kinds == ["message"], "the task reached its assignee as mail, its own moves did not"


def test_a_pulse_wakes_an_identity_with_three_subscriptions_once(neo: Neo) -> None:
    """A heartbeat pulse wakes once per identity."""
    pulse = neo.core.do("pulse", ADA)
    wake = neo.wakes_for(ADA, pulse)
    neo.decides()

    assert "- 1 heartbeat pulse (" in neo.submitted(neo.ada, wake)
    assert len(neo.about(ADA, pulse)) == 1
    assert neo.about(GPT, pulse) == []


def test_own_broadcasts_and_plain_notes_to_oneself_wake_nobody(neo: Neo) -> None:
    """A note to oneself waits for the next turn, an own broadcast is never told to its sender."""
    broadcast = neo.core.do("send", ADA, "AGENT:*", "taking the lane", [GRACE, VEGA])
    note = neo.core.do("send", ADA, ADA, "sunset: go on with the cursor")
    neo.decides()
    assert neo.about(ADA, note) == []
    mail = neo.core.do("send", GPT, ADA, "good morning")
    neo.wakes_for(ADA, mail)

    assert neo.about(ADA, broadcast) == []
    (ride,) = neo.about(ADA, note)
    assert mail in [event["subject_key"] for event in ride["events"]], "it rides along, and starts no wake of its own"
