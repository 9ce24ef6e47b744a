"""Once an identity was found in a pane, the pane counts and no longer its name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.routing import Address, Binding, Claim, Expected, RememberedPane
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.adapter import Nowhere, Place, Refused

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Resident, Scene

ME, OTHER = Identity("@a"), Identity("@b")


def now() -> Instant:
    return Instant(int(time.time() * 1000))


def fence_of(scene: Scene, agent: Resident) -> Binding:
    fence = scene.place(agent.id).fence
    assert fence is not None
    return fence


def remembers(
    scene: Scene, name: str, agent: Resident, *, seen_at: Instant | None = None, claims: Sequence[Claim] = ()
) -> Address:
    """An identity whose name led to that agent, as of now; a daemon would ask for the claims of the others."""
    found = RememberedPane(name, "", fence_of(scene, agent), now(), seen_at or now())
    return Address(ME, suggested=name, remembered=found, claims=lambda: tuple(claims))


def lives(scene: Scene, name: str, agent: Resident, identity: Identity = OTHER) -> list[Claim]:
    """What another identity claims that was found there by that name."""
    return [Claim(identity, fence=fence_of(scene, agent)), Claim(identity, name)]


def split(scene: Scene, beside: Resident, name: str) -> Resident:
    """One more agent in the same window."""
    added = scene.resident(name, session=f"for-{name}")
    scene.tmux.run("join-pane", "-d", "-s", added.id, "-t", beside.id)
    return added


def held(found: Place | Nowhere) -> str:
    assert isinstance(found, Nowhere), found
    assert found.reason is HoldReason.MOVED, found
    return found.detail


def is_in(found: Place | Nowhere, agent: Resident) -> bool:
    return isinstance(found, Place) and found.key.endswith(f"|{agent.id}")


def first(name: str, claims: Sequence[Claim]) -> Address:
    """An identity of which nothing is remembered: after `unbind`, after an update, or as the first there was."""
    return Address(ME, suggested=name, claims=lambda: tuple(claims))


# -- the first lookup ----------------------------------------------------------------------------------------------


def test_a_name_that_leads_to_anothers_agent_for_the_first_time_is_held(scene: Scene) -> None:
    """`unbind` while the name has drifted, or an update of wake-bridge, must not make a neighbour's agent one's own."""
    b = scene.resident("b")
    theirs = lives(scene, "another:0.1", b)
    assert "which is @b's" in held(scene.resolve(first(b.id, theirs)))
    gone = [replace(one, until=now()) if one.fence else one for one in theirs]
    assert "which is @b's" in held(scene.resolve(first(b.id, gone)))


def test_a_name_that_leads_to_an_agent_for_the_first_time_is_taken_at_its_word(scene: Scene) -> None:
    """Nobody's agent, one's own of before, a pane that is shared by one name."""
    b = scene.resident("b")
    fence = fence_of(scene, b)
    for claims in (
        [],
        [Claim(ME, fence=fence, until=now()), *lives(scene, "another:0.1", b)],
        lives(scene, b.id, b),
        [Claim(OTHER, fence=replace(fence, agent_pid=1)), Claim(OTHER, "another:0.1")],
    ):
        assert is_in(scene.resolve(first(b.id, claims)), b), claims


# -- the name drifts -----------------------------------------------------------------------------------------------


def test_the_index_of_a_pane_that_closed_does_not_lead_to_the_one_that_moved_up(scene: Scene) -> None:
    """B becomes index 0; A's next mail must not be B's."""
    a = scene.resident("a")
    b = split(scene, a, "b")
    address = remembers(scene, "agents:0.0", a, claims=lives(scene, "agents:0.1", b))
    assert is_in(scene.resolve(address), a)

    scene.tmux.run("kill-pane", "-t", a.id)

    assert "'agents:0.0' leads to agents:0.0 now, which is @b's" in held(scene.resolve(address))
    assert held(scene.resolve(replace(address, pane="agents:0.0"))).startswith("[targets] ")


def test_windows_that_are_renumbered_lead_to_nobody_else(scene: Scene) -> None:
    """The same with `renumber-windows on`."""
    a, b = scene.resident("a"), scene.resident("b")
    scene.tmux.run("set-option", "-g", "renumber-windows", "on")
    address = remembers(scene, "agents:0", a, claims=lives(scene, "agents:1", b))

    scene.tmux.run("kill-window", "-t", a.id)

    assert "@b" in held(scene.resolve(address))


def test_an_agent_that_nobody_owns_but_was_there_before_is_not_taken(scene: Scene) -> None:
    """Or that was already there before."""
    a = scene.resident("a")
    b = split(scene, a, "b")
    address = remembers(scene, "agents:0.0", a)

    scene.tmux.run("kill-pane", "-t", a.id)

    assert "was there before" in held(scene.resolve(address))
    assert b.is_untouched()


def test_a_session_whose_leader_quits_to_its_shell_does_not_mean_the_teammate(scene: Scene) -> None:
    """With a session as target the held wake went to the teammate."""
    leader = scene.resident("leader", shell=True)
    address = remembers(scene, "agents", leader)
    mate = split(scene, leader, "mate")
    assert is_in(scene.resolve(replace(address, remembered=remembers(scene, "agents", leader).remembered)), leader)
    address = remembers(scene, "agents", leader)

    leader.fake.shows("exit")
    scene.tmux.waits_until(leader.pane, lambda look: not look.flags["pane_current_command"].startswith("python"))

    assert "was there before" in held(scene.resolve(address))
    assert mate.is_untouched()


def test_a_name_that_could_be_anothers_is_held(scene: Scene) -> None:
    """That is, was or could be another identity's: by its name, its mark, its conversation, or once."""
    a = scene.resident("a")
    address = remembers(scene, "agents", a)
    scene.tmux.run("new-session", "-d", "-s", "keeps", "cat")
    scene.tmux.run("kill-pane", "-t", a.id)
    fresh = scene.resident("fresh")
    fence = fence_of(scene, fresh)

    def claimed(*claims: Claim) -> Place | Nowhere:
        return scene.resolve(replace(address, claims=lambda: claims))

    assert is_in(claimed(), fresh)
    assert "which is @b's" in held(claimed(Claim(OTHER, "agents:0.0")))
    assert "@b" in held(claimed(Claim(OTHER, fence=fence)))
    assert "@b" in held(claimed(Claim(OTHER, fence=replace(fence, pane_id="%99"), until=Instant(0))))
    assert is_in(claimed(Claim(OTHER, fence=replace(fence, agent_pid=1), until=Instant(0))), fresh)
    assert is_in(claimed(Claim(OTHER, "elsewhere:0.0")), fresh)
    scene.tmux.run("set-option", "-p", "-t", fresh.id, "@wake_identity", "@b")
    assert "@b" in held(claimed())


