"""Signed wakes: a daemon with a graph posts them, another one without a graph wakes its own panes."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from tests.namespaces import Namespaces
from tests.programs import needs
from wake_bridge.demo.sandbox import QUICK, DaemonProcess, Sandbox
from wake_bridge.testing import HUNG
from wake_bridge.testing.playground import AgentPane, Playground
from wake_bridge.testing.wake_entrance import KEY, message_wake, neo_headers, standard_headers

ALLOWED = f'{QUICK}[adapters.webhook]\nallow = ["127.0.0.0/8"]\n'


@pytest.fixture
def upstairs(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """The host with the graph, and two identities in it; no pane."""
    with Sandbox(tmp_path / "upstairs", command=program) as home:
        home.configure(ALLOWED)
        home.run("init")
        for one in ("@me", "@far"):
            home.run("agent", "add", one)
        yield home


def senders(key: str, *identities: str, **more: object) -> str:
    """A table of one sender, and where to listen."""
    told = "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    return f'\n[http]\nlisten = "127.0.0.1:0"\n[http.senders.up]\nkey = "{key}"\nidentities = {json.dumps(identities)}\n{told}'


def serving(home: Sandbox, text: str, command: str = "serve") -> tuple[DaemonProcess, int]:
    """The daemon without a graph, and its port."""
    home.configure(text)
    home.config_file.chmod(0o600)
    daemon = home.daemon(command=command)
    (told,) = daemon.waits_for_log("http_listening")
    return daemon, int(told["where"].rpartition(":")[2])


def subscribed(home: Sandbox, port: int, identity: str = "@far") -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/api/wake"
    return home.ask("subscribe", identity, "--trigger", "SENT_TO_ME", "--webhook", url, "--window", "0")


def test_a_row_on_one_host_becomes_one_submitted_wake_in_a_pane_of_another(
    upstairs: Sandbox, playground: Playground
) -> None:
    """The key is told once and copied once; nothing else ties the two together."""
    below = playground.sandbox
    agent = playground.agent("far")
    told = subscribed(upstairs, 1)
    target = f'\n[targets."@far"]\npane = "{agent.session}"\nwindow = 0\n'
    daemon, port = serving(below, QUICK + senders(told["signingKey"], "@far") + target)
    upstairs.run("update", told["subscriptionId"], "--webhook", f"http://127.0.0.1:{port}/api/wake")
    upstairs.daemon()

    message = upstairs.send("@far", "the build is red")

    upstairs.waits_for_delivery(target="@far", outcome="submitted")
    done = below.waits_for_delivery(target="@far", outcome="submitted")
    assert done["adapter"] == "tmux"
    (submit,) = agent.fake.submits()
    assert "the build is red" in submit
    assert "Check your mailbox." in submit
    assert f"Subscription: {told['subscriptionId']}" in submit
    assert message in below.run("why", message).stdout
    assert daemon.entries("wake_taken_in")[0]["sender"] == "up"

    written = b"".join(one.read_bytes() for one in below.home.rglob("*") if one.is_file() and one != below.config_file)
    said = "".join(below.run(*one, expect=None).stdout for one in (("status", "--json"), ("doctor",), ("why", "@far")))
    assert told["signingKey"].encode() not in written + said.encode()


class Line:
    """The line between two hosts: it passes requests on, is cut, or swallows the answers."""

    def __init__(self, port: int) -> None:
        self.mode = "passes"
        self._to = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def leads_to(self, port: int) -> None:
        """Where it ends now."""
        self._to = port

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                with near, suppress(OSError):
                    self._relay(near)

    def _relay(self, near: socket.socket) -> None:
        if self.mode == "is cut":
            return
        request = b""
        while b"\r\n\r\n" not in request:
            request += near.recv(65536)
        head, _, body = request.partition(b"\r\n\r\n")
        length = next(
            int(one.split(b":")[1]) for one in head.split(b"\r\n") if one.lower().startswith(b"content-length")
        )
        while len(body) < length:
            body += near.recv(65536)
        with socket.create_connection(("127.0.0.1", self._to), HUNG) as far:
            far.sendall(head + b"\r\n\r\n" + body)
            answer = b""
            while chunk := far.recv(65536):
                answer += chunk
        if self.mode == "passes":
            near.sendall(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def arrived(agent: AgentPane, subject: str) -> int:
    return sum(subject in one for one in agent.fake.submits())


def test_neither_a_cut_line_nor_a_restart_of_either_side_loses_or_doubles_a_wake(
    upstairs: Sandbox, playground: Playground
) -> None:
    """A lost answer, a line that is cut, a host that is killed and started again: once each."""
    below, agent = playground.sandbox, playground.agent("far")
    told = subscribed(upstairs, 1)
    text = QUICK + senders(told["signingKey"], "@far") + f'\n[targets."@far"]\npane = "{agent.session}"\nwindow = 0\n'
    daemon, port = serving(below, text)
    with Line(port) as line:
        upstairs.run("update", told["subscriptionId"], "--webhook", f"http://127.0.0.1:{line.port}/api/wake")
        above = upstairs.daemon()

        line.mode = "swallows"
        upstairs.send("@far", "the answer is lost")
        above.waits_for_log("receiver_failed")
        line.mode = "passes"
        upstairs.waits_for_delivery(target="@far", outcome="submitted")
        assert [one["was"] for one in daemon.waits_for_log("wake_taken_in", 2)] == ["new", "known"]
        # else the next one may join it, and the digest names the latest alone
        below.waits_for(lambda: arrived(agent, "the answer is lost"), what="the first")

        line.mode = "is cut"
        upstairs.send("@far", "the receiver was killed")
        above.waits_for_log("receiver_failed", 2)
        daemon.kill()
        _, port = serving(below, text)
        line.leads_to(port)
        line.mode = "passes"
        below.waits_for(lambda: arrived(agent, "the receiver was killed"), what="the second")

        line.mode = "is cut"
        upstairs.send("@far", "the sender was killed")
        above.waits_for_log("receiver_failed", 3)
        above.kill()
        upstairs.daemon()
        line.mode = "passes"
        below.waits_for(lambda: arrived(agent, "the sender was killed"), what="the third")
        upstairs.waits_for(
            lambda: all(one["outcome"] == "submitted" for one in upstairs.deliveries()), what="all to be proven"
        )
    for subject in ("the answer is lost", "the receiver was killed", "the sender was killed"):
        assert arrived(agent, subject) == 1, subject


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    """Two hosts in miniature. Where CI is set the programs for it must be there."""
    needs("ip", "unshare", "nsenter")
    with Namespaces() as made:
        yield made


@pytest.mark.parametrize("out", [0, pytest.param(600, marks=[pytest.mark.torture, pytest.mark.timeout(3600)])])
def test_two_hosts_with_a_cable_that_is_pulled_wake_once_each(
    upstairs: Sandbox, playground: Playground, namespaces: Namespaces, out: int
) -> None:
    """Host A has the graph, host B only `serve` and tmux; the cable is out for so many seconds, both are killed meanwhile."""
    below, agent = playground.sandbox, playground.agent("far")
    told = upstairs.ask(
        *("subscribe", "@far", "--trigger", "SENT_TO_ME", "--window", "0"),
        *("--webhook", "http://10.99.7.2:8787/api/wake"),
    )
    below.command = (*namespaces.prefix(1), *below.command)
    listen = senders(told["signingKey"], "@far").replace("127.0.0.1:0", "10.99.7.2:8787")
    listen = listen.replace("[http]", "[http]\nbehind_proxy = true")
    daemon, _ = serving(below, f'{QUICK}{listen}\n[targets."@far"]\npane = "{agent.session}"\nwindow = 0\n')
    upstairs.configure(f"{ALLOWED.replace('127.0.0.0/8', '10.99.7.0/24')}[delivery]\nadapter_timeout = 5\n")
    upstairs.command = (*namespaces.prefix(0), *upstairs.command)
    above = upstairs.daemon()

    upstairs.send("@far", "over the cable")
    below.waits_for(lambda: arrived(agent, "over the cable"), what="the first")
    namespaces.cables[0].cut()
    upstairs.send("@far", "while it was out")
    above.waits_for_log("receiver_failed")
    daemon.kill()
    below.daemon(command="serve")
    time.sleep(out / 2)
    above.kill()
    upstairs.daemon()
    time.sleep(out / 2)
    assert arrived(agent, "while it was out") == 0
    namespaces.cables[0].mend()
    # what has failed for so long is tried again after as long
    below.waits_for(lambda: arrived(agent, "while it was out"), what="the second", timeout=HUNG + 2 * out)
    upstairs.waits_for(
        lambda: all(one["outcome"] == "submitted" for one in upstairs.deliveries()), what="all to be proven"
    )
    assert [arrived(agent, one) for one in ("over the cable", "while it was out")] == [1, 1]


def test_a_daemon_with_a_graph_takes_signed_wakes_beside_its_own(playground: Playground) -> None:
    """One digest of both; the graph here is not asked about mail that lies elsewhere."""
    box, agent = playground.sandbox, playground.agent("far")
    box.run("init")
    box.run("agent", "add", "@me")
    box.enlist("@far", agent.session, window=3)
    _, port = serving(box, f"{QUICK}coalesce.window = 3\n{senders(KEY, '@far')}", "run")
    box.send("@far", "from here")
    wake = message_wake()
    body = json.dumps(wake).encode()
    assert post(port, body, standard_headers(body, wake["eventId"]) | neo_headers(body, wake)) == 202
    box.waits_for(agent.fake.submits, what="a wake")
    (submit,) = agent.fake.submits()
    assert submit.startswith("[WAKE][priority:high] 2 events for @far:")
    assert "Check your mailbox." in submit
    assert 'latest: "the build is red"' in submit


def post(port: int, body: bytes, headers: dict[str, str]) -> int:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HUNG)
    connection.request("POST", "/api/wake", body, {"Content-Type": "application/json"} | headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_where_there_is_no_graph_commands_say_so_and_answer_what_they_can(playground: Playground) -> None:
    """`status`, `doctor`, `why`, `deliveries` and `routes` answer, also when nothing runs any more."""
    box, agent = playground.sandbox, playground.agent("far")
    daemon, _ = serving(box, QUICK + senders(KEY, "@far") + f'\n[targets."@far"]\npane = "{agent.session}"\n')
    status = box.run("status").stdout
    assert "no graph: this daemon takes signed wakes" in status
    assert "listens    127.0.0.1:0, for signed wakes and the page\n" in status
    box.run("sources", "token", "ci")
    assert box.ask("status")["listenFor"] == ["wakes", "items", "page"]
    box.run("sources", "token", "ci", "--remove")
    assert "routes     1 active" in status
    checks = {one["check"]: one for one in box.lines("doctor", expect=None)}
    assert checks["graph"]["detail"] == "no graph: this daemon takes signed wakes"
    assert "from up (@far)" in checks["signed wakes"]["detail"]
    assert "signed:up:@far can wake it" in box.run("why", "@far").stdout
    assert "typed into the composer" in box.run("routes", "@far").stdout
    assert box.lines("deliveries") == []
    daemon.stop()
    assert "no graph: this daemon takes signed wakes" in box.run("status").stdout
    for command in (("inbox", "@far"), ("list",)):
        refused = box.run(*command, expect=4).stderr
        assert "no graph: this daemon takes signed wakes" in refused
    box.run("init")
    box.run("agent", "add", "@far")
    assert box.lines("inbox", "@far") == [], "nothing runs, and by now there is a graph"
