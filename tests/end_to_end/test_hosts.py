"""Two hosts that are linked by ssh: mail in the graph of one wakes an agent in a pane of the other, by a real sshd."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.namespaces import Namespaces
from tests.programs import needs
from wake_bridge.demo.sandbox import QUICK, DaemonProcess, Sandbox, end_process_with_us
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.schemas.relay import DEAD_AFTER
from wake_bridge.testing import HUNG, set_clock
from wake_bridge.testing.playground import AgentPane, Playground
from wake_bridge.testing.ssh_server import SshServer, program_in, sshd_program


@dataclass
class TwoHosts:
    """`near` has the graph, `far` the pane of `agent` (`@far`); `server` is the sshd of the far one."""

    near: Sandbox
    far: Sandbox
    server: SshServer
    agent: AgentPane

    def link(self) -> dict[str, object]:
        """Add the far host to the near one."""
        return self.near.ask("hosts", "add", "devbox", "--program", program_in(self.far))

    def waits_until(self, state: str) -> None:
        """Return when the link stands so."""
        self.near.waits_for(
            lambda: self.near.lines("hosts", "list")[0]["state"] == state, what=f"the link to be {state}"
        )

    def arrived(self, subject: str) -> int:
        """How often a subject was typed."""
        return sum(subject in one for one in self.agent.fake.submits())

    def asks(self, subject: str, *, is_item: bool = False) -> Mapping[str, Any]:
        """Send what has to be answered, mail or an item; answers the delivery of the far host, once its agent was told how."""
        if is_item:
            self.near.run("notify", "@far", "--source", "build", "--mode", "active", subject)
        else:
            self.near.send("@far", subject, "--ack-within", "5m")
        self.waits_for(subject)
        there = self.far.waits_for_delivery(hold_reason="awaiting_ack")
        assert f"Answer within 5 min: wake-bridge ack {there['id']} --lease 1" in self.agent.fake.submits()[-1]
        self.near.waits_for_delivery(hold_reason="awaiting_ack", pane="devbox")
        return there

    def are_answered(self, there: str, here: str, *, is_item: bool = False) -> None:
        """One is answered on the far host, and said twice; one on the near host: both know of both."""
        first = self.asks(there, is_item=is_item)
        mine = self.near.deliveries()[0]["id"]
        self.far.run("ack", first["id"], "--lease", str(first["lease"]))
        self.near.waits_for_delivery(id=mine, outcome="acknowledged", proof=3, pane="devbox")
        self.far.run("ack", first["id"], "--lease", str(first["lease"]))

        second = self.asks(here, is_item=is_item)
        self.near.run("ack", self.near.deliveries()[0]["id"])
        self.far.waits_for_delivery(id=second["id"], outcome="acknowledged", proof=3)

    def is_read_here(self, subject: str) -> None:
        """An item is handed over and then read on the near host, by its own id: nobody owes an answer on the far one."""
        there = self.asks(subject, is_item=True)
        (item,) = [one["id"] for one in self.near.lines("inbox", "@far") if subject in str(one)]
        self.near.run("ack", item)
        self.far.waits_for_delivery(id=there["id"], outcome="acknowledged", proof=3)

    def are_one_list(self, message: str) -> None:
        """Each command shows the agent of the far host, with its host, and how to get there."""
        self.agent.fake.shows("approval")
        needing = self.near.waits_for(lambda: self.near.ask("status")["needing"], what="the agent to need a person")
        assert (needing[0]["agentIdentity"], needing[0]["host"], needing[0]["kind"]) == ("@far", "devbox", "approval")
        way = needing[0]["way"]
        assert way.startswith("ssh -t devbox 'tmux -S ")
        assert f"@far on devbox: waits for an approval: `{way}`" in self.near.run("next").stdout
        assert [(one["host"], one["way"]) for one in self.near.lines("next")] == [("devbox", way)]
        # nothing over there has a person's ear: this host tells, once, and says how to get there
        told = self.near.home / "told"
        self.near.waits_for(
            lambda: told.exists() and "on devbox waits for an approval" in told.read_text(), what="a notice"
        )
        (notice,) = [one for one in told.read_text().splitlines() if '"approval"' in one]
        assert json.loads(notice)["body"].startswith(f"To do: `{way}`. For ")
        seen = self.near.ask("presence", "@far")
        assert (seen["state"], seen["host"], seen["where"]) == ("waitingOnApproval", "devbox", "far:0.0")
        # a host that does not answer in time is left out
        (pane, *_) = self.near.waits_for(
            lambda: [one for one in self.near.lines("panes") if one["host"] == "devbox" and one["agentIdentity"]],
            what="the panes of the far host",
        )
        assert (pane["pane"], pane["harness"], pane["agentIdentity"]) == ("far:0.0", "fake", "@far")
        (there,) = self.near.waits_for(
            lambda: [one for one in self.near.ask("why", message)["elsewhere"] if one["answers"]], what="its word"
        )
        assert (there["host"], there["deliveries"][0]["outcome"], there["deliveries"][0]["pane"]) == (
            *("devbox", "submitted", "far:0.0"),
        )
        both = {(None, "wake.delivered", "devbox"), ("devbox", "wake.delivered", "far:0.0")}
        self.near.waits_for(
            lambda: both <= {(one["host"], one["kind"], one["where"]) for one in self.near.lines("activity")},
            what="both feeds",
        )
        assert "it lives on devbox" in self.near.run("why", "@far").stdout
        checks = {one["check"]: one for one in self.near.lines("doctor", expect=None)}
        assert checks["host devbox"]["ok"] is True
        assert checks["target @far"]["ok"] is True
        # no agent is woken by tmux on this host, and there is no server
        assert checks["tmux socket"]["ok"] is None
        assert checks["tmux socket"]["detail"].endswith("; no agent here is woken by it")

    def waits_for(self, subject: str) -> None:
        """Return when it was typed."""
        self.far.waits_for(lambda: self.arrived(subject), what=subject)


@contextmanager
def two_hosts_at(directory: Path, program: tuple[str, ...], server: SshServer) -> Iterator[TwoHosts]:
    """Two of them; nothing runs yet, and nothing is linked."""
    with Playground(directory / "far", program) as playground, Sandbox(directory / "near", command=program) as near:
        agent = playground.agent("far")
        target = f'\n[targets."@far"]\npane = "{agent.session}"\nwindow = 0\n'
        playground.sandbox.configure(f"{QUICK}attention.after = 0\n{target}")
        playground.sandbox.run("init")
        desk = f'channels.desk = {{kind = "command", command = ["sh", "-c", "cat >> {near.home}/told"]}}\n'
        # it looks at no tmux server of this machine
        near.configure(f'{desk}human.notice_after = 1\nadapters.tmux.socket_name = "wbt-nobody"\n{QUICK}')
        near.run("init")
        for one in ("@me", "@far"):
            near.run("agent", "add", one)
        server.reached_from(near)
        yield TwoHosts(near, playground.sandbox, server, agent)


@pytest.fixture
def two_hosts(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[TwoHosts]:  # noqa: ARG001
    """The same, on loopback, with a login shell between that greets."""
    needs("ssh", "ssh-keygen")
    if sshd_program() is None:
        needs("sshd")
    with (
        SshServer(tmp_path / "sshd", noise="Welcome to devbox! 3 updates\n{}\n") as server,
        two_hosts_at(tmp_path, program, server) as hosts,
    ):
        yield hosts


def ssh_of(daemon: DaemonProcess) -> psutil.Process:
    """The ssh that a daemon keeps."""
    return next(iter(sshs_of(daemon)))


def sshs_of(daemon: DaemonProcess) -> list[psutil.Process]:
    """All of them: none while it waits to try again."""
    return [one for one in psutil.Process(daemon.pid).children() if one.name() == "ssh"]


def test_a_row_on_one_host_is_one_submitted_wake_in_a_pane_of_another(two_hosts: TwoHosts) -> None:
    """One command links them, one subscribes; the key is shown by nobody, and no port is opened."""
    near, far = two_hosts.near, two_hosts.far
    there = far.daemon()
    assert two_hosts.link() | {"hostname": "", "version": ""} == {
        "host": "devbox",
        "ssh": "devbox",
        "hostname": "",
        "version": "",
        "agents": ["@far"],
        "trouble": None,
    }
    here = near.daemon()
    two_hosts.waits_until("up")
    near.run("subscribe", "@far", "--trigger", "SENT_TO_ME")

    message = near.send("@far", "the build is red")

    near.waits_for_delivery(target="@far", outcome="submitted", adapter="ssh", pane="devbox")
    done = far.waits_for_delivery(target="@far", outcome="submitted", adapter="tmux")
    (submit,) = two_hosts.agent.fake.submits()
    assert "the build is red" in submit
    assert "Check your mailbox." in submit
    assert done["events"][0]["subject_key"].startswith(message)
    (linked, let_in) = (near.ask("hosts", "list"), far.ask("hosts", "list"))
    assert linked["agents"] == ["@far"]
    assert there.entries("wake_taken_in")[0]["sender"] == let_in["link"]
    assert not [one for home in (here, there) for one in psutil.Process(home.pid).net_connections("inet")]

    two_hosts.are_one_list(message)

    key = (far.state_dir / "hosts.json").read_text(encoding="utf-8").split('"whsec_')[1].partition('"')[0]
    said = "".join(
        home.run(*words, expect=None).stdout
        for home in (near, far)
        for words in (("status", "--json"), ("hosts", "list", "--json"), ("doctor",), ("why", "@far"))
    )
    assert key not in said + here.log() + there.log()
    near.run("hosts", "remove", "devbox")
    assert [far.lines("hosts", "list"), near.lines("hosts", "list")] == [[], []]


def test_a_shared_connection_that_is_there_is_used_and_none_is_left_behind(two_hosts: TwoHosts) -> None:
    """`ControlMaster auto` in the user's own configuration makes no master of the link; one that the user has made carries it."""
    near = two_hosts.near
    two_hosts.far.daemon()
    with tempfile.TemporaryDirectory(prefix="wbt-") as short:
        control = Path(short) / "control"
        with (near.home / ".ssh/config").open("a", encoding="utf-8") as config:
            config.write(f"Host *\n  ControlMaster auto\n  ControlPersist 600\n  ControlPath {control}\n")
        two_hosts.link()
        here = near.daemon()
        two_hosts.waits_until("up")
        assert ssh_of(here).net_connections("inet")
        assert not control.exists()

        ssh = str(near.home / "programs/ssh")
        master = subprocess.Popen([ssh, "-N", "-o", "ControlPersist=no", "devbox"], env=near.environment)
        end_process_with_us(master.pid)
        near.waits_for(control.exists, what="the connection to be shared")
        own = ssh_of(here)
        own.kill()
        again = near.waits_for(lambda: next((one for one in sshs_of(here) if one != own), None), what="another ssh")
        two_hosts.waits_until("up")
        assert again.net_connections("inet") == []
        here.stop()
        assert master.poll() is None
        master.terminate()
        master.wait()


