"""The program that Claude Code runs as our monitor, as a process, against the daemon's own end of the line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from wake_bridge.control.server import ControlServer
from wake_bridge.engine.sessions.monitor_lines import MonitorLines
from wake_bridge.testing import HUNG

SESSION = "5cba19df-1111-4222-8333-444455556666"
AFTER_CLEAR = "99999999-1111-4222-8333-444455556666"
WITHIN = HUNG


class Exchange:
    """The daemon's half: a doorbell behind its socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bell = MonitorLines()
        self.calls: list[dict[str, Any]] = []
        self.may_print = True
        self._server: ControlServer | None = None

    async def opens(self) -> None:
        handlers = {"monitor": self._monitor, "monitor_printing": self._printing, "monitor_printed": self._printed}
        self._server = ControlServer(self.directory, handlers, {"monitor"})
        await self._server.start()

    async def closes(self) -> None:
        """As a daemon that is killed: nobody answers, and who waits is hung up on."""
        if self._server is not None:
            await self._server.stop()

    async def _monitor(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(dict(request))
        ring = await self.bell.wait(str(request["session_id"]))
        return {} if ring is None else {"mark": ring.mark, "line": ring.line}

    async def _printing(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"ok": self.may_print and self.bell.printing(str(request["session_id"]), str(request["mark"]))}

    async def _printed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"ok": self.bell.printed(str(request["mark"]))}

    async def waits_for_monitor(self, session_id: str = SESSION) -> None:
        async with asyncio.timeout(WITHIN):
            while not self.bell._waiting.get(session_id):  # noqa: ASYNC110 - the bell has no sign for it
                await asyncio.sleep(0.02)


