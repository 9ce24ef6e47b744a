"""An address is one pane or none, never a guess."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from wake_bridge_adapters.tmux.command import TmuxServer
from wake_bridge_adapters.tmux.pane_facts import NoPane
from wake_bridge_adapters.tmux.panes import IDENTITY_OPTION, panes_of

from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.names import Identity
from wake_bridge.ports.adapter import Delivered, Nowhere, Place, Refused
from wake_bridge.testing import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wake_bridge_adapters.bounded_call import CallResult

    from tests.integration.tmux.conftest import Scene


def test_a_session_whose_name_is_only_a_prefix_is_never_hit(scene: Scene) -> None:
    """Names match by prefix in tmux; here `bill` is not `bill-2`."""
    agent = scene.resident(session="bill-2")

    found = scene.resolve(scene.address("bill"))

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.UNREACHABLE
    assert agent.is_untouched()


def test_a_window_of_that_name_in_another_session_is_never_hit(scene: Scene) -> None:
    """Names as session:window.pane, exact."""
    agent = scene.resident(session="other")
    scene.tmux.run("rename-window", "-t", agent.id, "claude")

    assert isinstance(scene.resolve(scene.address("claude")), Nowhere)
    assert isinstance(scene.resolve(scene.address("=claude")), Nowhere)
    found = scene.resolve(scene.address("other:claude"))
    assert isinstance(found, Place)
    assert found.label == "other:claude.0"


def test_what_tmux_writes_otherwise_in_a_name_is_found_or_said(scene: Scene) -> None:
    """A session that is to be called `my.app` is `my_app`; `my:app` may mean a window, and is explained."""
    agent = scene.resident(session="app")
    scene.tmux.run("rename-session", "-t", "app", "my.app")
    assert scene.tmux.run("display-message", "-p", "-t", agent.id, "#S").strip() == "my_app"

    found = scene.resolve(scene.address("my.app"))
    nowhere = scene.resolve(scene.address("my:app"))

    assert isinstance(found, Place)
    assert (found.label, found.key.rpartition("|")[2]) == ("my_app:0.0", agent.id)
    assert isinstance(nowhere, Nowhere)
    assert "tmux writes `_` for `:` and `.` in a session's name: 'my_app' is there" in nowhere.detail


@pytest.mark.parametrize("target", ["agents", "=agents", "agents:0", "agents:0.0", "%0"])
def test_a_pane_is_found_by_every_exact_name(scene: Scene, target: str) -> None:
    """`pane` is %id, session, session:window or session:window.pane; always exact."""
    agent = scene.resident()

    found = scene.resolve(scene.address(target))

    assert isinstance(found, Place)
    assert found.key.endswith(f"|{agent.id}")
    assert found.paper.max_lines == 10
    assert found.fence is not None
    assert found.fence.agent_pid == agent.pid


def test_of_several_panes_the_only_one_with_an_agent_is_meant(scene: Scene) -> None:
    """A session that is split beside its one agent still names it."""
    agent = scene.resident()
    scene.tmux.run("split-window", "-t", agent.id, "cat")

    found = scene.resolve(scene.address("agents"))

    assert isinstance(found, Place)
    assert found.key.endswith(f"|{agent.id}")


def test_several_agents_under_one_name_are_ambiguous(scene: Scene) -> None:
    """None or several = hold `unreachable` / `ambiguous`, never a guess."""
    scene.resident()
    scene.resident("other")

    found = scene.resolve(scene.address("agents"))

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.AMBIGUOUS
    assert "agents:0.0 (%0), agents:1.0 (%1)" in found.detail


def test_a_renamed_session_is_no_longer_found_by_its_old_name(scene: Scene) -> None:
    """Names are looked up at every attempt."""
    agent = scene.resident()
    scene.tmux.run("rename-session", "-t", "=agents", "team")

    assert isinstance(scene.resolve(scene.address("agents")), Nowhere)
    found = scene.resolve(scene.address("team"))
    assert isinstance(found, Place)
    assert found.key.endswith(f"|{agent.id}")


def test_a_configured_target_is_not_replaced_by_anything(scene: Scene) -> None:
    """`[targets]` comes first, and a target that is gone is not another one."""
    agent = scene.resident()
    asyncio.run(scene.adapter.mark_identity(scene.place(agent.id), Identity("@agent")))

    found = scene.resolve(scene.address("elsewhere", suggested="agents"))

    assert isinstance(found, Nowhere)
    assert found.where == "elsewhere"


def test_the_pane_that_says_whose_it_is_comes_before_the_subscription(scene: Scene) -> None:
    """The live `@wake_identity` option of exactly one pane, then the binding, then the subscription."""
    agent, other = scene.resident(), scene.resident("other")
    asyncio.run(scene.adapter.mark_identity(scene.place(agent.id), Identity("@agent")))

    found = scene.resolve(scene.address(suggested=other.id))

    assert isinstance(found, Place)
    assert found.key.endswith(f"|{agent.id}")


def test_marking_a_pane_takes_the_mark_from_the_one_before(scene: Scene) -> None:
    """One target at a time per identity."""
    agent, other = scene.resident(), scene.resident("other")
    for one in (agent, other):
        asyncio.run(scene.adapter.mark_identity(scene.place(one.id), Identity("@agent")))

    found = scene.resolve(scene.address())

    assert isinstance(found, Place)
    assert found.key.endswith(f"|{other.id}")
    assert scene.tmux.run("show-options", "-p", "-v", "-t", other.id, "@wake_identity").strip() == "@agent"


def test_two_panes_that_say_the_same_are_ambiguous(scene: Scene) -> None:
    """Exactly one pane, or a hold."""
    for one in (scene.resident(), scene.resident("other")):
        scene.tmux.run("set-option", "-p", "-t", one.id, "@wake_identity", "@agent")

    found = scene.resolve(scene.address(suggested="%0"))

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.AMBIGUOUS


def test_only_a_mark_on_the_pane_itself_says_whose_it_is(scene: Scene) -> None:
    """What a window, a session or the server says is shown in every pane of it, and is true of none."""
    agent, other = scene.resident(), scene.resident("other")
    mine = str(scene.tmux.run("display-message", "-p", "-t", agent.id, "#{session_id}").strip())
    for scope in (("-w", "-t", agent.id), ("-t", mine), ("-g",), ("-g", "-w")):
        scene.tmux.run("set-option", *scope, "@wake_identity", "@agent")

        found = scene.resolve(scene.address(suggested=other.id))
        assert isinstance(found, Place), scope
        assert found.key.endswith(f"|{other.id}"), scope
        # whoever marks the pane that showed it already is understood, and nobody else is meant
        scene.tmux.run("set-option", "-p", "-t", agent.id, "@wake_identity", "@agent")
        found = scene.resolve(scene.address(suggested=other.id))
        assert isinstance(found, Place), scope
        assert found.key.endswith(f"|{agent.id}"), scope
        scene.tmux.run("set-option", "-p", "-u", "-t", agent.id, "@wake_identity")
        scene.tmux.run("set-option", "-u", *scope, "@wake_identity")


def test_a_mark_is_asked_for_once_while_nobody_else_shows_the_same(scene: Scene) -> None:
    """Fifty marked panes cost one call more, and that at the first listing alone."""
    agents = [scene.resident(name) for name in ("one", "two")]
    for agent in agents:
        asyncio.run(scene.adapter.mark_identity(scene.place(agent.id), Identity(f"@{agent.fake.name}")))
    server = TmuxServer(str(scene.tmux.socket_path), 10, os.environ)
    calls: list[int] = []

    async def counted(*commands: Sequence[str], stdin: str = "") -> CallResult:
        calls.append(len(commands))
        return await TmuxServer.ask(server, *commands, stdin=stdin)

    server.ask = counted  # type: ignore[method-assign]
    for expected in ([1, 4], [1], [1]):
        calls.clear()
        panes = asyncio.run(panes_of(server))
        assert not isinstance(panes, NoPane)
        assert [one.identities for one in panes] == [["@one"], ["@two"]]
        assert calls == expected


def test_hundreds_of_marked_panes_are_listed_with_their_marks(scene: Scene) -> None:
    """One command for all of them is more than tmux takes: it refused, no pane was known, and it was asked again for ever."""
    panes = [scene.tmux.new_pane(["sleep", "1000"], session="many") for _ in range(200)]
    for one in panes:
        scene.tmux.run("set-option", "-p", "-t", str(one.pane_id), IDENTITY_OPTION, f"@agent{one.pane_id}")
    server = TmuxServer(str(scene.tmux.socket_path), 10, os.environ)
    listed = asyncio.run(panes_of(server))
    assert not isinstance(listed, NoPane)
    assert {one.pane_id: one.identities for one in listed if one.identities} == {
        str(one.pane_id): [f"@agent{one.pane_id}"] for one in panes
    }


def test_a_binding_leads_to_its_pane_while_the_fence_holds(scene: Scene) -> None:
    """The ledger's binding counts with its fence intact."""
    agent = scene.resident()
    binding = scene.place(agent.id).fence

    found = scene.resolve(scene.address(binding=binding))

    assert isinstance(found, Place)
    assert found.fence == binding


