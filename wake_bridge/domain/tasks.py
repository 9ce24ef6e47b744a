"""Task transitions: read from typed rows, or derived from the task's earlier state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wake_bridge.domain.events import Message
from wake_bridge.domain.messages import Unusable, text_of
from wake_bridge.domain.names import Identity, is_canonical, is_identity
from wake_bridge.domain.values import dataclass

TASK_STATES: Final = frozenset(
    {
        "Submitted",
        "Working",
        "InputRequired",
        "Completed",
        "Canceled",
        "Failed",
        "Rejected",
        "AuthRequired",
        "Unknown",
        "Expired",
        "Blocked",
    }
)

FINAL_STATES: Final = frozenset({"Completed", "Canceled", "Failed", "Rejected"})
"""In which a task is done with."""

PAYLOAD_VERSION: Final = "task-state-change.v1"
ASSIGNMENT_AUTHORITY: Final = "memory-core.v1"
"""Only an assignee that the memory core itself assigned is told."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One move of a task.

    `mark` tells it from another move into the same state. `tells_assignee` is false for an assignee that nobody with
    authority assigned: it can have made the move, but it is not told.
    """

    task_id: str
    previous: str
    new: str
    originator: str
    assignee: Identity | None
    last_modified_at: str | None
    mark: str
    tells_assignee: bool = True

    @property
    def subject_key(self) -> str:
        """Task id, state and mark."""
        return f"{self.task_id}:{self.new}:{self.mark}"

    @property
    def actor(self) -> str | None:
        """Who made the move, inferred from the rights; None for the sweeper and where it cannot be told."""
        if self.new == "Expired":
            return None
        if (self.previous, self.new) in {("Submitted", "Canceled"), ("InputRequired", "Working")}:
            return self.originator
        return self.assignee

    @property
    def audience(self) -> tuple[Identity, ...]:
        """Originator and assignee, each once."""
        assignee = self.assignee if self.tells_assignee else None
        parties = dict.fromkeys(party for party in (self.originator, assignee) if party and is_identity(party))
        return tuple(Identity(party) for party in parties)


def derived_transition(message: Message, previous_state: str, log_id: int) -> Transition | None:
    """The move that took a task from `previous_state` to where it stands now; None if it stands where it stood."""
    task = message.task
    if task is None or task.state == previous_state:
        return None
    addressed = Identity(message.recipient) if is_identity(message.recipient) else None
    return Transition(
        task_id=message.id,
        previous=previous_state,
        new=task.state,
        originator=message.sender,
        assignee=task.assignee or addressed,
        last_modified_at=message.last_modified_at,
        mark=message.last_modified_at or str(log_id),
    )


def typed_transition(task_id: str, event_id: str | None, payload: Mapping[str, Any] | None) -> Transition | Unusable:
    """The move a `task_state_changed` row records; whatever is not exactly as specified is unusable."""
    if payload is None:
        return Unusable("the typed row has no payload")
    if payload.get("schemaVersion") != PAYLOAD_VERSION:
        return Unusable("the typed row's schemaVersion is unknown")
    if payload.get("taskId") != task_id:
        return Unusable("the typed row speaks of another task")
    previous, new = payload.get("previousState"), payload.get("newState")
    if not (isinstance(previous, str) and isinstance(new, str) and {previous, new} <= TASK_STATES):
        return Unusable("the typed row names an unknown state")
    if previous == new:
        return Unusable("the typed row is no change")
    if not {"assignee", "assignmentAuthority"} <= payload.keys():
        return Unusable("the typed row lacks assignee or assignmentAuthority")
    originator = text_of(payload.get("originator"))
    if not originator:
        return Unusable("the typed row names no originator")
    modified = payload.get("lastModifiedAt")
    if not isinstance(modified, str) or not is_canonical(modified):
        return Unusable("the typed row's lastModifiedAt is no exact time")
    assignee = text_of(payload["assignee"])
    return Transition(
        task_id=task_id,
        previous=previous,
        new=new,
        originator=originator,
        assignee=Identity(assignee) if is_identity(assignee) else None,
        last_modified_at=modified,
        mark=event_id or modified,
        tells_assignee=payload["assignmentAuthority"] == ASSIGNMENT_AUTHORITY,
    )