def test_a_link_that_is_down_holds_its_wakes_and_nothing_is_typed_twice_when_it_is_back(two_hosts: TwoHosts) -> None:
    """Ssh is killed, sshd is gone, either daemon is killed: held with `host_away`, then told once each, with nothing done."""
    near, far = two_hosts.near, two_hosts.far
    there = far.daemon()
    two_hosts.link()
    here = near.daemon()
    two_hosts.waits_until("up")
    near.run("subscribe", "@far", "--trigger", "SENT_TO_ME")
    feed = near.home / "feed"
    with feed.open("wb") as written:
        follows = subprocess.Popen(
            [*near.command, "activity", "--follow", "--json"], env=near.environment, cwd=near.home, stdout=written
        )
    end_process_with_us(follows.pid)

    two_hosts.server.close()
    ssh_of(here).kill()
    two_hosts.waits_until("down")
    for command in ("panes", "activity", "next"):
        assert "note: devbox does not answer: what is there is left out" in near.run(command).stderr
    message = near.send("@far", "no sshd")
    held = near.waits_for_delivery(target="@far", hold_reason="host_away")
    assert held["pane"] == "devbox"
    assert held["remedy"].startswith("nothing to do: wake-bridge tries devbox again by itself (ssh ended with ")
    told = near.home / "told"
    near.waits_for(lambda: told.exists() and "cannot be woken (host_away)" in told.read_text(), what="the notice")
    said = "devbox, where @far lives, cannot be reached (ssh ended with "
    for words in (("why", message), ("why", "@far"), ("status",)):
        assert said in near.run(*words).stdout
    two_hosts.server.start()
    two_hosts.waits_for("no sshd")

    there.kill()
    two_hosts.waits_until("no_daemon")
    near.send("@far", "no daemon there")
    near.waits_for(lambda: "no daemon runs there" in str(near.deliveries()[0]["hold_detail"]), what="the reason")
    without_graph = far.daemon(command="serve")
    assert not psutil.Process(without_graph.pid).net_connections("inet")
    two_hosts.waits_for("no daemon there")

    here.kill()
    near.send("@far", "no daemon here")
    near.daemon()
    two_hosts.waits_for("no daemon here")
    near.waits_for(lambda: all(one["outcome"] == "submitted" for one in near.deliveries()), what="all to be proven")
    sent = ("no sshd", "no daemon there", "no daemon here")
    assert [two_hosts.arrived(one) for one in sent] == [1, 1, 1]

    def delivered() -> list[str]:
        entries = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
        return [one["stimulus"] for one in entries if (one["host"], one["kind"]) == ("devbox", "wake.delivered")]

    near.waits_for(lambda: len(delivered()) >= len(sent), what="the feed to go on")
    follows.kill()
    follows.wait()
    assert [sum(subject in one for one in delivered()) for subject in sent] == [1, 1, 1]


