"""The heartbeat's rules, pure: whom it serves, when it speaks again, what it says."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from wake_bridge.domain.events import MessageDetail, TaskDetail, WakeEvent
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId, Trigger, WakePolicy
from wake_bridge.domain.nudges import (
    LONGEST_COOLDOWN,
    Beat,
    Driver,
    Unread,
    compose_nudge,
    driver_of,
    drivers,
    is_our_pulse,
    next_beat,
    pulse_for,
)
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription, serves
from wake_bridge.testing.hostile import hostile_subjects

ME = Identity("@me")
NOW = Instant(1_800_000_000_000)
MINUTE = 60_000
FIRST = 5 * MINUTE
MARK = "01JZ8Q5T3VXKM2N4P6R8SAVCWD"


def sub(harness_target: str = "bridge-daemon", status: str = "active", identity: str = ME) -> Subscription:
    name = f"{harness_target}/{status}/{identity}"
    return Subscription(name, Identity(identity), Trigger.SENT_TO_ME, harness_target=harness_target, status=status)


@pytest.mark.parametrize(
    ("subscriptions", "is_bound", "driver"),
    [
        ([sub("bridge-daemon")], False, Driver.BRIDGE),
        ([sub("bridge-daemon", "degraded")], False, Driver.HEARTBEAT),
        ([sub("disabled")], False, Driver.HEARTBEAT),
        ([sub("none")], True, Driver.HEARTBEAT),
        ([sub("degraded")], False, Driver.HEARTBEAT),
        ([sub("a2a-webhook")], True, Driver.PUSH),
        ([sub("mcp-notifications")], True, Driver.PUSH),
        ([sub("mcp-notifications", "degraded")], True, Driver.HEARTBEAT),
        ([sub("disabled"), sub("a2a-webhook")], True, Driver.PUSH),
        ([sub("bridge-daemon"), sub("a2a-webhook")], True, Driver.PUSH),
        ([sub("disabled"), sub("bridge-daemon")], True, Driver.BRIDGE),
        ([], True, Driver.HEARTBEAT),
        ([], False, Driver.NOBODY),
        ([sub("bridge-daemon", "removed")], True, Driver.HEARTBEAT),
        ([sub("bridge-daemon", "retired")], True, Driver.NOBODY),
        ([sub("disabled", "retired")], True, Driver.NOBODY),
    ],
)
def test_an_identity_has_one_driver(subscriptions: Sequence[Subscription], is_bound: bool, driver: Driver) -> None:
    """Push first, then the bridge, then the heartbeat; never two for one identity."""
    served = [one for one in subscriptions if one.is_active and (one.is_heartbeat_only or serves(one, embedded=False))]
    assert driver_of(subscriptions, served, is_bound=is_bound) is driver


def test_push_on_a_graph_of_others_is_skipped_although_it_is_not_ours_to_serve() -> None:
    """The heartbeat skips the push-capable; a foreign graph's own server has them."""
    book = SubscriptionBook(embedded=False)
    for one in (sub("a2a-webhook", identity="@push"), sub("bridge-daemon", identity="@bridge"), sub("none")):
        book.put(one)
    found = drivers(book, {Identity("@push"), Identity("@bound")})
    assert found == {
        "@push": Driver.PUSH,
        "@bridge": Driver.BRIDGE,
        ME: Driver.HEARTBEAT,
        "@bound": Driver.HEARTBEAT,
    }


def test_on_a_graph_of_our_own_nobody_pushes_and_whom_we_wake_for_a_push_is_ours() -> None:
    """`push-capable` says what is so; a word against being typed to is still one against being nudged."""
    book = SubscriptionBook(embedded=True, serve=["a2a-webhook"], has_target=lambda who: who == "@told")
    for one in (
        sub("mcp-notifications"),
        sub("mcp-notifications", identity="@both"),
        sub("none", identity="@both"),
        sub("mcp-notifications", identity="@told"),
        sub("a2a-webhook", identity="@served"),
    ):
        book.put(one)
    assert drivers(book, {ME, Identity("@told")}) == {
        ME: Driver.NOBODY,
        "@both": Driver.HEARTBEAT,
        "@told": Driver.BRIDGE,
        "@served": Driver.BRIDGE,
    }


