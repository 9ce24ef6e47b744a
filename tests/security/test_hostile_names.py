"""Names that other programs and people choose: shown and compared, never run (real tmux, real processes)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.notices import Notice
from wake_bridge.integrations.human import filled
from wake_bridge.testing.playground import Playground

PAYLOADS = (
    "#(touch {trap})",
    "##(touch {trap})",
    "#{{E:#(touch {trap})}}",
    "#{{q:#(touch {trap})}}",
    "$(touch {trap})",
    "`touch {trap}`",
    "'; touch {trap}; '",
    '" ; run-shell "touch {trap}" ; "',
    "x ; run-shell 'touch {trap}' \\;",
    "}} ; run-shell 'touch {trap}' ; {{",
    '" & (do shell script "touch {trap}") & "',
    "\x1b]0;$(touch {trap})\x07",
    "%if 1 run-shell 'touch {trap}' %endif",
    "-t evil",
)
"""What would run if any of it were a tmux format, a tmux command, a shell's, or AppleScript."""


@pytest.fixture
def world(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Playground]:  # noqa: ARG001
    """A playground whose tmux directory nobody else uses: `panes` looks at every server of the user."""
    with tempfile.TemporaryDirectory(prefix="wbt-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMUX_TMPDIR", directory)
        with Playground(tmp_path, program) as made:
            yield made


def _looks(world: Playground, *identities: str) -> str:
    """Everything that looks at panes, with all that it says."""
    said = ""
    for arguments in (
        ("panes",),
        ("--json", "panes"),
        ("setup", "--dry-run"),
        ("doctor",),
        ("status",),
        ("list",),
        ("deliveries",),
        *(("presence", one, "--explain") for one in identities),
    ):
        answer = world.sandbox.run(*arguments, expect=None)
        assert "Traceback" not in answer.stderr
        assert "internal:" not in answer.stderr
        said += answer.stdout + answer.stderr
    return said


