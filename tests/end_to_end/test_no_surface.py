"""Where there is no tmux, no server or no adapter: the hold says so, in words that a newcomer can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.testing.playground import Playground

NO_PATH = {"PATH": "/nonexistent"}


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """One enlisted agent who is nowhere, and mail for it."""
    with Sandbox(tmp_path, "wake-bridge-nobody", program) as sandbox:
        sandbox.configure("presence.relook.min = 0.2\n")
        sandbox.run("init")
        sandbox.enlist("@agent", "agents:1.0")
        sandbox.send("@agent", "mail")
        yield sandbox


def _told(sandbox: Sandbox, environment: dict[str, str] | None = None) -> tuple[str, str]:
    """Reason and remedy of the hold, after one run, as `deliveries`, `presence` and `status` say it."""
    sandbox.run("run", "--once", environment=environment)
    (held,) = sandbox.deliveries("--state", "held")
    words = sandbox.run("presence", "@agent", environment=environment).stdout
    assert f"what to do: {held['remedy']}\n" in words
    assert f"@agent: {held['remedy']}\n" in sandbox.run("status").stdout
    return held["hold_reason"], held["remedy"]


def test_without_tmux_the_remedy_is_to_install_it(sandbox: Sandbox) -> None:
    """Explain: `unreachable` because there is no tmux is told as that, not as a pane that is gone."""
    assert _told(sandbox, NO_PATH) == (
        "unreachable",
        "install tmux 3.2 or later, or start wake-bridge with a PATH that has it",
    )


@pytest.mark.usefixtures("tmux_program")
def test_without_a_server_the_remedy_is_to_start_the_agent_in_one(sandbox: Sandbox) -> None:
    """Explain: `unreachable` because no server runs names the server's configuration."""
    reason, remedy = _told(sandbox)

    assert reason == "unreachable"
    assert remedy.startswith("start the agent in tmux, then run `wake-bridge bind @agent` inside its pane")


def test_without_an_adapter_the_remedy_is_to_enable_one(sandbox: Sandbox) -> None:
    """Explain: `no_adapter` is told in words, not as the raw list of adapters."""
    sandbox.config_file.write_text(
        "".join(f"[adapters.{name}]\nenabled = false\n" for name in ("tmux", "claude", "codex"))
    )

    reason, remedy = _told(sandbox)

    assert reason == "no_adapter"
    assert remedy.startswith("no adapter serves @agent: name an adapter that `wake-bridge adapters` lists")


def test_what_is_told_where_tmux_or_its_server_is_missing_helps_when_it_is_taken_literally(
    playground: Playground,
) -> None:
    """A PATH with tmux ends the first hold; an agent in tmux, and `bind` inside its pane, the second."""
    sandbox = playground.sandbox
    sandbox.run("init")
    sandbox.enlist("@agent", "agents:1.0")
    sandbox.send("@agent", "mail")
    assert _told(sandbox, NO_PATH)[1].endswith("or start wake-bridge with a PATH that has it")

    reason, remedy = _told(sandbox)
    assert (reason, remedy.partition(",")[0]) == ("unreachable", "start the agent in tmux")
    agent = playground.agent("elsewhere")
    tmux = playground.tmux
    inside = {"TMUX": f"{tmux.socket_path},{tmux.server_pid},0", "TMUX_PANE": agent.id}
    (command,) = re.findall(r"`wake-bridge ([^`]+)`", remedy)
    sandbox.run(*command.split(), environment=inside)
    sandbox.run("run", "--once")

    (delivered,) = sandbox.deliveries()
    assert (delivered["outcome"], len(agent.fake.submits())) == ("submitted", 1)
