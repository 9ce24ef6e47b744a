"""Every remedy of a hold in a real pane is taken literally, and the hold ends.

What stands between back-quotes is run as it is printed, in a shell within the same tmux; what a person is asked to do in
the pane is done with keys. All are held at the same time by one daemon; each test judges what was seen of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.integration.tmux.far_terminal import SCRIPT
from tests.nursery import shell_program
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.causes import Cause, HoldReason, cause_written
from wake_bridge.domain.delivery import Hold, Step
from wake_bridge.domain.names import Identity
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.playground import BUNDLED, AgentPane, Playground

ROOT: Final = Path(__file__).parents[2]
CONFIG: Final = f"""{QUICK}
limits.wakes_per_hour = 1

[targets."@misnamed"]
pane = "misnamed"
harness = "nonesuch"

[targets."@unserved"]
adapter = "claude"
pane = "unserved"

[adapters]
claude.enabled = false
codex.enabled = false
"""


OWN_RULE: Final = "too-much"
OWN_PROFILE: Final = f"""
[[rules]]
name = "{OWN_RULE}"
state = "unknown"
region = "above"
rows = 200
contains = "fake harness · ruled"
"""
"""A rule of a person's own, which takes what always stands on one agent's screen for something else."""


@dataclass
class Room:
    """All of it: the world, its agents, and a graph that is written to like the services do."""

    world: Playground
    core: MemoryCore
    is_left_alone: threading.Event = field(default_factory=threading.Event)

    @property
    def own_profile(self) -> Path:
        """Where a person's own profile of the fake harness lies."""
        return self.world.sandbox.config_file.parent / "screens/fake.toml"

    def agent(self, name: str) -> AgentPane:
        """The agent of that name."""
        return self.world.agents[name]

    def keys(self, pane: str, *keys: str) -> None:
        """What a person presses in a pane."""
        self.world.tmux.run("send-keys", "-t", pane, *keys)

    def shell(self, command: str, pane: str = "") -> str:
        """What a command prints that is run as it was printed, in a shell of the same tmux; `pane` is where that shell runs."""
        tmux, sandbox = self.world.tmux, self.world.sandbox
        environment = {
            **sandbox.environment,
            "PATH": f"{shell_program(self.world.directory / 'bin')}:{os.environ['PATH']}",
            "TMUX": f"{tmux.socket_path},{tmux.server_pid},0",
            **({"TMUX_PANE": pane} if pane else {}),
        }
        words = ["sh", "-c", command]
        return subprocess.run(
            words, check=True, env=environment, cwd=sandbox.home, capture_output=True, text=True
        ).stdout

    def reconfigure(self, old: str, new: str) -> None:
        """A person changes the configuration, and has the daemon read it."""
        file = self.world.sandbox.config_file
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        self.world.sandbox.daemons[-1].reload()


Put = Callable[[Room, AgentPane], None]
Take = Callable[[Room, AgentPane, str], None]


def _shows(mode: str, text: str = "") -> Put:
    return lambda _, agent: agent.fake.shows(mode, text)


def _presses(*keys: str) -> Take:
    return lambda room, agent, _: room.keys(agent.id, *keys)


def _runs_it(room: Room, _: AgentPane, remedy: str) -> None:
    (command,) = re.findall(r"`([^`]+)`", remedy)
    room.shell(command)


def _runs_it_there(room: Room, agent: AgentPane, remedy: str) -> None:
    command, *_ = re.findall(r"`(wake-bridge bind [^`]+)`", remedy)
    room.shell(command, agent.id)


def _runs_it_elsewhere(room: Room, agent: AgentPane, remedy: str) -> None:
    """The right pane is a new one by now."""
    agent.session = "moved"
    agent.moves_in()
    _runs_it_there(room, agent, remedy)


def _tmux(*arguments: str) -> Put:
    def put(room: Room, agent: AgentPane) -> None:
        room.world.tmux.run(*(argument.replace("{pane}", agent.id) for argument in arguments))

    return put


def _has_size(width: int, height: int) -> Put:
    return _tmux("resize-window", "-t", "{pane}", "-x", str(width), "-y", str(height))


def _is_enlarged(room: Room, agent: AgentPane, _: str) -> None:
    _has_size(80, 24)(room, agent)


def _in_chorus(room: Room, agent: AgentPane) -> None:
    room.world.tmux.run("split-window", "-d", "-t", agent.id, "cat")
    room.world.tmux.run("set-option", "-w", "-t", agent.id, "synchronize-panes", "on")


def _dies(room: Room, agent: AgentPane) -> None:
    room.world.tmux.run("set-option", "-p", "-t", agent.id, "remain-on-exit", "on")
    agent.fake.shows("crash")


