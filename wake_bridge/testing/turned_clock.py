"""Time that a test turns by hand: weeks of an engine's life in seconds, with suspends, stops and a wall clock that is set.

    clock = TurnedClock(start)
    live(clock, story())

The story runs on an event loop that never waits: when nothing is left to do, time goes on to the next deadline. What
would be done in threads (questions to the graph) is done at once, and takes no time.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeVar, TypeVarTuple

from wake_bridge.domain.names import Instant
from wake_bridge.engine.tail.log_reader import LogReader, Version

Answer = TypeVar("Answer")
Values = TypeVarTuple("Values")


class TurnedClock:
    """`ports.clock.Clock` as a test has it.

    Args:
        start: what it shows at first.
        zone: where the machine is.
    """

    def __init__(self, start: int, zone: tzinfo = UTC) -> None:
        self._start = start
        self._zone = zone
        self.ran = 0.0
        """Seconds for which the process could run, as the event loop counts them."""
        self._suspended = 0.0
        self._set_by = 0.0

    def now(self) -> Instant:
        """See `Clock.now`: goes on while the machine is suspended."""
        return Instant(self._start + round((self.ran + self._suspended) * 1000))

    def wall(self) -> Instant:
        """See `Clock.wall`."""
        return Instant(self.now() + round(self._set_by * 1000))

    def local(self) -> datetime:
        """See `Clock.local`."""
        return datetime.fromtimestamp(self.wall() / 1000, self._zone)

    def begin_anew(self) -> None:
        """A new process counts on from the wall clock as it stands."""
        self._start += round(self._set_by * 1000)
        self._set_by = 0.0

    def turn(self, milliseconds: float) -> None:
        """Let so much time pass."""
        self.ran += milliseconds / 1000

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: time goes on, and no timer of any process with it."""
        self._suspended += seconds

    def stop(self, seconds: float) -> None:
        """The process is stopped (SIGSTOP): time goes on, and all timers are late at once."""
        self.ran += seconds

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock forward, or back."""
        self._set_by += seconds


def live(clock: TurnedClock, story: Coroutine[Any, Any, Answer]) -> Answer:
    """Run the story on the clock's time; answers what it answers."""
    with asyncio.Runner(loop_factory=lambda: _TurnedLoop(clock)) as runner:
        return runner.run(story)


class _TurnedLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: TurnedClock) -> None:
        self._clock = clock
        super().__init__(_TurningSelector(clock))

    def time(self) -> float:
        return self._clock.ran

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*Values], Answer],
        *args: *Values,
    ) -> asyncio.Future[Answer]:
        """Run it here and now: a thread would cost time that does not pass."""
        del executor
        if getattr(func, "__func__", None) is LogReader.look_out:
            return self.create_task(_look_out(func, *args))  # type: ignore[arg-type,call-arg]
        future: asyncio.Future[Answer] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the caller's, who awaits it
            future.set_exception(error)
        return future


async def _look_out(
    look_out: Callable[..., Answer], seen: Version | None, over: threading.Event, pauses: Sequence[float]
) -> Answer:
    """The one thing that waits in a thread, for its pauses pass on the clock: one after the other."""
    for pause in pauses[:-1]:
        await asyncio.sleep(pause)
        if found := look_out(seen, over, [0.0, 0.0]):
            return found
    await asyncio.sleep(pauses[-1])
    return look_out(seen, over, [0.0])


class _TurningSelector(selectors.DefaultSelector):
    """Every wait is over at once, and the clock turned instead."""

    def __init__(self, clock: TurnedClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            return super().select(None)
        self._clock.ran += timeout
        return []
