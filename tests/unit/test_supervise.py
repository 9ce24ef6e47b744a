"""Jobs that fall: which are started again, and which end the daemon."""

from __future__ import annotations

import asyncio

import pytest

from wake_bridge.daemon import supervise
from wake_bridge.daemon.supervise import RESTARTS, Supervisor
from wake_bridge.domain.errors import LedgerUnwritable, SourceMissing
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing import HUNG


class Job:
    """Falls with each of these errors, then ends everything in order."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.stop = asyncio.Event()

    async def run(self) -> None:
        """Fall, or stop."""
        if self.errors:
            raise self.errors.pop(0)
        self.stop.set()
        await asyncio.Event().wait()


async def _supervised(*errors: Exception) -> Job:
    job = Job(*errors)
    async with asyncio.timeout(HUNG):
        await Supervisor({"job": job.run}, SteadyClock()).run(job.stop)
    return job


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "PAUSE", 0.0)


def test_a_job_that_falls_now_and_then_is_started_again() -> None:
    """One TaskGroup; a fall of one job is logged and mended."""
    job = asyncio.run(_supervised(*[ValueError("a fault")] * (RESTARTS - 1)))
    assert job.errors == []


def test_a_job_that_keeps_falling_ends_the_daemon() -> None:
    """The service manager starts it anew; nothing half works in silence."""
    with pytest.raises(ExceptionGroup) as ended:
        asyncio.run(_supervised(*[ValueError("a fault")] * RESTARTS))
    assert isinstance(ended.value.exceptions[0], ValueError)


def test_a_ledger_that_cannot_be_written_for_a_while_ends_nothing() -> None:
    """A matched event is never lost; a full disk or a locked file is waited out."""
    job = asyncio.run(_supervised(*[LedgerUnwritable("the ledger is busy", "state.sqlite")] * (3 * RESTARTS)))
    assert job.errors == []


def test_a_graph_that_is_none_ends_the_daemon_at_once() -> None:
    """The daemon ends with exit code 4."""
    with pytest.raises(ExceptionGroup) as ended:
        asyncio.run(_supervised(SourceMissing("there is no graph", "graph.sqlite")))
    assert isinstance(ended.value.exceptions[0], SourceMissing)
