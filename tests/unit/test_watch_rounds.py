"""The watch's rounds: how often it looks, and what it does not spend calls on."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from wake_bridge.domain.errors import SourceUnavailable
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import SAMPLES_APART, Evidence, Observation, PresenceState, single_vote
from wake_bridge.domain.routing import Address, Capabilities, Route
from wake_bridge.engine.explain.pane_reports import Glance
from wake_bridge.engine.explain.presence_query import ASKED_AT_ONCE, reaches_of
from wake_bridge.engine.graph_queries import GraphPresence
from wake_bridge.engine.presence import watch
from wake_bridge.engine.presence.remembered_panes import RememberedPanes
from wake_bridge.engine.presence.resolve_schedule import (
    PLANNED_AT_ONCE,
    PLANNED_AT_REST,
    RENEWED_AT_ONCE,
    RESOLVE_AGAIN,
    RESOLVED_AT_ONCE,
    STILL,
    STILL_AFTER,
    ResolveSchedule,
)
from wake_bridge.engine.presence.tracked_place import LOOK_AGAIN
from wake_bridge.engine.presence.watch import (
    CHANGE_LASTS,
    LIVELY_ROUND,
    LOOKS_AGAIN_APART,
    QUICK_ROUND,
    ROUND,
    Watch,
)
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.ports.adapter import AdapterContext, Nowhere, Place
from wake_bridge.testing.memory_adapter import ImaginedAgent, MemoryAdapter, MemoryConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wake_bridge.engine.graph_queries import GraphQueries

ADA = Identity("@ada")


class HandClock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.at = 1_000_000

    def now(self) -> Instant:
        return Instant(self.at)

    def wall(self) -> Instant:
        return Instant(self.at)

    def local(self) -> datetime:
        return datetime.fromtimestamp(self.at / 1000, UTC)


class CountingAdapter(MemoryAdapter):
    """Also counts what it was asked to resolve."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(MemoryConfig(), AdapterContext(10, 10, "", {}, clock))
        self.resolved: Counter[str] = Counter()

    async def resolve(self, address: Address) -> Place | Nowhere:
        self.resolved[address.suggested] += 1
        return await super().resolve(address)


class OneRoute:
    """Every identity lives with the agent of its name."""

    def __init__(self, adapter: CountingAdapter) -> None:
        self._adapter = adapter

    def of(self, identity: Identity) -> list[Route]:
        return [Route("memory", Address(identity, suggested=identity.removeprefix("@")), self._adapter.capabilities)]

    def names(self, _: Identity) -> list[str]:
        return ["memory"]

    def through(self, identity: Identity, _: Iterable[str]) -> list[Route]:
        return self.of(identity)

    def adapter(self, _: Route) -> CountingAdapter:
        return self._adapter


class Scene:
    """A watch over imagined agents; `waiting` are those for whom something waits, `told` whose change it told."""

    def __init__(self, watched: Iterable[Identity], memory: RememberedPanes | None = None) -> None:
        self.clock = HandClock()
        self.adapter = CountingAdapter(self.clock)
        self.routes = OneRoute(self.adapter)
        self.waiting: set[Identity] = set()
        self.driven_elsewhere: set[Identity] = set()
        self.told: list[Identity] = []
        self.watch = Watch(
            cast("Routes", self.routes),
            Current(EngineSettings()),
            self.clock,
            watched=lambda: frozenset(watched),
            waiting=lambda: self.waiting,
            changed=self.told.append,
            memory=memory,
            driven_elsewhere=lambda one: one in self.driven_elsewhere,
        )

    def rounds(self, count: int = 1, seconds: float = ROUND) -> None:
        """Let the watch go round, `seconds` apart."""
        for _ in range(count):
            asyncio.run(self.watch.round())
            self.clock.at += int(seconds * 1000)

    def pause(self) -> float:
        return self.watch._pause()


