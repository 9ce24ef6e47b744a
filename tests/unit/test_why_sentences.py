"""Every hold reason, refusal and error class has a sentence that `why` and `-v` say, and each sentence is one clause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wake_bridge.cli.why import words_elsewhere
from wake_bridge.domain import errors
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import (
    Delivery,
    DeliveryState,
    Hold,
    HoldReason,
    JournalEntry,
    Outcome,
    Proof,
    Step,
    held_since,
)
from wake_bridge.domain.explanation import (
    DeliveryHistory,
    SubscriptionAnswer,
    TailProgress,
    TimeFormat,
    WhyCase,
    explain,
    explain_delivery,
    refusal_sentences,
    span,
    unheard_sentences,
)
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.reasons import (
    CONSEQUENCES,
    ENDED,
    REFUSED,
    UNHEARD,
    Refusal,
    Unheard,
    consequence_of,
    held_because,
)
from wake_bridge.domain.sessions import HOOK
from wake_bridge.domain.subscriptions import parse_subscription

HOST_SAYS = {"host": "devbox", "answers": True}
A = Identity("@a")
NOW = Instant(10_000_000)
TELLER = TimeFormat(NOW, lambda instant: f"at {instant}")


def error_classes(
    kind: type[errors.WakeBridgeError] = errors.WakeBridgeError,
) -> Iterator[type[errors.WakeBridgeError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from error_classes(child)


def delivery(state: DeliveryState, hold: Hold | None = None, **fields: object) -> Delivery:
    made = {"id": "01D", "identity": A, "owner_lease": 0, "created_at": NOW, "due_at": NOW, **fields}
    return Delivery(state=state, hold=hold, **made)  # type: ignore[arg-type]


def test_every_reason_a_wake_can_be_kept_back_for_has_its_sentence() -> None:
    """Every hold reason, refusal and error class has a `why` sentence; nothing is listed in vain."""
    assert {cause.reason for cause in Cause} == set(HoldReason)
    assert set(REFUSED) == set(Refusal)
    assert set(UNHEARD) == set(Unheard)
    assert set(ENDED) == set(Outcome)
    assert set(CONSEQUENCES) == set(error_classes())


@pytest.mark.parametrize("reason", list(HoldReason))
def test_a_hold_is_told_as_one_clause_without_an_open_place(reason: HoldReason) -> None:
    """Verdict and next step are one sentence each, whatever is known of place and detail."""
    for hold in (Hold(reason), Hold(reason, "so it is", "agents:1.2")):
        explanation = explain_delivery(
            DeliveryHistory(delivery(DeliveryState.DISPATCHED, hold)), TELLER, is_running=True
        )

        assert explanation.text == f"held: {held_because(hold, A)}"
        assert not set("{}\n") & set(explanation.text)
        assert not explanation.text.endswith(".")


@pytest.mark.parametrize("refusal", list(Refusal))
def test_a_refusal_is_told_with_its_next_step(refusal: Refusal) -> None:
    """A guard's word as a clause that follows `not announced:`, and what to do."""
    case = WhyCase(A, "SENT_TO_ME", answers=[SubscriptionAnswer("WAKE_SUB:1", None, refusal)], row=7)

    clause, remedy = refusal_sentences(case, refusal, "WAKE_SUB:1")

    assert explain(case, TELLER).text == f"not announced: {clause}"
    assert not set("{}\n") & set(clause + remedy)


@pytest.mark.parametrize("deaf", list(Unheard))
def test_a_subscription_that_does_not_listen_says_why(deaf: Unheard) -> None:
    """Trigger, status, harnessTarget, or a node that cannot be meant."""
    subscription = parse_subscription("WAKE_SUB:1", {"agentIdentity": "@a", "status": "retired"})
    case = WhyCase(A, "SENT_TO_ME", answers=[SubscriptionAnswer("WAKE_SUB:1", subscription, unheard=deaf)])

    clause, remedy = unheard_sentences(case, case.answers[0])

    assert explain(case, TELLER).text.startswith("not announced: ")
    assert not set("{}\n") & set(clause + remedy)


@pytest.mark.parametrize("kind", list(error_classes()))
def test_an_error_says_what_it_means_for_the_wakes_that_wait(kind: type[errors.WakeBridgeError]) -> None:
    """One clause for each class of the tree; a class of somebody else's has its parent's."""
    child = type("OfAnAdapter", (kind,), {})

    assert consequence_of(kind("it failed")) == consequence_of(child("it failed")) == CONSEQUENCES[kind]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_told(outcome: Outcome) -> None:
    """How a delivery ended, in the words of `why`."""
    state = DeliveryState.FAILED if outcome in {Outcome.FAILED, Outcome.UNKNOWN} else DeliveryState.DELIVERED
    ended = delivery(state, outcome=outcome, settled_at=NOW, proof=Proof.ACCEPTED)

    explanation = explain_delivery(DeliveryHistory(ended), TELLER, is_running=True)

    assert explanation.text.startswith(("announced at ", "not announced: ", "FAILED at "))
    assert explanation.next


