from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from wake_bridge.domain.digest import (
    EMBEDDED_ACTION,
    FOREIGN_ACTION,
    DigestStyle,
    action_template,
    compose,
)
from wake_bridge.domain.events import Detail, MessageDetail, PermissionDetail, PulseDetail, TaskDetail, WakeEvent
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId, Priority

ME = Identity("@neo-gpt")
KNOWN = {ME, Identity("@neo-opus"), Identity("@ada")}
MARK = "01J9ZK3V5Q8T2M4N6P7R8S9TAB"
MATCHED = Instant(1_800_000_000_000)
NOW = Instant(MATCHED + 31_000)
SUBSCRIPTION = "WAKE_SUB:220bb620-873a-4a79-a207-f25151774067"
TASK = "MESSAGE:52d0eb09-fff3-45e5-910f-f54b987020a0"

KINDS = {
    MessageDetail: EventKind.MESSAGE,
    TaskDetail: EventKind.TASK,
    PermissionDetail: EventKind.PERMISSION,
    PulseDetail: EventKind.PULSE,
}
log_ids = count(1)


def event(
    detail: Detail, *, subject_key: str = "", occurred: int | None = 0, priority: Priority = Priority.NORMAL
) -> WakeEvent:
    """A wake event; `occurred` in ms from when it was matched."""
    log_id = next(log_ids)
    return WakeEvent(
        id=f"E{log_id}",
        epoch=Epoch(1),
        log_id=LogId(log_id),
        identity=ME,
        kind=KINDS[type(detail)],
        subject_key=subject_key or f"S{log_id}",
        detail=detail,
        subscription_id=SUBSCRIPTION,
        matched_at=MATCHED,
        occurred_at=None if occurred is None else Instant(MATCHED + occurred),
        priority=priority,
    )


def mail(
    subject: str,
    sender: str = "@neo-opus",
    *,
    message_id: str = "",
    occurred: int | None = 0,
    priority: Priority = Priority.NORMAL,
) -> WakeEvent:
    detail = MessageDetail(message_id or f"MESSAGE:{next(log_ids)}", subject, sender, thread="T")
    return event(detail, occurred=occurred, priority=priority)


def move(previous: str, new: str, *, occurred: int = 0, priority: Priority = Priority.NORMAL) -> WakeEvent:
    detail = TaskDetail(TASK, previous, new, originator="@ada", assignee="@neo-gpt", last_modified_at=None)
    return event(detail, subject_key=f"{TASK}:{new}", occurred=occurred, priority=priority)


def grant(scope: str = "CAN_REPLY_TO", by: str = "@ada", *, priority: Priority = Priority.NORMAL) -> WakeEvent:
    detail = PermissionDetail(f"edge-{next(log_ids)}", scope, by, granted_at=MATCHED, granted_at_observed=True)
    return event(detail, priority=priority)


def pulse(source: str = "", reason: str = "", next_action: str = "") -> WakeEvent:
    return event(PulseDetail(f"pulse-{next(log_ids)}", source, reason, next_action))


def digest(
    *events: WakeEvent, now: Instant = NOW, style: DigestStyle | None = None, lines: int = 10, characters: int = 1024
) -> str:
    return compose(
        events,
        identity=ME,
        delivery_id=MARK,
        now=now,
        known=KNOWN,
        style=style,
        target_lines=lines,
        target_characters=characters,
    )


ONE_OF_EACH = (mail("Review request", priority=Priority.HIGH), move("Submitted", "Working"), grant())


def test_the_digest_reads_as_the_design_shows_it() -> None:
    """Header, a line a kind, the action, then subscription, window and mark."""
    events = (
        mail("Earlier", occurred=-900),
        mail("Review request", occurred=-500, priority=Priority.HIGH),
        replace(move("Submitted", "Working"), other_subscriptions=("WAKE_SUB:second",)),
    )
    assert digest(*events).split("\n") == [
        "[WAKE][priority:high] 3 events for @neo-gpt:",
        '- 2 new messages (latest: "Review request" from @neo-opus)',
        f"- 1 task transition (latest: Submitted → Working on task {TASK})",
        "Automated notice, not your user. Read: wake-bridge inbox @neo-gpt --bodies --consume",
        f"Subscription: {SUBSCRIPTION} (+1)   Window: 31s   Wake: {MARK}",
    ]


