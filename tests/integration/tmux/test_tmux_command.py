"""Every tmux call is bounded, and what is left of it is killed with its group."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from wake_bridge_adapters.pane_lock import PaneIsTaken, lock_path, pane_lock
from wake_bridge_adapters.tmux.command import NOT_FOUND, TmuxServer
from wake_bridge_adapters.tmux.guarded import TmuxVerdict, if_still
from wake_bridge_adapters.tmux.pane_facts import NoPane, look_at, scrollback_of

from wake_bridge.domain.delivery import HoldReason, Progress, Step
from wake_bridge.ports.adapter import Failed, Nowhere, Refused, Unknown
from wake_bridge.testing import HUNG, until

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene


def stub(directory: Path, script: str) -> str:
    """A PATH on which `tmux` is this script; the rest stays."""
    program = directory / "bin" / "tmux"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def test_a_hanging_tmux_is_killed_with_everything_it_started(tmp_path: Path) -> None:
    """Every external call is bounded by `adapter_timeout`."""
    path = stub(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/self; wait")
    server = TmuxServer("/nowhere", 1.0, {"PATH": path})
    pids = [tmp_path / "child", tmp_path / "self"]

    def hangs_and_is_given_up() -> bool:
        answer = asyncio.run(server.ask(["list-panes"]))
        assert answer.timed_out
        assert not answer.is_well
        # on a busy machine it may have been killed before it wrote who it is
        return all(one.exists() and one.read_text().endswith("\n") for one in pids)

    until(hangs_and_is_given_up)
    for one in pids:
        pid = int(one.read_text())
        until(lambda pid=pid: not _is_alive(pid))  # type: ignore[misc]


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("becomes", ["", "exit 1", "#!/nowhere/sh"], ids=["gone", "too old", "broken"])
def test_a_tmux_that_serves_no_longer_is_looked_for_on_path_again(tmp_path: Path, becomes: str) -> None:
    """Tmux is the one on PATH, also after an upgrade under a running daemon: its server is of the new one then."""
    path = stub(tmp_path, "echo former")
    program, first = tmp_path / "bin" / "tmux", tmp_path / "first"
    first.mkdir()
    server = TmuxServer("/nowhere", 10.0, {"PATH": f"{first}:{path}"})
    assert asyncio.run(server.ask(["list-panes"])).stdout == "former\n"

    shutil.copy(program, first / "tmux")
    (first / "tmux").write_text("#!/bin/sh\necho latter\n")
    assert asyncio.run(server.ask(["list-panes"])).stdout == "former\n", "what goes well is left as it is"
    if becomes:
        program.write_text(becomes if becomes.startswith("#!") else f"#!/bin/sh\n{becomes}\n")
    else:
        program.unlink()

    assert not asyncio.run(server.ask(["list-panes"])).is_well
    assert asyncio.run(server.ask(["list-panes"])).stdout == "latter\n"


def test_a_tmux_that_cannot_be_started_is_told_like_any_other_refusal(tmp_path: Path) -> None:
    """What failed, where; a broken program is no fault of ours."""
    path = stub(tmp_path, "")
    (tmp_path / "bin" / "tmux").write_text("#!/nowhere/sh\n")

    answer = asyncio.run(TmuxServer("/nowhere", 10.0, {"PATH": path}).ask(["list-panes"]))

    assert not answer.is_well
    assert answer.complaint == f"{tmp_path}/bin/tmux cannot be started: No such file or directory"


def test_a_cancelled_call_does_not_live_on(tmp_path: Path) -> None:
    """`run`: a clean stop within five seconds, whatever tmux is doing."""
    path = stub(tmp_path, f"echo $$ > {tmp_path}/pid; mv {tmp_path}/pid {tmp_path}/self; exec sleep 300")
    server = TmuxServer("/nowhere", 2 * HUNG, {"PATH": path})

    async def cancelled() -> None:
        call = asyncio.create_task(server.ask(["list-panes"]))
        while not (tmp_path / "self").exists():  # noqa: ASYNC110 - another process's file
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(asyncio.wait_for(cancelled(), HUNG))

    pid = int((tmp_path / "self").read_text())
    until(lambda: not _is_alive(pid))


def test_a_server_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """Every call is bounded, and by itself."""
    slow = TmuxServer("/nowhere", 2 * HUNG, {"PATH": stub(tmp_path, "exec sleep 300")})
    quick = TmuxServer("/nowhere", HUNG, {"PATH": "/nonexistent:/usr/bin:/bin"})

    async def both() -> list[bool]:
        hanging = [asyncio.create_task(slow.ask(["x"])) for _ in range(20)]
        await asyncio.sleep(0)
        await quick.ask(["list-panes"])
        are_over = [one.done() for one in hanging]
        for one in hanging:
            one.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        return are_over

    assert asyncio.run(both()) == [False] * 20


def test_a_missing_tmux_is_an_answer_not_an_exception() -> None:
    """Outcomes are values."""
    answer = asyncio.run(TmuxServer("/nowhere", 1.0, {"PATH": "/nonexistent"}).ask(["list-panes"]))

    assert answer.returncode == NOT_FOUND
    assert "PATH" in answer.complaint


def test_the_socket_is_the_one_named_whatever_the_environment_says(scene: Scene) -> None:
    """`$TMUX` of the process that started us is another server."""
    agent = scene.resident()
    server = TmuxServer(str(scene.tmux.socket_path), 5.0, {**os.environ, "TMUX": "/other,1,0", "TMUX_PANE": "%77"})

    answer = asyncio.run(server.ask(["display-message", "-p", "-t", agent.id, "#{pid}"]))

    assert answer.stdout.strip() == str(scene.tmux.server_pid), answer


def test_a_server_that_hangs_is_unreachable_and_nothing_is_typed(scene: Scene) -> None:
    """A time-out before the first key leaves everything as it was."""
    agent = scene.resident()
    place = scene.place(agent.id)
    path = stub(scene.directory, "sleep 60")
    scene.adapter = scene.new_adapter(timeout=0.5, PATH=path)

    outcome = scene.deliver_at(place, scene.wake())

    assert isinstance(scene.resolve(scene.address(agent.id)), Nowhere)
    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.UNREACHABLE
    assert agent.is_untouched()


@pytest.mark.parametrize("step", [Step.INTENT_STAGE, Step.INTENT_SUBMIT])
def test_a_server_that_hangs_in_the_middle_leaves_the_attempt_open(scene: Scene, step: Step) -> None:
    """A time-out after `intent_submit` is `unknown`; after a paste it is looked at again."""
    agent = scene.resident()
    real = os.environ["PATH"]
    hang = scene.directory / "hang"
    path = stub(scene.directory, f'[ -e {hang} ] && exec sleep 60\nPATH="{real}" exec tmux "$@"')
    scene.adapter = scene.new_adapter(timeout=4.0, PATH=path)
    scene.journal.on[step] = hang.touch

    outcome = scene.deliver(agent.id, scene.wake())

    assert scene.journal.names[-1] == step.value
    if step is Step.INTENT_STAGE:
        assert isinstance(outcome, Refused)
        assert outcome.reason is HoldReason.UNREACHABLE
    else:
        assert isinstance(outcome, Unknown)
    assert agent.enters() == 0


def test_an_attempt_that_met_a_hanging_server_is_finished_later(scene: Scene) -> None:
    """What may have been pasted is looked for, and submitted where it stands."""
    agent = scene.resident()
    wake = scene.wake()
    agent.fake.shows("draft", wake.text)

    outcome = scene.go_on(agent.id, wake, Progress.MAYBE_STAGED)

    assert agent.fake.submits() == [wake.text], outcome
    assert agent.fake.events("paste") == []


def test_what_tmux_complains_of_is_told(scene: Scene) -> None:
    """Exit status and stderr are read; "exited with 1" alone helps nobody."""
    agent = scene.resident()
    real = os.environ["PATH"]
    path = stub(
        scene.directory,
        f'case "$*" in *load-buffer*) echo "buffer: no room" >&2; exit 1;; esac\nPATH="{real}" exec tmux "$@"',
    )
    scene.adapter = scene.new_adapter(PATH=path)

    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert outcome.reason == "buffer: no room"
    assert scene.journal.names == ["probed", "intent_stage", "refused"]
    assert agent.is_untouched()


def test_a_server_newer_than_its_client_is_named_as_such(scene: Scene) -> None:
    """`doctor`: such a server lives on, and only hangs up; which is no end of it."""
    path = stub(
        scene.directory, 'case "$1" in -V) echo "tmux 3.3a";; *) echo "server exited unexpectedly" >&2; exit 1;; esac'
    )
    agent = scene.resident()
    scene.adapter = scene.new_adapter(PATH=path)

    found = scene.resolve(scene.address(agent.id))
    _, (_, is_well, detail, hint) = asyncio.run(scene.adapter.probe())

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.UNREACHABLE
    assert "newer than the tmux on PATH" in found.detail
    assert is_well is False
    assert "newer than the tmux on PATH" in detail
    assert "first on the service's PATH" in hint


def test_nothing_is_believed_but_what_tmux_printed(scene: Scene) -> None:
    """The verdict is printed; exit 0 proves nothing."""
    agent = scene.resident()
    server = TmuxServer(str(scene.tmux.socket_path), 5.0, os.environ)

    async def verdicts() -> list[TmuxVerdict]:
        said = "display-message -p x"
        return [
            (await if_still(server, agent.id, "1", then=said)).verdict,
            (await if_still(server, agent.id, "0", then=said)).verdict,
            (await if_still(server, agent.id, "1", then=said, before=[["no-such-command"]])).verdict,
            (await if_still(server, agent.id, "1", then="paste-buffer -b no-such-buffer")).verdict,
        ]

    assert asyncio.run(verdicts()) == [
        TmuxVerdict.DONE,
        TmuxVerdict.REFUSED,
        TmuxVerdict.NOT_REACHED,
        TmuxVerdict.SILENT,
    ]


def test_a_guard_for_a_pane_that_is_gone_never_holds(scene: Scene) -> None:
    """Tmux evaluates a condition for a missing target all the same, without a pane."""
    agent, gone = scene.resident(), scene.resident("gone")
    server = TmuxServer(str(scene.tmux.socket_path), 5.0, os.environ)
    scene.tmux.run("kill-pane", "-t", gone.id)

    guarded = asyncio.run(if_still(server, gone.id, f"#{{==:#{{pane_id}},{gone.id}}}", then="display-message -p x"))

    assert guarded.verdict is TmuxVerdict.REFUSED
    assert isinstance(asyncio.run(look_at(server, gone.id)), NoPane)
    assert isinstance(asyncio.run(scrollback_of(server, gone.id)), NoPane)
    assert agent.is_untouched()


def test_a_lock_is_one_file_for_every_spelling_of_the_socket(tmp_path: Path) -> None:
    """One writer per pane, across all processes of the user."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    first, second = str(tmp_path / "real/s"), str(tmp_path / "link/s")

    assert lock_path(first, 1, "%1") == lock_path(second, 1, "%1")
    assert len({lock_path(first, 1, "%1"), lock_path(first, 2, "%1"), lock_path(first, 1, "%2")}) == 3
    with pane_lock(first, 1, "%1"), pytest.raises(PaneIsTaken), pane_lock(second, 1, "%1"):
        pass
    with pane_lock(second, 1, "%1"):
        pass
    assert list((tmp_path / "real").iterdir()) == []


def test_without_a_lock_nothing_goes_on(tmp_path: Path) -> None:
    """On failure to lock nothing is sent."""
    taken = lock_path(str(tmp_path / "s"), 1, "%1")
    taken.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PaneIsTaken), pane_lock(str(tmp_path / "s"), 1, "%1"):
        pass
    with pytest.raises(PaneIsTaken), pane_lock(str(tmp_path / "missing" / "s"), 1, "%1"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_left_by_a_killed_process_is_free(tmp_path: Path) -> None:
    """The kernel gives up a dead holder's lock; its file is only a name."""
    path = lock_path(str(tmp_path / "s"), 1, "%1")
    path.touch()

    with pane_lock(str(tmp_path / "s"), 1, "%1"):
        assert path.exists()
    assert not path.exists()
