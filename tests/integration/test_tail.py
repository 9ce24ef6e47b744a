"""The tail on the graph that the real services wrote: who is woken, how often, and who is not."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.events import MessageDetail, PermissionDetail, PulseDetail, TaskDetail, WakeEvent
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import EventKind, WakePolicy
from wake_bridge.engine.tail import log_reader
from wake_bridge.testing.memory_core import EVENT_COLUMNS, MemoryCore, MemoryCoreProcess
from wake_bridge.testing.tail_rig import TailRig

pytestmark = pytest.mark.anyio

REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"
ADA, GPT, GEMINI, GRACE, HUMAN = "@neo-opus-ada", "@neo-gpt", "@neo-gemini-pro", "@neo-opus-grace", "@tobiu"
AGENTS = ("@neo-fable", "@neo-fable-clio", GEMINI, GPT, ADA, GRACE, "@neo-opus-vega")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """The real graph, in WAL mode, with the subscriptions of two identities replaced by tmux ones for all triggers."""
    path = tmp_path / "graph.sqlite"
    shutil.copyfile(REAL, path)
    with MemoryCore(path) as core:
        core.sql("PRAGMA journal_mode = WAL")
        core.sql("DELETE FROM Nodes WHERE json_extract(data, '$.label') = 'WAKE_SUBSCRIPTION'")
        for identity in (ADA, GPT):
            for trigger in ("SENT_TO_ME", "TASK_STATE_CHANGED", "PERMISSION_GRANTED"):
                core.subscribe(identity, trigger)
    return path


@pytest.fixture
def core(graph: Path) -> Iterator[MemoryCoreProcess]:
    with MemoryCoreProcess(graph) as core:
        yield core


def subjects(events: list[WakeEvent]) -> list[tuple[str, str]]:
    return [(event.identity, event.subject_key) for event in events]


async def test_what_the_graph_held_before_wakes_nobody(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """A first start goes to the tip; mail from before is old."""
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
        assert rig.ledger.recorded == []
        assert rig.tail.epoch == 1


async def test_old_content_written_again_wakes_nobody(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """An old fact at a new log position is judged by `sentAt`, with one hour."""
    hours_ago = datetime.now(UTC) - timedelta(hours=3)
    async with TailRig(graph, tmp_path / "state") as rig:
        for (message_id,) in core.do("sql", "SELECT id FROM Nodes WHERE id LIKE 'MESSAGE:%'"):
            core.do("set", message_id, "sentAt", f"{hours_ago:%Y-%m-%dT%H:%M:%S.000Z}")
            core.do("set", message_id, "readAt", None)
            core.do("touch", message_id)
            core.do("touch_edges", message_id)
        await rig.reaches(core.do("tip"))
        assert rig.woken == []
        assert {event.refused_by for event in rig.refused} <= {"rewritten", "read", "self", "suppressed"}
        assert "rewritten" in {event.refused_by for event in rig.refused}


async def test_old_content_rewritten_while_nobody_looked_wakes_nobody(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """That the row is newer than its fact is known after a restart too, by the time of `lastSyncId`."""
    old = f"{datetime.now(UTC) - timedelta(hours=3):%Y-%m-%dT%H:%M:%S.000Z}"
    message_id = core.do("send", GPT, ADA, "from before", sentAt=old)
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
    core.do("touch_edges", message_id)
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
        assert rig.woken == []
        assert subjects(rig.refused) == [(ADA, message_id)]


async def test_new_mail_with_a_time_of_hours_ago_wakes(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """A slow clock or a late outbox: what the log never had before is new, and its limit is `catch_up`."""
    old = f"{datetime.now(UTC) - timedelta(hours=2):%Y-%m-%dT%H:%M:%S.000Z}"
    async with TailRig(graph, tmp_path / "state") as rig:
        live = core.do("send", GPT, ADA, "from a slow clock", sentAt=old)
        await rig.reaches(core.do("tip"))
        assert subjects(rig.woken) == [(ADA, live)]
    down = core.do("send", GPT, ADA, "from a slow clock, while down", sentAt=old)
    too_old = core.do("send", GPT, ADA, "from last year", sentAt="2020-01-01T00:00:00.000Z")
    async with TailRig(graph, tmp_path / "state") as rig:
        core.do("touch_edges", live)
        await rig.reaches(core.do("tip"))
        assert subjects(rig.woken) == [(ADA, down)]
        assert [(event.subject_key, event.refused_by) for event in rig.refused] == [(too_old, "age")]


@pytest.mark.parametrize(("days", "wakes"), [(6, False), (8, True)])
async def test_where_the_first_rows_are_pruned_a_young_ledger_cannot_tell_new_mail_from_old(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path, days: int, wakes: bool
) -> None:
    """The hour stays where an earlier row may have been pruned before the ledger could see it."""
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
    core.do("prune", 10)
    with closing(sqlite3.connect(tmp_path / "state/state.sqlite")) as ledger, ledger:
        ledger.execute("UPDATE meta SET value = value - ? WHERE key = 'epoch_began_at'", (days * 24 * 3_600_000,))
    old = f"{datetime.now(UTC) - timedelta(hours=2):%Y-%m-%dT%H:%M:%S.000Z}"
    sent = core.do("send", GPT, ADA, "from a slow clock", sentAt=old)
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
        assert subjects(rig.woken) == ([(ADA, sent)] if wakes else [])
        assert [event.refused_by for event in rig.refused] == ([] if wakes else ["rewritten"])


async def test_mail_sent_while_the_daemon_was_down_wakes_when_it_is_back(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """The cursor stays where it was, and a live cursor may be days behind."""
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
    sent = [core.do("send", GPT, ADA, f"while you were away {number}") for number in range(3)]
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
        assert subjects(rig.woken) == [(ADA, message_id) for message_id in sent]


async def test_real_shaped_mail_wakes_exactly_once(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """One message wakes an identity once, however many rows mention it."""
    async with TailRig(graph, tmp_path / "state") as rig:
        message_id = core.do("send", GPT, ADA, "Review request", priority="high")
        await rig.until(lambda: bool(rig.woken))
        core.do("touch", message_id)
        core.do("touch_edges", message_id)
        core.do("mark_read", message_id)
        core.do("touch_edges", message_id)
        await rig.reaches(core.do("tip"))
        assert subjects(rig.ledger.recorded) == [(ADA, message_id)]
        event = rig.woken[0]
        assert isinstance(event.detail, MessageDetail)
        assert (event.detail.subject, event.detail.sender, event.priority) == ("Review request", GPT, "high")
        assert (event.policy, event.window) == (WakePolicy.IMMEDIATE, 0)
        assert rig.nudges == 1


async def test_a_broadcast_wakes_its_audience_once_and_never_its_sender(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """SENT_TO → AGENT:* commits before the DELIVERED_TO edges; the match waits 2 s for them, and no longer than that."""
    audience = [agent for agent in AGENTS if agent != GPT]
    async with TailRig(graph, tmp_path / "state") as rig:
        core.start("send", GPT, "AGENT:*", "[lane-claim] mine", audience, pause=0.2)
        await rig.until(lambda: bool(rig.woken))
        early = rig.woken[0]
        assert early.not_before >= early.matched_at + 2000
        message_id = core.finish()
        core.do("mark_read", message_id, ADA)
        await rig.reaches(core.do("tip"))
        assert [(event.id, event.not_before) for event in rig.woken[1:]] == [(early.id, 0)]
        assert subjects(rig.woken[:1]) == [(ADA, message_id)]
        assert [(event.identity, event.refused_by) for event in rig.refused] == [(GPT, "self")]


async def test_a_broadcast_whose_audience_is_recorded_reaches_nobody_else(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """SENT_TO → AGENT:* counts only without any DELIVERED_TO."""
    async with TailRig(graph, tmp_path / "state", hints=False, poll_interval=0.5) as rig:
        await rig.reaches(core.do("tip"))
        core.do("send", GEMINI, "AGENT:*", "for gpt alone", [GPT])
        await rig.reaches(core.do("tip"))
        assert [event.identity for event in rig.woken] == [GPT]
        assert rig.woken[0].not_before == 0


async def test_mail_to_oneself_waits_for_the_next_turn(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """Self-mail is `next_turn`, unless the subscription asks for one of its tags."""
    tagged = {"taggedConcepts": ["concept:sunset-protocol-handover"]}
    async with TailRig(graph, tmp_path / "state") as rig:
        core.do("send", ADA, ADA, "note to self")
        await rig.until(lambda: len(rig.woken) == 1)
        core.do("subscribe", ADA, filters=tagged)
        core.do("send", ADA, ADA, "handover", taggedConcepts=["sunset-protocol-handover"])
        await rig.until(lambda: len(rig.woken) == 2)
        assert [event.policy for event in rig.woken] == [WakePolicy.NEXT_TURN, WakePolicy.IMMEDIATE]


async def test_a_grant_wakes_the_grantee_and_names_the_granter(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """Permission edges run grantee → granter."""
    async with TailRig(graph, tmp_path / "state") as rig:
        edge_id = core.do("grant", ADA, GPT, "CAN_READ_INBOX_OF")
        await rig.until(lambda: bool(rig.woken))
        core.do("sql", "UPDATE Edges SET data = json_set(data, '$.properties.weight', 1.1) WHERE id = ?", edge_id)
        await rig.reaches(core.do("tip"))
        assert subjects(rig.ledger.recorded) == [(ADA, edge_id)]
        detail = rig.woken[0].detail
        assert isinstance(detail, PermissionDetail)
        assert (detail.scope, detail.granted_by) == ("CAN_READ_INBOX_OF", GPT)
        assert detail.granted_at_observed


async def test_a_pulse_wakes_an_identity_with_three_subscriptions_once(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """A pulse wakes once per identity."""
    said = {"source": "idle-out-nudge", "reason": "idle 20m", "nextAction": "claim a lane"}
    encoded = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
    async with TailRig(graph, tmp_path / "state") as rig:
        plain = core.do("pulse", ADA)
        telling = core.do("pulse", ADA, f"idle-out-nudge.{encoded}")
        await rig.reaches(core.do("tip"))
        assert subjects(rig.ledger.recorded) == [(ADA, plain), (ADA, telling)]
        assert [len(event.other_subscriptions) for event in rig.woken] == [2, 2]
        detail = rig.woken[1].detail
        assert isinstance(detail, PulseDetail)
        assert (detail.source, detail.reason, detail.next_action) == tuple(said.values())


def moves_of(events: list[WakeEvent]) -> list[tuple[str, str, str]]:
    details = [(event.identity, event.detail) for event in events if isinstance(event.detail, TaskDetail)]
    return [(identity, detail.previous_state, detail.new_state) for identity, detail in details]


@pytest.mark.parametrize("columns", ["three columns", "event columns without typed rows", "typed rows"])
async def test_each_move_of_a_task_is_told_to_the_other_side_once(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path, columns: str
) -> None:
    """Transitions come from typed rows, or are derived from the last known state; never from both."""
    if columns != "three columns":
        with_event_columns(graph)
    typed = columns == "typed rows"
    async with TailRig(graph, tmp_path / "state") as rig:
        task_id = core.do("give_task", ADA, GPT, "fix the cursor")
        await rig.until(lambda: bool(rig.woken))
        for number, state in enumerate(("Working", "Completed"), start=2):
            core.do("move_task", task_id, state, typed=typed)
            await rig.until(lambda number=number: len(rig.woken) == number)  # type: ignore[misc]
        core.do("mark_read", task_id)
        core.do("touch", task_id)
        await rig.reaches(core.do("tip"))
        assert moves_of(rig.woken) == [(ADA, "Submitted", "Working"), (ADA, "Working", "Completed")]
        assert [event.identity for event in rig.woken if event.kind is EventKind.MESSAGE] == [GPT]
        assert {(event.identity, event.refused_by) for event in rig.refused} == {(GPT, "self")}


async def test_moves_made_while_the_daemon_was_down_are_told_as_the_net_one(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """While the daemon is down only the net transition is known."""
    async with TailRig(graph, tmp_path / "state") as rig:
        task_id = core.do("give_task", ADA, GPT, "fix the cursor")
        await rig.reaches(core.do("tip"))
    core.do("move_task", task_id, "Working")
    core.do("move_task", task_id, "Completed")
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
        assert moves_of(rig.woken) == [(ADA, "Submitted", "Completed")]


async def test_an_expired_task_is_told_to_both(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """The sweeper expires, and is nobody's move."""
    async with TailRig(graph, tmp_path / "state") as rig:
        task_id = core.do("give_task", ADA, GPT, "too late")
        await rig.until(lambda: bool(rig.woken))
        core.do("move_task", task_id, "Expired")
        await rig.reaches(core.do("tip"))
        assert sorted(moves_of(rig.woken)) == [(GPT, "Submitted", "Expired"), (ADA, "Submitted", "Expired")]


