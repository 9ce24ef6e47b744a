"""A wake goes to the pane where the identity was found, whatever its name means by now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import AgentPane, Playground

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def world(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[Playground]:
    """A graph, and nobody in it yet."""
    with Playground(tmp_path_factory.mktemp("remembered"), program) as made:
        made.sandbox.run("init")
        yield made


def beside(world: Playground, first: AgentPane, name: str) -> AgentPane:
    """One more agent in the same window."""
    added = world.agent(name, session=f"for-{name}")
    world.tmux.run("join-pane", "-d", "-s", added.id, "-t", first.id)
    return added


def is_woken(world: Playground, name: str, *, by: AgentPane | None = None) -> bool:
    """Send an identity mail, and wait until its agent, and it alone, has taken it."""
    agent = by or world.agents[name]
    before = {one: len(other.fake.submits()) for one, other in world.agents.items()}
    world.sandbox.send(f"@{name}", f"mail for {name}")
    agent.fake.waits_for("submit", before[agent.name] + 1)
    world.sandbox.waits_for(lambda: all(one["settledAt"] for one in world.sandbox.deliveries()), what="an end")
    after = {one: len(other.fake.submits()) for one, other in world.agents.items()}
    return after == {**before, agent.name: before[agent.name] + 1}


def held(world: Playground, name: str, reason: str = "") -> dict[str, Any]:
    """The delivery that waits for an identity, once a reason is known; with `reason`, once it is that one."""

    def look() -> dict[str, Any] | None:
        theirs = [one for one in world.sandbox.deliveries() if one["target"] == f"@{name}" and not one["settledAt"]]
        known = (one for one in theirs if one["hold_reason"] not in {None, "unknown", "window"})
        return next((one for one in known if reason in {"", one["hold_reason"]}), None)

    return world.sandbox.waits_for(look, what=f"a hold of {name}")


def arrives(world: Playground, name: str, agent: AgentPane, before: int = 0) -> None:
    """What was held is taken by that agent."""
    agent.fake.waits_for("submit", before + 1)
    world.sandbox.waits_for(lambda: all(one["settledAt"] for one in world.sandbox.deliveries()), what=f"mail of {name}")


def leaves_to_its_shell(world: Playground, agent: AgentPane) -> None:
    agent.fake.shows("exit")
    world.tmux.waits_until(agent.pane, lambda look: look.flags["pane_current_command"] == "sh", what="the shell")


def pair(world: Playground, *, by_targets: bool = False) -> tuple[AgentPane, AgentPane]:
    """`@a` and `@b` side by side, both woken once by the index of their pane."""
    a = world.agent("a", session="work")
    b = beside(world, a, "b")
    if by_targets:
        tables = "".join(f'[targets."@{one}"]\npane = "work:0.{number}"\n' for number, one in enumerate("ab"))
        world.sandbox.configure(QUICK + tables)
    for number, one in enumerate("ab"):
        world.sandbox.enlist(f"@{one}", f"work:0.{number}")
    world.sandbox.daemon()
    assert is_woken(world, "a")
    assert is_woken(world, "b")
    return a, b


def test_the_mail_of_a_closed_pane_is_not_submitted_to_the_one_that_moved_up(world: Playground) -> None:
    """`@a` on `work:0.0`, `@b` on `work:0.1`; A's pane closes, and B becomes index 0."""
    a, b = pair(world)

    world.tmux.run("kill-pane", "-t", a.id)
    message = world.sandbox.send("@a", "for a alone")
    hold = held(world, "a")

    assert hold["hold_reason"] == "moved", hold
    assert "'work:0.0' leads to work:0.0 now, which is @b's" in hold["hold_detail"]
    assert "`wake-bridge bind @a` inside the right pane" in hold["remedy"]
    assert "work:0.0 now, which is @b's" in world.sandbox.run("why", message).stdout
    assert is_woken_while_another_waits(world, b)
    right = beside(world, b, "right")
    world.sandbox.run("bind", "@a", "--pane", right.id)
    arrives(world, "a", right)
    assert len(b.fake.submits()) == 2


def is_woken_while_another_waits(world: Playground, b: AgentPane) -> bool:
    before = len(b.fake.submits())
    world.sandbox.send("@b", "for b")
    b.fake.waits_for("submit", before + 1)
    return "for b" in b.fake.submits()[-1]