def test_a_binding_does_not_survive_its_agent(scene: Scene) -> None:
    """Quitting an agent to its shell leaves `pane_pid` as it was."""
    agent = scene.resident(shell=True)
    binding = scene.place(agent.id).fence
    agent.fake.shows("exit")
    agent.tmux.waits_until(agent.pane, lambda look: not look.flags["pane_current_command"].startswith("python"))

    found = scene.resolve(scene.address(binding=binding))

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.UNREACHABLE
    assert "agent" in found.detail


def test_a_binding_follows_a_pane_into_another_session(scene: Scene) -> None:
    """A pane that is moved is the same pane."""
    agent = scene.resident()
    scene.resident("other", session="team")
    place = scene.place(agent.id)
    scene.tmux.run("move-window", "-s", agent.id, "-t", "=team:5")

    moved = scene.resolve(scene.address(binding=place.fence))

    assert isinstance(moved, Place)
    assert moved.key == place.key
    assert moved.label == "team:5.0"


def test_a_window_linked_into_a_second_session_is_still_the_same_pane(scene: Scene) -> None:
    """Linking takes a window out of nothing."""
    agent = scene.resident()
    binding = scene.place(agent.id).fence
    scene.tmux.run("new-session", "-d", "-s", "aaa", "cat")
    scene.tmux.run("link-window", "-s", agent.id, "-t", "=aaa:9")

    found = scene.resolve(scene.address(binding=binding))

    assert isinstance(found, Place)
    assert isinstance(scene.resolve(scene.address("aaa:9")), Place)