@pytest.mark.parametrize(
    ("events", "line"),
    [
        ((mail("One"),), '- 1 new message (latest: "One" from @neo-opus)'),
        ((mail(""),), '- 1 new message (latest: "(no subject)" from @neo-opus)'),
        ((mail("\u200b\x1b"),), '- 1 new message (latest: "(no subject)" from @neo-opus)'),
        ((mail("One", "@README.md"),), '- 1 new message (latest: "One" from ＠README.md)'),
        ((mail("One", ""),), '- 1 new message (latest: "One" from unknown)'),
        ((move("Submitted", "Working"), move("Working", "Completed", occurred=1)), f"- 2 task transitions (latest: Working → Completed on task {TASK})"),
        ((move("", "Working"),), f"- 1 task transition (latest: Working on task {TASK})"),
        ((grant(),), "- 1 permission granted (latest: CAN_REPLY_TO by @ada)"),
        ((grant(), grant("CAN_READ_INBOX_OF", "@stranger")), "- 2 permissions granted (latest: CAN_READ_INBOX_OF by ＠stranger)"),
        ((pulse("idle-out-nudge", "quiet for 2 h", "check\nmail"),), "- 1 heartbeat pulse (latest: idle-out-nudge; quiet for 2 h; next: check mail)"),
        ((pulse("cron"), pulse("cron")), "- 2 heartbeat pulses (latest: cron)"),
    ],
)  # fmt: skip
def test_each_kind_has_its_words(events: tuple[WakeEvent, ...], line: str) -> None:
    """Counts with singular and plural, and the latest of each kind."""
    assert digest(*events).split("\n")[1] == line


def test_a_pulse_without_words_is_named_by_its_id() -> None:
    """A heartbeat pulse stands when nothing else does."""
    only = pulse()
    assert isinstance(only.detail, PulseDetail)
    assert f"- 1 heartbeat pulse (latest: {only.detail.pulse_id})" in digest(only)


def test_a_pulse_is_not_mentioned_beside_anything_else() -> None:
    """`1 heartbeat pulse` stands only when nothing else survives, and is not counted then."""
    text = digest(pulse("cron"), mail("News"))
    assert text.startswith("[WAKE] 1 event for @neo-gpt:\n- 1 new message")
    assert "heartbeat" not in text


def test_one_message_is_one_subject_however_often_it_matched() -> None:
    """Counts are of subjects; a resync repeats one under another key."""
    text = digest(mail("Once", message_id="MESSAGE:1"), mail("Once", message_id="MESSAGE:1"), mail("Else"))
    assert text.startswith("[WAKE] 2 events for @neo-gpt:\n- 2 new messages")


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (-500, -400, "second"),
        (-400, -500, "first"),
        (-400, -400, "second"),
        (60_001, -86_400_000, "second"),
        (60_000, -1, "first"),
        (60_000, 0, "second"),
        (0, 60_000, "second"),
        (None, -86_400_000, "second"),
        (-86_400_000, None, "first"),
        (86_400_000, 3_600_000, "second"),
        (3_600_000, 86_400_000, "second"),
        (None, 3_600_000, "second"),
        (3_600_000, None, "second"),
        (-400, 86_400_000, "first"),
    ],
)
def test_latest_is_by_event_time_and_a_bad_clock_never_wins(first: int | None, second: int | None, named: str) -> None:
    """By event time, ties by arrival; one that is missing or over a minute ahead loses to any sane one."""
    events = [mail("first", occurred=first), mail("second", occurred=second)]
    assert f'(latest: "{named}" from' in digest(*events)
    assert f'(latest: "{named}" from' in digest(*reversed(events))


@pytest.mark.parametrize("occurred", [0, None])
def test_arrival_is_counted_on_through_epochs(occurred: int | None) -> None:
    """Log ids compare only inside an epoch; a later epoch arrived later."""
    old = replace(mail("old", occurred=occurred), epoch=Epoch(1), log_id=LogId(9_000))
    new = replace(mail("new", occurred=occurred), epoch=Epoch(2), log_id=LogId(3))
    assert '(latest: "new" from' in digest(new, old)


