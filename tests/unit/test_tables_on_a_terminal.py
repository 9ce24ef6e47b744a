"""Tables for people on a terminal of 80 columns: what is copied stays in one piece."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from rich.table import Table

from wake_bridge.cli import output
from wake_bridge.cli.output import Console

ID = "01M8G6801DFYFHSD68M87GS89H"
LONG = "held: a dialog waits for you, and has done so for a quarter of an hour, since 04:22"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setenv("COLUMNS", "80")
    return capsys


def test_ids_and_names_are_not_broken_for_the_sake_of_a_sentence(terminal: pytest.CaptureFixture[str]) -> None:
    """A sentence is folded, an id is not: it is copied into the next command."""
    Console().table(["delivery", "identity", "pane", "standing"], [[ID, "@codex", "work:core.0", LONG]])
    lines = terminal.readouterr().out.splitlines()
    assert any(line.split()[:3] == [ID, "@codex", "work:core.0"] for line in lines)
    assert max(map(len, lines)) <= 80
    assert [word for word in LONG.split() if word not in " ".join(lines).split()] == []


def test_what_does_not_fit_is_folded_and_never_cut(terminal: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost where even the ids are wider than the terminal."""
    wide = ["a" * 60, "b" * 60]
    Console().table(["one", "two"], [wide])
    text = terminal.readouterr().out
    assert (text.count("a"), text.count("b")) == (60, 60)


def test_names_are_kept_whole_from_the_left(terminal: pytest.CaptureFixture[str]) -> None:
    """Where not all fit, it is the id in the first column that is copied."""
    Console().table(["id", "other", "remark"], [[ID, "x" * 60, LONG]])
    lines = terminal.readouterr().out.splitlines()
    assert any(line.startswith(f"{ID}  ") for line in lines)
    assert sum(line.count("x") for line in lines) == 60


@pytest.mark.parametrize(("said", "is_plain"), [("", False), ("1", True)])
def test_no_color_leaves_no_heading_bold(monkeypatch: pytest.MonkeyPatch, said: str, *, is_plain: bool) -> None:
    """With NO_COLOR rich takes the colours and leaves what is bold."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", said)
    terminal = output.screen()
    table = Table("one")
    table.add_row("two")
    with terminal.capture() as written:
        terminal.print(table)
    assert ("\x1b" not in written.get()) is is_plain