def test_a_pane_line_in_targets_that_leads_to_another_agent_is_named_and_ends_the_hold_once_corrected(
    world: Playground,
) -> None:
    """Each remedy taken literally ends the hold; where [targets] says it, that is the line to change."""
    a, b = pair(world, by_targets=True)
    world.tmux.run("kill-pane", "-t", a.id)
    world.sandbox.send("@a", "for a alone")
    hold = held(world, "a")
    assert hold["hold_reason"] == "moved", hold
    assert hold["remedy"] == "correct `pane` in the [targets] table of @a, or run `wake-bridge setup --rebind`"

    right = beside(world, b, "right")
    lines = [("work:0.1", "a"), (b.id, "b")]
    world.sandbox.configure(QUICK + "".join(f'[targets."@{one}"]\npane = "{pane}"\n' for pane, one in lines))
    world.sandbox.daemons[0].reload()

    arrives(world, "a", right)
    assert len(b.fake.submits()) == 1


def test_a_name_that_leads_to_the_shell_in_anothers_pane_sends_nobody_there(world: Playground) -> None:
    """Whoever did "start the agent in work:0.0" would start it in the pane where `@b` lives."""
    world.agent("a", session="work")
    b = world.agent("b", session="for-b", under_shell=True)
    world.tmux.run("join-pane", "-d", "-s", b.id, "-t", world.agents["a"].id)
    for number, one in enumerate("ab"):
        world.sandbox.enlist(f"@{one}", f"work:0.{number}")
    world.sandbox.daemon()
    assert is_woken(world, "a")
    assert is_woken(world, "b")

    leaves_to_its_shell(world, b)
    world.tmux.run("kill-pane", "-t", world.agents["a"].id)
    world.sandbox.send("@a", "for a alone")
    hold = held(world, "a")

    assert hold["hold_reason"] == "moved", hold
    assert "'work:0.0' leads to work:0.0 now, which is @b's" in hold["hold_detail"]
    b.respawns()
    right = beside(world, b, "right")
    world.sandbox.run("bind", "@a", "--pane", right.id)
    arrives(world, "a", right)
    assert len(b.fake.submits()) == 1


@pytest.mark.parametrize("case", ["unreachable: no pane is called exactly", "moved", "moved: [targets]"])
def test_what_is_told_of_a_text_in_a_pane_that_is_gone_helps_when_it_is_taken_literally(
    world: Playground, case: str
) -> None:
    """Nobody can send or clear it where it stood; the agent is started anew, and told once more."""
    a = world.agent("a", "--dialog-after-paste", session="work")
    world.agent("keeper", session="elsewhere")
    if case.startswith("moved"):
        beside(world, a, "b")
        world.sandbox.enlist("@b", "work:0.1")
    by_targets = '[targets."@a"]\npane = "work:0.0"\n' if "targets" in case else ""
    quick = f"{QUICK}delivery.unknown_again = 1\ndelivery.lease = 5\ndelivery.adapter_timeout = 4\n"
    world.sandbox.configure(quick + by_targets)
    world.sandbox.enlist("@a", "work:0.0")
    daemon = world.sandbox.daemon()
    if "b" in world.agents:
        assert is_woken(world, "b")
    world.sandbox.send("@a", "for a alone")
    world.sandbox.waits_for(lambda: held(world, "a")["hold_reason"] == "staged")
    # a daemon that looked in between would see the pane close, and know that it was not sent
    daemon.stop()
    world.tmux.run("kill-pane", "-t", a.id)
    daemon = world.sandbox.daemon()
    hold = world.sandbox.waits_for(lambda: _staged_elsewhere(held(world, "a"), case), what=case)

    new = beside(world, world.agents["b"], "new") if "b" in world.agents else world.agent("new", session="new")
    if by_targets:
        assert hold["remedy"].startswith("correct `pane` in the [targets] table of @a, or run"), hold
        world.sandbox.configure(f'{quick}[targets."@a"]\npane = "{new.id}"\n')
        daemon.reload()
    else:
        assert "run `wake-bridge bind @a` inside the right pane" in hold["remedy"], hold
        world.sandbox.run("bind", "@a", "--pane", new.id)

    arrives(world, "a", new)
    assert a.fake.submits() == []
    assert ["for a alone" in text for text in new.fake.submits()] == [True]