@pytest.mark.parametrize(
    ("priorities", "short", "neo"),
    [
        ((Priority.LOW,), "[WAKE] 1", "[WAKE][priority:normal] 1"),
        ((Priority.NORMAL,), "[WAKE] 1", "[WAKE][priority:normal] 1"),
        ((Priority.LOW, Priority.HIGH, Priority.NORMAL), "[WAKE][priority:high] 3", "[WAKE][priority:high] 3"),
    ],
)
def test_the_label_names_the_highest_surviving_priority(priorities: tuple[Priority, ...], short: str, neo: str) -> None:
    """`[priority:high]` only when it is high; `neo` prints it always, as upstream does."""
    events = [mail("x", priority=one) for one in priorities]
    assert digest(*events).startswith(short + " event")
    assert digest(*events, style=DigestStyle(header="neo")).startswith(neo + " event")


def test_the_highest_priority_stands_first() -> None:
    """Highest priority first; else messages, tasks, permissions."""
    text = digest(mail("x"), move("Submitted", "Working"), grant(priority=Priority.HIGH))
    assert [line.split()[2] for line in text.split("\n")[1:4]] == ["permission", "new", "task"]


@pytest.mark.parametrize(
    ("seconds", "window", "waiting"),
    [
        (-5, "Window: 0s", ""),
        (0, "Window: 0s", ""),
        (31, "Window: 31s", ""),
        (3_599, "Window: 3599s", ""),
        (3_600, "Window: 3600s", " (waiting 1 h)"),
        (86_399, "Window: 86399s", " (waiting 23 h)"),
        (2 * 86_400 + 5, "Window: 172805s", " (waiting 2 d)"),
    ],
)
def test_the_age_is_the_first_events_and_a_long_wait_is_said_on_its_line(
    seconds: int, window: str, waiting: str
) -> None:
    """`Window:` is the real age of the first event; a line whose event waited long says so."""
    first = mail("first")
    late = replace(grant(), matched_at=Instant(MATCHED + seconds * 1000 - 1))
    text = digest(late, first, now=Instant(MATCHED + seconds * 1000))
    lines = text.split("\n")
    assert lines[1] == f'- 1 new message (latest: "first" from @neo-opus){waiting}'
    assert lines[2] == "- 1 permission granted (latest: CAN_REPLY_TO by @ada)"
    assert f"   {window}   " in lines[-1]


def test_a_clock_that_went_back_shows_no_negative_age() -> None:
    """The age is real or nothing."""
    assert "   Window: 0s   " in digest(mail("x"), now=Instant(MATCHED - 5_000))


def test_the_trailer_names_the_headlines_subscription_and_counts_the_others_once() -> None:
    """`Subscription: … (+n)`, distinct ones."""
    low = replace(mail("low"), subscription_id="WAKE_SUB:low", other_subscriptions=("WAKE_SUB:both",))
    high = replace(
        grant(priority=Priority.HIGH), subscription_id="WAKE_SUB:high", other_subscriptions=("WAKE_SUB:both",)
    )
    assert digest(low, high).split("\n")[-1].startswith("Subscription: WAKE_SUB:high (+2)   Window:")
    assert (
        digest(low, replace(low, other_subscriptions=()))
        .split("\n")[-1]
        .startswith("Subscription: WAKE_SUB:low (+1)   ")
    )
    none = replace(low, subscription_id="", other_subscriptions=())
    assert digest(none).split("\n")[-1] == f"Window: 31s   Wake: {MARK}"


def test_ids_and_words_of_the_graph_are_made_harmless_and_short() -> None:
    """All text from the graph is made harmless, ids and states as well."""
    task = TaskDetail("MESSAGE:\n!x" + "y" * 500, "Sub\x1b[31mmitted\x1b", "@evil" + "z" * 500, "@a", None, None)
    right = PermissionDetail("edge", "CAN\r\nREPLY" + "w" * 500, "@\u202eevil", MATCHED, granted_at_observed=False)
    text = digest(replace(event(task), subscription_id="S\n@x" + "s" * 500), event(right))
    assert text.split("\n")[1:3] == [
        f"- 1 task transition (latest: Submitted → ＠evil{'z' * 26}… on task MESSAGE: !x{'y' * 52}…)",
        f"- 1 permission granted (latest: CAN REPLY{'w' * 22}… by ＠evil)",
    ]
    assert f"Subscription: S_＠x{'s' * 59}… (+1)   Window" in text