@pytest.mark.parametrize("is_daemon", [True, False])
def test_each_look_of_the_daemon_is_a_line_at_debug_and_a_commands_is_none(*, is_daemon: bool) -> None:
    """`log_level = "debug"` printed nothing more; a command that looks by itself prints its answer alone."""
    scene = Scene([ADA], memory=Mock(spec=RememberedPanes) if is_daemon else None)
    scene.adapter.agents["ada"] = ImaginedAgent()
    with capture_logs() as lines:
        scene.rounds()
    looks = [(one["log_level"], one["agent"], one["reason"]) for one in lines if one["event"] == "looked"]
    assert looks == [("debug", ADA, PresenceState.IDLE.value)] * is_daemon


def test_many_identities_without_a_place_cost_few_calls_a_round() -> None:
    """Watching costs one call a round; what cannot be found must not cost one for every identity."""
    scene = Scene([Identity(f"@nobody{number}") for number in range(1000)])
    scene.rounds(10)
    assert scene.adapter.resolved.total() == 10 * RESOLVED_AT_ONCE
    assert max(scene.adapter.resolved.values()) == 1, "each is tried before one is tried again"


def test_what_nobody_misses_is_resolved_anew_a_few_at_a_time_the_longest_unasked_first() -> None:
    """However many adapters there are: with thousands of identities that alone kept a daemon at work."""
    clock = HandClock()
    schedule = ResolveSchedule(clock)
    wanted = {(one, adapter): RESOLVE_AGAIN for one in (ADA, Identity("@ben")) for adapter in names(26)}
    for key in wanted:
        schedule.note_resolved(key)
        clock.at += 1
    clock.at += RESOLVE_AGAIN

    assert schedule.plan(wanted) == [*wanted][:RENEWED_AT_ONCE]
    assert schedule.plan(wanted) == [*wanted][RENEWED_AT_ONCE : 2 * RENEWED_AT_ONCE]
    assert schedule.plan(wanted) == [*wanted][2 * RENEWED_AT_ONCE :]
    assert schedule.plan(wanted) == []


def test_one_without_a_place_is_tried_again_after_a_while() -> None:
    """A target that could not be found may come."""
    scene = Scene([ADA])
    scene.rounds(1 + int(RESOLVE_AGAIN / 1000 / ROUND))
    assert scene.adapter.resolved["ada"] == 2


def test_a_place_that_is_missed_is_looked_for_at_every_round() -> None:
    """A held delivery goes out soon after its obstacle is gone."""
    scene = Scene([ADA])
    scene.waiting = {ADA}
    scene.rounds(5)
    scene.adapter.agents["ada"] = ImaginedAgent()
    scene.rounds(1)
    assert scene.adapter.resolved["ada"] == 6
    assert scene.told == [ADA]


def test_whom_another_host_drives_is_not_looked_for_in_haste() -> None:
    """Most mail on a graph that many hosts share is for agents of other hosts; once that one is silent, it is sought."""
    scene = Scene([ADA])
    scene.waiting = scene.driven_elsewhere = {ADA}
    scene.rounds(int(RESOLVE_AGAIN / 1000 / ROUND))
    assert scene.adapter.resolved["ada"] == 1
    scene.driven_elsewhere = set()
    scene.rounds(3)
    assert scene.adapter.resolved["ada"] == 4


def test_what_changes_at_an_agent_that_another_host_drives_is_told_where_something_waits() -> None:
    """A person sends or clears the text that was left in its composer here: what waits for that is looked at soon."""
    scene = Scene([ADA])
    scene.waiting = scene.driven_elsewhere = {ADA}
    scene.adapter.agents["ada"] = ImaginedAgent()
    scene.rounds(1)
    assert scene.told == [ADA]


def test_who_has_moved_no_longer_lives_where_it_was_seen_and_is_found_in_the_next_round() -> None:
    """After `bind` and `unbind` the former place speaks for nobody, not until it is resolved again anyway."""
    scene = Scene([ADA, Identity("@ben")])
    scene.adapter.agents = {"ada": ImaginedAgent(), "ben": ImaginedAgent()}
    scene.rounds()
    scene.watch.has_moved(ADA)
    assert scene.watch.place_of(ADA) is None
    assert scene.watch.place_of(Identity("@ben")) is not None
    scene.rounds(1, seconds=0)
    assert scene.adapter.resolved == {"ada": 2, "ben": 1}
    assert scene.watch.place_of(ADA) is not None