def test_mail_that_has_to_be_answered_is_answered_on_either_host(tmp_path: Path, tmux_program: str) -> None:  # noqa: ARG001
    """The far agent is told its deadline and its lease, and what it answers ends the wait here: over a link that breaks, too.

    What is answered here ends it there, of an item from outside as well. What nobody answers passes to the person of the host with the graph alone, once.
    """
    slept = {side: tmp_path / side for side in ("near", "far")}
    with (
        SshServer(tmp_path / "sshd") as server,
        two_hosts_at(tmp_path / "hosts", (sys.executable, *set_clock.COMMAND), server) as hosts,
    ):
        near, far = hosts.near, hosts.far
        told = {"near": near.home / "told", "far": tmp_path / "told"}
        for sandbox, side in ((near, "near"), (far, "far")):
            slept[side].write_text("0", encoding="ascii")
            told[side].touch()
            sandbox.environment[set_clock.SLEPT] = str(slept[side])
            channel = f'channels.desk = {{kind = "command", command = ["sh", "-c", "cat >> {told[side]}"]}}\n'
            more = channel if side == "far" else "sources.build.ack_within = 300.0\n"
            was = sandbox.config_file.read_text(encoding="utf-8")
            sandbox.config_file.write_text(more + was, encoding="utf-8")
        far.daemon()
        hosts.link()
        here = near.daemon()
        hosts.waits_until("up")
        near.run("subscribe", "@far", "--trigger", "SENT_TO_ME")

        hosts.are_answered("Which port?", "Which host?")
        hosts.are_answered("The build is red", "The tests are red", is_item=True)
        hosts.is_read_here("The deploy is red")

        third = hosts.asks("Which branch?")
        hosts.server.close()
        ssh_of(here).kill()
        far.run("ack", third["id"], "--lease", str(third["lease"]))
        here.kill()
        near.daemon()
        hosts.waits_until("down")
        assert near.deliveries()[0]["holdReason"] == "awaiting_ack"
        hosts.server.start()
        near.waits_for(lambda: near.deliveries()[0]["outcome"] == "acknowledged", what="the answer to arrive")

        fourth = hosts.asks("Which door?")
        for side in ("far", "near"):
            slept[side].write_text("310", encoding="ascii")
        near.waits_for_delivery(outcome="escalated", pane="devbox")
        far.waits_for_delivery(id=fourth["id"], outcome="escalated")
        assert "no longer in force" in far.run("ack", fourth["id"], "--lease", str(fourth["lease"]), expect=7).stderr
        assert told["far"].read_text(encoding="utf-8") == ""
        assert told["near"].read_text(encoding="utf-8").count("did not answer within 5 min") == 1
        # a person has it: on whichever host
        far.run("ack", fourth["id"])
        near.waits_for_delivery(outcome="escalated", proof=3)
        assert near.ask("status")["notices"] == []
        assert [len(one.deliveries()) for one in (near, far)] == [7, 7]
        assert len(hosts.agent.fake.submits()) == 7


