"""Finds the homes of identities: where each can be woken, which subscription names that place, and whether the name lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.homes import FragileName, Home, Reach
from wake_bridge.domain.names import Identity
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.explain.presence_query import in_batches, is_suggested, reach_of_receiver, reaches_of
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.routes import Routes
from wake_bridge.ports.adapter import NameJudge, Place


async def homes_of(
    identities: Iterable[Identity],
    routes: Routes,
    watch: Watch,
    subscriptions_of: Callable[[Identity], Sequence[Subscription]],
    reaches: Callable[[Iterable[Identity]], Awaitable[Mapping[Identity, Reach]]] | None = None,
) -> dict[Identity, Home]:
    """The home of each identity. They are looked at `in_batches`.

    Args:
        identities: whose.
        routes: where they can be reached.
        watch: looks there.
        subscriptions_of: the active subscriptions of an identity.
        reaches: finds the reach of a batch; without it `reaches_of` does.
    """
    reached = reaches or partial(reaches_of, routes=routes, watch=watch)
    found: dict[Identity, Home] = {}
    for some in in_batches(identities):
        reach, homes = await asyncio.gather(
            reached(some), asyncio.gather(*(_home(one, routes, watch, subscriptions_of(one)) for one in some))
        )
        found |= {one: replace(home, reach=reach[one]) for one, home in zip(some, homes, strict=True)}
    return found


async def _home(identity: Identity, routes: Routes, watch: Watch, theirs: Sequence[Subscription]) -> Home:
    """The home; its reach is filled in by `homes_of`."""
    address, speaker = routes.address(identity), routes.speaks_for(identity)
    shut: dict[str, Hold] = {}
    for one in theirs:
        if one.receiver is None:
            continue
        aside = routes.shut_now(one.receiver)
        if one.is_posted:
            aside = (await reach_of_receiver(identity, routes, watch, one.receiver)).hold
        if aside is not None:
            shut[one.id] = aside
    return Home(
        speaker=speaker.id if speaker is not None else "",
        pane=speaker.pane if speaker is not None else "",
        is_placed=bool(address.pane or address.binding),
        shut=shut,
        fragile=await _fragile_name(identity, routes, watch),
    )


async def fragile_names_of(
    identities: Iterable[Identity], routes: Routes, watch: Watch
) -> dict[Identity, FragileName | None]:
    """The name by which each identity is found, if it need not last. They are looked at `in_batches`."""
    found: dict[Identity, FragileName | None] = {}
    for some in in_batches(identities):
        names = await asyncio.gather(*(_fragile_name(one, routes, watch) for one in some))
        found |= zip(some, names, strict=True)
    return found


async def _fragile_name(identity: Identity, routes: Routes, watch: Watch) -> FragileName | None:
    """The name by which an identity is found, as things stand, if it need not last."""
    for route in routes.of(identity):
        adapter, address = routes.adapter(route), route.address
        if not isinstance(adapter, NameJudge) or not address.name:
            continue
        place = await watch.locate(route)
        if not isinstance(place, Place) or not (address.pane or await is_suggested(routes, route, place)):
            continue
        judged = await adapter.judge_name(place, address.name)
        if judged.doubts:
            speaker = routes.speaks_for(identity)
            return FragileName(
                address.name,
                judged.doubts,
                judged.commands,
                judged.name,
                is_of_target=bool(address.pane),
                said_by=speaker.id if speaker is not None and speaker.pane == address.suggested else "",
            )
    return None