def test_those_that_are_missed_do_not_keep_others_from_being_found() -> None:
    """Bound panes are watched, whatever else waits."""
    missed = [Identity(f"@nobody{number}") for number in range(5 * RESOLVED_AT_ONCE)]
    scene = Scene([*missed, ADA])
    scene.waiting = set(missed)
    scene.rounds(1)
    assert scene.adapter.resolved["ada"] == 1


@pytest.mark.parametrize(("something_waits", "pause"), [(False, LIVELY_ROUND), (True, QUICK_ROUND)])
def test_rounds_are_closer_for_a_while_after_a_change(something_waits: bool, pause: float) -> None:
    """4 Hz for 5 s after a change where something waits; else soon enough for two samples within 3 s."""
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent()
    scene.rounds(5)
    assert scene.pause() == ROUND
    scene.waiting = {ADA} if something_waits else set()
    scene.adapter.agents["ada"].state = PresenceState.ACTIVE
    scene.rounds(1)
    assert scene.pause() == pause
    scene.rounds(5)
    assert scene.pause() == ROUND


def test_a_second_look_comes_as_soon_as_it_can_prove_idle() -> None:
    """Two samples that agree, 1.5 s apart; the first of them may be the watch's own."""
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent(PresenceState.ACTIVE)
    scene.rounds(1, seconds=1.0)
    scene.adapter.agents["ada"].state = PresenceState.IDLE
    came_to_rest = scene.clock.at
    scene.rounds(1, seconds=1.0)
    (route,) = scene.routes.of(ADA)
    place = asyncio.run(scene.watch.locate(route))
    assert isinstance(place, Place)

    first = asyncio.run(scene.watch.look(route, place))
    assert first.wants_second_look
    assert scene.watch.second_look_at(route) == came_to_rest + SAMPLES_APART
    scene.clock.at = came_to_rest + SAMPLES_APART
    assert asyncio.run(scene.watch.look(route, place)).state is PresenceState.IDLE


def test_a_look_that_does_not_agree_counts_from_now() -> None:
    """What moved between two looks proves nothing; the time begins anew."""
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent(PresenceState.ACTIVE)
    scene.rounds(1)
    (route,) = scene.routes.of(ADA)
    place = asyncio.run(scene.watch.locate(route))
    assert isinstance(place, Place)
    asyncio.run(scene.watch.look(route, place))
    assert scene.watch.second_look_at(route) == scene.clock.at + SAMPLES_APART


def test_many_looks_in_a_row_do_not_put_off_the_proof() -> None:
    """The first look that agrees counts, however many were taken since."""
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent()
    scene.rounds(1, seconds=0)
    came_to_rest = scene.clock.at
    (route,) = scene.routes.of(ADA)
    place = asyncio.run(scene.watch.locate(route))
    assert isinstance(place, Place)
    for _ in range(100):
        scene.clock.at += 10
        asyncio.run(scene.watch.look(route, place))
    assert scene.watch.second_look_at(route) == came_to_rest + SAMPLES_APART
    scene.clock.at = came_to_rest + SAMPLES_APART
    assert asyncio.run(scene.watch.look(route, place)).state is PresenceState.IDLE


