"""What stands in the way of a wake: nothing is typed, the true reason is told, and it comes once the way is free.

All obstacles are met at the same time by one daemon; each test judges what was seen of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from wake_bridge.testing.playground import AgentPane, Playground

DRAFT: Final = "rm -rf would be a bad ide"
Act = Callable[[Playground, AgentPane], None]


@dataclass(frozen=True)
class Obstacle:
    """How it comes and goes, and what the hold must say; `{where}` stands for the pane."""

    put: Act
    lift: Act
    reason: str
    remedy: str
    under_shell: bool = False


def _shows(mode: str, text: str = "") -> Act:
    return lambda _, agent: agent.fake.shows(mode, text)


def _tmux(*arguments: str) -> Act:
    """A tmux command; `{pane}` stands for the pane's id."""
    return lambda world, agent: _run(world, [argument.replace("{pane}", agent.id) for argument in arguments])


def _run(world: Playground, arguments: list[str]) -> None:
    world.tmux.run(*arguments)


def _dies(world: Playground, agent: AgentPane) -> None:
    world.tmux.run("set-option", "-p", "-t", agent.id, "remain-on-exit", "on")
    agent.fake.shows("crash")


def _leaves_to_its_shell(world: Playground, agent: AgentPane) -> None:
    agent.fake.shows("exit")
    world.tmux.waits_until(agent.pane, lambda look: look.flags["pane_current_command"] == "sh", what="the shell")


def _comes_again(_: Playground, agent: AgentPane) -> None:
    agent.respawns()


def _goes_for_good(world: Playground, agent: AgentPane) -> None:
    world.tmux.run("kill-pane", "-t", agent.id)


def _moves_in_again(_: Playground, agent: AgentPane) -> None:
    agent.moves_in()


def _moves_to_a_longer_name(world: Playground, agent: AgentPane) -> None:
    world.tmux.run("kill-pane", "-t", agent.id)
    agent.session += "-2"
    agent.moves_in()


def _has_its_name_again(world: Playground, agent: AgentPane) -> None:
    world.tmux.run("rename-session", "-t", f"={agent.session}", agent.session.removesuffix("-2"))


OBSTACLES: Final = {
    "draft": Obstacle(
        _shows("draft", DRAFT),
        _shows("idle"),
        "userTyping",
        "send or clear the text in the composer of {where}",
    ),
    "dialog": Obstacle(_shows("approval"), _shows("idle"), "waitingOnApproval", "approval waiting: answer"),
    "busy": Obstacle(_shows("busy"), _shows("idle"), "active", "nothing to do: the agent in {where} is working"),
    "copymode": Obstacle(
        _tmux("copy-mode", "-t", "{pane}"),
        _tmux("send-keys", "-X", "-t", "{pane}", "cancel"),
        "copy_mode",
        "{where} is in copy mode: press q there",
    ),
    "dead": Obstacle(_dies, _comes_again, "pane_dead", "the program in {where} has ended"),
    "shell": Obstacle(_leaves_to_its_shell, _comes_again, "no_agent", "start the agent in {where}", under_shell=True),
    "gone": Obstacle(_goes_for_good, _moves_in_again, "unreachable", "open gone again"),
    "prefix": Obstacle(_moves_to_a_longer_name, _has_its_name_again, "unreachable", "open prefix again"),
    "deaf": Obstacle(
        _tmux("select-pane", "-d", "-t", "{pane}"),
        _tmux("select-pane", "-e", "-t", "{pane}"),
        "input_off",
        "input to {where} is switched off: `tmux select-pane -e -t {where}`",
    ),
}


QUIET: Final = ("draft", "dialog", "copymode", "dead", "shell", "prefix", "deaf")
"""Where nothing moves by itself: whatever reaches such a pane shows, also where no harness writes it down."""


@dataclass
class Seen:
    """What was seen of one obstacle: the delivery and the bytes while it stood, and after it went."""

    where: str = ""
    held: dict[str, Any] = field(default_factory=dict)
    bytes_while_held: bytes = b""
    screens: tuple[str, str] = ("", "")
    composer: str = ""
    after: list[dict[str, Any]] = field(default_factory=list)
    submits: list[str] = field(default_factory=list)


@dataclass
class Course:
    """All that was seen, and what the bystander got."""

    seen: dict[str, Seen]
    bystander_while_held: bytes
    bystander_after: bytes