@pytest.mark.parametrize(
    ("setting", "embedded", "line"),
    [
        ("auto", True, "Automated notice, not your user. Read: wake-bridge inbox @neo-gpt --bodies --consume"),
        ("auto", False, "Automated notice, not your user. Check your mailbox."),
        ("Look at {identity}'s mail, {{now}}.", True, "Look at @neo-gpt's mail, {now}."),
        ("Ask @boss\n\x1b[201~about {identity}", False, "Ask ＠boss about @neo-gpt"),
    ],
)
def test_the_action_is_the_graphs_or_the_users_own(setting: str, embedded: bool, line: str) -> None:
    """`auto` by whose graph it is, else the user's text with the identity, made harmless."""
    text = digest(mail("x"), style=DigestStyle(action=action_template(setting, embedded=embedded)))
    assert text.split("\n")[2] == line
    assert action_template("auto", embedded=True) == EMBEDDED_ACTION
    assert action_template("auto", embedded=False) == FOREIGN_ACTION


def test_an_empty_action_is_no_line() -> None:
    """`digest.action = ""` leaves it out."""
    assert len(digest(mail("x"), style=DigestStyle(action="")).split("\n")) == 3


def test_an_identity_without_a_node_loses_its_at_sign_everywhere() -> None:
    """`@` before any name that is not an AgentIdentity node becomes `＠`."""
    text = compose([mail("x")], identity=Identity("@README.md"), delivery_id=MARK, now=NOW, known=KNOWN)
    assert "for ＠README.md:" in text
    assert "inbox ＠README.md --bodies" in text


def test_small_paper_gets_the_compact_form() -> None:
    """Where long pastes arrive wrapped: header with the breakdown joined by `; `, action, trailer."""
    text = digest(*ONE_OF_EACH, lines=3, characters=700)
    assert text.split("\n") == [
        (
            '[WAKE][priority:high] 3 events for @neo-gpt: 1 new message (latest: "Review request" from @neo-opus); '
            f"1 task transition (latest: Submitted → Working on task {TASK}); "
            "1 permission granted (latest: CAN_REPLY_TO by @ada)"
        ),
        "Automated notice, not your user. Read: wake-bridge inbox @neo-gpt --bodies --consume",
        f"Subscription: {SUBSCRIPTION}   Window: 31s   Wake: {MARK}",
    ]


@pytest.mark.parametrize("lines", [1, 2, 3, 4, 5, 6, 10])
def test_no_paper_gets_more_lines_than_it_takes(lines: int) -> None:
    """≤ 10 lines, fewer where the profile says so; everything is still said."""
    text = digest(*ONE_OF_EACH, lines=lines)
    assert text.count("\n") < lines
    assert text.startswith("[WAKE]")
    assert text.endswith(f"   Wake: {MARK}")
    for said in ("1 new message", "1 task transition", "1 permission granted", "inbox @neo-gpt", SUBSCRIPTION):
        assert said in text


@pytest.mark.parametrize(
    ("max_lines", "last", "length"),
    [(5, "- 1 task transition", 5), (4, "- 1 new message", 4), (3, "Automated", 3)],
)
def test_more_kinds_than_lines_are_counted_as_more(max_lines: int, last: str, length: int) -> None:
    """`(n more)`, highest priority first; three lines take the compact form."""
    lines = digest(*ONE_OF_EACH, grant(), style=DigestStyle(max_lines=max_lines)).split("\n")
    assert len(lines) == length
    if max_lines > 3:
        hidden = {5: 2, 4: 3}[max_lines]
        assert lines[max_lines - 3].startswith(last)
        assert lines[max_lines - 3].endswith(f" ({hidden} more)")
    else:
        assert "more)" not in lines[0]


