from __future__ import annotations

import random
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wake_bridge.domain.digest import FOREIGN_ACTION, DigestStyle, compose
from wake_bridge.domain.events import MessageDetail, PermissionDetail, PulseDetail, TaskDetail, WakeEvent
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId, Priority
from wake_bridge.testing.hostile import HAZARDS, hostile_subjects

ME = Identity("@neo-gpt")
KNOWN = {ME, Identity("@ada")}
MARK = "01J9ZK3V5Q8T2M4N6P7R8S9TAB"
MATCHED = Instant(1_800_000_000_000)
NEVER_SHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

words = st.lists(st.one_of(st.sampled_from(HAZARDS), st.text(max_size=4)), max_size=40).map("".join)
names = st.one_of(words, st.sampled_from(["@ada", "@neo-gpt", "@README.md", "@etc/passwd", "role:x", ""]))
instants = st.integers(min_value=-(10**10), max_value=10**10).map(lambda offset: Instant(MATCHED + offset))
details = st.one_of(
    st.builds(MessageDetail, message_id=words, subject=words, sender=names, thread=words),
    st.builds(TaskDetail, words, words, words, originator=names, assignee=names, last_modified_at=st.none()),
    st.builds(PermissionDetail, words, words, names, granted_at=instants, granted_at_observed=st.booleans()),
    st.builds(PulseDetail, pulse_id=words, source=words, reason=words, next_action=words),
)
KINDS = {
    MessageDetail: EventKind.MESSAGE,
    TaskDetail: EventKind.TASK,
    PermissionDetail: EventKind.PERMISSION,
    PulseDetail: EventKind.PULSE,
}


@st.composite
def wake_events(draw: st.DrawFn) -> WakeEvent:
    detail = draw(details)
    return WakeEvent(
        id=draw(words),
        epoch=Epoch(draw(st.integers(1, 3))),
        log_id=LogId(draw(st.integers(1, 99))),
        identity=ME,
        kind=KINDS[type(detail)],
        subject_key=draw(words),
        detail=detail,
        subscription_id=draw(words),
        other_subscriptions=tuple(draw(st.lists(words, max_size=2))),
        matched_at=draw(instants),
        occurred_at=draw(st.one_of(st.none(), instants)),
        priority=draw(st.sampled_from(Priority)),
    )


def check(text: str, *, lines: int, most_bytes: int = 1024) -> None:
    """All that every digest keeps, whoever wrote its parts."""
    for line in text.split("\n"):
        assert not {one for one in line if unicodedata.category(one) in NEVER_SHOWN}, ascii(line)
    assert "[201~" not in text
    assert "[200~" not in text
    assert text.startswith("[WAKE]")
    assert text.rsplit(maxsplit=1)[-1] == MARK
    assert text.count(f"Wake: {MARK}") == 1
    assert text.count("\n") < lines
    assert len(text.encode()) <= most_bytes
    for place, one in enumerate(text):
        assert one != "@" or text[place:].startswith(("@ada", "@neo-gpt")), ascii(text[place : place + 20])


styles = st.builds(
    DigestStyle,
    max_lines=st.integers(3, 10),
    header=st.sampled_from(["short", "neo"]),
    action=st.one_of(
        st.just(""),
        st.just(FOREIGN_ACTION),
        words.map(lambda text: text.replace("{", "").replace("}", "") + "{identity}"),
    ),
)


@settings(max_examples=300)
@given(st.lists(wake_events(), min_size=1, max_size=6), styles, st.integers(1, 10), st.integers(300, 2000), instants)
def test_no_graph_can_make_a_digest_that_is_not_plain(
    events: list[WakeEvent], style: DigestStyle, target_lines: int, target_characters: int, now: Instant
) -> None:
    """No control character, first character `[`, last word the mark, lines and bytes bounded; it never raises."""
    text = compose(
        events,
        identity=ME,
        delivery_id=MARK,
        now=now,
        known=KNOWN,
        style=style,
        target_lines=target_lines,
        target_characters=target_characters,
    )
    check(text, lines=min(target_lines, style.max_lines))


@settings(max_examples=100)
@given(st.lists(wake_events(), min_size=1, max_size=5), st.dictionaries(words, words, max_size=3))
def test_no_body_makes_a_full_digest_that_is_not_plain(events: list[WakeEvent], others: dict[str, str]) -> None:
    """Bodies are sanitised as everything is, ≤ 2 KiB on top."""
    bodies = others | {
        one.detail.message_id: one.detail.subject * 9 for one in events if isinstance(one.detail, MessageDetail)
    }
    text = compose(
        events,
        identity=ME,
        delivery_id=MARK,
        now=MATCHED,
        known=KNOWN,
        bodies=bodies,
        allow_from={"@ada", "@README.md", ""},
    )
    check(text, lines=10 + len(events), most_bytes=1024 + 2048 + 1)


@given(st.lists(wake_events(), min_size=1, max_size=6), st.randoms())
def test_the_digest_does_not_depend_on_the_order_of_its_events(events: list[WakeEvent], shuffle: random.Random) -> None:
    """What is said follows from times and arrival alone."""
    distinct = [replace(one, log_id=LogId(place)) for place, one in enumerate(events)]
    mixed = list(distinct)
    shuffle.shuffle(mixed)
    first, second = (
        compose(order, identity=ME, delivery_id=MARK, now=MATCHED, known=KNOWN) for order in (distinct, mixed)
    )
    assert first == second


@pytest.mark.parametrize(("target_lines", "target_characters"), [(10, 1024), (3, 700)])
def test_ten_thousand_hostile_subjects_make_ten_thousand_plain_digests(
    target_lines: int, target_characters: int
) -> None:
    """All hostile subjects through the pure renderer: 0 control characters, nothing that a composer acts on."""
    for number, subject in enumerate(hostile_subjects(10_000, seed=11)):
        letter = WakeEvent(
            id="E",
            epoch=Epoch(1),
            log_id=LogId(number),
            identity=ME,
            kind=EventKind.MESSAGE,
            subject_key="MESSAGE:1",
            detail=MessageDetail("MESSAGE:1", subject, subject[:80], thread="T"),
            subscription_id="WAKE_SUB:1",
            matched_at=MATCHED,
        )
        text = compose(
            [letter],
            identity=ME,
            delivery_id=MARK,
            now=MATCHED,
            known=KNOWN,
            target_lines=target_lines,
            target_characters=target_characters,
        )
        check(text, lines=target_lines)
        assert len(text) <= target_characters