def test_a_pane_id_of_a_restarted_server_is_another_pane(scene: Scene) -> None:
    """Pane ids restart with the server; the fence knows the server's pid."""
    agent = scene.resident()
    place = scene.place(agent.id)
    with PrivateTmux() as again:
        again.socket_name = scene.tmux.socket_name
        scene.tmux.close()
        stranger = scene.resident("stranger")
        assert stranger.id == agent.id

        resolved = scene.resolve(scene.address(binding=place.fence))
        outcome = scene.deliver_at(place, scene.wake())
        observed = asyncio.run(scene.adapter.observe(place, scene.address()))

        assert isinstance(resolved, Nowhere)
        assert "server" in resolved.detail
        assert isinstance(outcome, Refused)
        assert outcome.reason is HoldReason.UNREACHABLE
        assert [one.hold for one in observed.evidence] == [HoldReason.UNREACHABLE]
        assert stranger.is_untouched()


def test_a_target_may_name_another_server(scene: Scene) -> None:
    """`socket = ""  # another tmux server`; a target is (socket, pane)."""
    scene.resident()
    with PrivateTmux() as other:
        pane = other.new_pane(["cat"])
        by_name = scene.resolve(scene.address(str(pane.pane_id), socket=other.socket_name))
        by_path = scene.resolve(scene.address(str(pane.pane_id), socket=str(other.socket_path)))

        assert isinstance(by_name, Place)
        assert isinstance(by_path, Place)
        assert by_name.key == by_path.key
        assert str(other.server_pid) in by_name.key


def test_without_a_server_the_target_is_unreachable(scene: Scene) -> None:
    """None = hold `unreachable`, and it says where it looked."""
    found = scene.resolve(scene.address("agents"))

    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.UNREACHABLE
    assert scene.tmux.socket_name in found.detail


