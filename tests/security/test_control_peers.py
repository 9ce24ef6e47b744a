"""The control socket: whose it is, and what no client can do to the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.control import client as control_socket
from wake_bridge.control import peer
from wake_bridge.control import server as control_server
from wake_bridge.control.client import ask, reachable
from wake_bridge.control.server import AT_ONCE, LONGEST_REQUEST, ControlServer
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.errors import NotRunning, OperationFailed
from wake_bridge.testing import HUNG


@pytest.fixture
def state() -> Iterator[Path]:
    """A directory that another user can reach, if its mode says so."""
    with tempfile.TemporaryDirectory(prefix="wbs-") as directory:
        yield Path(directory)


async def _answer(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"ok": True, "long": "x" * 300_000}


def served(state: Path, act: Callable[[], Awaitable[None]]) -> None:
    """Do something while a control server runs, which must still answer afterwards."""

    async def run() -> None:
        server = ControlServer(state, {"poke": _answer})
        await server.start()
        try:
            await act()
            assert (await asyncio.to_thread(ask, state, "poke"))["ok"]
        finally:
            await server.stop()

    asyncio.run(run())


def connected(state: Path) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel.settimeout(HUNG)
    deadline = time.monotonic() + HUNG
    with reachable(state) as path:
        while True:
            try:
                channel.connect(path)
            except BlockingIOError:
                # the queue before the daemon's door is full
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return channel


def said_to(state: Path, request: bytes) -> bytes:
    """What one client hears; empty if it is hung up on."""
    with connected(state) as channel:
        try:
            channel.sendall(request)
            return channel.makefile("rb").readline()
        except (BrokenPipeError, ConnectionResetError):
            return b""


AS_NOBODY = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
channel.settimeout(20)
if sys.argv[2] == "listen":
    channel.bind(sys.argv[1])
    channel.listen(1)
    print("listening", flush=True)
    served, _ = channel.accept()
    print("heard", served.recv(1000), flush=True)
    sys.exit()
try:
    channel.connect(sys.argv[1])
    channel.sendall(b'{"command":"poke"}\\n')
    print("said", channel.recv(1000))
except OSError as refusal:
    print("refused", refusal.strerror)
"""


def as_nobody(state: Path, act: str) -> subprocess.Popen[str]:
    """A process of another user that connects to the socket, or listens in its place."""
    where = str(state / control_socket.SOCKET_NAME)
    return subprocess.Popen([sys.executable, "-c", AS_NOBODY, where, act], stdout=subprocess.PIPE, text=True, cwd="/")


def heard_by_nobody(state: Path) -> str:
    """What another user hears who connects."""
    with as_nobody(state, "connect") as process:
        answer, _ = process.communicate(timeout=HUNG)
    return answer.strip()


def test_another_user_cannot_reach_the_socket_and_is_hung_up_on_where_he_can(state: Path) -> None:
    """0700/0600, and behind that the kernel is asked who the peer is."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")

    async def act() -> None:
        assert await asyncio.to_thread(heard_by_nobody, state) == "refused Permission denied"
        await asyncio.to_thread(state.chmod, 0o711)
        assert await asyncio.to_thread(heard_by_nobody, state) == "refused Permission denied"
        await asyncio.to_thread((state / control_socket.SOCKET_NAME).chmod, 0o666)
        hung_up = await asyncio.to_thread(heard_by_nobody, state)
        assert hung_up in {"said b''", "refused Connection reset by peer", "refused Broken pipe"}

    served(state, act)


def test_a_command_tells_nothing_to_a_socket_that_another_user_listens_on(state: Path) -> None:
    """A socket planted in our place learns nothing and answers nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    state.chmod(0o777)
    with as_nobody(state, "listen") as planted:
        assert planted.stdout is not None
        assert planted.stdout.readline() == "listening\n"

        with pytest.raises(OperationFailed, match="another user listens"):
            ask(state, "presence", identity="@secret")

        assert planted.stdout.readline() == "heard b''\n"