async def test_a_subscription_counts_from_its_row_and_no_longer_than_its_node(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """A subscription is re-read when its row appears in the log."""
    async with TailRig(graph, tmp_path / "state") as rig:
        core.do("send", ADA, GRACE, "nobody listens yet")
        await rig.reaches(core.do("tip"))
        subscription_id = core.do("subscribe", GRACE)
        heard = core.do("send", ADA, GRACE, "now you hear me")
        await rig.until(lambda: bool(rig.woken))
        core.do("set", subscription_id, "status", "retired")
        core.do("send", ADA, GRACE, "retired")
        await rig.reaches(core.do("tip"))
        core.do("set", subscription_id, "status", "active")
        heard_again = core.do("send", ADA, GRACE, "back")
        await rig.until(lambda: len(rig.woken) == 2)
        core.do("sql", "DELETE FROM Nodes WHERE id = ?", subscription_id)
        core.do("send", ADA, GRACE, "gone")
        await rig.reaches(core.do("tip"))
        assert subjects(rig.ledger.recorded) == [(GRACE, heard), (GRACE, heard_again)]


async def test_what_others_serve_on_a_foreign_graph_wakes_nobody(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """On a foreign graph only bridge-daemon rows are ours, unless `[graph] serve` says more."""
    named: dict[str, Any] = {"harnessTarget": "mcp-notifications", "harnessTargetMetadata": {}}
    core.do("subscribe", GRACE, **named)
    async with TailRig(graph, tmp_path / "state") as rig:
        core.do("send", ADA, GRACE, "served by others")
        await rig.reaches(core.do("tip"))
        assert rig.ledger.recorded == []
    async with TailRig(graph, tmp_path / "state", rules=MatchingRules(serve=frozenset({"mcp-notifications"}))) as rig:
        core.do("send", ADA, GRACE, "served by us")
        await rig.until(lambda: bool(rig.woken))
        assert rig.woken[0].policy is WakePolicy.NEXT_TURN


async def test_mail_from_a_person_is_known_to_be(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """The loop brake counts wakes without a human's message."""
    async with TailRig(graph, tmp_path / "state") as rig:
        core.do("send", HUMAN, ADA, "from a person")
        core.do("send", GPT, ADA, "from an agent")
        await rig.until(lambda: len(rig.woken) == 2)
        assert [event.from_human for event in rig.woken] == [True, False]


async def test_a_person_who_is_added_and_speaks_within_one_page_is_a_person(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """The loop brake lets a person's message through, the first one too."""
    async with TailRig(graph, tmp_path / "state", hints=False, poll_interval=1.0) as rig:
        await rig.reaches(core.do("tip"))
        core.do("identity", "@newcomer", accountType="human")
        core.do("send", "@newcomer", ADA, "carry on")
        await rig.until(lambda: bool(rig.woken))
        assert rig.woken[0].from_human


def with_event_columns(graph: Path) -> None:
    with MemoryCore(graph) as other:
        for statement in EVENT_COLUMNS.strip().splitlines():
            other.sql(statement)


async def test_a_typed_row_that_comes_after_its_node_is_not_told_twice(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """One move wakes once, even where its writer needed two transactions."""
    with_event_columns(graph)
    async with TailRig(graph, tmp_path / "state") as rig:
        task_id = core.do("give_task", ADA, GPT, "fix the cursor")
        await rig.until(lambda: len(rig.woken) == 1)
        core.do("move_task", task_id, "Working")
        await rig.until(lambda: len(rig.woken) == 2)
        payload = {
            "schemaVersion": "task-state-change.v1",
            "taskId": task_id,
            "previousState": "Submitted",
            "newState": "Working",
            "originator": ADA,
            "assignee": GPT,
            "assignmentAuthority": "memory-core.v1",
            "lastModifiedAt": core.do("properties", task_id)["lastModifiedAt"],
        }
        columns = "entity_id, entity_type, event_id, event_payload"
        row = f"INSERT INTO GraphLog({columns}) VALUES (?, 'task_state_changed', 'EVENT:late', ?)"
        core.do("sql", row, task_id, json.dumps(payload))
        await rig.reaches(core.do("tip"))
        assert moves_of(rig.woken) == [(ADA, "Submitted", "Working")]


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
async def test_a_backlog_of_typed_moves_is_told_move_by_move_whatever_the_page(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """A typed row beyond the page keeps its node from being derived."""
    with_event_columns(graph)
    async with TailRig(graph, tmp_path / "state") as rig:
        known = core.do("give_task", ADA, GPT, "seen before")
        await rig.until(lambda: len(rig.woken) == 1)
    unseen = core.do("give_task", ADA, GPT, "not seen before")
    events = [
        (task_id, core.do("move_task", task_id, state, typed=True))
        for task_id in (known, unseen)
        for state in ("Working", "InputRequired")
    ]
    monkeypatch.setattr(log_reader, "PAGE", rows)
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
        moves = [event.subject_key for event in rig.woken if event.kind is EventKind.TASK]
        assert [key.rsplit(":", 1)[1] for key in moves] == [event_id for _, event_id in events]