def test_bind_means_the_pane_it_is_run_in(scene: Scene) -> None:
    """`bind`: without --pane it is the pane of `$TMUX` and `$TMUX_PANE`, on that very server."""
    agent = scene.resident()
    adapter = scene.new_adapter(socket_name="no-such-server")
    inside = {"TMUX": f"{scene.tmux.socket_path},{scene.tmux.server_pid},0", "TMUX_PANE": agent.id}

    place = asyncio.run(adapter.binding_for(None, inside))

    assert place.fence is not None
    assert place.fence.pane_id == agent.id
    assert place.fence.agent_pid == agent.pid
    with pytest.raises(NotFound, match="no tmux pane"):
        asyncio.run(adapter.binding_for(None, {}))
    with pytest.raises(NotFound):
        asyncio.run(scene.adapter.binding_for("%99", {}))
    assert asyncio.run(scene.adapter.binding_for(agent.id, {})).key == place.key


def test_the_doctor_sees_program_server_and_locale(scene: Scene) -> None:
    """`doctor`: tmux on PATH and new enough, the socket, UTF-8."""
    scene.resident()
    well = asyncio.run(scene.adapter.probe())
    bare = asyncio.run(scene.new_adapter(PATH="/nonexistent").probe())
    alone = asyncio.run(scene.new_adapter(socket_name="no-such-server").probe())

    assert [(name, ok) for name, ok, _, _ in well] == [("tmux", True), ("tmux socket", True), ("tmux UTF-8", True)]
    assert [ok for _, ok, _, _ in bare] == [False]
    assert [ok for _, ok, _, _ in alone] == [True, False]
    assert all(hint for _, ok, _, hint in [*bare, *alone] if ok is False)
    assert os.environ["PATH"]


def test_those_who_ask_in_one_moment_share_one_call(scene: Scene) -> None:
    """One `list-panes -a` per socket, however many identities are looked for; the next one asks anew."""
    agent = scene.resident()
    calls = scene.directory / "calls"
    (scene.directory / "bin").mkdir()
    counting = scene.directory / "bin" / "tmux"
    counting.write_text(f'#!/bin/sh\necho "$4" >> {calls}\nexec {shutil.which("tmux")} "$@"\n')
    counting.chmod(0o755)
    adapter = scene.new_adapter(PATH=f"{counting.parent}:{os.environ['PATH']}")

    async def many() -> list[Place | Nowhere]:
        return await asyncio.gather(*(adapter.resolve(scene.address("agents", identity=f"@{n}")) for n in range(20)))

    found = asyncio.run(many())
    scene.tmux.run("rename-session", "-t", agent.id, "renamed")
    later = asyncio.run(adapter.resolve(scene.address("agents")))

    assert {one.label for one in found if isinstance(one, Place)} == {"agents:0.0"}
    assert len(found) == 20
    assert isinstance(later, Nowhere)
    assert calls.read_text().split() == ["list-panes", "list-panes"]


def test_a_socket_that_was_cleaned_away_is_unreachable_until_it_is_back(scene: Scene) -> None:
    """Whoever tidies /tmp cuts off a server that lives; USR1 makes it lay its socket anew."""
    agent = scene.resident()
    pid, socket = scene.tmux.server_pid, scene.tmux.socket_path
    socket.unlink()

    away = scene.resolve(scene.address(agent.id))
    os.kill(pid, signal.SIGUSR1)
    until(socket.exists, "the socket")
    outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(away, Nowhere)
    assert away.reason is HoldReason.UNREACHABLE
    assert str(socket) in away.detail
    assert isinstance(outcome, Delivered)


def test_a_server_that_stands_still_is_told_as_that_and_the_pane_is_found_once_it_goes_on(scene: Scene) -> None:
    """The remedy taken literally: the command that it names does not come back; then the server is let go on."""
    agent = scene.resident()
    scene.adapter = scene.new_adapter(timeout=0.5)
    server = scene.tmux.server_pid
    os.kill(server, signal.SIGSTOP)
    try:
        found = scene.resolve(scene.address(agent.id))
        assert isinstance(found, Nowhere)
        assert found.cause is Cause.TMUX_SILENT
        _, command, _ = found.hold.remedy(Identity("@agent")).split("`")
        program, *words = command.split()
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([program, "-S", str(scene.tmux.socket_path), *words], timeout=0.2, check=False)
    finally:
        os.kill(server, signal.SIGCONT)
    assert isinstance(scene.resolve(scene.address(agent.id)), Place)
