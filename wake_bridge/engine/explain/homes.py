"""Finds the homes of identities: where each can be woken, by whose word, and whether that word lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.homes import DoubtfulName, Home, Reach
from wake_bridge.domain.names import Identity
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.explain.presence_query import ASKED_AT_ONCE, is_suggested, reach_of_receiver, reaches_of
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
    """The homes of identities, of some side by side: an adapter may answer all that is asked of them with few calls.

    Args:
        identities: whose.
        routes: where they can be reached.
        watch: looks there.
        subscriptions_of: the active subscriptions of an identity.
        reaches: how their reach is found, where `reaches_of` alone does not.
    """
    reached = reaches or partial(reaches_of, routes=routes, watch=watch)
    asked = [*dict.fromkeys(identities)]
    found: dict[Identity, Home] = {}
    for first in range(0, len(asked), ASKED_AT_ONCE):
        some = asked[first : first + ASKED_AT_ONCE]
        reach, homes = await asyncio.gather(
            reached(some), asyncio.gather(*(_home(one, routes, watch, subscriptions_of(one)) for one in some))
        )
        found |= {one: replace(home, reach=reach[one]) for one, home in zip(some, homes, strict=True)}
    return found


async def _home(identity: Identity, routes: Routes, watch: Watch, theirs: Sequence[Subscription]) -> Home:
    """The home without its reach."""
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
        doubtful=await _doubtful_name(identity, routes, watch),
    )


async def doubtful_names(
    identities: Iterable[Identity], routes: Routes, watch: Watch
) -> dict[Identity, DoubtfulName | None]:
    """See `_doubtful_name`, of `ASKED_AT_ONCE` side by side."""
    asked = [*dict.fromkeys(identities)]
    found: dict[Identity, DoubtfulName | None] = {}
    for first in range(0, len(asked), ASKED_AT_ONCE):
        some = asked[first : first + ASKED_AT_ONCE]
        names = await asyncio.gather(*(_doubtful_name(one, routes, watch) for one in some))
        found |= zip(some, names, strict=True)
    return found


async def _doubtful_name(identity: Identity, routes: Routes, watch: Watch) -> DoubtfulName | None:
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
            says_it = not address.pane and speaker is not None and speaker.pane == address.suggested
            return DoubtfulName(
                address.name,
                judged.doubts,
                judged.commands,
                judged.name,
                is_of_target=bool(address.pane),
                said_by=speaker.id if says_it and speaker is not None else "",
            )
    return None