def test_a_long_subject_shrinks_before_anything_is_left_unsaid() -> None:
    """1 KiB in terminals: 200 characters of four bytes each do not fit beside the rest."""
    text = digest(mail("😀" * 300), move("Submitted", "Working"), grant())
    assert len(text.encode()) <= 1024
    assert text.count("😀") == 119
    assert "task transition" in text
    assert "permission granted" in text
    assert len(digest(mail("x" * 300), lines=3, characters=400)) <= 400


def test_the_mark_is_never_cut_however_small_the_paper() -> None:
    """The mark is the last word; what does not fit goes in order: subject, lesser kinds, action, headline."""
    everything = digest(*ONE_OF_EACH)
    for characters in range(len(everything), 0, -1):
        text = digest(*ONE_OF_EACH, characters=characters)
        assert text.split()[-1] == MARK
        assert text.startswith("[WAKE][priority:high] 3 events for @neo-gpt")
        assert len(text) <= characters or text == digest(*ONE_OF_EACH, characters=0)
    assert digest(*ONE_OF_EACH, characters=0).split("\n") == [
        "[WAKE][priority:high] 3 events for @neo-gpt",
        f"Subscription: {SUBSCRIPTION}   Window: 31s   Wake: {MARK}",
    ]
    assert "(2 more)" in digest(*ONE_OF_EACH, characters=320)


def test_a_digest_of_nothing_is_a_mistake() -> None:
    """A set that was read meanwhile settles with zero bytes; there is no text for it."""
    with pytest.raises(ValueError, match="at least one event"):
        digest()


def test_a_doorbell_shows_no_body_even_when_given_one() -> None:
    """Never message bodies, but from senders in `allow_from`."""
    letter = mail("x", "@ada", message_id="MESSAGE:1")
    bodies = {"MESSAGE:1": "secret"}
    text = compose(
        [letter], identity=ME, delivery_id=MARK, now=NOW, known=KNOWN, bodies=bodies, allow_from={"@neo-opus"}
    )
    assert "secret" not in text


def test_a_full_digest_quotes_allowed_senders_above_the_action_line() -> None:
    """`[targets].digest = "full"`: sanitised, a line each, most important first, the mark still last."""
    events = [
        mail("a", "@ada", message_id="MESSAGE:1", occurred=-5),
        mail("b", "@neo-opus", message_id="MESSAGE:2", priority=Priority.HIGH, occurred=-9),
        mail("b", "@neo-opus", message_id="MESSAGE:2"),
        mail("c", "@stranger", message_id="MESSAGE:3"),
        mail("d", "@ada", message_id="MESSAGE:4"),
        grant(),
    ]
    bodies = {
        "MESSAGE:1": "first\nline\x1b[201~ of @README.md\\",
        "MESSAGE:2": "!important",
        "MESSAGE:3": "not allowed",
        "MESSAGE:4": " \n",
    }
    text = compose(
        events,
        identity=ME,
        delivery_id=MARK,
        now=NOW,
        known=KNOWN,
        bodies=bodies,
        allow_from={"@ada", "@neo-opus"},
        target_lines=3,
    )
    lines = text.split("\n")
    assert lines[1:3] == ["> > @neo-opus: !important", "> > @ada: first line of ＠README.md\\"]
    assert lines[3].startswith("Automated notice")
    assert lines[4].endswith(f"Wake: {MARK}")
    assert len(lines) == 5


@pytest.mark.parametrize("letter", ["x", "😀", "é"])
def test_bodies_share_two_kilobytes(letter: str) -> None:
    """≤ 2 KiB of bodies, whatever their characters take."""
    events = [mail("s", "@ada", message_id=f"MESSAGE:{number}", occurred=-number) for number in range(6)]
    bodies = {f"MESSAGE:{number}": letter * 600 * (number + 1) for number in range(6)}
    text = compose(events, identity=ME, delivery_id=MARK, now=NOW, known=KNOWN, bodies=bodies, allow_from={"@ada"})
    quoted = [line for line in text.split("\n") if line.startswith("> ")]
    assert len("\n".join(quoted).encode()) <= 2048
    assert quoted[0] == "> > @ada: " + letter * 600 if letter != "😀" else quoted[0].startswith("> > @ada: 😀")
    assert quoted[-1].endswith("…")
