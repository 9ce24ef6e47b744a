"""The quiet form of the fake harness: one of hundreds must be judged as the whole one is."""

from __future__ import annotations

from pathlib import Path

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import Look, PrivateTmux

DIGEST = "[WAKE] 1 event for @neo:\n- 1 new message\nWake: 01K3Z5Q8X9ABCDEFGHJKMNPQRS"
IDLE = "Ask the fake agent"


def test_it_looks_records_and_answers_like_the_whole_one(tmp_path: Path, tmux: PrivateTmux) -> None:
    """The same screen before, with a pasted text and after it; the same bytes, pastes and submits in its log."""
    shown: list[list[Look]] = []
    records = []
    for options in ((), ("--quiet",)):
        harness = FakeHarness(tmp_path / ("quiet" if options else "whole"), "twin")
        harness.log.parent.mkdir()
        pane = tmux.new_pane(harness.command(*options), session="quiet" if options else "whole", width=80, height=24)
        looks = [tmux.waits_until(pane, lambda look: IDLE in look.text, what="an idle composer")]
        tmux.paste(pane, DIGEST)
        looks.append(tmux.waits_until(pane, lambda look: "01K3Z5" in look.text, what="the text"))
        tmux.run("send-keys", "-t", str(pane.pane_id), "Enter")
        looks.append(
            tmux.waits_until(pane, lambda look: "Noted." in look.text and IDLE in look.text, what="the answer")
        )
        shown.append(looks)
        kept = [one for one in harness.records() if one["event"] in {"paste", "submit", "answered"}]
        records.append([{**one, "at": 0} for one in kept])
        assert harness.bytes_received().endswith(b"\r")
    assert [look.ansi for look in shown[0]] == [look.ansi for look in shown[1]]
    assert [(look.cursor, look.title) for look in shown[0]] == [(look.cursor, look.title) for look in shown[1]]
    assert records[0] == records[1]


def test_a_deaf_one_looks_idle_and_never_reads(tmp_path: Path, tmux: PrivateTmux) -> None:
    """A program whose input nobody reads: what is sent to it stays in its terminal."""
    harness = FakeHarness(tmp_path, "deaf")
    pane = tmux.new_pane(harness.command("--deaf"))
    tmux.waits_until(pane, lambda look: IDLE in look.text, what="an idle composer")
    tmux.paste(pane, DIGEST)
    harness.waits_for("started")
    assert harness.bytes_received() == b""
    assert IDLE in tmux.look(pane).text