@pytest.mark.timeout(300)
def test_titles_names_and_directories_of_panes_run_nothing(world: Playground, tmp_path: Path) -> None:
    """Session, window, title, working directory and pane option of a hostile program."""
    traps = tmp_path / "traps"
    traps.mkdir()
    world.sandbox.run("init")
    agent = world.enlisted("agent")
    for number, payload in enumerate(PAYLOADS):
        evil = payload.format(trap=traps / str(number))
        room = tmp_path / "rooms" / str(number) / evil.replace("/", "∕").replace("\x1b", "").replace("\x07", "")
        room.mkdir(parents=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(room)
            pane = world.tmux.new_pane(["sleep", "600"], session="hostile")
        # set by libtmux's own means, with formats left as they are
        world.tmux.run("set-option", "-p", "-t", str(pane.pane_id), "@wake_identity", evil)
        world.tmux.run("rename-window", "-t", str(pane.pane_id), "--", evil.replace("#", "##"))
        world.tmux.run("select-pane", "-t", str(pane.pane_id), "-T", evil.replace("#", "##"))
    titles = world.tmux.run("list-panes", "-a", "-F", "#{pane_title}")
    assert "$(touch" in titles
    daemon = world.sandbox.daemon()
    world.sandbox.send("@agent", "hello")
    world.sandbox.waits_for_delivery(state="DELIVERED")

    _looks(world, "@agent")

    # what a format runs in the background has had its time
    time.sleep(1.0)
    assert list(traps.iterdir()) == []
    assert len(agent.fake.submits()) == 1
    assert daemon.stop() == 0


@pytest.mark.timeout(300)
def test_a_process_with_a_hostile_name_and_arguments_runs_nothing_and_is_no_agent(
    world: Playground, tmp_path: Path
) -> None:
    """`comm` and argv are read and compared; nothing in them is a pattern or a command."""
    traps = tmp_path / "traps"
    traps.mkdir()
    for number, payload in enumerate(PAYLOADS):
        evil = payload.format(trap=traps / str(number))
        program = tmp_path / f"bin{number}" / evil.replace("/", "∕")
        program.parent.mkdir()
        shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
        world.tmux.new_pane(
            [str(program), "600"] if number % 2 else [sys.executable, "-c", "import time; time.sleep(600)", evil],
            session="hostile",
        )

    said = _looks(world)

    time.sleep(1.0)
    assert list(traps.iterdir()) == []
    found = [json.loads(line) for line in said.splitlines() if line.startswith('{"pane"')]
    assert [one["harness"] for one in found] == [None] * len(PAYLOADS)
    assert "\x1b" not in said


@pytest.mark.timeout(300)
def test_an_identity_or_target_that_is_no_name_is_refused_or_only_text(world: Playground, tmp_path: Path) -> None:
    """On the command line, in a subscription and in `[targets]`."""
    traps = tmp_path / "traps"
    traps.mkdir()
    # each is a process or five: every third payload, one of each kind
    evils = [payload.format(trap=traps / str(number)) for number, payload in enumerate(PAYLOADS[::3])]
    box = world.sandbox
    world.tmux.new_pane(["sleep", "600"])
    box.run("init")
    tables = ""
    for number, evil in enumerate(evils):
        assert box.run("agent", "add", "--", f"@{evil}", expect=None).returncode in {2, 8}
        box.run("agent", "add", f"@a{number}")
        trigger = ("--trigger", "SENT_TO_ME", "--window", "0")
        box.run("subscribe", f"@a{number}", *trigger, f"--tmux={evil}", expect=None)
        tables += f'[targets."@b{number}"]\npane = {json.dumps(evil)}\n'
        box.run("agent", "add", f"@b{number}")
        box.run("subscribe", f"@b{number}", *trigger, "--tmux=x", expect=None)
    for evil in evils[:2]:
        assert box.run("bind", "@a0", f"--pane={evil}", expect=None).returncode != 0
    box.configure(tables)
    box.send("AGENT:*", "hello")

    box.run("run", "--once", expect=None, timeout=200)

    assert list(traps.iterdir()) == []
    assert {one["hold_reason"] for one in box.deliveries()} <= {"unreachable", "ambiguous"}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_a_person_is_told_is_one_argument_and_no_command(payload: str) -> None:
    """`[human]`: a place-holder's text is an argument of its own, whatever is in it, `{body}` too."""
    evil = payload.format(trap="x") + " {body} {title}"
    notice = Notice(**_notice_fields(evil))

    assert filled(["notify", "{title}", "--text={body}"], notice) == ["notify", evil, f"--text={evil}"]


def _notice_fields(evil: str) -> dict[str, Any]:
    from dataclasses import MISSING, fields

    given = {"title": evil, "body": evil}
    blanks: dict[str, Any] = {"str": "", "Instant": 0, "int": 0}
    return {
        field.name: given.get(field.name, blanks.get(str(field.type), ""))
        for field in fields(Notice)
        if field.name in given or field.default is MISSING
    }


def test_a_socket_of_another_tmux_server_in_a_shared_directory_is_not_asked(world: Playground, tmp_path: Path) -> None:
    """Own uid's sockets only; a link to one is judged by what it leads to."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a socket to another user")
    box = world.sandbox
    world.sandbox.run("init")
    agent = world.enlisted("agent")
    os.chown(world.tmux.socket_path, 65534, -1)
    link = tmp_path / "mine.sock"
    link.symlink_to(world.tmux.socket_path)
    box.configure(f'[targets."@agent"]\npane = "agent"\nsocket = {json.dumps(str(link))}\n')
    box.send("@agent", "hello")

    box.run("run", "--once")

    (held,) = box.deliveries()
    assert (held["state"], held["hold_reason"]) == ("DISPATCHED", "unreachable")
    assert agent.fake.submits() == []
    os.chown(world.tmux.socket_path, 0, -1)
