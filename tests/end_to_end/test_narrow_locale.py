"""A locale that is none of UTF-8: what people, mail and tmux write is read, shown and handed on all the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import Playground

RECORD = "import sys; open(sys.argv[1], 'ab').write(b'|'.join(map(__import__('os').fsencode, sys.argv[2:])))"
FAR = "日本-→"
NARROW = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""Python's file system encoding is ASCII then, on every system; en_US.ISO-8859-1 need not be there."""


@pytest.fixture
def world(playground: Playground) -> Playground:
    """An embedded graph, and commands and daemon in a narrow locale."""
    playground.sandbox.environment.update(NARROW)
    playground.sandbox.run("init")
    return playground


def test_mail_with_any_letters_is_sent_and_read(world: Playground) -> None:
    """Arguments, graph, JSON and the words for a person; none of them ends in a UnicodeEncodeError."""
    box = world.sandbox
    for name in ("@me", "@you"):
        box.run("agent", "add", name)
    box.run("send", "@you", "--from", "@me", "--subject", f"Grüße {FAR}", "--body", FAR)
    shown = box.run("inbox", "@you", "--bodies")
    assert f"Grüße {FAR}" in shown.stdout or "\\u2192" in shown.stdout
    assert box.lines("inbox", "@you")[0]["subject"] == f"Grüße {FAR}"


def test_doctor_and_the_word_to_the_human_outlive_a_place_of_another_alphabet(
    world: Playground, tmp_path: Path
) -> None:
    """`doctor` died, and the notice was lost."""
    box, record = world.sandbox, tmp_path / "told"
    command = json.dumps([sys.executable, "-c", RECORD, str(record), "{title}", "{body}"])
    box.configure(f"{QUICK}human.notice_after = 1\nhuman.command = {command}\n")
    agent = world.agent("agent", session=FAR)
    box.enlist("@agent", agent.id)
    agent.fake.shows("approval")
    box.daemon()
    box.send("@agent", FAR)
    told = box.waits_for(lambda: record.read_bytes() if record.exists() else b"", what="a notice")
    assert FAR in told.decode()
    checks = {one["check"]: one for one in box.lines("doctor", expect=None)}
    assert checks["locale"]["ok"] is False
    assert "Traceback" not in box.run("doctor", expect=None).stderr
