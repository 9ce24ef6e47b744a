"""A wake whose agent dies before it has read it is left to the shell behind it, line by line: nothing of it runs."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from wake_bridge.domain.digest import compose, history_line
from wake_bridge.domain.events import (
    REMINDER,
    Detail,
    ItemDetail,
    ItemMode,
    ItemPriority,
    ItemTier,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.names import AttentionKind, EventKind, Identity, Instant
from wake_bridge.domain.nudges import Unread, compose_nudge
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import START, counted_ids, fresh_ledger, open_delivery, sample_event

SHELLS = ("dash -i", "bash --norc --noediting -i")
"""Shells that read lines without bracketed paste."""

ME = Identity("@neo-gpt")
PAPERS = ((10, 1024), (3, 700), (1, 300), (1, 40))
"""Lines and characters: the whole form, the compact one, one line, the bare header."""


TEXTS = (
    "$(touch trap)",
    "`touch trap`",
    "; touch trap #",
    "& touch trap &",
    "| touch trap",
    "|| touch trap || (",
    '" ; touch trap ; "',
    "' ; touch trap ; '",
    '") ; touch trap ; ("',
    "<(touch trap)",
    "${x:=$(touch trap)}",
    "\n touch trap \n",
    "\r$(touch trap)\r",
    "\\\n touch trap",
    "<<x $(touch trap)",
    "then touch trap; fi",
    ") { touch trap; }",
)


def _events(text: str) -> Iterator[WakeEvent]:
    """Every kind of event, with the text wherever a graph may put it."""
    details: tuple[tuple[EventKind, Detail], ...] = (
        (EventKind.MESSAGE, MessageDetail("MESSAGE:1", text, "@ada", thread="T")),
        (EventKind.MESSAGE, MessageDetail("MESSAGE:2", "a subject", text, thread="T")),
        (EventKind.TASK, TaskDetail(text, text, text, originator="@ada", assignee=ME, last_modified_at=None)),
        (EventKind.PERMISSION, PermissionDetail("edge", text, text, granted_at=START, granted_at_observed=True)),
        (EventKind.PULSE, PulseDetail(text, text, text, text)),
        (EventKind.PULSE, PulseDetail("pulse", REMINDER, text)),
        (EventKind.PRESENCE, PresenceDetail(Identity(text), AttentionKind.APPROVAL, "episode")),
        (EventKind.PRESENCE, PresenceDetail(Identity("@ada"), text, "episode")),
        (EventKind.ITEM, ItemDetail(text, text, ItemMode.ACTIVE, ItemTier.NOW, ItemPriority.HIGH, by=text)),
    )
    for number, (kind, detail) in enumerate(details, 1):
        yield replace(
            sample_event(number),
            identity=ME,
            kind=kind,
            subject_key=f"S{number}",
            detail=detail,
            subscription_id=f"WAKE_SUB:{text}",
        )


def _wakes(text: str, history: str = "") -> Iterator[str]:
    """What may be pasted of it, in every size: each event alone with all bodies that may be shown, all at once, and a nudge."""
    events = list(_events(text))
    for _, characters in PAPERS:
        yield compose_nudge(
            Unread(tuple(events[:2]), tuple(events[2:])),
            identity=ME,
            delivery_id="01J9ZK3V5Q8T2M4N6P7R8S9TAB",
            known={ME},
            target_characters=characters,
        )
    for group in (*((one,) for one in events), events):
        for lines, characters in PAPERS:
            yield compose(
                group,
                identity=ME,
                delivery_id="01J9ZK3V5Q8T2M4N6P7R8S9TAB",
                now=Instant(START),
                known={ME},
                target_lines=lines,
                target_characters=characters,
                history=history,
                bodies={"MESSAGE:1": text, "MESSAGE:2": text},
                allow_from={"@ada", text},
            )


def _runs(shell: str, text: str, directory: Path) -> bool:
    """Whether a shell at a terminal that reads it runs what it has in it."""
    ours, its = os.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "LANG": "C.UTF-8", "TERM": "dumb", "PS1": "$ "}
    process = subprocess.Popen(
        shell.split(), stdin=its, stdout=its, stderr=its, cwd=directory, env=environment, start_new_session=True
    )
    os.close(its)
    try:
        os.read(ours, 4096)
        # tmux pastes line ends as the key Enter sends them; the shell is a person's again afterwards
        os.write(ours, f"{text}\n\ntouch ended\nexit\n".replace("\n", "\r").encode())
        with contextlib.suppress(OSError):
            while select.select([ours], [], [], HUNG)[0] and os.read(ours, 4096):
                pass
        process.wait(HUNG)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert (directory / "ended").exists(), f"the shell read no line after it: {text!r}"
    (directory / "ended").unlink()
    return any(directory.glob("trap*"))


@pytest.fixture(params=SHELLS, ids=lambda one: str(one).split()[0])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("text", TEXTS)
def test_no_shell_runs_a_text_of_the_graph(shell: str, text: str, tmp_path: Path) -> None:
    """Each line is an unknown command with plain words, or a syntax error before its text begins."""
    for wake in _wakes(text):
        assert not _runs(shell, wake, tmp_path), wake


def test_no_shell_runs_what_a_person_was_told_meanwhile(shell: str, tmp_path: Path) -> None:
    """The line of history has a subject, too."""
    text = "$(touch trap)"
    with fresh_ledger(tmp_path) as ledger:
        told = open_delivery(ledger, sample_event(1), new_id=counted_ids())
    history = history_line([(told, list(_events(text)))], ME, Instant(START), {ME})
    for wake in _wakes("plain", history):
        assert not _runs(shell, wake, tmp_path), wake


@pytest.mark.parametrize("line", ['- 1 reminder: "$(touch trap)"', "> @ada: $(touch trap)", "Wake: x ; touch trap"])
def test_a_shell_would_run_it_in_other_places(shell: str, line: str, tmp_path: Path) -> None:
    """What the tests above look for happens where a text stands behind plain words."""
    assert _runs(shell, line, tmp_path)