@pytest.fixture(scope="module")
def course(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Iterator[Course]:
    """Run all obstacles: put them, send mail to each agent, look at the holds, lift them, look at the wakes."""
    with Playground(tmp_path_factory.mktemp("obstacles"), program) as world:
        yield _run_course(world)


def _run_course(world: Playground) -> Course:
    sandbox = world.sandbox
    sandbox.run("init")
    world.together(lambda name: world.agent(name, under_shell=OBSTACLES[name].under_shell), list(OBSTACLES))
    world.together(lambda name: sandbox.enlist(f"@{name}", name), list(OBSTACLES))
    world.add_bystander()
    sandbox.daemon()
    seen = {name: Seen(where=world.agents[name].label) for name in OBSTACLES}
    for name, obstacle in OBSTACLES.items():
        obstacle.put(world, world.agents[name])
    before = {name: world.agents[name].screen() for name in QUIET}
    world.together(lambda name: sandbox.send(f"@{name}", f"mail for {name}"), list(OBSTACLES))

    held = _first(world, lambda one: one["hold_reason"] not in {None, "unknown", "window"})
    for name, one in held.items():
        seen[name].held = one
        seen[name].bytes_while_held = world.agents[name].fake.bytes_received()
    for name in QUIET:
        seen[name].screens = (before[name], world.agents[name].screen())
    seen["draft"].composer = world.agents["draft"].fake.state()["composer"]
    bystander = world.bystander_bytes()

    for name, obstacle in OBSTACLES.items():
        obstacle.lift(world, world.agents[name])
    _first(world, lambda one: bool(one["settledAt"]))
    ended = sandbox.deliveries()
    for name in OBSTACLES:
        seen[name].after = [one for one in ended if one["target"] == f"@{name}"]
        seen[name].submits = world.agents[name].fake.submits()
    return Course(seen, bystander, world.bystander_bytes())


def _first(world: Playground, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, dict[str, Any]]:
    """The deliveries that are so, once all are; those that are after a while otherwise, for the tests to judge."""

    def so_far() -> dict[str, dict[str, Any]]:
        return {one["target"][1:]: one for one in world.sandbox.deliveries() if is_so(one)}

    try:
        return world.sandbox.waits_for(lambda: found if len(found := so_far()) == len(OBSTACLES) else None)
    except TimeoutError:
        return so_far()


@pytest.mark.parametrize("name", list(OBSTACLES))
def test_an_obstacle_holds_the_wake_with_its_true_reason(course: Course, name: str) -> None:
    """Each veto is told as what it is, with a remedy that names the pane."""
    seen, expected = course.seen[name], OBSTACLES[name]

    assert seen.held, "it was not held at all"
    assert (seen.held["state"], seen.held["hold_reason"]) == ("DISPATCHED", expected.reason), seen.held["hold_detail"]
    assert expected.remedy.format(where=seen.where) in seen.held["remedy"]
    assert seen.held["attempts"] == 0


@pytest.mark.parametrize("name", list(OBSTACLES))
def test_no_byte_reaches_a_pane_with_an_obstacle(course: Course, name: str) -> None:
    """Never over a draft, into a dialog, a reader's copy mode, a shell or somebody else's pane."""
    assert course.seen[name].held
    assert course.seen[name].bytes_while_held == b""


@pytest.mark.parametrize("name", QUIET)
def test_nothing_changes_on_the_screen_of_a_pane_with_an_obstacle(course: Course, name: str) -> None:
    """A shell would echo what is typed into it, and tmux itself answers keys in its modes."""
    before, while_held = course.seen[name].screens
    assert before.strip()
    assert while_held == before


def test_a_draft_stays_as_it_was_while_the_wake_waits(course: Course) -> None:
    """The draft is byte-identical."""
    assert course.seen["draft"].composer == DRAFT


def test_no_byte_reaches_a_bystander_before_or_after(course: Course) -> None:
    """Exactly one pane; that another one is current in its session changes nothing."""
    assert course.bystander_while_held == b""
    assert course.bystander_after == b""


@pytest.mark.parametrize("name", list(OBSTACLES))
def test_the_wake_comes_exactly_once_after_the_obstacle_has_gone(course: Course, name: str) -> None:
    """A hold waits for a safe moment, and ends by delivery."""
    (one,) = course.seen[name].after

    assert (one["state"], one["outcome"]) == ("DELIVERED", "submitted"), one["hold_reason"]
    assert [one["id"] in text for text in course.seen[name].submits] == [True]
    assert f'"mail for {name}"' in one["digest"]