def test_all_watched_places_of_some_adapters_are_looked_at_afresh() -> None:
    """`panes` is told how agents stand now, by looks of which one is new."""
    scene = Scene([ADA])
    agent = scene.adapter.agents["ada"] = ImaginedAgent()
    scene.rounds(1, seconds=0)
    (first,) = asyncio.run(scene.watch.look_at_all({"memory"})).values()
    scene.clock.at += SAMPLES_APART
    ((key, proven),) = asyncio.run(scene.watch.look_at_all({"memory"})).items()
    agent.state = PresenceState.ACTIVE
    (busy,) = asyncio.run(scene.watch.look_at_all({"memory"})).values()

    place = scene.watch.place_of(ADA)
    assert place is not None
    assert key == ("memory", place.key)
    told = [Glance.of(one) for one in (first, proven, busy)]
    assert [(one.state, one.looks) for one in told] == [
        (PresenceState.UNKNOWN, 1),
        (PresenceState.IDLE, 2),
        (PresenceState.ACTIVE, 1),
    ]
    assert asyncio.run(scene.watch.look_at_all({"another"})) == {}


def test_who_was_proven_idle_and_has_not_changed_is_not_looked_at_again_for_a_listing() -> None:
    """`panes` beside a daemon: fifty looks of which each is a call took two seconds."""
    scene = Scene([ADA])
    agent = scene.adapter.agents["ada"] = ImaginedAgent()
    scene.rounds(2)
    ((key, proven),) = asyncio.run(scene.watch.look_at_all({"memory"})).items()
    scene.clock.at += 60_000
    assert asyncio.run(scene.watch.look_at_all({"memory"})) == {key: proven}
    assert Glance.of(proven).state is PresenceState.IDLE

    agent.composer = "half a sentence"
    (typing,) = asyncio.run(scene.watch.look_at_all({"memory"})).values()
    assert typing.state is PresenceState.USER_TYPING


def test_all_are_asked_for_their_places_at_once() -> None:
    """An adapter may answer all of them with one call; one after the other each would cost one."""
    everybody = [Identity(f"@{name}") for name in names(5)]
    scene = Scene(everybody)
    all_have_asked = asyncio.Barrier(len(everybody))
    resolving = scene.adapter.resolve

    async def resolve(address: Address) -> Place | Nowhere:
        async with asyncio.timeout(5):
            await all_have_asked.wait()
        return await resolving(address)

    scene.adapter.resolve = resolve  # type: ignore[method-assign]
    scene.adapter.agents |= {name: ImaginedAgent() for name in names(5)}
    found = asyncio.run(reaches_of([*everybody, *everybody], cast("Routes", scene.routes), scene.watch))
    assert [*found] == everybody
    assert all(one.hold is None for one in found.values())


def test_of_thousands_some_are_asked_for_their_places_at_a_time() -> None:
    """An adapter is given so long for each: those that wait behind thousands would seem not to be answered for."""
    everybody = [Identity(f"@{name}") for name in names(3 * ASKED_AT_ONCE)]
    scene = Scene(everybody)
    scene.adapter.agents |= {name: ImaginedAgent() for name in names(3 * ASKED_AT_ONCE)}
    resolving = scene.adapter.resolve
    under_way = [0]

    async def resolve(address: Address) -> Place | Nowhere:
        under_way.append(under_way[-1] + 1)
        await asyncio.sleep(0)
        under_way.append(under_way[-1] - 1)
        return await resolving(address)

    scene.adapter.resolve = resolve  # type: ignore[method-assign]
    found = asyncio.run(reaches_of(everybody, cast("Routes", scene.routes), scene.watch))
    assert [*found] == everybody
    assert max(under_way) == ASKED_AT_ONCE


def test_what_is_not_watchable_is_looked_at_only_while_a_wake_waits_for_it() -> None:
    """Accessibility is read only while a wake is due."""
    scene = Scene([ADA])
    agent = scene.adapter.agents["ada"] = ImaginedAgent()
    looks: list[Address] = []
    seeing = scene.adapter.observe

    async def observe(place: Place, address: Address) -> Observation:
        looks.append(address)
        return await seeing(place, address)

    scene.adapter.capabilities = Capabilities(watchable=False)  # type: ignore[misc]
    scene.adapter.observe = observe  # type: ignore[method-assign]
    scene.rounds(40)
    agent.state = PresenceState.ACTIVE
    scene.rounds(1)
    assert looks == []

    scene.waiting = {ADA}
    scene.rounds(1)
    assert len(looks) == 1