def _leaves_to_its_shell(room: Room, agent: AgentPane) -> None:
    agent.fake.shows("exit")
    room.world.tmux.waits_until(agent.pane, lambda look: look.flags["pane_current_command"] == "sh", what="the shell")


def _starts_it(room: Room, agent: AgentPane, _: str) -> None:
    room.keys(agent.id, "-l", f"exec {shlex.join(agent.fake.command())}")
    room.keys(agent.id, "Enter")


def _is_typed_at(room: Room, agent: AgentPane) -> None:
    typist = room.world.tmux.attach(agent.session)
    typist.waits_until_shown()
    typist.types("x")
    typist.types("\x7f")


def _nothing(*_: object) -> None:
    pass


def _shows_another_tmux(room: Room, agent: AgentPane) -> None:
    tmux = room.world.tmux
    tmux.run("new-session", "-d", "-s", "inside", "cat")
    attach = f"exec env -u TMUX TERM=screen-256color tmux -S {tmux.socket_path} attach-session -t inside"
    tmux.run("respawn-pane", "-k", "-t", agent.id, attach)


def _is_in_a_container(room: Room, agent: AgentPane) -> None:
    docker = room.world.directory / "docker"
    docker.write_text(SCRIPT.format(python=sys.executable), encoding="utf-8")
    docker.chmod(0o755)
    line = f"exec env PYTHONPATH={ROOT} {docker} exec -it box {shlex.join(agent.fake.command())}"
    starts = len(agent.fake.events("started"))
    room.world.tmux.run("respawn-pane", "-k", "-t", agent.id, line)
    agent.fake.waits_for("started", starts + 1)


def _says_which_agent(room: Room, agent: AgentPane, remedy: str) -> None:
    (line,) = re.findall(r"`(harness = [^`]+)`", remedy)
    room.reconfigure("[adapters]", f'[targets."@{agent.name}"]\npane = "{agent.name}"\n{line}\n\n[adapters]')


def _has_unread_keys(room: Room, agent: AgentPane) -> None:
    room.world.tmux.run("respawn-pane", "-k", "-t", agent.id, f"exec {shlex.join(agent.fake.command('--deaf'))}")
    room.world.tmux.waits_until(agent.pane, lambda look: "fake harness" in look.text, 30, "its screen")
    room.keys(agent.id, "-l", "hello")


def _starts_another(room: Room, agent: AgentPane, _: str) -> None:
    room.world.tmux.run("respawn-pane", "-k", "-t", agent.id, f"exec {shlex.join(agent.fake.command())}")


def _sends_it(room: Room, agent: AgentPane, _: str) -> None:
    """A person presses Enter until the text is gone."""

    def is_gone() -> bool:
        if not agent.fake.submits():
            room.keys(agent.id, "Enter")
        return bool(agent.fake.submits())

    room.world.sandbox.waits_for(is_gone, what="the text to go")


def _has_a_twin(room: Room, agent: AgentPane) -> None:
    twin = FakeHarness(room.world.directory, "twin")
    line = f"exec {shlex.join(twin.command())}"
    room.world.tmux.run("new-window", "-d", "-t", f"{agent.session}:", line)
    twin.control(30)


def _loses_its_bound_pane(room: Room, agent: AgentPane) -> None:
    room.shell(f"wake-bridge bind @{agent.name} --pane {agent.id}")
    room.world.tmux.run("kill-pane", "-t", agent.id)


def _is_looked_in_at(room: Room, agent: AgentPane) -> None:
    """A client that presses no key is brought there again and again, as by `wake-bridge next`."""
    tmux = room.world.tmux
    tmux.attach(agent.session).waits_until_shown()
    client = tmux.run("list-clients", "-t", agent.session, "-F", "#{client_name}").strip()

    def looks_in() -> None:
        while not room.is_left_alone.wait(0.3):
            tmux.run("switch-client", "-c", client, "-t", f"={agent.session}")

    threading.Thread(target=looks_in, daemon=True).start()


def _corrects_its_rule(room: Room, _: AgentPane, remedy: str) -> None:
    """The command that is named shows by which rule; a person takes it out of their profile."""
    (command,) = re.findall(r"`([^`]+)`", remedy)
    assert OWN_RULE in room.shell(command)
    room.own_profile.write_text(BUNDLED.read_text(encoding="utf-8"), encoding="utf-8")
    room.world.sandbox.daemons[-1].reload()