@pytest.mark.parametrize(
    ("adapter", "told"),
    [("tmux", "look at claude (stop); reading the mail"), (HOOK, "look at @a; reading the mail")],
    ids=["screen", "hook"],
)
def test_nobody_is_sent_to_a_place_that_is_a_moment_in_a_turn(adapter: str, told: str) -> None:
    """What a hook handed over names the moment, `claude (stop)`, where others name their pane."""
    ended = delivery(
        DeliveryState.DELIVERED,
        outcome=Outcome.SUBMITTED,
        settled_at=NOW,
        proof=Proof.SUBMITTED,
        where="claude (stop)",
        adapter=adapter,
    )

    assert explain_delivery(DeliveryHistory(ended), TELLER, is_running=True).next.startswith(told)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (DeliveryState.PENDING, "due since 0 s"),
        (DeliveryState.LOCKED, "being announced in agents:1.0 right now"),
        (DeliveryState.ESCALATED, "not answered in time; a person is being told"),
    ],
)
def test_every_open_state_is_told_and_needs_a_daemon(state: DeliveryState, told: str) -> None:
    """Without a daemon the next step begins with starting it."""
    history = DeliveryHistory(delivery(state, where="agents:1.0"))

    assert explain_delivery(history, TELLER, is_running=True).text == told
    without = explain_delivery(history, TELLER, is_running=False)
    assert without.text == f"{told}; the daemon is not running"
    assert without.next.startswith("start the daemon: `wake-bridge run`")


def test_the_first_line_that_applies_is_the_verdict() -> None:
    """A row that cannot be read, mail for others, mail shown, rows ahead that are wanted: in that order; then who listens."""
    wanting = [SubscriptionAnswer("WAKE_SUB:1", None)]
    everything = {"unreadable": "broken", "is_addressed": False, "is_shown": True, "progress": TailProgress.NEVER}
    told = []
    for name in tuple(everything):
        told.append(explain(WhyCase(A, "SENT_TO_ME", answers=wanting, **everything), TELLER).text)  # type: ignore[arg-type]
        everything.pop(name)
    told.append(explain(WhyCase(A, "SENT_TO_ME"), TELLER).text)

    assert told == [
        "not announced: wake-bridge could not read its log row and set it aside (broken)",
        "not announced: it is not addressed to @a",
        "shown to @a by `inbox` before a wake was needed",
        "not announced: no daemon has read this graph yet",
        "not announced: @a has no subscription",
    ]


def test_a_hold_is_as_old_as_its_reason_whatever_its_detail_did() -> None:
    """`held 6 h`: since the reason in force came, not since its detail last changed, and not since another reason."""

    def line(at: int, step: Step, reason: str = "", detail: str = "") -> JournalEntry:
        return JournalEntry(Instant(at), step, 0, {"reason": reason, "detail": detail})

    typing, asked = line(1, Step.HELD, "userTyping"), line(2, Step.HELD, "waitingOnApproval", "a")
    again = [line(3, Step.JOINED), line(4, Step.HELD, "waitingOnApproval", "b")]

    assert held_since([]) is None
    assert held_since([typing, asked, *again]) == 2
    assert held_since([asked, typing, *again]) == 4


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [(0, "0 s"), (999, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (6 * 3_600_000, "6 h"), (172_800_000, "2 d")],
)
def test_a_length_of_time_is_told_in_its_largest_unit(milliseconds: int, told: str) -> None:
    """A duration reads as a person says it: `held 6 h`."""
    assert span(milliseconds) == told


@pytest.mark.parametrize(
    ("state", "pane", "outcome", "why", "told"),
    [
        ("PENDING", None, None, None, "PENDING: its window collects further events"),
        ("DISPATCHED", None, None, "@a is paused", "DISPATCHED: @a is paused"),
        ("DELIVERED", "work:0.0", "submitted", None, "DELIVERED in work:0.0: submitted"),
        ("OF_A_LATER_RELEASE", None, None, None, "OF_A_LATER_RELEASE"),
    ],
)
def test_a_delivery_of_another_host_says_each_thing_once(
    state: str, pane: str | None, outcome: str | None, why: str | None, told: str
) -> None:
    """Also one that has no place, no outcome and no hold."""
    delivery = {"id": "01J", "state": state, "pane": pane, "outcome": outcome, "why": why, "remedy": None}

    assert words_elsewhere([HOST_SAYS | {"deliveries": [delivery]}])[2:] == [f"  delivery 01J {told}"]