def test_who_lives_elsewhere_does_not_live_where_the_own_name_leads_now(scene: Scene) -> None:
    """A new agent in a pane where nobody else lives goes on, though another one's name has drifted there."""
    a, b = scene.resident("a"), scene.resident("b", session="elsewhere")
    # a busy machine makes an agent look as much older as it takes to ask for its age
    address = remembers(scene, "agents", a, seen_at=Instant(now() - 1000), claims=lives(scene, "agents:0.0", b))
    scene.tmux.run("kill-pane", "-t", a.id)
    fresh = scene.resident("fresh")

    assert is_in(scene.resolve(address), fresh)


# -- the pane counts -----------------------------------------------------------------------------------------------


def test_a_pane_that_is_renamed_moved_joined_swapped_or_broken_out_is_the_same_pane(scene: Scene) -> None:
    """Whatever it is called now; renames change nothing."""
    a = scene.resident("a")
    b = split(scene, a, "b")
    address = remembers(scene, "agents:0.0", a, claims=lives(scene, "agents:0.1", b))
    tmux = scene.tmux
    for command in (
        ("rename-window", "-t", a.id, "api"),
        ("rename-session", "-t", "=agents", "team"),
        ("swap-pane", "-d", "-s", a.id, "-t", b.id),
        ("break-pane", "-d", "-s", a.id, "-n", "alone"),
        ("move-window", "-d", "-s", a.id, "-t", "=team:9"),
        ("new-session", "-d", "-s", "away", "cat"),
        ("move-window", "-d", "-s", a.id, "-t", "=away:4"),
        ("join-pane", "-d", "-s", a.id, "-t", b.id),
    ):
        tmux.run(*command)

        assert is_in(scene.resolve(address), a), command
        assert is_in(scene.resolve(replace(address, pane="agents:0.0")), a), command
    assert b.is_untouched()