def test_a_sighting_says_what_was_last_seen_and_since_when_without_a_new_look() -> None:
    """`status --watch`: presence and since when; one look alone proves nothing, but says what it speaks for."""
    scene = Scene([ADA])
    agent = scene.adapter.agents["ada"] = ImaginedAgent()
    assert scene.watch.sighted(ADA) is None
    scene.rounds()
    first = scene.watch.sighted(ADA)
    began = scene.clock.at - int(ROUND * 1000)
    scene.rounds(2 + int(LOOK_AGAIN / ROUND / 1000))
    proven = scene.watch.sighted(ADA)
    agent.state = PresenceState.ACTIVE
    scene.rounds(1)
    busy = scene.watch.sighted(ADA)

    assert first
    assert (first.state, first.looks_like) == (PresenceState.UNKNOWN, PresenceState.IDLE)
    assert proven
    assert (proven.state, proven.looks_like, proven.since) == (PresenceState.IDLE, PresenceState.IDLE, began)
    assert busy
    assert (busy.state, busy.looks_like) == (PresenceState.ACTIVE, PresenceState.ACTIVE)
    assert busy.since > began


def test_whoever_something_waits_for_is_watched_with_or_without_a_subscription() -> None:
    """Bound panes are watched so that a wake costs one look; what waits has the best reason of all."""
    scene = Scene([])
    scene.waiting = {Identity("@unsubscribed")}
    scene.rounds()
    assert scene.adapter.resolved["unsubscribed"] == 1


def names(count: int) -> list[str]:
    return [f"agent{number}" for number in range(count)]


def test_a_look_that_hangs_keeps_nobody_else_from_being_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """G-H1: the others are woken as soon as if nothing hung; and what hangs is not asked again meanwhile."""
    monkeypatch.setattr(watch, "PATIENCE", 0.05)
    scene = Scene([Identity(f"@{name}") for name in names(5)])
    scene.adapter.agents |= {name: ImaginedAgent() for name in names(5)}
    seen: Counter[str] = Counter()
    seeing = scene.adapter.observe

    async def observe(place: Place, address: Address) -> Observation:
        seen[place.label] += 1
        if place.label == "agent0":
            await asyncio.Event().wait()
        return await seeing(place, address)

    scene.adapter.observe = observe  # type: ignore[method-assign]

    async def three_rounds() -> None:
        for state in (PresenceState.IDLE, PresenceState.ACTIVE, PresenceState.IDLE):
            for agent in scene.adapter.agents.values():
                agent.state = state
            await scene.watch.round()
            scene.clock.at += int(ROUND * 1000)

    asyncio.run(three_rounds())
    assert seen == {"agent0": 1, "agent1": 3, "agent2": 3, "agent3": 3, "agent4": 3}


def test_a_survey_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """G-H1: the next round asks anew."""
    monkeypatch.setattr(watch, "PATIENCE", 0.05)
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent()
    surveying, surveys = scene.adapter.survey, 0

    async def survey(places: Sequence[Place]) -> Mapping[str, str]:
        nonlocal surveys
        surveys += 1
        if surveys == 1:
            await asyncio.Event().wait()
        return await surveying(places)

    scene.adapter.survey = survey  # type: ignore[method-assign]

    async def two_rounds() -> None:
        await scene.watch.round()
        assert scene.watch.sighted(ADA) is None
        await scene.watch.round()

    asyncio.run(two_rounds())
    assert scene.watch.sighted(ADA)


def test_what_a_round_raises_is_not_swallowed() -> None:
    """The supervisor must hear of it: a job that fails is started again."""
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent()
    scene.waiting = {ADA}
    scene.watch._changed = Mock(side_effect=LookupError("the ledger is away"))
    with pytest.raises(LookupError):
        scene.rounds()


