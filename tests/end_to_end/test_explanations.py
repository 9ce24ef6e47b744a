"""Why a wake waits, asked in every way there is, of real panes in every state (Presence one can trust, part 5)."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.domain.causes import HoldReason, cause_written
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import Identity
from wake_bridge.domain.reasons import held_because
from wake_bridge.testing.playground import Playground

DRAFT: Final = "rm -rf would be a bad ide"

pytestmark = pytest.mark.timeout(300)  # one course for all: fourteen agents and some fifty commands


@dataclass(frozen=True)
class Told:
    """What must be said of one state: the reason, the rule and where it saw what, the remedy; `{where}` is the pane."""

    reason: str
    state: str
    rule: str
    region: str
    saw: str
    remedy: str


STATES: Final = {
    "streaming": Told(
        "active", "active", "title-spinner", "title", "", "nothing to do: the agent in {where} is working"
    ),
    "busy": Told("active", "active", "title-spinner", "title", "", "nothing to do: the agent in {where} is working"),
    "approval": Told(
        "waitingOnApproval",
        "waitingOnApproval",
        "approval",
        "bottom",
        "Allow this command?",
        "approval waiting: answer the dialog in {where}",
    ),
    "draft": Told(
        "userTyping", "userTyping", "draft", "composer", DRAFT, "send or clear the text in the composer of {where}"
    ),
    "spaces": Told(
        "userTyping", "userTyping", "draft", "composer", "blanks", "send or clear the text in the composer of {where}"
    ),
    "bang": Told("userTyping", "userTyping", "shell-mode", "glyph", "!", "the composer of {where} is in shell mode"),
    "menu": Told(
        "unknown", "unknown", "no-composer", "composer", "the last row says", "no composer is visible in {where}"
    ),
    "copymode": Told(
        "copy_mode", "unknown", "copy-mode", "pane", "copy-mode", "{where} is in copy mode: press q there"
    ),
    "deaf": Told(
        "input_off", "unknown", "input-off", "pane", "", "input to {where} is switched off: `tmux select-pane -e"
    ),
    "chorus": Told(
        "unknown",
        "unknown",
        "synchronized",
        "pane",
        "synchronize-panes is on",
        "keys for {where} go to every pane of its window: `tmux set-option -w -t {where} synchronize-panes off`",
    ),
    "shell": Told(
        "no_agent", "unknown", "no-agent", "process", "has the terminal", "start the agent in {where}; its shell"
    ),
    "suspended": Told(
        "no_agent",
        "unknown",
        "suspended",
        "process",
        "fake is stopped, and bash has the terminal",
        "the agent in {where} is suspended: bring it back there with `fg`",
    ),
    "dead": Told("pane_dead", "unknown", "pane-dead", "pane", "", "the program in {where} has ended"),
    "gone": Told(
        "unreachable", "unknown", "unreachable", "target", "no pane is called exactly 'gone'", "open gone again, or run"
    ),
}


@dataclass
class Answers:
    """All that was said of one state."""

    where: str = ""
    presence: dict[str, Any] = field(default_factory=dict)
    words: str = ""
    delivery: dict[str, Any] = field(default_factory=dict)
    story: str = ""


@dataclass
class Interview:
    """What was said, of every state and by `status`."""

    of: dict[str, Answers]
    status: dict[str, Any]
    summary: str
    idle: tuple[dict[str, Any], str]
    after_a_turn: dict[str, Any]


@pytest.fixture(scope="module")
def interview(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Iterator[Interview]:
    """Bring agents into all states, write to each, and ask why each waits."""
    with Playground(tmp_path_factory.mktemp("explanations"), program) as world:
        yield _held_interview(world)


def _held_interview(world: Playground) -> Interview:
    sandbox = world.sandbox
    sandbox.run("init")
    residents = [name for name in STATES if name != "suspended"]
    world.together(lambda name: world.agent(name, under_shell=name == "shell"), residents)
    suspended = _behind_its_shell(world, "suspended")
    world.together(lambda name: sandbox.enlist(f"@{name}", name), list(STATES))
    idle = world.enlisted("idle")
    sandbox.daemon()
    at_rest = (sandbox.ask("presence", "@idle", "--explain"), sandbox.run("presence", "@idle", "--explain").stdout)
    answers = {name: Answers(where=world.agents[name].label) for name in residents}
    answers["suspended"] = Answers(where=suspended)
    _bring_about(world)
    world.together(lambda name: sandbox.send(f"@{name}", f"mail for {name}"), [*STATES, "idle"])
    passing = {None, "window"}
    sandbox.waits_for(
        lambda: all(
            one["hold_reason"] == STATES[one["target"][1:]].reason or one["hold_reason"] not in {*passing, "unknown"}
            for one in sandbox.deliveries()
            if one["target"] != "@idle"
        ),
        what="every wake to be held",
    )
    for one in sandbox.deliveries("--state", "held"):
        answers[one["target"][1:]].delivery = one
    world.together(lambda name: _ask(world, name, answers[name]), list(STATES))
    idle.fake.waits_for("submit")
    return Interview(
        of=answers,
        status=sandbox.ask("status"),
        summary=sandbox.run("status").stdout,
        idle=at_rest,
        after_a_turn=sandbox.ask("presence", "@idle"),
    )


def _behind_its_shell(world: Playground, name: str) -> str:
    """An agent that a person started from a shell and sent behind it; answers where."""
    fake = FakeHarness(world.directory, name)
    pane = world.tmux.new_pane(["bash", "--norc", "--noprofile", "-i"], session=name, width=200)
    world.tmux.run("send-keys", "-t", str(pane.pane_id), "-l", shlex.join(fake.command()))
    world.tmux.run("send-keys", "-t", str(pane.pane_id), "Enter")
    fake.control(20)
    os.kill(int(fake.events("started")[-1]["pid"]), signal.SIGSTOP)
    world.tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] == "bash", what="the shell")
    label = "#{session_name}:#{window_index}.#{pane_index}"
    return world.tmux.run("display-message", "-p", "-t", str(pane.pane_id), label).strip()


def _bring_about(world: Playground) -> None:
    agents, tmux = world.agents, world.tmux
    for mode in ("streaming", "busy", "approval", "menu"):
        agents[mode].fake.shows(mode)
    agents["draft"].fake.shows("draft", DRAFT)
    agents["spaces"].fake.shows("draft", "   ")
    agents["bang"].fake.shows("shell", "ls")
    tmux.run("copy-mode", "-t", agents["copymode"].id)
    tmux.run("select-pane", "-d", "-t", agents["deaf"].id)
    tmux.run("split-window", "-d", "-t", agents["chorus"].id, "cat")
    tmux.run("set-option", "-w", "-t", agents["chorus"].id, "synchronize-panes", "on")
    agents["shell"].fake.shows("exit")
    tmux.waits_until(agents["shell"].pane, lambda look: look.flags["pane_current_command"] == "sh", what="the shell")
    tmux.run("set-option", "-p", "-t", agents["dead"].id, "remain-on-exit", "on")
    agents["dead"].fake.shows("crash")
    tmux.run("kill-pane", "-t", agents["gone"].id)


def _ask(world: Playground, name: str, answers: Answers) -> None:
    sandbox = world.sandbox
    answers.presence = sandbox.ask("presence", f"@{name}", "--explain")
    answers.words = sandbox.run("presence", f"@{name}", "--explain").stdout
    answers.story = sandbox.run("deliveries", "show", answers.delivery["id"]).stdout


def _held_by(delivery: dict[str, Any]) -> tuple[Hold, str]:
    """The hold of a delivery, and what the table of causes says of it."""
    reason, cause = HoldReason(delivery["hold_reason"]), cause_written(delivery["cause"])
    hold = Hold(reason, delivery["hold_detail"], delivery["pane"] or "", cause=cause)
    return hold, held_because(hold, Identity(delivery["target"]))


@pytest.mark.parametrize("name", STATES)
def test_presence_explains_itself_to_programs(interview: Interview, name: str) -> None:
    """Explain in JSON: which rule, region, bytes, what vetoed, and the remedy with the place."""
    told, said = STATES[name], interview.of[name]

    assert said.presence["state"] == told.state
    (decided,) = [one for one in said.presence["evidence"] if one["decides"]]
    assert (decided["rule"], decided["region"]) == (told.rule, told.region)
    assert told.saw in (decided["saw"] or "")
    assert said.presence["remedy"].startswith(told.remedy.format(where=said.where))


@pytest.mark.parametrize("name", STATES)
def test_presence_explains_itself_to_people(interview: Interview, name: str) -> None:
    """Explain in words: what is the matter, what to do about it, and the evidence with the one that decided."""
    told, said = STATES[name], interview.of[name]
    lines = said.words.splitlines()
    hold, because = _held_by(said.delivery)

    assert lines[0].startswith(f"@{name} is {told.state}")
    assert any(line.startswith(f"because: {told.rule}") or told.saw in line for line in lines[1:2]), lines
    assert lines[2].startswith(f"what to do: {told.remedy.format(where=said.where)}")
    (marked,) = [line for line in lines if line.startswith(" * ")]
    assert f" {told.rule} in {told.region}" in marked
    assert told.saw in marked
    (waiting,) = [line for line in lines if line.startswith(f"waiting: {said.delivery['id']} is held: ")]
    assert waiting.endswith(f" is held: {because}; {hold.remedy(Identity(f'@{name}'))}")


@pytest.mark.parametrize("name", STATES)
def test_the_delivery_says_the_same(interview: Interview, name: str) -> None:
    """Explain: `deliveries show` has reason, rule, region, bytes and remedy, for people and for programs."""
    told, said = STATES[name], interview.of[name]
    remedy = told.remedy.format(where=said.where)

    assert said.delivery["hold_reason"] == told.reason
    assert said.delivery["remedy"].startswith(remedy)
    if name != "gone":
        assert said.delivery["hold_detail"].startswith(f"{told.rule} in {told.region}")
    assert told.saw in said.delivery["hold_detail"]
    lines = said.story.splitlines()
    assert f"held: {_held_by(said.delivery)[1]}" in lines
    assert any(line.startswith("because: ") and told.saw in line for line in lines)
    assert f"what to do: {remedy}" in said.story


def test_status_says_for_every_hold_what_to_do(interview: Interview) -> None:
    """Explain: `status` says it for every hold, with the remedy; ten of them in words, all in JSON."""
    waiting = {one["target"][1:]: one for one in interview.status["waiting"]}

    assert waiting.keys() == STATES.keys()
    for name, one in waiting.items():
        assert one["hold_reason"] == STATES[name].reason
        assert one["remedy"].startswith(STATES[name].remedy.format(where=interview.of[name].where))
    in_words = [one for one in waiting.values() if f"{one['target']}: {one['remedy']}" in interview.summary]
    assert len(in_words) == 10
    assert f"and {len(STATES) - 10} more: `wake-bridge deliveries --state held`" in interview.summary


def test_an_agent_at_rest_needs_no_remedy(interview: Interview) -> None:
    """Explain: fresh and idle; what proves it is named, and there is nothing to do."""
    record, words = interview.idle

    assert (record["state"], record["remedy"]) == ("idle", None)
    assert [one["rule"] for one in record["evidence"] if one["decides"]] == ["idle"]
    assert "what to do" not in words
    assert "because: idle in composer: Ask the fake agent" in words
    assert interview.after_a_turn["state"] == "idle"
