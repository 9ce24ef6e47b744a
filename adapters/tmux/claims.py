"""Whose pane a pane says it is: the option `@wake_identity` (DESIGN §6.1)."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.tmux.command import TmuxServer
from adapters.tmux.panes import IDENTITY_OPTION, Pane, panes_claimed_by, panes_named


def claim_commands(panes: Sequence[Pane], pane_id: str, identity: str) -> list[list[str]]:
    """The tmux commands after which this pane, and no other, says it is the identity's.

    Identities that share the pane keep their claim.
    """
    elsewhere = [pane for pane in panes_claimed_by(panes, identity) if pane.pane_id != pane_id]
    here = panes_named(panes, pane_id)
    return [
        *(_told(pane.pane_id, _others(pane, identity)) for pane in elsewhere),
        *(_told(pane.pane_id, [*_others(pane, identity), identity]) for pane in here),
    ]


async def claim_pane(server: TmuxServer, panes: Sequence[Pane], pane_id: str, identity: str) -> str:
    """Mark the pane; why it could not be done, empty if it was."""
    commands = claim_commands(panes, pane_id, identity)
    if not commands:
        return f"no pane {pane_id}"
    answer = await server.ask(*commands)
    return "" if answer.is_well else answer.complaint


async def release_panes(server: TmuxServer, panes: Sequence[Pane], identity: str) -> str:
    """Let no pane say that it is the identity's; why it could not be done, empty if it was."""
    commands = [_told(pane.pane_id, _others(pane, identity)) for pane in panes_claimed_by(panes, identity)]
    answer = await server.ask(*commands)
    return "" if answer.is_well else answer.complaint


def _others(pane: Pane, identity: str) -> list[str]:
    return [other for other in pane.identities if other != identity]


def _told(pane_id: str, identities: Sequence[str]) -> list[str]:
    if not identities:
        return ["set-option", "-p", "-u", "-t", pane_id, IDENTITY_OPTION]
    return ["set-option", "-p", "-t", pane_id, IDENTITY_OPTION, " ".join(identities)]
