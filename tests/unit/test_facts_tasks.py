"""Task transitions: typed and derived, who made them, who is told."""

from __future__ import annotations

from typing import Any

import pytest

from wake_bridge.domain.events import Fact, TaskDetail
from wake_bridge.domain.facts import Past, derived_twin, facts_of
from wake_bridge.domain.messages import Unusable
from wake_bridge.domain.names import Instant, LogId
from wake_bridge.ports.change_log import LogEntry

NOW = Instant(1_800_000_000_000)
MODIFIED = "2026-09-01T10:00:00.000Z"


def node(state: str = "Working", assignee: str | None = "@b", **said: Any) -> LogEntry:
    task = {"state": state, **({"assignee": assignee} if assignee else {})}
    properties = {"from": "@a", "to": "@b", "task": task, "lastModifiedAt": MODIFIED, **said}
    return LogEntry(LogId(9), "nodes", "MESSAGE:1", label="MESSAGE", node=properties)


def typed(event_id: str | None = "EVENT:1", **changes: Any) -> LogEntry:
    payload = {
        "schemaVersion": "task-state-change.v1",
        "taskId": "MESSAGE:1",
        "previousState": "Submitted",
        "newState": "Working",
        "originator": "@a",
        "assignee": "@b",
        "assignmentAuthority": "memory-core.v1",
        "lastModifiedAt": MODIFIED,
        **changes,
    }
    kept = {name: value for name, value in payload.items() if value != "absent"}
    return LogEntry(LogId(9), "task_state_changed", "MESSAGE:1", event_id=event_id, payload=kept)


def only(entry: LogEntry, previous: str | None = "Submitted") -> tuple[Fact, TaskDetail]:
    facts = facts_of(entry, Past(NOW, previous_state=previous))
    assert not isinstance(facts, Unusable), facts
    assert len(facts) == 1
    assert isinstance(facts[0].detail, TaskDetail)
    return facts[0], facts[0].detail


def test_a_changed_state_is_a_transition_told_to_both_sides() -> None:
    """Derived by comparing with the last known state."""
    fact, detail = only(node())
    assert fact.recipients == ("@a", "@b")
    assert (detail.previous_state, detail.new_state, detail.actor) == ("Submitted", "Working", "@b")
    assert fact.subject_key == f"MESSAGE:1:Working:{MODIFIED}"
    assert fact.occurred_at == 1788256800000


def test_first_sight_and_rewrites_are_no_transitions() -> None:
    """A task first seen later is a creation; `markRead` and rewrites are none."""
    assert facts_of(node("Working"), Past(NOW, previous_state=None)) == ()
    assert facts_of(node("Working"), Past(NOW, previous_state="Working")) == ()
    assert facts_of(node(task="no task"), Past(NOW, previous_state="Working")) == ()


def test_where_a_typed_row_tells_of_it_nothing_is_derived() -> None:
    """Without typed task rows, derive; never both."""
    assert facts_of(node("Working"), Past(NOW, previous_state="Submitted", is_typed=True)) == ()


def test_a_transition_without_a_time_is_known_by_its_row() -> None:
    """Task id + state + (event id, else `lastModifiedAt`, else log id)."""
    assert only(node(lastModifiedAt=None))[0].subject_key == "MESSAGE:1:Working:9"
    assert only(typed())[0].subject_key == "MESSAGE:1:Working:EVENT:1"
    assert only(typed(event_id=None))[0].subject_key == f"MESSAGE:1:Working:{MODIFIED}"


def test_a_typed_row_knows_the_key_it_would_have_been_derived_under() -> None:
    """So that a typed row that comes later than its node is not told twice."""
    assert derived_twin(only(typed())[1]) == only(node())[0].subject_key


@pytest.mark.parametrize(
    ("previous", "new", "actor"),
    [
        ("Submitted", "Canceled", "@a"),
        ("InputRequired", "Working", "@a"),
        ("Submitted", "Working", "@b"),
        ("Working", "InputRequired", "@b"),
        ("Working", "Completed", "@b"),
        ("Working", "Failed", "@b"),
        ("Submitted", "Completed", "@b"),
        ("Submitted", "Expired", None),
        ("Working", "Expired", None),
    ],
)
def test_the_actor_follows_from_the_rights(previous: str, new: str, actor: str | None) -> None:
    """Originator cancels and answers, assignee makes every other move, the sweeper expires."""
    assert only(node(new), previous)[1].actor == actor
    assert only(typed(previousState=previous, newState=new))[1].actor == actor


def test_an_assignee_that_nobody_named_is_whoever_it_was_sent_to() -> None:
    """A direct task is its recipient's; a broadcast one nobody's until it is claimed."""
    assert only(node(assignee=None))[1].assignee == "@b"
    fact, detail = only(node(assignee=None, to="AGENT:*"))
    assert (detail.assignee, detail.actor, fact.recipients) == (None, None, ("@a",))


def test_a_task_to_oneself_is_told_once() -> None:
    """An identity is told once."""
    assert only(node(assignee="@a"))[0].recipients == ("@a",)


def test_a_typed_assignee_is_told_only_with_authority() -> None:
    """`assignmentAuthority: memory-core.v1`; it may have made the move all the same."""
    fact, detail = only(typed(assignmentAuthority=None))
    assert (fact.recipients, detail.actor) == (("@a",), "@b")
    assert only(typed(assignmentAuthority="somebody.v1"))[0].recipients == ("@a",)
    assert only(typed(assignee=None))[0].recipients == ("@a",)


@pytest.mark.parametrize(
    "changes",
    [
        {"schemaVersion": "task-state-change.v2"},
        {"taskId": "MESSAGE:2"},
        {"previousState": "Begun"},
        {"newState": "working"},
        {"newState": ["Working"]},
        {"newState": "Submitted"},
        {"assignee": "absent"},
        {"assignmentAuthority": "absent"},
        {"originator": None},
        {"lastModifiedAt": "2026-09-01T10:00:00Z"},
        {"lastModifiedAt": None},
        {"lastModifiedAt": "2026-09-41T10:00:00.000Z"},
    ],
    ids=str,
)
def test_a_typed_row_that_is_not_exact_is_unusable(changes: dict[str, Any]) -> None:
    """Anything else is ignored, and here counted."""
    assert isinstance(facts_of(typed(**changes), Past(NOW)), Unusable)
    assert isinstance(facts_of(LogEntry(LogId(9), "task_state_changed", "MESSAGE:1"), Past(NOW)), Unusable)