def test_a_new_agent_in_the_same_pane_goes_on(scene: Scene) -> None:
    """A new agent that the person starts in the same pane goes on without ceremony."""
    a = scene.resident("a", shell=True)
    b = split(scene, a, "b")
    address = remembers(scene, "agents", a, claims=lives(scene, "agents:0.1", b))
    a.fake.shows("exit")
    scene.tmux.waits_until(a.pane, lambda look: not look.flags["pane_current_command"].startswith("python"))
    gone = scene.resolve(replace(address, suggested="agents:0.0", claims=tuple))

    again = " ".join(a.fake.command())
    scene.tmux.run("send-keys", "-t", a.id, "-l", f"exec {again}")
    scene.tmux.run("send-keys", "-t", a.id, "Enter")
    a.fake.waits_for("started", 2)

    assert is_in(gone, a)
    assert isinstance(gone, Place)
    assert gone.fence is not None
    assert gone.fence.agent_pid == 0
    assert is_in(scene.resolve(address), a)


def test_a_respawned_pane_is_the_same_pane(scene: Scene) -> None:
    """A person who respawns it starts a new agent in the same pane."""
    a = scene.resident("a")
    b = split(scene, a, "b")
    address = remembers(scene, "agents", a, claims=lives(scene, "agents:0.1", b))
    scene.tmux.run("respawn-pane", "-k", "-t", a.id, *a.fake.command())
    a.fake.waits_for("started", 2)

    found = scene.resolve(address)

    assert is_in(found, a)
    assert isinstance(found, Place)
    assert found.fence is not None
    assert found.fence.agent_pid == a.pid


def test_another_harness_in_the_remembered_pane_is_still_not_the_expected_one(scene: Scene) -> None:
    """`[targets]`: agent and directory still veto."""
    a = scene.resident("a")
    address = replace(remembers(scene, "agents:0.0", a), pane="agents:0.0", expected=Expected("codex", ""))

    found = scene.resolve(address)

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.UNREACHABLE
    assert "not codex" in found.detail


def test_identities_that_share_a_pane_move_on_together(scene: Scene) -> None:
    """Two identities may share a pane, by one name or by two, and go on sharing it."""
    a = scene.resident("a")
    mine = remembers(scene, "agents", a)
    assert mine.remembered is not None
    fence = mine.remembered.fence
    scene.tmux.run("kill-pane", "-t", a.id)
    fresh = scene.resident("fresh")
    there = fence_of(scene, fresh)
    has_gone_before = [Claim(OTHER, fence=there), Claim(OTHER, fence=fence, until=now()), Claim(OTHER, "agents:0.0")]
    has_the_same_name = [Claim(OTHER, "agents")]

    assert is_in(scene.resolve(replace(mine, claims=lambda: has_gone_before)), fresh)
    assert is_in(scene.resolve(replace(mine, claims=lambda: has_the_same_name)), fresh)


def test_who_has_the_same_name_and_a_pane_of_its_own_shares_nothing(scene: Scene) -> None:
    """Both were told apart by `bind`; A's pane closes, B is started anew in its own, and the name means B."""
    a = scene.resident("a")
    mine = remembers(scene, "agents", a)
    scene.tmux.run("kill-pane", "-t", a.id)
    theirs = lives(scene, "agents", scene.resident("b"))

    assert "@b" in held(scene.resolve(replace(mine, claims=lambda: theirs)))