def test_unchanged_places_are_looked_at_one_in_a_round() -> None:
    """Two hundred panes cost few calls while nothing happens: one look in five seconds."""
    scene = Scene([Identity(f"@{name}") for name in names(8)])
    scene.adapter.agents |= {name: ImaginedAgent() for name in names(8)}
    scene.rounds()
    seen: list[str] = []
    seeing = scene.adapter.observe

    async def observe(place: Place, address: Address) -> Observation:
        seen.append(place.label)
        return await seeing(place, address)

    scene.adapter.observe = observe  # type: ignore[method-assign]
    scene.clock.at += STILL * LOOK_AGAIN
    for looks in range(1, 9):
        scene.rounds(2)
        assert len(seen) == looks
        scene.clock.at += LOOKS_AGAIN_APART
    assert sorted(seen) == names(8)


def test_a_pane_that_stands_still_for_long_costs_little_until_it_changes_or_something_waits() -> None:
    """An idle daemon: who writes to nobody need not be found and looked at all the time."""
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent()
    looks: list[Place] = []
    seeing = scene.adapter.observe

    async def observe(place: Place, address: Address) -> Observation:
        looks.append(place)
        return await seeing(place, address)

    scene.adapter.observe = observe  # type: ignore[method-assign]
    scene.rounds(2 + int(STILL_AFTER / 1000 / ROUND))
    assert (len(looks), scene.adapter.resolved["ada"]) == (2, 2), "a second look proves that it idles"
    looks.clear()
    scene.adapter.resolved.clear()
    scene.rounds(int(3_600 / ROUND))
    assert (len(looks), scene.adapter.resolved["ada"]) == (6, 12), "once in ten minutes, and in five"

    scene.adapter.agents["ada"].state = PresenceState.WAITING_ON_APPROVAL
    scene.rounds(int(STILL_AFTER / 1000 / ROUND))
    looks.clear()
    scene.rounds(int(600 / ROUND))
    assert len(looks) == 10, "what stands in the way may end in silence"

    resolved = scene.adapter.resolved["ada"]
    scene.waiting = {ADA}
    scene.rounds(1 + int(RESOLVE_AGAIN / 1000 / ROUND))
    assert scene.adapter.resolved["ada"] > resolved
    resolved, scene.waiting = scene.adapter.resolved["ada"], set()
    scene.adapter.agents["ada"].state = PresenceState.ACTIVE
    scene.rounds(1 + int((PLANNED_AT_REST + RESOLVE_AGAIN) / 1000 / ROUND))
    assert scene.adapter.resolved["ada"] > resolved


def test_at_rest_the_routes_of_all_are_gone_through_now_and_then() -> None:
    """What each identity's routes are costs questions to the ledger; who comes or goes is seen in the next round."""
    everybody = {ADA}
    scene = Scene(everybody)
    scene.adapter.agents |= {"ada": ImaginedAgent(), "ben": ImaginedAgent()}
    asked: list[Identity] = []
    naming = scene.routes.names

    def names(identity: Identity) -> list[str]:
        asked.append(identity)
        return naming(identity)

    scene.routes.names = names  # type: ignore[assignment, method-assign]
    scene.rounds(2)
    asked.clear()
    scene.rounds(int(60 / ROUND))
    assert asked == [ADA] * 6
    everybody.add(Identity("@ben"))
    scene.rounds()
    assert scene.watch.sighted(Identity("@ben"))
    everybody.remove(Identity("@ben"))
    scene.rounds()
    assert scene.watch.sighted(Identity("@ben")) is None


def test_newcomers_are_found_soon_however_many_come() -> None:
    """Two hundred panes are known within seconds of a start."""
    count = 3 * RESOLVED_AT_ONCE
    scene = Scene([Identity(f"@{name}") for name in names(count)])
    scene.adapter.agents |= {name: ImaginedAgent() for name in names(count)}
    scene.rounds()
    assert scene.pause() == QUICK_ROUND
    scene.rounds(2, seconds=QUICK_ROUND)
    scene.clock.at += CHANGE_LASTS
    assert scene.pause() == ROUND
    assert all(scene.watch.sighted(Identity(f"@{name}")) for name in names(count))


