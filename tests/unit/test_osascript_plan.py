"""The plan of an attempt on macOS, walked through by every report that an act can bring (docs/macos.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from wake_bridge_adapters.osascript.plan import (
    APPEARS_WITHIN,
    Act,
    AttemptProgress,
    Do,
    End,
    Report,
    Surface,
    Task,
    begin,
    clean_up,
    follow,
)
from wake_bridge_adapters.osascript.scripting import MEANINGS, Kind, ScreenReading, Trouble, evidence_of, trouble_of

from wake_bridge.domain.delivery import HoldReason, Progress, Step, progress_of
from wake_bridge.ports.adapter import Delivered, Failed, Refused, Unknown

TEXT = "[WAKE] 1 event for @agent   Wake: 01JZ8Q5T3VXKM2N4P6R8SAVCWD"
EMPTY = ScreenReading(composer="", is_front=True, quiet_for=3600)
STANDS = replace(EMPTY, composer=TEXT, raw=TEXT)
SENT = replace(EMPTY, has_mark=True)
KEYS = {Act.PASTE, Act.RETURN, Act.SEND, Act.TAB}
REFUSALS = ("focus", "dialog", "value", "typing", "clipboard")
TROUBLES = [
    Trouble(Kind.PERMISSION, "not allowed", "allow it", -1743),
    Trouble(Kind.PLACE, "no such window", "name it", -1728),
    Trouble(Kind.TIME, "no answer", "look", -1712),
    Trouble(Kind.OTHER, "broken", "see", None),
]
TASKS = [
    Task(Surface.APPLICATION, TEXT, "Claude"),
    Task(Surface.APPLICATION, TEXT, "Claude", has_tab=True),
    Task(Surface.ITERM, TEXT, "iterm ttys003"),
    Task(Surface.TERMINAL, TEXT, "terminal ttys003"),
]
SHOWN = {
    Act.LOOK: EMPTY,
    Act.LOOK_AT_TAB: EMPTY,
    Act.READ_BACK: STANDS,
    Act.SEE_IT_GO: SENT,
}


def well(act: Act) -> Report:
    """The report of an act that went as hoped."""
    return Report(act, sight=SHOWN.get(act))


def walk(task: Task, wrong_at: Act | None = None, wrong: Report | None = None) -> tuple[list[Act], list[Step], End]:
    """The acts, the journal and the end of an attempt in which one report is `wrong` and all others are well."""
    move, standing = begin(task)
    acts: list[Act] = []
    steps: list[Step] = []
    while isinstance(move, Do):
        steps += move.journal
        acts.append(move.act)
        standing = standing.after(move.act)
        report = wrong if wrong is not None and move.act is wrong_at else well(move.act)
        votes = evidence_of(report.sight, 10) if report.sight else ()
        move, standing = follow(task, standing, report, votes)
    return acts, [*steps, *move.journal], move


def happy_path(task: Task) -> list[Act]:
    return walk(task)[0]


def every_step() -> Iterator[tuple[Task, Act]]:
    for task in TASKS:
        for act in happy_path(task):
            yield task, act


STEPS = list(every_step())
ACTS = [(task, act) for task, act in STEPS if act not in SHOWN]
NAMES = [f"{task.surface}{'-tab' if task.has_tab else ''}-{act}" for task, act in STEPS]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.surface}{'-tab' if task.has_tab else ''}")
def test_a_wake_that_meets_no_obstacle_is_submitted_once_with_every_intent_before_its_key(task: Task) -> None:
    """The ledger before the key; Return once; proof seen."""
    acts, steps, end = walk(task)

    assert isinstance(end.outcome, Delivered)
    assert sum(act in {Act.RETURN, Act.SEND} for act in acts) == 1
    assert progress_of(steps) is Progress.SUBMITTED
    assert Step.INTENT_SUBMIT in steps
    if Act.PASTE in acts:
        assert steps.index(Step.INTENT_STAGE) < steps.index(Step.STAGED) < steps.index(Step.INTENT_SUBMIT)


@pytest.mark.parametrize(("task", "act"), ACTS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_after_a_refusal_no_key_follows_and_what_was_touched_is_put_back(task: Task, act: Act, refusal: str) -> None:
    """Focus stolen right before any step means no key after it, everything restored."""
    acts, steps, end = walk(task, act, Report(act, refusal=refusal))

    assert acts[-1] is act
    restored = clean_up(acts)
    assert (Act.RESTORE_CLIPBOARD in restored) == (Act.LOAD_CLIPBOARD in acts)
    assert (Act.RESTORE_FRONT in restored) == (Act.TO_FRONT in acts)
    pasted_before = Act.PASTE in acts[:-1]
    if pasted_before and refusal == "focus":
        assert isinstance(end.outcome, Unknown)
    else:
        assert isinstance(end.outcome, Refused)
        assert end.outcome.reason is (
            HoldReason.STAGED if pasted_before or Act.SEND in acts[:-1] else end.outcome.reason
        )
        assert end.outcome.detail
    if act in {Act.PASTE, Act.SEND}:
        assert progress_of(steps) is Progress.UNTOUCHED
    if act is Act.RETURN:
        assert progress_of(steps) is Progress.STAGED


@pytest.mark.parametrize(("task", "act"), STEPS, ids=NAMES)
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.kind)
def test_after_trouble_no_key_follows_and_the_outcome_tells_what_may_have_happened(
    task: Task, act: Act, trouble: Trouble
) -> None:
    """A time-out after the intent to submit is unknown, never a retry; before any key it harms nothing."""
    acts, _, end = walk(task, act, Report(act, trouble=trouble))

    assert acts[-1] is act
    if act in {Act.RETURN, Act.SEND, Act.SEE_IT_GO}:
        assert isinstance(end.outcome, Unknown)
    elif Act.PASTE in acts:
        assert isinstance(end.outcome, Refused)
        assert end.outcome.reason is HoldReason.STAGED
    elif trouble.kind in {Kind.PERMISSION, Kind.PLACE}:
        assert isinstance(end.outcome, Refused)
        assert trouble.remedy in end.outcome.detail
    else:
        assert end.outcome == Failed(retryable=True, reason=str(trouble))


UNSAFE = {
    "draft": replace(EMPTY, composer="half a thought"),
    "unreadable": replace(EMPTY, composer=None),
    "dialog": replace(EMPTY, has_dialog=True),
    "user-active": replace(EMPTY, quiet_for=3),
}


@pytest.mark.parametrize("sight", UNSAFE.values(), ids=UNSAFE)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.surface}{'-tab' if task.has_tab else ''}")
def test_an_unsafe_first_look_is_the_last_act(task: Task, sight: ScreenReading) -> None:
    """A draft, a dialog, what cannot be read, a person at the machine: nothing is touched."""
    acts, steps, end = walk(task, Act.LOOK, Report(Act.LOOK, sight=sight))

    assert (acts, steps) == ([Act.LOOK], [])
    assert isinstance(end.outcome, Refused)


@pytest.mark.parametrize("sight", UNSAFE.values(), ids=UNSAFE)
def test_an_unsafe_tab_gets_no_paste(sight: ScreenReading) -> None:
    """The tab that the key brought forward is looked at like any composer."""
    acts, _, end = walk(TASKS[1], Act.LOOK_AT_TAB, Report(Act.LOOK_AT_TAB, sight=sight))

    assert acts[-1] is Act.LOOK_AT_TAB
    assert isinstance(end.outcome, Refused)


@pytest.mark.parametrize(
    ("sight", "kind"),
    [
        (replace(STANDS, is_front=False), Unknown),
        (replace(STANDS, has_dialog=True), Refused),
        (replace(STANDS, composer=f"half {TEXT}"), Refused),
        (replace(STANDS, composer=""), Refused),
        (replace(STANDS, composer=None), Refused),
    ],
    ids=["focus lost", "dialog", "beside a draft", "not landed", "unreadable"],
)
def test_return_is_pressed_only_after_the_text_was_read_back_alone(sight: ScreenReading, kind: type) -> None:
    """Enter only after the pasted text was read back; focus lost after the paste is unknown."""
    acts, _, end = walk(TASKS[0], Act.READ_BACK, Report(Act.READ_BACK, sight=sight))

    assert Act.RETURN not in acts
    assert isinstance(end.outcome, kind)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.surface}{'-tab' if task.has_tab else ''}")
def test_return_is_pressed_once_however_long_the_text_goes_on_standing_there(task: Task) -> None:
    """Decision 10: the first may only be taken late, and a second would answer what it began."""
    acts, _, end = walk(task, Act.SEE_IT_GO, Report(Act.SEE_IT_GO, sight=STANDS))

    assert sum(act in {Act.RETURN, Act.SEND} for act in acts) == 1
    assert isinstance(end.outcome, Refused)
    assert end.outcome.reason is HoldReason.STAGED


def test_what_terminal_sends_in_one_piece_counts_as_sent_only_when_its_mark_shows() -> None:
    """docs/macos.md, assumption 10: there was nothing to read back, so an empty composer proves nothing."""
    _, _, end = walk(TASKS[3], Act.SEE_IT_GO, Report(Act.SEE_IT_GO, sight=EMPTY))

    assert isinstance(end.outcome, Unknown)


RESUMED = {
    ("staged", "stands"): (Progress.STAGED, STANDS, Act.RETURN),
    ("staged", "gone"): (Progress.STAGED, EMPTY, Unknown),
    ("staged", "in transcript"): (Progress.STAGED, SENT, Delivered),
    ("staged", "beside a draft"): (Progress.STAGED, replace(STANDS, composer=f"{TEXT} and"), Refused),
    ("staged", "under a dialog"): (Progress.STAGED, replace(STANDS, has_dialog=True), Refused),
    ("staged", "unreadable"): (Progress.STAGED, replace(EMPTY, composer=None), Refused),
    ("maybe staged", "stands"): (Progress.MAYBE_STAGED, STANDS, Act.RETURN),
    ("maybe staged", "gone"): (Progress.MAYBE_STAGED, EMPTY, Unknown),
    ("maybe submitted", "stands"): (Progress.MAYBE_SUBMITTED, STANDS, Refused),
    ("maybe submitted", "gone"): (Progress.MAYBE_SUBMITTED, EMPTY, Unknown),
    ("maybe submitted", "in transcript"): (Progress.MAYBE_SUBMITTED, SENT, Delivered),
}


@pytest.mark.parametrize("task", TASKS[:3], ids=lambda task: f"{task.surface}{'-tab' if task.has_tab else ''}")
@pytest.mark.parametrize(("progress", "sight", "expected"), RESUMED.values(), ids=["-".join(one) for one in RESUMED])
def test_an_attempt_goes_on_from_what_an_earlier_one_may_have_done(
    task: Task, progress: Progress, sight: ScreenReading, expected: Act | type
) -> None:
    """Decision 10: submit what provably stands there and had no Return yet; nothing is pasted or pressed twice."""
    resumed = replace(task, progress=progress, staged_ago=60_000)

    looked = Act.LOOK_AT_TAB if task.has_tab else Act.LOOK

    acts, _, end = walk(resumed, looked, Report(looked, sight=sight))

    if isinstance(expected, Act):
        assert next(act for act in acts if act in KEYS - {Act.TAB}) is expected
        assert isinstance(end.outcome, Delivered)
    else:
        assert not {Act.PASTE, Act.RETURN, Act.SEND}.intersection(acts)
        assert isinstance(end.outcome, expected)


def test_a_paste_that_was_not_seen_yet_is_waited_for_and_not_made_again() -> None:
    """Decision 10: a program may draw it late; after that it is unknown."""
    resumed = replace(TASKS[2], progress=Progress.MAYBE_STAGED, staged_ago=APPEARS_WITHIN - 1)

    acts, _, end = walk(resumed, Act.LOOK, Report(Act.LOOK, sight=EMPTY))

    assert acts == [Act.LOOK]
    assert isinstance(end.outcome, Refused)
    assert end.outcome.reason is HoldReason.STAGED


@pytest.mark.parametrize("code", MEANINGS)
def test_every_error_number_says_which_permission_or_name_to_correct(code: int) -> None:
    """Every error code maps to its message."""
    trouble = trouble_of(f"/x/app_key.applescript:12:40: execution error: System Events got an error. ({code})\n")

    assert trouble.code == code
    assert (trouble.kind, trouble.what, trouble.remedy) == MEANINGS[code]


def test_an_ended_process_and_an_unknown_error_are_said_in_words() -> None:
    """That there is no such process is said; nothing is swallowed."""
    assert trouble_of("kill: 99: No such process").kind is Kind.PLACE
    assert "quite odd" in str(trouble_of("execution error: something quite odd (-31337)"))


def test_a_standing_counts_what_was_set_out_on() -> None:
    """The plan's own memory."""
    assert AttemptProgress().after(Act.PASTE).may_stand
    assert not AttemptProgress().after(Act.RETURN).may_stand