def test_an_agent_that_is_suspended_keeps_its_pane_though_the_name_means_a_new_one(scene: Scene) -> None:
    """Its pane is there, and it lives; a teammate that was started after Ctrl-Z is not the leader."""
    leader = scene.resident("leader", session="keeps")
    pane = scene.tmux.new_pane("exec bash --norc --noprofile -i")
    shell, target = int(scene.tmux.look(pane).flags["pane_pid"]), str(pane.pane_id)
    scene.tmux.run("send-keys", "-t", target, "-l", f" {' '.join(leader.fake.command())}")
    scene.tmux.run("send-keys", "-t", target, "Enter")
    leader.fake.waits_for("started", 2)
    agent = replace(leader, pane=pane)
    address = remembers(scene, "agents", agent)

    os.killpg(os.getpgid(psutil.Process(shell).children()[0].pid), signal.SIGSTOP)
    scene.tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] == "bash", what="the shell")
    address = replace(address, remembered=replace(address.remembered, seen_at=now())) if address.remembered else address
    mate = split(scene, agent, "mate")

    assert is_in(scene.resolve(address), agent)
    assert is_in(scene.resolve(replace(address, pane="agents")), agent)
    assert mate.is_untouched()


# -- between the look and the key ----------------------------------------------------------------------------------


def test_an_agent_that_starts_after_the_pane_was_looked_up_gets_no_byte(scene: Scene) -> None:
    """An empty pane was found; whoever moves in then was never judged to be the identity's."""
    a = scene.resident("a")
    place = scene.place(a.id)
    assert place.fence is not None
    was_empty = replace(place, fence=replace(place.fence, agent_pid=0, agent_started=""))

    outcome = scene.deliver_at(was_empty, scene.wake())

    assert isinstance(outcome, Refused)
    assert "started after" in outcome.detail
    assert a.is_untouched()


# -- after the server's end ----------------------------------------------------------------------------------------


def restarted(scene: Scene, *names: str) -> list[Resident]:
    """The server has ended; another one has as many agents, side by side in `agents:0`."""
    scene.tmux.close()
    first = scene.resident(names[0])
    return [first, *(split(scene, first, name) for name in names[1:])]


def test_after_the_servers_end_indexes_are_one_question(scene: Scene) -> None:
    """Index names where two identities could be confused are held, and `setup --rebind` asks once."""
    a = scene.resident("a")
    b = split(scene, a, "b")
    mine = remembers(scene, "agents:0.0", a, claims=lives(scene, "agents:0.1", b))
    expected = Claim(OTHER, "agents:0.1", expected=Expected(directory="/elsewhere"))
    apart = replace(mine, expected=Expected(directory=str(Path.cwd())), claims=lambda: (expected,))
    first, second = restarted(scene, "new-a", "new-b")
    detail = held(scene.resolve(mine))

    assert detail == "the tmux server began anew, and 'agents:0.0' may mean another agent now"
    assert is_in(scene.resolve(replace(mine, claims=tuple)), first)
    assert is_in(scene.resolve(apart), first)
    assert second.is_untouched()


def among(address: Address, *claims: Claim) -> Address:
    """The same, while others claim that."""
    return replace(address, claims=lambda: claims)


