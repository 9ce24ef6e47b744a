"""A line for the person, in the terminal they used last: real clients of a real server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wake_bridge_adapters.tables import TmuxConfig
from wake_bridge_adapters.tmux import TmuxAdapter

from wake_bridge.demo.tmux_server import PrivateTmux, Typist
from wake_bridge.ports.adapter import AdapterContext, Notifier
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing import until

LINE = "wake-bridge: @agent cannot be woken"


def adapter(tmux: PrivateTmux) -> TmuxAdapter:
    context = AdapterContext(10, 10, "", os.environ, SteadyClock())
    return TmuxAdapter(TmuxConfig(socket_name=tmux.socket_name), context)


@contextmanager
def attached(tmux: PrivateTmux, session: str) -> Iterator[Typist]:
    command = ["tmux", "-u", "-L", tmux.socket_name, "-f", "/dev/null", "attach-session", "-t", f"={session}"]
    with Typist(command, width=120) as person:
        person.waits_until_shown()
        yield person


def show(tmux: PrivateTmux, line: str) -> bool:
    return asyncio.run(adapter(tmux).show_person(line))


def never_sees(person: Typist, text: str, seconds: float) -> bool:
    """Whether a client is not shown a text, so long."""
    time.sleep(seconds)
    return text not in person.shown()


def recorder(tmux: PrivateTmux, session: str, directory: Path) -> Path:
    """A pane that writes down every byte it gets."""
    record = directory / session
    pane = tmux.new_pane(f"stty raw -echo; exec cat > {record}", session=session)
    tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] == "cat")
    return record


def test_the_tmux_adapter_is_a_notifier(tmux: PrivateTmux) -> None:
    """The port: what an adapter offers besides."""
    assert isinstance(adapter(tmux), Notifier)


def test_the_client_that_was_used_last_is_shown_the_line_and_no_pane_gets_a_byte(
    tmux: PrivateTmux, tmp_path: Path
) -> None:
    """`[human]`: `display-message` to the attached client that last was active."""
    left, used = recorder(tmux, "left", tmp_path), recorder(tmux, "used", tmp_path)
    with attached(tmux, "left") as away, attached(tmux, "used") as here:
        # `client_activity` counts whole seconds
        time.sleep(1.1)
        here.types("x")
        until(lambda: used.read_bytes() == b"x")

        assert show(tmux, LINE)

        until(lambda: LINE in here.shown(), "the line")
        assert never_sees(away, LINE, 0.3)
        here.types("y")
        until(lambda: used.read_bytes() == b"xy", "the key that ended the message")
    assert left.read_bytes() == b""


@pytest.mark.parametrize(
    "evil", ["#(touch {trap})", "##(touch {trap})", "#{{E:#(touch {trap})}}", "#[fg=red]%H;", "-C x"]
)
def test_a_line_is_no_format(tmux: PrivateTmux, tmp_path: Path, evil: str) -> None:
    """No text from graph or title is ever a format: `#(…)` would run a shell."""
    recorder(tmux, "one", tmp_path)
    trap = tmp_path / "trap"
    with attached(tmux, "one") as person:
        assert show(tmux, f"{LINE} END {evil.format(trap=trap)}")
        until(lambda: "END" in person.shown(), "the line")
        assert never_sees(person, "never", 0.5)
    assert not trap.exists()


def test_where_nobody_is_attached_nobody_is_told(tmux: PrivateTmux, tmp_path: Path) -> None:
    """`[human]`: without a terminal the log and `status` have it."""
    assert not show(tmux, LINE)
    recorder(tmux, "one", tmp_path)
    assert not show(tmux, LINE)


def test_a_program_that_reads_control_mode_is_no_person(tmux: PrivateTmux, tmp_path: Path) -> None:
    """A word to the human, not to an editor's tmux integration."""
    recorder(tmux, "one", tmp_path)
    command = ["tmux", "-u", "-L", tmux.socket_name, "-f", "/dev/null", "-C", "attach-session", "-t", "=one"]
    with Typist(command) as integration:
        integration.waits_until_shown()
        assert not show(tmux, LINE)
