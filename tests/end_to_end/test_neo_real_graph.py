"""A graph made by the real services: what wakes whom, through the whole way (issue "The main job", Must show)."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.testing.agent_pane import AgentPane
from wake_bridge.testing.memory_core_process import MemoryCoreProcess
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.sandbox import QUICK, DaemonProcess

REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"
ADA, GPT, GRACE, VEGA, HUMAN = "@neo-opus-ada", "@neo-gpt", "@neo-opus-grace", "@neo-opus-vega", "@tobiu"
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
        self.daemon: DaemonProcess | None = None

    def announced(self, identity: str) -> list[tuple[str, str]]:
        """(kind, subject key) of every event that an identity was woken for, in the order of the log."""
        wakes = [one for one in self.world.sandbox.deliveries("--target", identity) if one["outcome"] == "submitted"]
        events = [event for one in wakes for event in one["events"]]
        return [(event["kind"], event["subject_key"]) for event in sorted(events, key=lambda event: event["logId"])]

    def of(self, identity: str, subject: str) -> list[dict[str, Any]]:
        """The deliveries of an identity that speak of a subject key."""
        return [
            one
            for one in self.world.sandbox.deliveries("--target", identity)
            if any(event["subject_key"].startswith(subject) for event in one["events"])
        ]

    def wakes_for(self, identity: str, subject: str) -> dict[str, Any]:
        """The one delivery of an identity about a subject, once it was submitted."""

        def settled() -> list[dict[str, Any]]:
            return [one for one in self.of(identity, subject) if one["settledAt"]]

        found = self.world.sandbox.waits_for(settled, 20, f"a wake of {identity} for {subject}")
        (one,) = found
        assert (one["state"], one["outcome"]) == ("DELIVERED", "submitted"), one
        return one

    def passes(self, *identities: str) -> None:
        """Return when all that was written before has been decided: later mail, to both or to some, was submitted."""
        fences = [(one, self.core.do("send", HUMAN, one, "fence")) for one in identities or (ADA, GPT)]
        for identity, fence in fences:
            self.wakes_for(identity, fence)

    def once(self, agent: AgentPane, delivery: dict[str, Any]) -> str:
        """The text with that delivery's mark, submitted exactly once."""
        (text,) = [text for text in agent.fake.submits() if str(delivery["id"]) in text]
        return text


