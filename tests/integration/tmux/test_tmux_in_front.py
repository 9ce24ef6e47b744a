"""Which pane a person looks at, as the listing that is made anyway tells it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import PersonSeen, Place
from wake_bridge.testing import until

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene


def test_a_pane_is_in_front_of_the_client_that_shows_it_and_no_other_is(scene: Scene) -> None:
    """A key counts for the pane that is shown; a pane beside it, or in another window, is seen by nobody."""
    agent = scene.resident()
    # tmux calls a window after its program half a second late: that would be another difference
    scene.tmux.run("set-window-option", "-t", agent.id, "automatic-rename", "off")
    beside = scene.tmux.run("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", agent.id, "cat").strip()
    elsewhere = scene.tmux.run("new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "=agents:", "cat").strip()
    adapter = scene.adapter
    assert isinstance(adapter, PersonSeen)

    async def keys() -> list[int | None]:
        found = [await adapter.resolve(Address(Identity("@a"), pane=one)) for one in (agent.id, beside, elsewhere)]
        places = [one for one in found if isinstance(one, Place)]
        await adapter.survey(places)
        return [adapter.last_key_in_front(one.key) for one in places]

    async def signs() -> object:
        place = await adapter.resolve(Address(Identity("@a"), pane=agent.id))
        assert isinstance(place, Place)
        return await adapter.survey([place])

    assert asyncio.run(keys()) == [None, None, None]
    with scene.attached(agent.id) as person:
        # whoever comes takes a row for the status line, and the agent draws itself anew
        until(agent.has_been_drawn_in_its_size)
        # until the second of that is over, a pane is looked at once more
        until(lambda: "fresh" not in str(asyncio.run(signs())))
        before = asyncio.run(signs())
        person.types("\x1b[I")
        last, *others = asyncio.run(keys())
        assert last is not None
        assert abs(time.time() * 1000 - last) < 60_000
        assert others == [None, None]
        assert asyncio.run(signs()) == before, "a key alone is no reason for a look"
        scene.tmux.run("select-pane", "-t", beside)
        assert [one is None for one in asyncio.run(keys())] == [True, False, True]
    assert asyncio.run(keys()) == [None, None, None]