@dataclass(frozen=True)
class Row:
    """What stands in the way of one agent's mail, the cause that is met then, and how its remedy is taken."""

    cause: Cause
    put: Put
    take: Take
    options: tuple[str, ...] = ()
    mails: int = 1
    under_shell: bool = False
    pane: str | None = None


C = Cause
ROWS: Final[Mapping[str, Row]] = {
    "dialog": Row(C.WAITING_ON_APPROVAL, _shows("approval"), _presses("n")),
    "draft": Row(C.USER_TYPING, _shows("draft", "half a thought"), _presses("Enter")),
    "typist": Row(C.CLIENT_KEY, _is_typed_at, _nothing),
    "bang": Row(C.SHELL_MODE, _shows("shell"), _presses("Escape")),
    "vim": Row(C.NOT_AT_REST, _shows("vim-normal"), _presses("i")),
    "menu": Row(C.NO_COMPOSER, _shows("menu"), _presses("Escape")),
    "narrow": Row(C.TOO_SMALL, _has_size(10, 24), _is_enlarged),
    "low": Row(C.TOO_SMALL, _has_size(80, 2), _is_enlarged),
    "copymode": Row(C.COPY_MODE, _tmux("copy-mode", "-t", "{pane}"), _presses("q")),
    "dead": Row(C.PANE_DEAD, _dies, _runs_it),
    "deaf": Row(C.INPUT_OFF, _tmux("select-pane", "-d", "-t", "{pane}"), _runs_it),
    "chorus": Row(C.SYNCHRONIZED, _in_chorus, _runs_it),
    "shell": Row(C.NO_AGENT, _leaves_to_its_shell, _starts_it, under_shell=True),
    "nested": Row(C.OWN_PANES, _shows_another_tmux, _runs_it_elsewhere),
    "boxed": Row(C.HIDDEN_BY_CARRIER, _is_in_a_container, _says_which_agent),
    "misnamed": Row(
        C.NO_PROFILE,
        _nothing,
        lambda room, *_: room.reconfigure('harness = "nonesuch"', 'harness = "fake"'),
    ),
    "gone": Row(C.NO_SUCH_PANE, _tmux("kill-pane", "-t", "{pane}"), _runs_it_elsewhere),
    "unsaid": Row(C.NO_PLACE, _nothing, _runs_it_there, pane=""),
    "twins": Row(C.AMBIGUOUS, _nothing, _runs_it_there),
    "staged": Row(C.STAGED, _nothing, _sends_it, options=("--swallow-enter", "5")),
    "unserved": Row(
        C.NO_ADAPTER, _nothing, lambda room, *_: room.reconfigure('adapter = "claude"', 'adapter = "tmux"')
    ),
    "spent": Row(C.BUDGET, _nothing, _runs_it, mails=2),
    "fenced": Row(
        C.DRIVER_OPTION,
        _tmux("set-option", "-p", "-t", "{pane}", "@wake_bridge_driver", "somebody"),
        _runs_it,
    ),
    "hung": Row(C.UNREAD_INPUT, _has_unread_keys, _starts_another),
    "bound": Row(C.UNREACHABLE, _loses_its_bound_pane, _runs_it_elsewhere, pane=""),
    "visited": Row(C.SESSION_TOUCHED, _is_looked_in_at, lambda room, *_: room.is_left_alone.set()),
    "ruled": Row(C.OTHER, _nothing, _corrects_its_rule),
}


@dataclass
class Seen:
    """What was seen of one row: the hold, what it told a person, what became of it."""

    hold: Hold | None = None
    remedy: str = ""
    ended: list[str | None] = field(default_factory=list)
    submits: int = 0


