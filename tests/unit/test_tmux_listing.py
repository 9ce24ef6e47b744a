"""One listing for all who ask in the same moment, and what happens when it hangs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast
from unittest.mock import Mock

import pytest
from wake_bridge_adapters.bounded_call import CallResult
from wake_bridge_adapters.tmux import panes
from wake_bridge_adapters.tmux.pane_facts import NoPane
from wake_bridge_adapters.tmux.panes import Listing
from wake_bridge_adapters.tmux.resolve import Resolver

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import Nowhere, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wake_bridge_adapters.tmux.command import TmuxServer


class Server:
    """A server without panes; the first `hangs` calls get no answer until `gives_up`."""

    socket = "/tmp/tmux-0/none"
    program = "tmux"

    def __init__(self, hangs: int = 0) -> None:
        self.calls = 0
        self.gives_up = asyncio.Event()
        self._hangs = hangs

    async def ask(self, *_: Sequence[str], stdin: str = "") -> CallResult:  # noqa: ARG002 - as the real one
        self.calls += 1
        if self.calls <= self._hangs:
            await self.gives_up.wait()
            return CallResult(-9, "", "", timed_out=True)
        return CallResult(0, "", "")


def test_all_who_ask_in_the_same_moment_share_one_call() -> None:
    """Fifty bound panes must not cost fifty calls; who asks later asks anew."""

    async def story() -> int:
        server, panes = Server(), Listing()
        await asyncio.gather(*(panes.of(cast("TmuxServer", server)) for _ in range(50)))
        await panes.of(cast("TmuxServer", server))
        return server.calls

    assert asyncio.run(story()) == 2


def test_all_who_resolve_the_same_in_the_same_moment_share_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each adapter that reaches past a screen asks for the pane of its identity; who asks later asks anew."""
    chosen: list[Address] = []
    nowhere = Nowhere(HoldReason.UNREACHABLE, "nothing says where")

    def choose(_: Resolver, address: Address, *_seen: object) -> tuple[Nowhere, None]:
        chosen.append(address)
        return nowhere, None

    monkeypatch.setattr(Resolver, "_choose", choose)
    ada, ben = Address(Identity("@ada")), Address(Identity("@ben"))

    async def story() -> list[Place | Nowhere]:
        resolver = Resolver(lambda _: cast("TmuxServer", Server()), lambda _: "none", Mock(), Mock())
        answers = await asyncio.gather(*(resolver.resolve(one) for one in [ada, ben, ada, ada]))
        return [*answers, await resolver.resolve(ada)]

    assert asyncio.run(story()) == [nowhere] * 5
    assert sorted(one.identity for one in chosen) == ["@ada", "@ada", "@ben"]


def test_a_listing_that_hangs_is_asked_for_once_more_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """G-H1: one call that hangs must not keep all who share it waiting for its time-out."""
    monkeypatch.setattr(panes, "ASKED_AGAIN_AFTER", 0.02)

    async def story() -> tuple[object, int]:
        server, panes = Server(hangs=1), Listing()
        return await panes.of(cast("TmuxServer", server)), server.calls

    assert asyncio.run(story()) == ([], 2)


def test_a_server_that_never_answers_is_said_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every external call is bounded; a time-out is told as one."""
    monkeypatch.setattr(panes, "ASKED_AGAIN_AFTER", 0.02)

    async def story() -> object:
        server, panes = Server(hangs=2), Listing()
        asyncio.get_running_loop().call_later(0.05, server.gives_up.set)
        return await panes.of(cast("TmuxServer", server))

    nothing = asyncio.run(story())
    assert isinstance(nothing, NoPane)
    assert nothing.timed_out
