"""Where identities live, and whose a conversation is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.routing import Binding, Claim, RememberedPane
from wake_bridge.domain.sessions import Session


class Whereabouts(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def bind(self, identity: Identity, binding: Binding, now: Instant) -> None:
        """Record where an identity lives."""

    def unbind(self, identity: Identity) -> None:
        """Forget where it was bound and where it was found; without effect where nothing is recorded."""

    def bindings(self) -> Mapping[Identity, Binding]:
        """Where each bound identity lives."""

    def binding(self, identity: Identity) -> Binding | None:
        """Where it was bound."""

    def remember(self, identity: Identity, pane: RememberedPane, was: RememberedPane | None) -> bool:
        """Record where an identity was found; whom it had there before counts as its former agent.

        Without effect where something else is recorded by now than `was` for that name: a person's word may have come in
        between. Answers whether it was recorded.
        """

    def seen_there(self, identity: Identity, at: Instant) -> None:
        """Record that an identity's agent was seen then where it was found last; an earlier instant changes nothing."""

    def remembered(self, identity: Identity) -> RememberedPane | None:
        """Where an identity was found last."""

    def claims(self) -> list[Claim]:
        """Every remembered pane, and every former agent, as a claim of its identity."""

    def meet_session(self, session: Session) -> None:
        """Record whose a conversation is; what was recorded of it before is replaced."""

    def part_from_session(self, session_id: str) -> None:
        """Forget a conversation that ended; without effect where it is not known."""

    def session(self, session_id: str) -> Session | None:
        """One conversation, if it is known."""

    def sessions_of(self, identity: Identity) -> list[Session]:
        """The conversations known to be the identity's, the latest heard of first."""

    def all_sessions(self) -> list[Session]:
        """Every known conversation, the latest heard of first."""