def test_thousands_of_newcomers_are_gone_through_once_a_second() -> None:
    """Quick rounds take newcomers in turn; who they are is not asked in each round."""
    asked: list[int] = []
    count = 100 * RESOLVED_AT_ONCE

    class Everybody(list[Identity]):
        def __iter__(self) -> Iterator[Identity]:
            asked.append(scene.clock.at)
            return super().__iter__()

    scene = Scene(Everybody(Identity(f"@{name}") for name in names(count)))
    scene.rounds(40, seconds=QUICK_ROUND)
    assert scene.adapter.resolved.total() == 40 * RESOLVED_AT_ONCE
    assert len(asked) == 10


def test_of_thousands_some_have_their_turn_in_each_plan_and_who_moved_is_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To ask for the routes of all at once would keep every wake waiting."""
    asked: list[Identity] = []
    scene = Scene([Identity(f"@{name}") for name in names(10 * PLANNED_AT_ONCE)])

    def names_of(who: Identity) -> list[str]:
        asked.append(who)
        return ["memory"]

    monkeypatch.setattr(scene.routes, "names", names_of)
    scene.rounds()
    assert len(asked) == PLANNED_AT_ONCE
    scene.rounds(9)
    assert len(set(asked)) == 10 * PLANNED_AT_ONCE
    scene.watch.has_moved(ADA)
    scene.watch.has_moved(moved := asked[-1])
    asked.clear()
    scene.rounds()
    assert moved in asked
    assert ADA not in asked, "nobody watches it"


def test_all_whose_samples_were_dropped_are_looked_at_in_the_next_round() -> None:
    """What follows a wake is judged anew, and soon, however many were woken since the last round."""
    scene = Scene([Identity(f"@{name}") for name in names(5)])
    scene.adapter.agents |= {name: ImaginedAgent() for name in names(5)}
    scene.rounds()
    for name in names(5):
        scene.watch.forget(Identity(f"@{name}"))
    scene.rounds()
    assert all(scene.watch.sighted(Identity(f"@{name}")) for name in names(5))


def test_what_the_graph_says_weighs_against_idle_while_it_is_fresh() -> None:
    """A HARNESS_PRESENCE row is read with each look, at most once a second and once for a log that stays as it is.

    A busy graph vetoes nothing.
    """
    scene = Scene([ADA])
    scene.adapter.agents["ada"] = ImaginedAgent()
    rows = [{"agentIdentity": ADA, "state": "active", "source": "mcp-client", "lastSeenAt": "1970-01-01T00:16:40.000Z"}]
    asked: list[Instant] = []

    class Graph:
        async def presences(self, since: Instant) -> list[dict[str, str]]:
            asked.append(since)
            if scene.clock.at > 1_004_000:
                raise SourceUnavailable("it is locked")
            return rows

    log_versions = [1]
    said = GraphPresence(
        cast("GraphQueries", Graph()), Current(EngineSettings()), scene.clock, lambda: log_versions[-1]
    )

    def told() -> tuple[Evidence, ...]:
        return asyncio.run(said.of(ADA))

    assert [one.vote for one in told()] == [PresenceState.ACTIVE]
    assert single_vote((Evidence("composer-empty", PresenceState.IDLE), *told())).vote is PresenceState.ACTIVE
    assert len(asked) == 1, "once a second"
    assert asyncio.run(said.of(Identity("@other"))) == ()
    scene.watch._said = said.of
    route = scene.routes.of(ADA)[0]
    place = asyncio.run(scene.watch.locate(route))
    assert isinstance(place, Place)
    assert asyncio.run(scene.watch.look(route, place)).state is PresenceState.ACTIVE
    scene.clock.at += 4_500
    assert [one.vote for one in told()] == [PresenceState.ACTIVE]
    assert len(asked) == 1, "nothing was committed since"
    log_versions.append(2)
    assert told() == (), "the graph does not answer"
    assert len(asked) == 2