def test_who_asks_the_relay_without_its_key_wakes_nobody(two_hosts: TwoHosts) -> None:
    """What is said on a terminal is refused; what is signed by another key, or for somebody who lives elsewhere, as well."""
    from wake_bridge.schemas.relay import read
    from wake_bridge.testing.wake_entrance import message_wake

    far, near = two_hosts.far, two_hosts.near
    assert "not with a terminal or a file" in far.run("relay", expect=2).stderr
    for program, why in (
        ("/no/such/wake-bridge", "wake-bridge was not found there"),
        ("/bin/echo", "what was started there has ended: it is no wake-bridge that has links"),
        (
            "/bin/sh -c 'echo error: there is no command relay >&2; echo hint: help >&2; exit 2' #",
            "there is no command relay",
        ),
    ):
        assert why in near.run("hosts", "add", "devbox", "--program", program, expect=1).stderr
    long = near.run("hosts", "add", "d" * 65, "--ssh", "devbox", expect=2).stderr
    assert "at most 64 characters" in long
    itself = near.run("hosts", "add", "devbox", "--program", program_in(near), expect=2).stderr
    assert "ssh leads back to this host" in itself
    assert near.lines("hosts", "list") == []
    far.daemon()
    two_hosts.link()
    link = far.ask("hosts", "list")["link"]
    body = json.dumps(message_wake())
    hello = {"frame": "hello", "protocol": 1, "link": link}
    wakes = [
        {"frame": "wake", "id": 1, "body": body, "signature": "0" * 64},
        {"frame": "ask", "id": 2, "command": "poke"},
        {"frame": "of-a-later-release", "id": 3},
    ]
    lines = "".join(f"{json.dumps(one)}\n" for one in [hello, *wakes])
    relay = subprocess.Popen(
        [*far.command, "relay"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=far.environment, cwd=far.home
    )
    assert relay.stdin is not None
    assert relay.stdout is not None
    relay.stdin.write(lines.encode())
    relay.stdin.flush()
    answers: dict[int, Mapping[str, Any]] = {}
    while len(answers) < 2:
        line = relay.stdout.readline()
        if line.strip() and (frame := read(line))["frame"] == "answer":
            answers[frame["id"]] = frame
    relay.stdin.close()
    assert relay.wait(30) == 0
    relay.stdout.close()
    assert answers[1]["status"] == 401
    assert answers[2]["status"] == 404
    assert far.deliveries() == []
    assert (far.state_dir / "hosts.json").stat().st_mode & 0o077 == 0


def test_a_pane_that_leads_to_another_host_says_what_to_do(two_hosts: TwoHosts, tmux: PrivateTmux) -> None:
    """What runs behind ssh cannot be seen from here: wake-bridge must run there, and the hosts be linked by what is printed."""
    near = two_hosts.near
    command = [str(near.home / "programs/ssh"), "-tt", "-l", getpass.getuser(), "devbox", "echo there; cat"]
    pane = tmux.new_pane(command, session="far-away")
    tmux.waits_until(pane, lambda look: "there" in look.text, what="the other host")
    near.configure(f'{QUICK}[adapters.tmux]\nsocket_name = "{tmux.socket_name}"\n')
    said = near.run("panes").stdout
    assert (
        "note: far-away:0.0: ssh. An agent behind it lives on the other host: run wake-bridge there, then `wake-bridge hosts add"
        in said
    )
    (printed,) = re.findall(r"`wake-bridge (hosts add devbox [^`]+)`", near.run("panes", "--json").stdout)
    # `wake-bridge` is not on the PATH over there, as it is where somebody has installed it
    near.run(*shlex.split(printed), "--program", program_in(two_hosts.far))
    assert near.ask("hosts", "list")["host"] == "devbox"


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("out", [3, 30, 300])
def test_two_hosts_in_namespaces_with_a_cable_that_is_pulled_wake_once_each(
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
    out: int,
) -> None:
    """The sshd listens in one namespace, the daemon with the graph runs in the other; the cable is out for so many seconds."""
    needs("ssh", "ip", "unshare", "nsenter")
    with (
        Namespaces() as namespaces,
        SshServer(tmp_path / "sshd", "10.99.7.2", namespaces.prefix(1)) as server,
        two_hosts_at(tmp_path, program, server) as hosts,
    ):
        hosts.near.command = (*namespaces.prefix(0), *hosts.near.command)
        hosts.far.daemon()
        hosts.link()
        hosts.near.daemon()
        hosts.waits_until("up")
        hosts.near.run("subscribe", "@far", "--trigger", "SENT_TO_ME")
        hosts.near.send("@far", "over the cable")
        hosts.waits_for("over the cable")
        namespaces.cables[0].cut()
        hosts.near.send("@far", "while it was out")
        time.sleep(out)
        assert hosts.arrived("while it was out") == 0
        if out > DEAD_AFTER:
            assert hosts.near.ask("hosts", "list")["state"] == "down"
        namespaces.cables[0].mend()
        hosts.far.waits_for(lambda: hosts.arrived("while it was out"), what="the second", timeout=HUNG + 2 * out)
        hosts.near.waits_for(
            lambda: all(one["outcome"] == "submitted" for one in hosts.near.deliveries()), what="all to be proven"
        )
        assert [hosts.arrived(one) for one in ("over the cable", "while it was out")] == [1, 1]