@pytest.fixture(scope="module", params=[False, True], ids=["three columns", "typed rows"])
def neo(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Iterator[Neo]:
    """A copy of the real graph in WAL mode, its log in both known forms, with a daemon on it."""
    directory = tmp_path_factory.mktemp("neo")
    graph = directory / "memory-core-graph.sqlite"
    shutil.copyfile(REAL, graph)
    _move_into_panes(graph, with_events=request.param)
    with Playground(directory, program) as world, MemoryCoreProcess(graph) as core:
        limits = "limits.storm = 1000\nlimits.wakes_per_hour = 1000\nlimits.wakes_per_day = 1000\n"
        world.sandbox.configure(f'{QUICK}{limits}graph.path = "{graph}"\n')
        at_work = Neo(world, core)
        at_work.daemon = world.sandbox.daemon()
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
    """DESIGN §2: a new epoch begins at the tip, and looks back for unread mail of the last hour only."""
    neo.passes()

    deliveries = neo.world.sandbox.deliveries()
    assert all(event["logId"] > OLD_CONTENT for one in deliveries for event in one["events"])
    assert neo.gem.fake.bytes_received() == b""


def test_new_mail_wakes_exactly_once_whatever_is_written_about_it_afterwards(neo: Neo) -> None:
    """DESIGN §3: one message wakes an identity once, however many rows mention it: edges again, upsert, markRead."""
    message = neo.core.do("send", GPT, ADA, "Review request: PR #10717")
    wake = neo.wakes_for(ADA, message)
    neo.core.do("touch_edges", message)
    neo.core.do("touch", message)
    neo.core.do("set", message, "priority", "high")
    neo.core.do("mark_read", message)
    neo.core.do("touch", message)
    neo.passes()

    assert neo.announced(ADA).count(("message", message)) == 1
    text = neo.once(neo.ada, wake)
    assert '1 new message (latest: "Review request: PR #10717" from @neo-gpt)' in text
    assert text == wake["digest"]
    (again,) = neo.of(ADA, message)
    assert again["proof"] == 3
    assert neo.of(GPT, message) == []


def test_a_message_whose_rows_come_apart_is_one_wake(neo: Neo) -> None:
    """DESIGN §3: the mail edge and a later rewrite of it, pages apart, are one subject."""
    message = neo.core.do("send", GRACE, GPT, "two rows")
    neo.core.do("touch_edges", message)
    neo.core.do("noise", 1500)
    neo.core.do("touch_edges", message)
    neo.wakes_for(GPT, message)
    neo.passes()

    assert neo.announced(GPT).count(("message", message)) == 1


def test_a_broadcast_wakes_its_audience_once_however_late_the_audience_is_written(neo: Neo) -> None:
    """DESIGN §2: SENT_TO → AGENT:* commits before its DELIVERED_TO edges; the audience is checked again at the guards."""
    everyone = [ADA, GPT, VEGA]
    sent = {
        neo.core.do("send", GRACE, "AGENT:*", f"broadcast {pause}", audience, pause=pause): audience
        for pause in (0.0, 0.05, 0.1, 0.2)
        for audience in (everyone, [GPT])
    }
    for message in sent:
        neo.wakes_for(GPT, message)
    neo.passes()

    for identity in (ADA, GPT):
        told = [key for kind, key in neo.announced(identity) if key in sent]
        assert sorted(told) == sorted(message for message, audience in sent.items() if identity in audience)
    for agent in (neo.ada, neo.gpt):
        assert agent.fake.events("empty-enter") == []


def test_reading_a_broadcast_wakes_nobody_again(neo: Neo) -> None:
    """DESIGN §2: a broadcast is read on its recipient's own edge, which leaves a row like a new one."""
    message = neo.core.do("send", GRACE, "AGENT:*", "lane claim", [ADA, GPT])
    neo.wakes_for(ADA, message)
    neo.wakes_for(GPT, message)
    neo.core.do("mark_read", message, ADA)
    neo.passes()

    assert neo.announced(ADA).count(("message", message)) == 1
    assert neo.announced(GPT).count(("message", message)) == 1


def test_a_grant_wakes_the_grantee_and_not_the_granter(neo: Neo) -> None:
    """DESIGN §2: permission edges run grantee → granter; the grantee is told, by whom."""
    by_gpt = neo.core.do("grant", ADA, GPT, "CAN_READ_SESSIONS_OF")
    by_ada = neo.core.do("grant", GRACE, ADA, "CAN_READ_INBOX_OF")
    wake = neo.wakes_for(ADA, by_gpt)
    neo.passes()

    assert "1 permission granted (latest: CAN_READ_SESSIONS_OF by @neo-gpt)" in neo.once(neo.ada, wake)
    assert neo.announced(ADA).count(("permission", by_gpt)) == 1
    assert [key for kind, key in neo.announced(ADA) + neo.announced(GPT) if key == by_ada] == []
    assert neo.of(GPT, by_gpt) == []


def test_a_task_that_moves_twice_is_one_digest_for_its_originator_naming_the_latest(
    neo: Neo, request: pytest.FixtureRequest
) -> None:
    """DESIGN §§2–4: Submitted → Working → Completed, 200 ms apart: both are counted, the mover is not told."""
    typed = request.node.callspec.params["neo"]
    task = neo.core.do("give_task", ADA, GRACE, "count the rows")
    neo.core.do("move_task", task, "Working", typed=typed)
    time.sleep(0.2)
    neo.core.do("move_task", task, "Completed", typed=typed)
    wake = neo.wakes_for(ADA, task)
    neo.passes()

    text = neo.once(neo.ada, wake)
    assert f"2 task transitions (latest: Working → Completed on task {task})" in text
    assert len(neo.of(ADA, task)) == 1
    assert neo.of(GPT, task) == []


def test_a_pulse_wakes_an_identity_with_three_subscriptions_once(neo: Neo) -> None:
    """DESIGN §2: a heartbeat pulse wakes once per identity."""
    pulse = neo.core.do("pulse", ADA)
    wake = neo.wakes_for(ADA, pulse)
    neo.passes()

    assert neo.announced(ADA).count(("pulse", pulse)) == 1
    assert "1 heartbeat pulse" in neo.once(neo.ada, wake)
    assert neo.of(GPT, pulse) == []


def test_own_broadcasts_and_plain_notes_to_oneself_wake_nobody(neo: Neo) -> None:
    """DESIGN §2: self-mail waits for the next turn, own broadcasts are never told to their sender."""
    broadcast = neo.core.do("send", ADA, "AGENT:*", "taking the lane", [GRACE, VEGA])
    note = neo.core.do("send", ADA, ADA, "sunset: go on with the cursor")
    neo.passes(GPT)
    assert neo.of(ADA, note) == []
    neo.passes(ADA)

    assert neo.of(ADA, broadcast) == []
    (ride,) = neo.of(ADA, note)
    assert len(ride["events"]) > 1, "a note to oneself rides along in the next wake and starts none"