def test_the_kernels_word_decides_who_the_peer_is(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SO_PEERCRED; without root the answer is turned instead of the user."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer.uid_of_peer(one) == os.geteuid()
        assert peer.is_ours(other)
    monkeypatch.setattr(control_server, "is_ours", lambda _: False)

    async def run() -> bytes:
        server = ControlServer(state, {"poke": _answer})
        await server.start()
        try:
            return await asyncio.to_thread(said_to, state, b'{"command":"poke"}\n')
        finally:
            await server.stop()

    assert asyncio.run(run()) == b""


MALFORMED = {
    "nothing": b"\n",
    "no JSON": b"\xff\xfe{]\n",
    "a list": b"[1, 2]\n",
    "a number": b"7\n",
    "no command": b"{}\n",
    "an unknown command": b'{"command": "rm -rf"}\n',
    "a command that is no text": b'{"command": {"a": 1}}\n',
    "deeply nested": b"[" * 60_000 + b"\n",
    "a lone surrogate": b'{"command": "\\ud800"}\n',
    "a number of 5000 digits": b"9" * 5000 + b"\n",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_request_is_answered_with_what_is_known(state: Path, what: str) -> None:
    """The daemon lives on, and says which commands there are."""

    async def act() -> None:
        answer = json.loads(await asyncio.to_thread(said_to, state, MALFORMED[what]))
        assert answer == {"error": "unknown command", "hint": "known: poke"}

    served(state, act)


def test_a_request_without_end_is_dropped_and_not_kept(state: Path) -> None:
    """Huge requests are bounded."""

    async def act() -> None:
        assert await asyncio.to_thread(said_to, state, b"x" * (LONGEST_REQUEST * 40)) == b""

    served(state, act)


def test_a_slow_client_is_hung_up_on(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends nothing, and who takes nothing, is not waited for."""
    monkeypatch.setattr(control_server, "ASKING_TIME", 0.3)
    monkeypatch.setattr(control_server, "ANSWERING_TIME", 0.3)

    async def act() -> None:
        silent, deaf = connected(state), connected(state)
        with silent, deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall(b'{"command":"poke"}\n')
            assert await asyncio.to_thread(silent.recv, 1) == b""
            await asyncio.sleep(0.5)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while part := await asyncio.to_thread(deaf.recv, 1 << 20):
                    got += part
            assert len(got) < 300_000

    served(state, act)


def test_many_clients_at_once_are_bounded(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a few at once are hung up on, and room is made again."""
    monkeypatch.setattr(control_server, "ASKING_TIME", 2 * HUNG)

    async def act() -> None:
        clients = [connected(state) for _ in range(AT_ONCE)]
        await asyncio.sleep(0.2)
        assert await asyncio.to_thread(said_to, state, b'{"command":"poke"}\n') == b""
        for client in clients:
            client.close()
        await asyncio.sleep(0.2)

    served(state, act)


def test_the_running_daemon_outlives_all_of_it(tmp_path: Path, program: tuple[str, ...]) -> None:
    """The same on the installed daemon, 200 clients and every malformed request."""
    with Sandbox(tmp_path, command=program) as box:
        box.run("init")
        daemon = box.daemon()
        crowd = [connected(box.state_dir) for _ in range(200)]
        for request in MALFORMED.values():
            said_to(box.state_dir, request)
        said_to(box.state_dir, b"x" * (LONGEST_REQUEST * 40))
        for one in crowd:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()
        deadline = time.monotonic() + HUNG
        while True:
            try:
                found = ask(box.state_dir, "status")
                break
            except (NotRunning, OperationFailed):
                assert time.monotonic() < deadline
                time.sleep(0.1)

        assert found["pid"] == daemon.pid
        assert box.ask("status")["running"] == "yes"
        assert "Traceback" not in daemon.log()
        assert daemon.stop() == 0


def test_clients_that_wait_leave_the_places_of_the_others_free(state: Path) -> None:
    """Monitors of harnesses wait for half a minute each: no command is hung up on for that."""
    asked: list[str] = []

    async def wait(request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(str(request["command"]))
        await asyncio.sleep(2 * HUNG)
        return {}

    async def run() -> None:
        server = ControlServer(state, {"poke": _answer, "monitor": wait}, {"monitor"})
        await server.start()
        try:
            with contextlib.ExitStack() as held:
                for _ in range(AT_ONCE + 10):
                    channel = held.enter_context(await asyncio.to_thread(connected, state))
                    channel.sendall(b'{"command":"monitor"}\n')
                await _until(lambda: len(asked) == AT_ONCE + 10)
                assert (await asyncio.to_thread(ask, state, "poke"))["ok"]
            # all of them have hung up, and nobody waits for them any longer
            await _until(lambda: server._waiting == 0)
        finally:
            await server.stop()

    asyncio.run(run())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(HUNG):
        while not condition():  # noqa: ASYNC110 - the condition is the server's own
            await asyncio.sleep(0.01)
