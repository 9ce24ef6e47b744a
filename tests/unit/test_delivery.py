from __future__ import annotations

from itertools import product

import pytest

from wake_bridge.domain.delivery import (
    LEGAL_MOVES,
    DeliveryState,
    Hold,
    HoldReason,
    Progress,
    Proof,
    Step,
    progress_of,
)
from wake_bridge.domain.names import Identity

P, D, L, E, DELIVERED, FAILED = (
    DeliveryState.PENDING,
    DeliveryState.DISPATCHED,
    DeliveryState.LOCKED,
    DeliveryState.ESCALATED,
    DeliveryState.DELIVERED,
    DeliveryState.FAILED,
)
INTENT_STAGE, STAGED, INTENT_SUBMIT, SUBMITTED, REFUSED, PROBED, HELD, LOCKED, RELEASED, ACKED, SETTLED, ABSENT = (
    Step.INTENT_STAGE,
    Step.STAGED,
    Step.INTENT_SUBMIT,
    Step.SUBMITTED,
    Step.REFUSED,
    Step.PROBED,
    Step.HELD,
    Step.LOCKED,
    Step.RELEASED,
    Step.ACKED,
    Step.SETTLED,
    Step.ABSENT,
)


def test_eight_of_thirty_six_moves_are_legal() -> None:
    """P→D, D→L, L→D, L→DELIVERED, L→FAILED, L→ESCALATED, E→DELIVERED, E→FAILED; the other 28 are not."""
    legal = {(P, D), (D, L), (L, D), (L, DELIVERED), (L, FAILED), (L, E), (E, DELIVERED), (E, FAILED)}
    every = set(product(DeliveryState, repeat=2))
    assert len(every) == 36
    assert {move for move in every if move in LEGAL_MOVES} == legal


def test_no_move_leaves_a_terminal_state_and_each_state_can_be_reached() -> None:
    """DELIVERED and FAILED never change; everything else can get there."""
    assert not {start for start, _ in LEGAL_MOVES if start.is_terminal}
    assert {end for _, end in LEGAL_MOVES} == set(DeliveryState) - {P}
    assert {state for state in DeliveryState if state.is_terminal} == {DELIVERED, FAILED}
    assert {state for state in DeliveryState if state.is_frozen} == {L, E, DELIVERED, FAILED}


@pytest.mark.parametrize(
    ("steps", "progress"),
    [
        ([], Progress.UNTOUCHED),
        ([PROBED, HELD, LOCKED, PROBED, REFUSED, RELEASED], Progress.UNTOUCHED),
        ([INTENT_STAGE], Progress.MAYBE_STAGED),
        ([INTENT_STAGE, REFUSED], Progress.UNTOUCHED),
        ([INTENT_STAGE, REFUSED, RELEASED, LOCKED, PROBED, INTENT_STAGE], Progress.MAYBE_STAGED),
        ([INTENT_STAGE, STAGED], Progress.STAGED),
        ([INTENT_STAGE, STAGED, REFUSED], Progress.STAGED),
        ([INTENT_STAGE, STAGED, HELD, PROBED, HELD], Progress.STAGED),
        ([INTENT_STAGE, STAGED, INTENT_STAGE, REFUSED], Progress.STAGED),
        ([INTENT_STAGE, STAGED, INTENT_STAGE], Progress.MAYBE_STAGED),
        ([INTENT_STAGE, STAGED, INTENT_SUBMIT], Progress.MAYBE_SUBMITTED),
        ([INTENT_STAGE, STAGED, INTENT_SUBMIT, REFUSED], Progress.STAGED),
        ([INTENT_STAGE, STAGED, INTENT_SUBMIT, REFUSED, REFUSED], Progress.STAGED),
        ([INTENT_STAGE, STAGED, INTENT_SUBMIT, SUBMITTED], Progress.SUBMITTED),
        ([INTENT_STAGE, STAGED, INTENT_SUBMIT, SUBMITTED, REFUSED], Progress.SUBMITTED),
        ([INTENT_STAGE, STAGED, INTENT_SUBMIT, SUBMITTED, ACKED, SETTLED], Progress.SUBMITTED),
        ([INTENT_STAGE, SUBMITTED, INTENT_STAGE], Progress.SUBMITTED),
        ([INTENT_STAGE, SUBMITTED, STAGED, INTENT_SUBMIT, REFUSED], Progress.SUBMITTED),
    ],
)
def test_what_can_have_reached_the_target_follows_from_the_journal(steps: list[Step], progress: Progress) -> None:
    """An intent counts as done unless its own condition refused it; what was seen stays seen."""
    assert progress_of(steps) is progress


