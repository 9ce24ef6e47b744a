"""The system's wall clock is set under a real daemon: CLOCK_REALTIME alone, as `date -s` and NTP do it."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.programs import needs
from wake_bridge.testing import until
from wake_bridge.testing.playground import Playground

SHIM: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *seconds_ahead(void) {
    static const volatile int64_t *ahead;
    if (!ahead) {
        int file = open(getenv("CLOCK_OFFSET_FILE"), O_RDONLY | O_CLOEXEC);
        ahead = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
        close(file);
    }
    return ahead;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, time);
    if (!failed && clock == CLOCK_REALTIME) time->tv_sec += *seconds_ahead();
    return failed;
}
"""


class SystemClock:
    """A shim that is loaded before the C library; what it is set by is shared with this process."""

    def __init__(self, directory: Path) -> None:
        needs("cc")
        source, library = directory / "clock.c", directory / "clock.so"
        source.write_text(SHIM, encoding="ascii")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        self._offset = directory / "offset"
        self._offset.write_bytes(struct.pack("=q", 0))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self._offset)}

    def set_by(self, seconds: int) -> None:
        """So many seconds ahead of the machine's own clock."""
        with self._offset.open("rb+") as file:
            file.write(struct.pack("=q", seconds))


@pytest.fixture
def clock(playground: Playground, tmp_path: Path) -> SystemClock:
    """The clock of every command in the sandbox, and of its daemons."""
    playground.sandbox.run("init")
    clock = SystemClock(tmp_path)
    playground.sandbox.environment |= clock.environment
    return clock


def test_a_daemon_whose_clock_is_set_back_goes_on_with_its_chores(playground: Playground, clock: SystemClock) -> None:
    """Set back an hour, it showed no sign of life for an hour: a service manager would have killed it."""
    sandbox = playground.sandbox
    daemon = sandbox.daemon()
    alive = sandbox.state_dir / "heartbeat.alive"
    sandbox.waits_for(alive.exists, what="the first sign of life")

    clock.set_by(-3600)

    daemon.waits_for_log("clock_set")
    shown = alive.stat().st_mtime_ns
    until(lambda: alive.stat().st_mtime_ns != shown, "the next sign of life")


def test_wakes_go_on_while_the_clock_is_set_and_after_a_restart(playground: Playground, clock: SystemClock) -> None:
    """A day ahead, then back: nothing waits for the old time, nothing comes twice."""
    sandbox = playground.sandbox
    agent = playground.enlisted("a")
    sandbox.run("agent", "add", "@me", "--human")
    daemon = sandbox.daemon()
    clock.set_by(86_400)
    daemon.waits_for_log("clock_set")
    sandbox.send("@a", "a day ahead")
    agent.fake.waits_for("submit")
    daemon.stop()
    clock.set_by(0)
    sandbox.daemon()
    sandbox.send("@a", "after it was set back")
    agent.fake.waits_for("submit", 2)
    assert len(agent.fake.submits()) == 2