@asynccontextmanager
async def monitor(exchange: Exchange, program: tuple[str, ...]) -> AsyncIterator[Process]:
    """One monitor as Claude Code starts it: its own group, lines into a pipe."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(exchange.directory),
        "WAKE_BRIDGE_DAEMON_STATE_DIR": str(exchange.directory),
        "CLAUDE_CODE_SESSION_ID": SESSION,
        "CLAUDE_PID": str(os.getpid()),
        "CLAUDE_CONFIG_DIR": str(exchange.directory / "claude"),
    }
    process = await asyncio.create_subprocess_exec(
        *program, "claude", "monitor", stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, cwd=exchange.directory
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def line_of(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(WITHIN):
        return (await process.stdout.readline()).decode()


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path)


def run(exchange: Exchange, scene: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        try:
            await scene
        finally:
            await exchange.closes()

    asyncio.run(whole())


def test_it_tells_who_it_is_and_prints_a_line_for_each_wake(exchange: Exchange, program: tuple[str, ...]) -> None:
    """One line, one wake; the daemon hears that it was written."""

    async def scene() -> None:
        await exchange.opens()
        async with monitor(exchange, program) as process:
            for mark in ("FIRST", "SECOND"):
                await exchange.waits_for_monitor()
                assert await exchange.bell.ring(SESSION, mark, f"[WAKE] {mark}") is True
                assert await line_of(process) == f"[WAKE] {mark}\n"
            await exchange.waits_for_monitor()
        assert process.stdout is not None
        assert process.stderr is not None
        assert (await process.stdout.read(), await process.stderr.read()) == (b"", b"")
        call = exchange.calls[0]
        assert (call["harness"], call["session_id"], call["pid"]) == ("claude", SESSION, os.getpid())
        assert call["directory"] == str(exchange.directory)

    run(exchange, scene())


def test_a_line_is_one_line_whatever_stands_in_it(exchange: Exchange, program: tuple[str, ...]) -> None:
    """Two lines would be two events."""

    async def scene() -> None:
        await exchange.opens()
        async with monitor(exchange, program) as process:
            await exchange.waits_for_monitor()
            await exchange.bell.ring(SESSION, "MARK", "[WAKE] one\ntwo\u2028three\x85four")
            assert await line_of(process) == "[WAKE] one two three four\n"

    run(exchange, scene())


def test_nothing_is_printed_that_it_may_not_print_any_more(exchange: Exchange, program: tuple[str, ...]) -> None:
    """One driver: until it was told that it may, the wake may have gone another way."""

    async def scene() -> None:
        await exchange.opens()
        exchange.may_print = False
        async with monitor(exchange, program) as process:
            await exchange.waits_for_monitor()
            assert await exchange.bell.ring(SESSION, "LOST", "[WAKE] lost") is False
            exchange.may_print = True
            await exchange.waits_for_monitor()
            await exchange.bell.ring(SESSION, "MARK", "[WAKE] mark")
            assert await line_of(process) == "[WAKE] mark\n"

    run(exchange, scene())


def test_it_calls_again_when_the_daemon_is_back(exchange: Exchange, program: tuple[str, ...]) -> None:
    """Re-registers after a restart; it may also be there before its daemon."""

    async def scene() -> None:
        async with monitor(exchange, program) as process:
            await asyncio.sleep(0.5)
            for mark in ("FIRST", "SECOND"):
                await exchange.opens()
                await exchange.waits_for_monitor()
                await exchange.bell.ring(SESSION, mark, f"[WAKE] {mark}")
                assert await line_of(process) == f"[WAKE] {mark}\n"
                await exchange.closes()
            assert process.returncode is None

    run(exchange, scene())


def test_after_clear_it_calls_by_the_sessions_new_name(exchange: Exchange, program: tuple[str, ...]) -> None:
    """Measured: `/clear` gives the session another id and keeps the monitor, whose environment has the old one."""

    async def scene() -> None:
        records = exchange.directory / "claude" / "sessions"
        records.mkdir(parents=True)
        await exchange.opens()
        async with monitor(exchange, program):
            await exchange.waits_for_monitor()
            (records / f"{os.getpid()}.json").write_text(json.dumps({"sessionId": AFTER_CLEAR}), encoding="utf-8")
            await exchange.bell.ring(SESSION, "MARK", "[WAKE] mark")
            await exchange.waits_for_monitor(AFTER_CLEAR)

    run(exchange, scene())


@pytest.mark.parametrize("daemon_is_there", [True, False])
def test_it_ends_with_claude_code_even_if_that_was_killed(
    daemon_is_there: bool, exchange: Exchange, program: tuple[str, ...]
) -> None:
    """Nobody reads any more: it ends at once, and well, so that nothing starts it again."""

    async def scene() -> None:
        if daemon_is_there:
            await exchange.opens()
        reader, writer = os.pipe()
        process = await asyncio.create_subprocess_exec(
            *program,
            *("claude", "monitor"),
            stdin=DEVNULL,
            stdout=writer,
            env={"PATH": os.environ["PATH"], "WAKE_BRIDGE_DAEMON_STATE_DIR": str(exchange.directory)},
        )
        os.close(writer)
        await asyncio.sleep(0.5)
        assert process.returncode is None
        os.close(reader)
        async with asyncio.timeout(WITHIN):
            assert await process.wait() == 0

    run(exchange, scene())


def test_it_ends_well_when_it_is_asked_to(exchange: Exchange, program: tuple[str, ...]) -> None:
    """Claude Code ends its monitors by SIGTERM: the shell around it must not start it again."""

    async def scene() -> None:
        await exchange.opens()
        async with monitor(exchange, program) as process:
            await exchange.waits_for_monitor()
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(WITHIN):
                assert await process.wait() == 0

    run(exchange, scene())


def test_it_costs_next_to_nothing_while_it_waits(exchange: Exchange, program: tuple[str, ...]) -> None:
    """One stays in every session for hours: no library, and no processor."""

    async def scene() -> None:
        await exchange.opens()
        async with monitor(exchange, program) as process:
            await exchange.waits_for_monitor()
            waits = psutil.Process(process.pid)
            before = waits.cpu_times()
            await asyncio.sleep(2)
            after = waits.cpu_times()
            assert (after.user + after.system) - (before.user + before.system) < 0.05
            assert waits.memory_info().rss < 24 * 1024 * 1024, waits.memory_info()

    run(exchange, scene())
