"""Chores: on the loop's own thread, again after they failed, once after they were missed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
import structlog

from wake_bridge.daemon import chores as service
from wake_bridge.daemon.chores import Chore, Housekeeping
from wake_bridge.domain.names import to_beat
from wake_bridge.testing import HUNG

OFTEN = 0.05


async def _run(chore: Chore, until: Callable[[], bool]) -> None:
    housekeeping = Housekeeping()
    housekeeping.every(OFTEN, chore, "the chore")
    housekeeping.start()
    try:
        async with asyncio.timeout(HUNG):
            while not until():  # noqa: ASYNC110 - what holds is seen from outside
                await asyncio.sleep(0.01)
    finally:
        housekeeping.stop()


def test_a_chore_runs_on_the_thread_of_the_loop() -> None:
    """The ledger belongs to the thread that opened it; retention and notices use it."""
    threads: list[int] = []
    asyncio.run(_run(lambda: threads.append(threading.get_ident()), lambda: len(threads) > 1))
    assert set(threads) == {threading.get_ident()}


def test_a_chore_may_be_a_coroutine_and_never_overlaps_itself() -> None:
    """`max_instances`=1: a slow tick is not doubled."""
    running, most, ended = 0, 0, 0

    async def slow() -> None:
        nonlocal running, most, ended
        running += 1
        most = max(most, running)
        await asyncio.sleep(3 * OFTEN)
        running -= 1
        ended += 1

    asyncio.run(_run(slow, lambda: ended > 2))
    assert most == 1


def test_a_chore_that_raises_is_logged_and_comes_again() -> None:
    """An error listener; one failure ends no chore."""
    calls = 0

    def breaks() -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("a bug")

    with structlog.testing.capture_logs() as lines:
        asyncio.run(_run(breaks, lambda: calls > 1))
    failed = [line for line in lines if line["event"] == "chore_failed"]
    assert (failed[0]["chore"], failed[0]["reason"]) == ("the chore", "a bug")


def test_those_who_wait_to_a_beat_wait_for_the_same_moment() -> None:
    """A quiet daemon costs what its loop is woken for, not what it does then."""
    ends = {at + to_beat(2.0, at) for at in (10.0, 10.25, 11.75)}

    assert ends == {12.0}
    assert to_beat(0.1, 86_399.999_999_999_99) > 0.05, (
        "a wait so short that the clock stands still would go on for ever"
    )


def test_chores_that_were_missed_collapse_into_one() -> None:
    """Coalesce: a loop that stood still makes up for nothing."""
    went_on, calls = 0.0, 0

    def chore() -> None:
        nonlocal went_on, calls
        if went_on:
            calls += 1
        else:
            time.sleep(20 * OFTEN)
            went_on = time.monotonic()

    asyncio.run(_run(chore, lambda: calls > 9))
    # one for all that was missed, and then one for each that was due, however busy the machine is
    assert calls <= 2 + (time.monotonic() - went_on) / OFTEN


def test_the_clock_is_watched_on_after_what_follows_from_it_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set while the disk is full, and set again when it is not."""
    ahead = [0.0]
    monkeypatch.setattr(service, "WATCHED_EVERY", OFTEN)
    monkeypatch.setattr(service, "_ahead", lambda: ahead[0])
    told: list[float] = []

    def fails(seconds: float) -> None:
        told.append(seconds)
        raise RuntimeError("the disk is full")

    async def watch() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        housekeeping = Housekeeping(fails)
        housekeeping.start()
        try:
            async with asyncio.timeout(HUNG):
                for hours in (1, 2):
                    ahead[0] = hours * 3600.0
                    while len(told) < hours:  # noqa: ASYNC110 - what holds is seen from outside
                        await asyncio.sleep(0.01)
        finally:
            housekeeping.stop()

    asyncio.run(watch())
    assert told == [3600.0, 3600.0]
