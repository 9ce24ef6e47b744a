"""The home of an identity: where it can be woken, which subscription names that place, and whether the name lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """Whether an identity can be woken now: `where` it is (`key` names the place), or `hold` why nowhere.

    `adapter` is whose place it is, `harness` what is said to run there. `overruled` says in a clause why it is not where its newest subscription says; empty
    where it is, or says nothing.
    """

    where: str = ""
    key: str = ""
    adapter: str = ""
    hold: Hold | None = None
    overruled: str = ""
    harness: str = ""


@dataclass(frozen=True, slots=True)
class FragileName:
    """A name by which an identity is found, and which may come to mean another pane.

    `doubts` say why. `commands` give the pane a name that lasts, `lasting`. It has to be written where the old name stands: in
    the identity's target (`is_of_target`), else in the subscription with the id `said_by`, else in `$TMUX_SESSION`.
    """

    name: str
    doubts: tuple[str, ...]
    commands: tuple[str, ...]
    lasting: str
    is_of_target: bool = False
    said_by: str = ""


@dataclass(frozen=True, slots=True)
class Home:
    """Where an identity can be woken, as one look finds it.

    `speaker` is the id of the subscription that says where it lives, `pane` what that one names; `is_placed` says that a target
    or a binding overrules it. `shut` are the holds of receivers that are sent nothing now, by the id of their subscription.
    `fragile` is the name by which it is found, None where that lasts.
    """

    reach: Reach = Reach()
    speaker: str = ""
    pane: str = ""
    is_placed: bool = False
    shut: Mapping[str, Hold] = field(default_factory=dict)
    fragile: FragileName | None = None
