"""A whole run with marked bodies, keys and tokens: none of them turns up where it must not be."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil
import pytest

from wake_bridge.testing.playground import Playground

# their command lines are looked at
pytestmark = pytest.mark.usefixtures("executed_daemons")

BODY = "CANARYBODY7f3a"
KEY = "CANARYKEY91bc"
TOKEN = "CANARYTOKEN5e2d"
CANARIES = (BODY, KEY, TOKEN)


class CommandLines:
    """Every command line of a process and of all that it starts, sampled as `ps` would show it."""

    def __init__(self, pid: int) -> None:
        self.seen: set[str] = set()
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def _sample(self) -> None:
        while not self._ended.wait(0.002):
            with contextlib.suppress(psutil.Error):
                for one in [self._process, *self._process.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        self.seen.add(" ".join(one.cmdline()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def outputs(world: Playground, message: str) -> Iterator[tuple[str, str]]:
    """All that a person can have said to them, with the command that said it; errors as well."""
    delivery = world.sandbox.deliveries()[0]["id"]
    for words in (
        "status",
        f"--json why {message}",
        f"why {message} @agent",
        "--json deliveries",
        f"deliveries show {delivery}",
        f"logs --delivery {delivery}",
        "logs",
        "doctor",
        "list",
        "presence @agent --explain",
        "config check",
        "why MESSAGE:none",
        "inbox @nobody",
        "send @nobody --from @me --subject x --body -",
    ):
        answer = world.sandbox.run("-vv", *words.split(), text=f"{BODY}\n", expect=None)
        yield words, answer.stdout + answer.stderr


def recording_tmux(world: Playground) -> Path:
    """Put a tmux first on PATH that writes its argv down before it becomes the real one; samples may miss 3 ms."""
    programs, calls = world.directory / "bin", world.directory / "tmux-calls"
    programs.mkdir()
    shim = programs / "tmux"
    shim.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {calls}\nexec {shutil.which("tmux")} "$@"\n')
    shim.chmod(0o755)
    world.sandbox.environment["PATH"] = f"{programs}:{world.sandbox.environment['PATH']}"
    return calls


@pytest.mark.timeout(400)
def test_no_body_key_or_token_leaves_its_place(playground: Playground) -> None:
    """Not in logs, `ps`, errors, answers or state; bodies stay in the graph."""
    if sys.platform != "linux":
        pytest.skip("command lines are read from /proc")
    box = playground.sandbox
    box.environment |= {"ANTHROPIC_API_KEY": KEY, "GITHUB_TOKEN": TOKEN, "WAKE_BRIDGE_DAEMON_LOG_LEVEL": "debug"}
    box.environment["WAKE_BRIDGE_DAEMON_LOG_FILE"] = str(box.state_dir / "wake-bridge.log")
    playground.sandbox.run("init")
    agent = playground.enlisted("agent")
    calls = recording_tmux(playground)
    daemon = box.daemon()
    with CommandLines(daemon.pid) as lines:
        for number in range(3):
            answer = box.run("--json", "send", "@agent", "--from", "@me", "--subject", f"s{number}", "--body", "-",
                             text=f"{BODY} {KEY} {TOKEN}\n")  # fmt: skip
            wanted = number + 1
            box.waits_for(lambda: len(agent.fake.submits()) >= wanted, what="the wake")  # noqa: B023 - called at once
    message = answer.stdout.split('"messageId":"')[1].split('"')[0]

    said = dict(outputs(playground, message))
    daemon.stop()

    places = {f"`{words}`": text for words, text in said.items()}
    places |= {f"ps: {line[:60]}": line for line in lines.seen}
    places["every tmux call"] = calls.read_text(encoding="utf-8")
    places["log"] = daemon.log()
    places["the agent"] = "\n".join(agent.fake.submits())
    for file in box.state_dir.iterdir():
        if file.is_file():
            places[file.name] = file.read_bytes().decode("latin-1")
    assert [(where, what) for where, text in places.items() for what in CANARIES if what in text] == []
    assert any("wake-bridge run" in line for line in lines.seen)
    assert "paste-buffer" in places["every tmux call"]
    assert "wake-bridge.log" in places
    assert BODY.encode() in box.graph.read_bytes() + (box.graph.parent / "graph.sqlite-wal").read_bytes()


@pytest.mark.timeout(200)
def test_a_body_is_shown_where_a_target_opted_in_and_still_not_in_logs_or_ps(playground: Playground) -> None:
    """`digest = "full"` for senders in `allow_from`; the body goes through a buffer, not through an argv."""
    box = playground.sandbox
    playground.sandbox.run("init")
    agent = playground.enlisted("agent")
    box.configure(
        'coalesce.refractory = 0\n[targets."@agent"]\npane = "agent"\ndigest = "full"\nallow_from = ["@me"]\n'
    )
    daemon = box.daemon(environment={"WAKE_BRIDGE_DAEMON_LOG_LEVEL": "debug"})
    with CommandLines(daemon.pid) as lines:
        box.run("send", "@agent", "--from", "@me", "--subject", "s", "--body", "-", text=f"{BODY}\n")
        box.waits_for(agent.fake.submits, what="the wake")

    assert BODY in agent.fake.submits()[0]
    assert BODY not in daemon.log()
    assert [line for line in lines.seen if BODY in line] == []