def _staged_elsewhere(hold: dict[str, Any], case: str) -> dict[str, Any] | None:
    return hold if hold["hold_reason"] == "staged" and hold["hold_detail"].startswith(case) else None


def test_windows_that_are_renumbered_wake_nobody_else(world: Playground) -> None:
    """The same with `renumber-windows on`; the commands without a daemon judge alike."""
    a = world.agent("a", session="work")
    world.agent("b", session="work")
    world.tmux.run("set-option", "-g", "renumber-windows", "on")
    world.sandbox.enlist("@a", "work:0")
    world.sandbox.enlist("@b", "work:1")
    daemon = world.sandbox.daemon()
    assert is_woken(world, "a")
    assert is_woken(world, "b")

    world.tmux.run("kill-window", "-t", a.id)
    world.sandbox.send("@a", "for a alone")
    assert held(world, "a")["hold_reason"] == "moved"
    daemon.stop()

    alone = world.sandbox.run("presence", "@a").stdout
    assert alone.startswith("@a is unknown; its name leads to work:0.0")
    assert "which is @b's" in alone
    assert "wake-bridge bind @a" in alone
    listed = world.sandbox.ask("list", "@a")["subscriptions"][0]
    assert (listed["pane"], listed["deliverable"]) == (None, False)
    assert world.sandbox.ask("list", "@b")["subscriptions"][0]["pane"] == "work:0.0"
    world.sandbox.run("unbind", "@a")
    assert world.sandbox.ask("list", "@a")["subscriptions"][0]["pane"] is None, "the name still leads to B"


def test_a_leader_that_quits_to_its_shell_leaves_its_mail_to_no_teammate(world: Playground) -> None:
    """A session as target whose leader quits; it goes on when it is started again in its pane."""
    leader = world.agent("leader", session="team", under_shell=True)
    world.sandbox.enlist("@leader", "team")
    world.sandbox.daemon()
    assert is_woken(world, "leader")
    mate = beside(world, leader, "mate")
    assert is_woken(world, "leader")

    leaves_to_its_shell(world, leader)
    world.sandbox.send("@leader", "for the leader")
    hold = held(world, "leader")
    assert hold["hold_reason"] == "moved", hold
    leader.respawns()

    arrives(world, "leader", leader, 2)
    assert mate.fake.bytes_received() == b""


def test_a_rename_changes_nothing(world: Playground) -> None:
    """After a window or session is renamed, or the pane is moved, its agent is woken as before."""
    a, b = pair(world)
    for command in (
        ("rename-session", "-t", "=work", "team"),
        ("rename-window", "-t", a.id, "api"),
        ("swap-pane", "-d", "-s", a.id, "-t", b.id),
        ("break-pane", "-d", "-s", a.id, "-n", "alone"),
    ):
        world.tmux.run(*command)
        assert is_woken(world, "a"), command
    assert is_woken(world, "b")
    world.sandbox.daemons[0].stop()
    world.sandbox.daemon()
    assert is_woken(world, "a")
    assert world.sandbox.ask("list", "@a")["subscriptions"][0]["note"] is None


def test_a_new_agent_goes_on_without_ceremony(world: Playground) -> None:
    """In the same pane, or in a pane where nobody else lives."""
    a = world.agent("a", session="work", under_shell=True)
    world.agent("other", session="other")
    world.sandbox.enlist("@a", "work")
    world.sandbox.enlist("@other", "other")
    world.sandbox.daemon()
    assert is_woken(world, "a")

    leaves_to_its_shell(world, a)
    a.respawns()
    assert is_woken(world, "a")
    world.tmux.run("kill-pane", "-t", a.id)
    a.moves_in()
    assert is_woken(world, "a")


def test_two_identities_that_share_a_pane_go_on_sharing_it(world: Playground) -> None:
    """Two identities may share a pane, and the one that replaces it."""
    shared = world.agent("shared", session="work")
    world.sandbox.enlist("@a", "work")
    world.sandbox.enlist("@b", "work:0.0")
    world.sandbox.daemon()
    for _ in range(2):
        assert is_woken(world, "a", by=shared)
        assert is_woken(world, "b", by=shared)
        world.tmux.run("kill-pane", "-t", shared.id)
        shared.moves_in()