@pytest.fixture(scope="module")
def seen(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[dict[str, Seen]]:
    """Hold them all, take every remedy, and look what becomes of them."""
    with Playground(tmp_path_factory.mktemp("remedies"), program) as world:
        world.sandbox.configure(CONFIG)
        world.sandbox.graph.parent.mkdir(parents=True)
        with MemoryCore.create(world.sandbox.graph, ["@me", *(f"@{name}" for name in ROWS)]) as core:
            core.set("@me", "accountType", "human")
            yield _course(Room(world, core))


def _course(room: Room) -> dict[str, Seen]:
    room.own_profile.parent.mkdir()
    room.own_profile.write_text(BUNDLED.read_text(encoding="utf-8") + OWN_PROFILE, encoding="utf-8")
    _move_in(room)
    sandbox = room.world.sandbox
    sandbox.daemon()
    for name, row in ROWS.items():
        row.put(room, room.agent(name))
        for number in range(row.mails):
            room.core.send("@me", f"@{name}", f"mail {number}")
            if number + 1 < row.mails:
                room.agent(name).fake.waits_for("submit")
    seen = {name: Seen() for name in ROWS}
    # each is looked at in every round
    with suppress(TimeoutError):
        sandbox.waits_for(lambda: sum(_held(room, name, seen[name]) for name in ROWS) == len(ROWS), what="every hold")
    waiting = [name for name in ROWS if seen[name].hold is not None]
    for name in waiting:
        ROWS[name].take(room, room.agent(name), seen[name].remedy)
    with suppress(TimeoutError):
        sandbox.waits_for(
            lambda: sum(_ended(room, name, seen[name]) for name in waiting) == len(waiting), 60, "every end"
        )
    for name in ROWS:
        seen[name].submits = len(room.agent(name).fake.submits())
    return seen


def _move_in(room: Room) -> None:
    world = room.world
    world.together(lambda name: world.agent(name, *ROWS[name].options, under_shell=ROWS[name].under_shell), list(ROWS))
    for name, row in ROWS.items():
        pane = name if row.pane is None else row.pane
        place = {"appName": "", "adapter": "tmux", "tmuxSession": pane, "coalesceWindow": 0}
        room.core.subscribe(f"@{name}", harnessTargetMetadata=place)
    # who came later would not be meant: the pane that was found first counts
    _has_a_twin(room, world.agents["twins"])


def _held(room: Room, name: str, seen: Seen) -> bool:
    """Whether the row's hold was written down; it is kept the first time."""
    if seen.hold is not None:
        return True
    with closing(LedgerStore.open(room.world.sandbox.state_dir, read_only=True)) as ledger:
        deliveries = ledger.deliveries(state=None, identity=Identity(f"@{name}"), limit=10)
        steps = [step for one in deliveries for step in ledger.journal_of(one.id) if step.step is Step.HELD]
        now = [one.hold for one in deliveries if one.hold is not None]
    row = ROWS[name]
    for hold in (*now, *(_told_by(one.detail) for one in steps)):
        if hold.cause is row.cause:
            seen.hold, seen.remedy = hold, hold.remedy(Identity(f"@{name}"))
            return True
    return False


def _told_by(line: Mapping[str, str]) -> Hold:
    return Hold(HoldReason(line["reason"]), line["detail"], line["where"], cause=cause_written(line["cause"]))


def _ended(room: Room, name: str, seen: Seen) -> bool:
    with closing(LedgerStore.open(room.world.sandbox.state_dir, read_only=True)) as ledger:
        deliveries = ledger.deliveries(state=None, identity=Identity(f"@{name}"), limit=10)
    seen.ended = [one.outcome or (f"{one.hold.reason}: {one.hold.detail}" if one.hold else None) for one in deliveries]
    return all(one.state.is_terminal for one in deliveries)


PAUSES: Final[Mapping[Cause, tuple[str, ...]]] = {
    Cause.PAUSED: ("pause @ada",),
    Cause.ALL_PAUSED: ("pause --all",),
    Cause.BOTH_PAUSED: ("pause @ada", "pause --all --for 1h"),
}
"""What a person has paused, by the cause that is met then."""


@pytest.fixture(scope="module")
def paused(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Iterator[Room]:
    """One agent, and a daemon."""
    with Playground(tmp_path_factory.mktemp("paused"), program) as world:
        world.sandbox.run("init")
        world.enlisted("ada")
        world.sandbox.daemon()
        with MemoryCore(world.sandbox.graph) as core:
            yield Room(world, core)


@pytest.mark.parametrize("cause", list(PAUSES))
def test_the_remedy_of_a_pause_follows_whose_pause_it_is(paused: Room, cause: Cause) -> None:
    """After `pause --all` a `resume @x` changes nothing."""
    sandbox = paused.world.sandbox
    for command in PAUSES[cause]:
        sandbox.run(*command.split())
    sandbox.send("@ada", "mail")
    held = sandbox.waits_for_delivery(hold_reason="paused")
    assert held["cause"] == cause

    for command in re.findall(r"`([^`]+)`", held["remedy"]):
        paused.shell(command)

    assert sandbox.waits_for_delivery(id=held["id"], state="DELIVERED")["outcome"] == "submitted"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", list(ROWS))
def test_a_remedy_that_is_taken_literally_ends_the_hold(seen: dict[str, Seen], name: str) -> None:
    """A remedy that cannot help is a kind of fault of its own."""
    one, row = seen[name], ROWS[name]

    assert one.hold is not None, f"never held by {row.cause}: {one.ended}"
    assert one.ended == ["submitted"] * row.mails, (one.hold, one.remedy)
    assert one.submits >= row.mails
