"""Which way an item takes: all eight cells, and the two promotions."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from wake_bridge.domain.escalation import (
    ROUTING,
    Axes,
    Duty,
    Handler,
    ItemAddress,
    Target,
    Way,
    axes_of,
    way_of,
)
from wake_bridge.domain.events import ItemMode
from wake_bridge.domain.items import ItemDraft, SourceRules, event_of
from wake_bridge.domain.names import Epoch, Identity, Instant, WakePolicy
from wake_bridge.testing.ledger_samples import sample_event

CELLS = [
    ("USER", "USER", "SYSTEM", Way.INBOX, Duty.NONE),
    ("SESSION", "USER", "SYSTEM", Way.CONVERSATION, Duty.NONE),
    ("USER", "USER", "AGENT", Way.AGENT, Duty.NARRATE),
    ("SESSION", "USER", "AGENT", Way.AGENT, Duty.NARRATE),
    ("SESSION", "AGENT", "SYSTEM", Way.AGENT, Duty.CONTEXT),
    # passive context, and never the person's inbox
    ("USER", "AGENT", "SYSTEM", Way.AGENT, Duty.CONTEXT),
    ("SESSION", "AGENT", "AGENT", Way.AGENT, Duty.ACT),
    ("USER", "AGENT", "AGENT", Way.AGENT, Duty.ACT),
]


@pytest.mark.parametrize(("address", "target", "handler", "way", "duty"), CELLS)
def test_each_cell_has_its_way_and_what_the_agent_owes(
    address: str, target: str, handler: str, way: Way, duty: Duty
) -> None:
    """One responsible way for each, whatever was tested before it."""
    assert ROUTING[Axes(ItemAddress(address), Target(target), Handler(handler))] == (way, duty)


def test_there_are_eight_cells_and_no_other() -> None:
    """No combination is without a way."""
    assert set(ROUTING) == {Axes(*one) for one in product(ItemAddress, Target, Handler)}


@pytest.mark.parametrize("axes", ROUTING, ids=str)
def test_the_promotions_change_what_they_must_and_nothing_else(axes: Axes) -> None:
    """A conversation that is gone leaves the identity; what passes on is the person's, and no agent is asked."""
    assert axes.without_session() == replace(axes, address=ItemAddress.USER)
    assert axes.escalated() == Axes(axes.address, Target.USER, Handler.SYSTEM)
    is_tied = axes.address is ItemAddress.SESSION
    assert way_of(axes.escalated(), has_session=True) is (Way.CONVERSATION if is_tied else Way.INBOX)
    assert way_of(axes.escalated(), has_session=False) is Way.INBOX


@pytest.mark.parametrize("session", ["", "S1"])
@pytest.mark.parametrize(
    ("mode", "target", "handler"),
    [
        (ItemMode.PASSIVE, Target.AGENT, Handler.SYSTEM),
        (ItemMode.PROMPT, Target.USER, Handler.SYSTEM),
        (ItemMode.ACTIVE, Target.AGENT, Handler.AGENT),
    ],
)
def test_an_item_belongs_where_its_mode_and_its_conversation_say(
    session: str, mode: ItemMode, target: Target, handler: Handler
) -> None:
    """Whatever its text or its directive says."""
    draft = ItemDraft(Identity("@a"), "build", "USER", mode, session_id=session, directive="tell the person")
    event = event_of(draft, SourceRules(), "01X", Epoch(1), Instant(1))
    assert axes_of(event) == Axes(ItemAddress.SESSION if session else ItemAddress.USER, target, handler)


@pytest.mark.parametrize(
    ("policy", "handler"), [(WakePolicy.IMMEDIATE, Handler.AGENT), (WakePolicy.NEXT_TURN, Handler.SYSTEM)]
)
def test_mail_is_the_agents_and_wakes_it_or_is_shown_in_passing(policy: WakePolicy, handler: Handler) -> None:
    """By its policy."""
    assert axes_of(sample_event(1, policy=policy)) == Axes(ItemAddress.USER, Target.AGENT, handler)


def test_an_item_that_wakes_has_to_be_answered_where_its_source_says_so() -> None:
    """In passing nothing has to be answered."""
    rules = SourceRules(ack_within_ms=60_000)
    for mode, within in ((ItemMode.ACTIVE, 60_000), (ItemMode.PASSIVE, 0), (ItemMode.PROMPT, 0)):
        event = event_of(ItemDraft(Identity("@a"), "build", "red", mode), rules, "01X", Epoch(1), Instant(1))
        assert event.ack_within == within