def test_after_the_servers_end_one_new_agent_alone_may_be_anybodys_who_lived_there(scene: Scene) -> None:
    """A session, or an index, means nobody while another one without a lasting name has not come back."""
    a = scene.resident("a")
    there = Claim(OTHER, fence=fence_of(scene, split(scene, a, "b")))
    by_session, by_index = remembers(scene, "agents", a), remembers(scene, "agents:0.0", a)
    (new,) = restarted(scene, "new")
    elsewhere = replace(there, fence=replace(there.fence, session_id="$77") if there.fence else None)

    for mine, claims in (
        (by_session, [there]),
        (by_session, [there, Claim(OTHER, "agents:0.1")]),
        (by_index, [there]),
        (by_index, [there, Claim(OTHER, "agents")]),
    ):
        assert "may mean another agent now" in held(scene.resolve(among(mine, *claims)))
    for mine in (by_session, by_index):
        for claims in ([there, Claim(OTHER, "agents:api")], [elsewhere], [elsewhere, Claim(OTHER, "team:0.1")], []):
            assert is_in(scene.resolve(among(mine, *claims)), new), (mine.name, claims)
        assert "which is @b's" in held(scene.resolve(among(mine, replace(there, fence=fence_of(scene, new)))))
    assert new.is_untouched()


def test_of_two_of_one_session_whose_panes_are_closed_a_new_agent_may_be_either(scene: Scene) -> None:
    """A session's name tells them apart no better than an index; who lived in another session is no rival."""
    a = scene.resident("a")
    b = split(scene, a, "b")
    there = Claim(OTHER, fence=fence_of(scene, b))
    mine = remembers(scene, "agents", a)
    scene.tmux.run("new-session", "-d", "-s", "keeps", "cat")
    for one in (a, b):
        scene.tmux.run("kill-pane", "-t", one.id)
    new = scene.resident("new")

    for also in ([], [Claim(OTHER, "agents:0.1")]):
        assert "which may be @b's" in held(scene.resolve(among(mine, there, *also)))
    for also in ([Claim(OTHER, "agents:api")], [Claim(OTHER, "team:0.1")]):
        assert is_in(scene.resolve(among(mine, there, *also)), new)
    assert new.is_untouched()


def test_after_the_servers_end_a_lasting_name_is_enough(scene: Scene) -> None:
    """Lasting names count."""
    a, b = scene.resident("a"), scene.resident("b")
    mine = remembers(scene, "agents:api", a, claims=lives(scene, "agents:1.0", b))
    theirs = replace(mine, suggested="agents:api.0")
    (first,) = restarted(scene, "new-a")
    scene.tmux.run("rename-window", "-t", first.id, "api")
    scene.resident("new-b")

    assert is_in(scene.resolve(mine), first)
    assert is_in(scene.resolve(theirs), first)


def test_after_the_servers_end_a_resumed_conversation_comes_first(scene: Scene) -> None:
    """A resumed conversation's own id counts before any name."""
    a = scene.resident("a")
    b = split(scene, a, "b")
    mine = remembers(scene, "agents:0.0", a, claims=lives(scene, "agents:0.1", b))
    first, second = restarted(scene, "new-b", "new-a")
    fence = fence_of(scene, second)
    resumed = Session(
        "fake", "conversation", ME, pid=fence.agent_pid, started=fence.agent_started, socket=fence.socket, pane="%1"
    )
    resumed = replace(resumed, pane=second.id)

    assert is_in(scene.resolve(replace(mine, sessions=(resumed,))), second)
    held(scene.resolve(replace(mine, sessions=(replace(resumed, started="0"),))))
    bound = replace(mine, sessions=(resumed,), claims=lambda: [Claim(OTHER, fence=fence)])
    assert "@b" in held(scene.resolve(bound))
    assert first.is_untouched()


@pytest.mark.parametrize("name", ["nowhere", "agents:7"])
def test_a_name_that_leads_nowhere_is_as_unreachable_as_ever(scene: Scene, name: str) -> None:
    """None is `unreachable`; where the pane is there with its shell it is `no_agent` there."""
    a = scene.resident("a", shell=True)
    address = remembers(scene, name, a)
    a.fake.shows("exit")
    scene.tmux.waits_until(a.pane, lambda look: not look.flags["pane_current_command"].startswith("python"))

    assert is_in(scene.resolve(address), a)
    scene.tmux.run("new-session", "-d", "-s", "keeps", "cat")
    scene.tmux.run("kill-pane", "-t", a.id)
    found = scene.resolve(address)

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.UNREACHABLE