def test_who_was_bound_apart_under_one_name_gets_nothing_of_the_others(world: Playground) -> None:
    """One session holds both, `bind` tells them apart; A's pane closes, and B is started anew in its own."""
    a = world.agent("a", session="work")
    b = beside(world, a, "b")
    for name, pane in (("a", a), ("b", b)):
        world.sandbox.enlist(f"@{name}", "work")
        world.sandbox.run("bind", f"@{name}", "--pane", pane.id)
    daemon = world.sandbox.daemon()
    assert is_woken(world, "a")
    assert is_woken(world, "b")
    daemon.stop()

    world.tmux.run("kill-pane", "-t", a.id)
    b.respawns()
    world.sandbox.daemon()
    world.sandbox.send("@a", "for a alone")

    assert held(world, "a")["hold_reason"] == "moved"
    assert len(b.fake.submits()) == 1


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_an_agent_that_was_there_before_a_restart_is_not_the_new_one(world: Playground, end: str) -> None:
    """A daemon that stops writes down until when each agent was there; one that was killed may have seen more."""
    a = world.agent("a", session="work")
    world.sandbox.enlist("@a", "work:0.0")
    daemon = world.sandbox.daemon()
    assert is_woken(world, "a")
    b = beside(world, a, "b")
    # once more: from now on it was seen after the other one had started
    assert is_woken(world, "a")
    getattr(daemon, end)()

    world.tmux.run("kill-pane", "-t", a.id)
    world.sandbox.daemon()
    world.sandbox.send("@a", "for a alone")

    assert held(world, "a")["hold_reason"] == "moved"
    assert b.fake.bytes_received() == b""


def test_after_the_servers_end_one_question_is_asked_for_all(world: Playground) -> None:
    """Remembered panes are void; index names are one question and one notice, not one for each."""
    told = world.directory / "told"
    command = json.dumps(["sh", "-c", f'echo "$1" >> {told}', "sh", "{title}"])
    world.sandbox.configure(QUICK + f"human.command = {command}\nhuman.notice_after = 10\nattention.tell = []\n")
    a, b = pair(world)
    lasting = world.enlisted("lasting")
    assert is_woken(world, "lasting")

    world.tmux.close()
    new_b = world.agent("new-b", session="work")
    new_a = beside(world, new_b, "new-a")
    lasting.moves_in()
    for name in ("a", "b", "lasting"):
        world.sandbox.send(f"@{name}", f"for {name}")
    lasting.fake.waits_for("submit", 2)
    holds = [held(world, name) for name in "ab"]

    assert {one["hold_reason"] for one in holds} == {"moved"}
    assert {one["remedy"] for one in holds} == {
        "run `wake-bridge setup --rebind`: it asks once for the pane of each identity"
    }
    assert new_a.fake.bytes_received() == new_b.fake.bytes_received() == b""
    assert len(a.fake.submits()) == len(b.fake.submits()) == 1
    world.sandbox.daemons[0].waits_for_log("notice_given")
    notice = world.sandbox.waits_for(lambda: told.read_text() if told.exists() else "", what="the notice")
    assert notice == "wake-bridge: 2 agents cannot be woken (moved)\n"


def test_of_two_whose_panes_are_closed_a_new_agent_may_be_either(world: Playground) -> None:
    """A name that leads to an agent that could be another identity's holds; `bind` says whose it is."""
    world.agent("keeper", session="work")
    a = beside(world, world.agents["keeper"], "a")
    b = beside(world, a, "b")
    world.sandbox.enlist("@a", "work:0.1")
    world.sandbox.enlist("@b", "work:0.2")
    world.sandbox.daemon()
    assert is_woken(world, "a")
    assert is_woken(world, "b")
    for one in (a, b):
        world.tmux.run("kill-pane", "-t", one.id)
    world.sandbox.send("@a", "for a alone")
    new_b = beside(world, world.agents["keeper"], "new-b")

    held(world, "a", "moved")
    world.sandbox.run("bind", "@b", "--pane", new_b.id)
    new_a = beside(world, new_b, "new-a")
    world.sandbox.run("bind", "@a", "--pane", new_a.id)
    arrives(world, "a", new_a)
    assert new_b.fake.submits() == []
