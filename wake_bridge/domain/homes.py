"""Where an identity can be woken, as a look finds it: what a list of subscriptions says of their homes."""

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
class DoubtfulName:
    """A name by which an identity is found, and which may come to mean another pane.

    `doubts` say why, `commands` help, `lasting` is the name to be written then: in the identity's target, else in the
    subscription `said_by`; where that is empty, `$TMUX_SESSION` says it.
    """

    name: str
    doubts: tuple[str, ...]
    commands: tuple[str, ...]
    lasting: str
    is_of_target: bool = False
    said_by: str = ""


@dataclass(frozen=True, slots=True)
class Home:
    """An identity's home.

    `speaker` is the subscription whose word counts for where it lives, with the pane that it names; `is_placed` says that
    something else has said it. `shut` are the holds of its receivers that are sent nothing now, by subscription. `doubtful`
    is its name, if that need not last.
    """

    reach: Reach = Reach()
    speaker: str = ""
    pane: str = ""
    is_placed: bool = False
    shut: Mapping[str, Hold] = field(default_factory=dict)
    doubtful: DoubtfulName | None = None
