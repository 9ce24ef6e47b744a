"""What tmux itself does with keys and pastes, measured again on every version: why we do not do it so."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing import until

if TYPE_CHECKING:
    import subprocess

FRAMED: Final = "\\033[?2004h"
"""What a program prints that wants its pastes framed."""

FILTERS_PASTES: Final = (3, 7)
"""Since this version tmux takes control characters out of what is pasted with `-p`."""


@dataclass(frozen=True)
class Fact:
    """One way to send something, and what arrives: `{pane}` is the pane, `text` is loaded into the buffer `b`.

    `until` is the version with which it ended.
    """

    name: str
    send: Sequence[str]
    arrives: bytes
    text: str = ""
    framed: bool = False
    refused: bool = False
    until: tuple[int, int] = (99, 0)


PASTE: Final = ("paste-buffer", "-d", "-b", "b", "-t", "{pane}")
KEYS: Final = ("send-keys", "-t", "{pane}")

FACTS: Final = (
    Fact("a leading hyphen is taken for an option", (*KEYS, "-l", "-text"), b"", refused=True),
    Fact("behind -- it is text", (*KEYS, "-l", "--", "-text"), b"-text"),
    Fact("a trailing semicolon is eaten, with exit 0", (*KEYS, "-l", "--", "go;"), b"go"),
    Fact("a semicolon inside is not", (*KEYS, "-l", "--", "a;b"), b"a;b"),
    Fact("a pasted semicolon arrives", (*PASTE, "-p", "-r"), b"go;", text="go;"),
    Fact(
        "-p -r: a frame, its line ends kept", (*PASTE, "-p", "-r"), b"\x1b[200~a\nb\x1b[201~", text="a\nb", framed=True
    ),
    Fact("-p alone: line ends become Enter", (*PASTE, "-p"), b"\x1b[200~a\rb\x1b[201~", text="a\nb", framed=True),
    Fact("-p -r where no frame is wanted", (*PASTE, "-p", "-r"), b"a\nb", text="a\nb"),
    Fact(
        "an end of paste inside closes the frame",
        (*PASTE, "-p", "-r"),
        b"\x1b[200~a\x1b[201~\rb\x1b[201~",
        text="a\x1b[201~\rb",
        framed=True,
        until=FILTERS_PASTES,
    ),
    Fact("Enter is a carriage return", (*KEYS, "Enter"), b"\r"),
    Fact("C-m is a carriage return", (*KEYS, "C-m"), b"\r"),
    Fact("-H 0d is a carriage return", (*KEYS, "-H", "0d"), b"\r"),
    Fact("a command of 20 000 bytes is refused", (*KEYS, "-l", "x" * 20_000), b"", refused=True),
    Fact("a command of 15 000 bytes is not", (*KEYS, "-l", "x" * 15_000), b"x" * 15_000),
    Fact("leaving a mode that it is not in is refused", (*KEYS, "-X", "cancel"), b"", refused=True),
    Fact("an exact session as a pane is refused", ("send-keys", "-t", "=agents", "x"), b"", refused=True),
    Fact("an exact session with its colon is not", ("send-keys", "-t", "=agents:", "x"), b"x"),
)


class _Rig:
    """A pane that records all it gets, in raw mode."""

    def __init__(self, tmux: PrivateTmux, directory: Path, *, framed: bool) -> None:
        self.tmux = tmux
        self.record = directory / "bytes"
        start = f"stty raw -echo; printf '{FRAMED if framed else ''}ready'; exec cat > {shlex.quote(str(self.record))}"
        self.pane = tmux.new_pane(start)
        tmux.waits_until(self.pane, lambda look: look.flags["pane_current_command"] == "cat" and "ready" in look.text)

    def call(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        words = [word.replace("{pane}", str(self.pane.pane_id)) for word in arguments]
        return self.tmux._call(*words, text=text)

    def received(self) -> bytes:
        """All that came before a last sign of ours."""
        self.call("send-keys", "-t", "{pane}", "-H", "04")
        until(lambda: self.record.read_bytes().endswith(b"\x04"), "the last sign")
        return self.record.read_bytes()[:-1]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_what_is_sent_arrives_as_measured(
    tmux: PrivateTmux, tmux_version: tuple[int, int], tmp_path: Path, fact: Fact
) -> None:
    """Text through a buffer, framed and raw; Enter as a byte; the pane by its id."""
    rig = _Rig(tmux, tmp_path, framed=fact.framed)
    if fact.text:
        rig.call("load-buffer", "-b", "b", "-", text=fact.text)

    answer = rig.call(*fact.send)

    assert (rig.received() == fact.arrives) is (tmux_version < fact.until)
    assert (answer.returncode != 0) is fact.refused


def test_the_paste_flag_says_nothing_before_tmux_3_7(
    tmux: PrivateTmux, tmux_version: tuple[int, int], tmp_path: Path
) -> None:
    """Empty for every pane, whatever the program asked for; so it is never read."""
    rig = _Rig(tmux, tmp_path, framed=True)

    flag = rig.call("display-message", "-p", "-t", "{pane}", "#{bracket_paste_flag}").stdout.strip()

    assert flag == ("1" if tmux_version >= FILTERS_PASTES else "")


def test_a_line_longer_than_a_terminal_takes_is_cut(tmux: PrivateTmux, tmp_path: Path) -> None:
    """Which is why a program that reads lines, as a shell does, is no agent."""
    record = tmp_path / "bytes"
    pane = tmux.new_pane(f"stty -echo; printf ready; exec cat > {shlex.quote(str(record))}")
    tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] == "cat" and "ready" in look.text)

    tmux.run("load-buffer", "-b", "b", "-", text="x" * 5_000 + "\n")
    tmux.run("paste-buffer", "-d", "-p", "-r", "-b", "b", "-t", str(pane.pane_id))

    until(lambda: record.read_bytes().endswith(b"\n"), "the line")
    assert record.read_bytes() == b"x" * 4_095 + b"\n"