@pytest.mark.parametrize(
    "steps",
    [
        [INTENT_STAGE, STAGED, INTENT_SUBMIT, INTENT_SUBMIT, REFUSED],
        [INTENT_STAGE, STAGED, INTENT_SUBMIT, LOCKED, PROBED, REFUSED],
        [INTENT_STAGE, STAGED, INTENT_SUBMIT, STAGED],
        [INTENT_STAGE, STAGED, INTENT_SUBMIT, LOCKED, STAGED, REFUSED],
        [INTENT_STAGE, STAGED, INTENT_SUBMIT, LOCKED, INTENT_STAGE],
        [INTENT_STAGE, STAGED, INTENT_SUBMIT, LOCKED, INTENT_STAGE, REFUSED],
    ],
)
def test_a_submit_nobody_refused_stays_possible(steps: list[Step]) -> None:
    """After `intent_submit` it is uncertain; the refusal of a later key says nothing of the first one."""
    assert progress_of(steps) is Progress.MAYBE_SUBMITTED


def test_a_paste_nobody_refused_stays_possible() -> None:
    """A refusal after a restart is not that of the intent before it."""
    assert progress_of([INTENT_STAGE, LOCKED, PROBED, REFUSED]) is Progress.MAYBE_STAGED


@pytest.mark.parametrize(
    ("steps", "progress"),
    [
        ([INTENT_SUBMIT, ABSENT], Progress.UNTOUCHED),
        ([INTENT_SUBMIT, LOCKED, ABSENT], Progress.UNTOUCHED),
        ([INTENT_SUBMIT, INTENT_SUBMIT, LOCKED, ABSENT], Progress.UNTOUCHED),
        ([INTENT_SUBMIT, LOCKED, ABSENT, RELEASED, LOCKED, INTENT_SUBMIT], Progress.MAYBE_SUBMITTED),
        ([INTENT_STAGE, STAGED, INTENT_SUBMIT, LOCKED, ABSENT], Progress.STAGED),
        ([INTENT_SUBMIT, SUBMITTED, ABSENT], Progress.SUBMITTED),
        ([INTENT_STAGE, ABSENT], Progress.MAYBE_STAGED),
    ],
)
def test_only_the_proof_that_it_never_came_in_takes_a_submit_back_after_a_restart(
    steps: list[Step], progress: Progress
) -> None:
    """A native channel's own record shows what is absent; what was seen there, or stands staged, is not."""
    assert progress_of(steps) is progress


@pytest.mark.parametrize("reason", list(HoldReason))
def test_every_hold_has_a_remedy_a_person_can_act_on(reason: HoldReason) -> None:
    """A hold has a reason, a remedy and a next look."""
    hold = Hold(reason, detail="set {this} right", where="agents:1.0")
    remedy = hold.remedy(Identity("@neo-gpt"))
    assert remedy
    assert not remedy.endswith(".")
    assert "{identity}" not in remedy
    assert "{where}" not in remedy


def test_a_remedy_without_a_place_speaks_of_the_pane() -> None:
    """The remedy reads as a clause also where no place is known."""
    assert Hold(HoldReason.COPY_MODE).remedy(Identity("@a")) == "the pane is in copy mode: press q there"


def test_proof_levels_rise() -> None:
    """1 accepted, 2 submitted, 3 acknowledged."""
    assert [int(level) for level in Proof] == [0, 1, 2, 3]
    assert Proof.ACCEPTED < Proof.SUBMITTED < Proof.ACKNOWLEDGED