def _nudges(hours: int, news_at: Sequence[int] = (), step: int = MINUTE) -> list[int]:
    """Minutes at which somebody with unread mail is nudged; news comes at `news_at` minutes."""
    beat: Beat | None = None
    told_upto, minutes = -1, []
    for minute in range(0, hours * 60, step // MINUTE):
        latest = max((at for at in (0, *news_at) if at <= minute), default=0)
        due = next_beat(beat, has_news=latest > told_upto, first_cooldown=FIRST, now=Instant(NOW + minute * MINUTE))
        if due is not None:
            beat, told_upto = due, minute
            minutes.append(minute)
    return minutes


def test_the_cooldown_doubles_up_to_an_hour_while_nothing_changes() -> None:
    """5, 10, 20, 40, then 60 minutes, for ever."""
    at = _nudges(24)
    assert at[:6] == [0, 5, 15, 35, 75, 135]
    assert {later - earlier for earlier, later in pairwise(at[4:])} == {LONGEST_COOLDOWN // MINUTE}
    assert len(at) == 5 + (24 * 60 - 1 - 75) // 60


def test_new_mail_resets_the_cooldown_and_is_told_after_the_first_one_at_the_latest() -> None:
    """Resets on new mail; a stream of it nudges once per first cooldown."""
    assert _nudges(4, news_at=[100]) == [0, 5, 15, 35, 75, 100, 105, 115, 135, 175, 235]
    assert _nudges(1, news_at=list(range(60))) == list(range(0, 60, 5))


def test_ticks_that_were_missed_collapse_into_one() -> None:
    """A laptop that slept for nine hours nudges once when it wakes."""
    at = next_beat(Beat(NOW, FIRST), has_news=False, first_cooldown=FIRST, now=Instant(NOW + 9 * 60 * MINUTE))
    assert at == Beat(Instant(NOW + 9 * 60 * MINUTE), 2 * FIRST)
    assert next_beat(at, has_news=False, first_cooldown=FIRST, now=Instant(at.nudged_at + 1)) is None


def mail(subject: str = "Review request", sender: str = "@other", number: int = 1, **changes: Any) -> WakeEvent:
    fields: dict[str, Any] = {
        "id": f"E{number}",
        "epoch": Epoch(1),
        "log_id": LogId(number),
        "identity": ME,
        "kind": EventKind.MESSAGE,
        "subject_key": f"MESSAGE:{number}",
        "detail": MessageDetail(f"MESSAGE:{number}", subject, sender, ""),
        "subscription_id": "S",
        "matched_at": NOW,
        "occurred_at": Instant(NOW - 1000 + number),
        "policy": WakePolicy.NEXT_TURN,
    }
    return WakeEvent(**(fields | changes))


def nudge(*news: WakeEvent, told: tuple[WakeEvent, ...] = (), characters: int = 1024) -> str:
    known = {ME, Identity("@other")}
    return compose_nudge(Unread(news, told), identity=ME, delivery_id=MARK, known=known, target_characters=characters)


def test_a_nudge_is_one_short_line_with_the_mark_as_its_last_word() -> None:
    """`N unread …`, the first character a `[`, the delivery's ULID last."""
    assert nudge(mail(number=2), told=(mail("old"),)) == (
        '[WAKE] 2 unread messages (latest: "Review request" from @other) for @me.   Automated notice, not your user.'
        f" Read: wake-bridge inbox @me --bodies --consume   Wake: {MARK}"
    )
    task = mail(kind=EventKind.TASK, detail=TaskDetail("MESSAGE:1", "A", "B", "@x", None, None))
    assert nudge(task).startswith("[WAKE] 1 unread notice for @me.")
    assert nudge(mail(), task).startswith("[WAKE] 1 unread message and 1 unread notice (latest:")


def test_a_nudge_fits_its_paper() -> None:
    """The subject gives way, mark and count never."""
    long = nudge(mail("x" * 500), characters=180)
    assert len(long) <= 180
    assert long.startswith("[WAKE] 1 unread message for @me.")
    assert long.endswith(MARK)


def test_a_hostile_subject_is_harmless_in_a_nudge() -> None:
    """All graph text is made harmless; one line, whatever it holds."""
    for subject in hostile_subjects(300, seed=7):
        text = nudge(mail(subject, sender=subject))
        assert not any(unicodedata.category(one) in {"Cc", "Zl", "Zp", "Cs"} for one in text), subject
        assert text.startswith("[WAKE] 1 unread message")
        assert text.endswith(f"Wake: {MARK}")


def test_nothing_unread_is_no_nudge() -> None:
    """Truth: counts are of what survives."""
    with pytest.raises(ValueError, match="unread"):
        nudge()


def test_a_pulse_of_our_own_is_told_from_one_of_the_graph() -> None:
    """An upstream pulse is routed like any wake, ours is only the reason of a nudge."""
    ours = pulse_for(ME, "01X", Epoch(1), NOW)
    assert is_our_pulse(ours)
    assert ours.window > 0
    assert not is_our_pulse(mail())
    assert not is_our_pulse(mail(kind=EventKind.PULSE, detail=ours.detail, subject_key="p1"))
