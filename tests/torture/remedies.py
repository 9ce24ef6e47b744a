"""A person who does literally what each hold says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.torture.house import Tenant
from tests.torture.person import Person
from tests.torture.report import Table, Verdict

HELPED: Final = "ended the hold"
NOT_HELPED: Final = "did not help"
REMEDIES_HELP: Final = (HELPED, NOT_HELPED)
RETRY: Final = "unknown twice: `deliveries retry --i-looked`"
HELPS_WITHIN: Final = 25.0
"""Seconds; a hold is looked at again each second."""

LOOKS: Final = 3.0
"""Seconds that a hold stands before the person reads it."""

PATIENCE: Final = 240.0


def takes_remedies(person: Person, table: Table, never_came: Callable[[], Sequence[str]]) -> None:
    """Do what the holds say until nothing is held.

    Args:
        person: who does it.
        table: what they say is its rows.
        never_came: messages of unknown outcome that no agent has got; told twice, only a person tells them once more.
    """
    retried: set[str] = set()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(LOOKS)
        held = [one for one in person.house.plain.deliveries() if not one["settledAt"]]
        missing = never_came()
        if not held and not missing:
            return
        for message in missing:
            *earlier, last = person.house.tellers(message)
            if earlier and last.id not in retried:
                retried.add(last.id)
                person.tells(f"looked for {last.id}, which was told twice and is not there")
                person.house.plain.run("deliveries", "retry", last.id, "--i-looked")
                table.add(RETRY, Verdict(HELPED))
        due = [one for one in held if one["hold_reason"] and _deed_for(one["remedy"])]
        for one in due:
            _takes(person, table, one)


def _takes(person: Person, table: Table, held: dict[str, Any]) -> None:
    tenant = person.house.tenants[held["target"]]
    words, deed = next((words, deed) for words, deed in DEEDS if words in held["remedy"])
    person.tells(f"told by {held['hold_reason']}, {held['hold_detail']}: {held['remedy']}")
    try:
        deed(person, tenant, held["remedy"])
    except (AssertionError, RuntimeError) as impossible:
        table.add(words, Verdict(NOT_HELPED, (f"{impossible}, {held}",)))
        return
    deadline = time.monotonic() + HELPS_WITHIN
    while (now := _standing(person, held["id"]))["hold_reason"] == held["hold_reason"]:
        if time.monotonic() > deadline:
            wrong = f"{tenant.identity} is still held by {now['hold_reason']}, {now['hold_detail']}, though the person did: {held['remedy']}"
            table.add(words, Verdict(NOT_HELPED, (wrong,)))
            return
        time.sleep(0.5)
    table.add(words, Verdict(HELPED))


def _standing(person: Person, delivery: str) -> dict[str, Any]:
    return next(one for one in person.house.plain.deliveries() if one["id"] == delivery)


def _deed_for(remedy: str) -> Callable[[Person, Tenant, str], object] | None:
    return next((deed for words, deed in DEEDS if words in remedy), None)


def starts_in_its_pane(person: Person, tenant: Tenant, remedy: str = "") -> None:
    """In the pane it was left in; where that is closed, in the shell that the words name."""
    if tenant.is_up:
        return
    if tenant.is_lost:
        words = re.search(r"start the agent in (\S+);", remedy)
        assert words is not None, remedy
        pane = person.tmux("display-message", "-p", "-t", f"={words[1]}", "#{pane_id}").strip()
        owners = [one.identity for one in person.tenants if one.pane == pane]
        assert not owners, f"{tenant.identity} is told to be started in {words[1]}, the pane of {owners}"
        person.house.strangers.shells.discard(pane)
        tenant.pane = pane
    person.house.starts_in_shell(tenant)


def says_where(person: Person, tenant: Tenant, _: str = "") -> None:
    """`bind` inside the right pane; where there is none, in the one in which the person starts the agent then."""
    if tenant.is_lost:
        person.starts_somewhere(tenant, says_first=person.chance.random() < 0.5)
        return
    starts_in_its_pane(person, tenant)
    person.says_where(tenant)


def corrects_targets(person: Person, tenant: Tenant, _: str = "") -> None:
    """The line in [targets] names the right pane from now on."""
    if tenant.is_lost:
        person.starts_somewhere(tenant, says_first=person.chance.random() < 0.5)
        return
    starts_in_its_pane(person, tenant)
    person.house.moves(tenant, person.lasting_name(tenant))
    if person.daemon is not None:
        person.daemon.reload()


def opens_again(person: Person, tenant: Tenant, _: str = "") -> None:
    """What the name leads to, where that can be had; else the pane where it is started, and that is said."""
    if not tenant.is_lost or not person.starts_by_name(tenant):
        says_where(person, tenant)


def clears(_: Person, tenant: Tenant, __: str) -> None:
    """The composer is emptied."""
    if tenant.is_up:
        tenant.fake.shows("idle")


def gives_it_room(person: Person, tenant: Tenant, _: str) -> None:
    """It gets a window of its own: in a few rows no composer can be seen."""
    person.tmux("break-pane", "-d", "-s", tenant.pane)


DEEDS: Final = (
    ("correct `pane` in the [targets] table", corrects_targets),
    ("open ", opens_again),
    ("run `wake-bridge bind", says_where),
    ("start the agent in ", starts_in_its_pane),
    ("our wake text is in the composer of ", clears),
    ("send or clear the text in the composer of ", clears),
    ("does not show an idle agent", gives_it_room),
    ("no composer is visible in ", gives_it_room),
)
"""What words of a remedy ask for; what says that there is nothing to do is waited for."""
