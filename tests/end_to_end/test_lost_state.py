"""The state directory is deleted, replaced, or its disk is full, under a daemon at work."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.testing.playground import AgentPane, Playground

SMALL = "1536k"
READ_ONLY = (
    ("status",),
    ("inbox", "@neo"),
    ("deliveries",),
    ("list",),
    ("routes", "@neo"),
)


@pytest.fixture
def agent(playground: Playground) -> AgentPane:
    """An idle agent whose identity is woken for mail."""
    playground.sandbox.run("init")
    return playground.enlisted("neo")


def arrived(agent: AgentPane, subject: str) -> int:
    """How often it was told of it."""
    return sum(f'"{subject}"' in text for text in agent.fake.submits())


def wakes(box: Sandbox, agent: AgentPane, subject: str) -> None:
    """A message arrives."""
    box.send("@neo", subject)
    box.waits_for(lambda: arrived(agent, subject), what=f"{subject!r} to arrive")
    box.waits_for(lambda: all(one["state"] == "DELIVERED" for one in box.deliveries()), what="it to settle")


def is_whole(box: Sandbox) -> dict[str, Any] | None:
    """How it stands, once the ledger is back and commands reach the daemon."""
    if not (box.state_dir / "state.sqlite").exists():
        return None
    status = box.ask("status")
    return status if status["running"] == "yes" and status["state_trouble"] is None and status["cursor"] else None


@pytest.mark.parametrize("what", ["directory", "state.sqlite", "state.sqlite-wal", "moved"])
def test_what_was_told_is_not_told_again_after_the_state_was_deleted_under_the_daemon(
    playground: Playground, agent: AgentPane, what: str
) -> None:
    """The ledger that is still open is put back, by whatever part of it was lost; a restart knows it all."""
    box = playground.sandbox
    daemon = box.daemon()
    wakes(box, agent, "before")
    if what == "directory":
        shutil.rmtree(box.state_dir)
    elif what == "moved":
        box.state_dir.rename(box.state_dir.with_name("moved"))
    else:
        (box.state_dir / what).unlink()

    (said,) = daemon.waits_for_log("ledger_put_back")
    assert "was deleted" in said["reason"]
    assert daemon.waits_for_log("notice_given")[-1]["reason"] == "state_directory"
    status = box.waits_for(lambda: is_whole(box), what="the state directory to be whole")
    assert status["pid"] == daemon.pid
    second = box.run("run", expect=5)
    assert f"pid {daemon.pid} " in second.stderr
    wakes(box, agent, "after")
    assert daemon.stop() == 0

    box.daemon()
    wakes(box, agent, "after the restart")
    assert [arrived(agent, one) for one in ("before", "after", "after the restart")] == [1, 1, 1]


def test_while_it_cannot_be_put_back_nothing_is_typed_and_every_command_says_so(
    playground: Playground, agent: AgentPane
) -> None:
    """Not even when the directory above is a file now; once there is room for it, it is put back."""
    box = playground.sandbox
    daemon = box.daemon()
    wakes(box, agent, "before")
    shutil.rmtree(box.state_dir)
    box.state_dir.write_text("in the way")

    daemon.waits_for_log("ledger_away")
    message = box.send("@neo", "meanwhile")
    box.state_dir.unlink()
    (box.state_dir.parent / "wake-bridge").mkdir(mode=0o500)
    if os.geteuid() != 0:
        assert box.ask("status")["state_trouble"]
        assert message in box.run("why", message).stdout
    with suppress(FileNotFoundError):
        box.state_dir.chmod(0o700)
    box.waits_for(lambda: is_whole(box), what="the state directory to be whole")
    box.waits_for(lambda: arrived(agent, "meanwhile"), what="it to arrive")
    assert [arrived(agent, one) for one in ("before", "meanwhile")] == [1, 1]


@pytest.mark.parametrize("what", ["daemon.lock", "daemon.sock"])
def test_a_lock_or_a_socket_that_was_deleted_alone_is_there_again(
    playground: Playground, agent: AgentPane, what: str
) -> None:
    """The ledger is whole, so wakes go on, and commands go on finding the daemon."""
    box = playground.sandbox
    daemon = box.daemon()
    wakes(box, agent, "before")
    (box.state_dir / what).unlink()

    box.waits_for((box.state_dir / what).exists, what="it to be there again")
    status = box.waits_for(lambda: is_whole(box), what="commands to find the daemon")
    assert status["pid"] == daemon.pid
    wakes(box, agent, "after")


def test_another_ledger_in_its_place_is_neither_replaced_nor_believed(playground: Playground, agent: AgentPane) -> None:
    """Restored from a copy; what it does not know would be told again, so a person chooses."""
    box = playground.sandbox
    daemon = box.daemon()
    wakes(box, agent, "before")
    copy = box.state_dir / "copy"
    shutil.copy(box.state_dir / "state.sqlite", copy)
    copy.replace(box.state_dir / "state.sqlite")
    restored = (box.state_dir / "state.sqlite").stat().st_ino

    daemon.waits_for_log("ledger_away")
    message = box.send("@neo", "meanwhile")
    status = box.waits_for(lambda: (one := box.ask("status"))["state_trouble"] and one, what="the trouble to be told")
    assert (status["running"], status["pid"]) == ("yes", daemon.pid)
    assert "state.sqlite was replaced" in status["state_trouble"]
    assert "no wake is sent: " in box.run("status").stdout
    assert "was replaced" in "\n".join(box.ask("why", message)["notes"])
    found = {one["check"]: one for one in box.lines("doctor", expect=None)}
    assert (found["daemon"]["ok"], "was replaced" in found["daemon"]["detail"]) == (False, True)
    assert arrived(agent, "meanwhile") == 0
    assert (box.state_dir / "state.sqlite").stat().st_ino == restored

    for part in box.state_dir.glob("state.sqlite*"):
        part.unlink()
    box.waits_for(lambda: arrived(agent, "meanwhile"), what="it to arrive")
    assert [arrived(agent, one) for one in ("before", "meanwhile")] == [1, 1]


@pytest.fixture
def small_disk(playground: Playground) -> Iterator[Path]:
    """The state directory on a file system of its own with next to no room; there it can be filled to the last byte."""
    directory = playground.sandbox.state_dir
    directory.mkdir(mode=0o700, parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=700", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield directory / "filler"
    playground.sandbox.close()
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(filler: Path) -> None:
    """Leave no room for one byte more."""
    with filler.open("ab", buffering=0) as file:
        for size in (4096, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def test_a_full_disk_is_called_so_everywhere_and_wakes_go_on_when_there_is_room(
    small_disk: Path, playground: Playground, agent: AgentPane
) -> None:
    """`status`, `doctor`, `why`, the log and the notice; commands that only read work; nobody else is blamed."""
    box = playground.sandbox
    daemon = box.daemon()
    wakes(box, agent, "before")
    fill(small_disk)
    message = box.send("@neo", "while it is full")

    daemon.waits_for_log("ledger_away")
    status = box.waits_for(lambda: (one := box.ask("status"))["state_trouble"] and one, what="the trouble to be told")
    assert "the disk is full" in status["state_trouble"]
    assert "the disk is full" in box.run("status").stdout
    assert "the disk is full" in "\n".join(box.ask("why", message)["notes"])
    found = {one["check"]: one for one in box.lines("doctor", expect=None)}
    for check in ("daemon", "free disk"):
        assert (found[check]["ok"], "the disk is full" in found[check]["detail"]) == (False, True)
    for command in READ_ONLY:
        box.run(*command)
    assert daemon.waits_for_log("notice_given")[-1]["reason"] == "state_directory"
    assert arrived(agent, "while it is full") == 0

    small_disk.unlink()
    box.waits_for(lambda: arrived(agent, "while it is full"), what="it to arrive")
    box.waits_for(lambda: box.ask("status")["state_trouble"] is None, what="the trouble to be over")
    assert [arrived(agent, one) for one in ("before", "while it is full")] == [1, 1]
    assert daemon.entries("adapter_broke_promise") == []


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_start_on_a_full_disk_says_so_and_commands_that_read_work_without_a_daemon(
    small_disk: Path, playground: Playground, agent: AgentPane, end: str
) -> None:
    """With path and what is free, not "disk I/O error"."""
    box = playground.sandbox
    daemon = box.daemon()
    wakes(box, agent, "before")
    if end == "killed":
        # it leaves its log; an index that nobody has open is made anew by whoever opens it
        daemon.kill()
        (box.state_dir / "state.sqlite-shm").unlink()
    else:
        assert daemon.stop() == 0
    fill(small_disk)

    refused = box.run("run", expect=1).stderr
    assert "the disk is full (" in refused
    assert str(box.state_dir) in refused
    assert "free some space" in refused
    assert [one["outcome"] for one in box.deliveries()] == ["submitted"]
    for command in READ_ONLY:
        box.run(*command)


READ_ONLY_MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


def test_where_nothing_may_be_written_mail_is_read_and_commands_that_read_answer(playground: Playground) -> None:
    """With a read-only state directory `inbox` and `read` print the mail, mark it read, warn, and end with 0."""
    isolated = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
    needs("unshare")
    if subprocess.run([*isolated, "true"], check=False).returncode:
        pytest.skip("this kernel lets us make no mount namespace")
    box = playground.sandbox
    box.run("init")
    for name in ("@neo", "@me"):
        box.run("agent", "add", name)
    first, second = (box.send("@neo", one) for one in ("one", "two"))
    box.run("inbox", "@neo", "--limit", "1")
    for index in box.state_dir.glob("*-shm"):
        index.unlink()
    box.command = (*isolated, "sh", "-c", READ_ONLY_MOUNT, str(box.state_dir), *box.command)

    for command in READ_ONLY:
        box.run(*command)
    read = box.run("read", "@neo", first)
    assert "one" in read.stdout
    assert read.stderr.startswith("note: a wake may announce it again, because the ledger could not be written: ")
    assert [one["messageId"] for one in box.lines("inbox", "@neo", "--consume")] == [second]
    assert box.lines("inbox", "@neo") == []
