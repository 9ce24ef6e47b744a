"""A person is taken to panes and back in a real tmux; the keys and the segment of `setup --tmux-keys` work as written."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Address
from wake_bridge.integrations.agent_files.tmux_keys import plan_tmux_keys
from wake_bridge.ports.adapter import Place
from wake_bridge.testing import until

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene


def _shown(scene: Scene) -> str:
    return scene.tmux.run("list-clients", "-F", "#{pane_id}").strip()


def test_a_client_goes_to_a_pane_of_another_session_and_back_once(scene: Scene) -> None:
    """`next` moves the client that it was called from, and no agent gets a byte; `--back` returns to the pane before."""
    agent = scene.resident()
    home = scene.tmux.run("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "home", "cat").strip()
    adapter = scene.adapter
    server = scene.tmux.run("display-message", "-p", "#{socket_path},#{pid}").strip()

    async def story() -> None:
        place = await adapter.resolve(Address(Identity("@a"), pane=agent.id))
        assert isinstance(place, Place)
        session = scene.tmux.run("display-message", "-p", "-t", home, "#{session_id}").strip()
        environment = {"TMUX": f"{server},{session.removeprefix('$')}", "TMUX_PANE": home}
        viewer = await adapter.viewer("", environment)
        assert viewer is not None
        assert viewer.shows.endswith(f"|{home}")
        assert await adapter.viewer("/dev/none", environment) is None
        assert await adapter.viewer("", {}) is None
        assert not await adapter.bring_back(viewer)
        assert not await adapter.bring(viewer, place.key.replace("|%", "|%9"), remember=True)
        assert await adapter.bring(viewer, place.key, remember=True)
        assert _shown(scene) == agent.id
        assert await adapter.bring_back(viewer)
        assert _shown(scene) == home
        assert not await adapter.bring_back(viewer)
        assert adapter.way_to(place.key) == shlex.join(
            ["tmux", "-S", server.partition(",")[0], "attach-session", "-t", agent.id]
        )
        assert adapter.way_to("channel:@a") == ""

    with scene.attached(home, session="home"):
        asyncio.run(story())
    assert agent.is_untouched()


def test_the_count_stands_in_the_status_line_of_who_has_set_it_up_and_nowhere_else(
    scene: Scene, tmp_path: Path
) -> None:
    """Without `setup --tmux-keys` nothing is written into a tmux; with it the block works, also when it is read twice."""
    agent = scene.resident()

    def segment() -> str:
        return scene.tmux.run("display-message", "-p", "-t", agent.id, "#{E:status-right}")

    asyncio.run(scene.adapter.show_count("⚑ 2"))
    assert scene.tmux.run("show-options", "-s", "-q", "-v", "@wake_bridge_attention").strip() == ""

    recorder = tmp_path / "wake-bridge"
    recorder.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(tmp_path / "called"))}\n')
    recorder.chmod(0o755)
    block = tmp_path / "block.conf"
    block.write_bytes(plan_tmux_keys((str(recorder),), tmp_path, {}).after)
    for _ in range(2):
        scene.tmux.run("source-file", str(block))
    asyncio.run(scene.adapter.show_count("⚑ 2"))
    assert segment().count("⚑ 2") == 1
    asyncio.run(scene.adapter.show_count(""))
    assert "⚑" not in segment()

    with scene.attached(agent.id) as person:
        person.types("\x02N")
        client = scene.tmux.run("list-clients", "-F", "#{client_name}").strip()
        called = tmp_path / "called"
        until(lambda: called.exists() and called.read_text() == f"next --client {client}\n", "the key's command")
