"""Wakes that have to be answered, with a daemon that dies at every commit: one of agent and person has them, never both, never none."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.answers_house import A_DAY, WITHIN, AnswersHouse, Death
from wake_bridge.domain.presence import PresenceState
from wake_bridge.testing.turned_clock import live

Act = Callable[[AnswersHouse], Awaitable[None] | None]


def _closes(house: AnswersHouse) -> None:
    house.desk.is_open = False


def _opens(house: AnswersHouse) -> None:
    house.desk.is_open = True


ACTS: dict[str, Act] = {
    "mail to answer": AnswersHouse.mail,
    "other mail": lambda house: house.mail(is_to_answer=False),
    "a moment": lambda house: house.lasts(12),
    "the wake arrives": AnswersHouse.wake_arrives,
    "the deadline": lambda house: house.lasts(WITHIN + 15),
    "an hour": lambda house: house.clock.turn(3_600_000),
    "a day": lambda house: house.lasts(A_DAY),
    "the agent answers": AnswersHouse.agent_answers,
    "the agent answers the first": lambda house: house.agent_answers(0),
    "the agent calls": AnswersHouse.agent_calls,
    "a person acknowledges": AnswersHouse.person_acknowledges,
    "the agent reads": AnswersHouse.agent_reads,
    "the agent works": lambda house: house.agent_is(PresenceState.ACTIVE),
    "the agent rests": lambda house: house.agent_is(PresenceState.IDLE),
    "the desk closes": _closes,
    "the desk opens": _opens,
}

STORIES: dict[str, tuple[str, ...]] = {
    "silent": ("mail to answer", "the wake arrives", "other mail", "the deadline", "a moment", "the agent answers"),
    "in time": ("mail to answer", "the wake arrives", "the agent answers", "other mail", "the deadline"),
    "reads": ("mail to answer", "the wake arrives", "the agent reads", "the deadline"),
    "never idle": ("the agent works", "mail to answer", "other mail", "the deadline", "the agent rests", "a moment"),
    "calls": ("mail to answer", "the wake arrives", "the agent calls", "a moment", "the agent answers", "the deadline"),
    "seen by its person": (
        "mail to answer",
        "the wake arrives",
        "a person acknowledges",
        "the deadline",
        "the agent answers",
    ),
    "nobody at the desk": ("the desk closes", "mail to answer", "the deadline", "a day", "the desk opens", "a moment"),
    "two": ("mail to answer", "mail to answer", "the wake arrives", "the agent answers the first", "the deadline"),
}


def played(acts: tuple[str, ...], death: Death) -> dict[str, object]:
    """Play the acts and check the promises; answers how it ended."""
    with tempfile.TemporaryDirectory() as directory:
        house = AnswersHouse(Path(directory), Death())

        async def story() -> dict[str, object]:
            async with house:
                house.death.at, house.death.is_before, house.death.commits = death.at, death.is_before, 0
                for act in acts:
                    await house.lives(lambda act=act: ACTS[act](house))  # type: ignore[misc]
                await house.lasts(4 * WITHIN)
                house.check()
                death.commits = house.death.commits
                return {
                    "told": len({one.id for one in house.desk.told}),
                    "answered": len(set(house.answered)),
                    "late": len(set(house.late)),
                    "settled": house.is_settled(),
                }

        return live(house.clock, story())


EXPECTED = {
    "silent": {"told": 1, "answered": 0, "late": 1, "settled": True},
    "in time": {"told": 0, "answered": 1, "late": 0, "settled": True},
    "reads": {"told": 0, "answered": 0, "late": 0, "settled": True},
    "never idle": {"told": 1, "answered": 0, "late": 0, "settled": True},
    "calls": {"told": 1, "answered": 0, "late": 1, "settled": True},
    "seen by its person": {"told": 0, "answered": 1, "late": 0, "settled": True},
    "nobody at the desk": {"told": 0, "answered": 0, "late": 0, "settled": True},
    "two": {"told": 1, "answered": 1, "late": 0, "settled": True},
}


@pytest.mark.parametrize("name", STORIES)
def test_each_story_ends_as_it_should_where_nobody_dies(name: str) -> None:
    """What the crashes below are held against."""
    assert played(STORIES[name], Death()) == EXPECTED[name]


def _dies(name: str, *, is_before: bool, every: int) -> int:
    whole = Death()
    played(STORIES[name], whole)
    assert whole.commits > 8
    deaths = range(1, whole.commits + 1, every)
    for at in deaths:
        assert played(STORIES[name], Death(at, is_before))["settled"], at
    return len(deaths)


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", [one for one in STORIES if one != "nobody at the desk"])
def test_a_death_at_a_commit_loses_nothing_and_tells_nobody_twice(name: str, is_before: bool) -> None:
    """Killed right before or right after a commit of the daemon: the wake is answered, or a person has it, once."""
    _dies(name, is_before=is_before, every=4)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", STORIES)
def test_the_same_at_every_single_commit(
    name: str, is_before: bool, record_property: Callable[[str, object], None]
) -> None:
    """Each commit of each story."""
    record_property("trials", _dies(name, is_before=is_before, every=1))


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors]
HISTORIES = st.lists(st.sampled_from([one for one in ACTS if one not in {"a day", "an hour"}]), min_size=3, max_size=10)


def _any_history(acts: list[str], at: int, is_before: bool) -> None:
    at_last = ("the desk opens", "the agent rests", "an hour")
    assert played(("mail to answer", *acts, *at_last), Death(at or None, is_before))["settled"]


@given(HISTORIES, st.integers(0, 60), st.booleans())
@settings(max_examples=12, suppress_health_check=QUIET)
def test_any_history_keeps_the_promises(acts: list[str], at: int, is_before: bool) -> None:
    """Whatever agent, person and channel do in whichever order, with a death anywhere."""
    _any_history(acts, at, is_before)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@given(HISTORIES, st.integers(0, 60), st.booleans())
@settings(max_examples=500, suppress_health_check=QUIET)
def test_many_histories_keep_the_promises(acts: list[str], at: int, is_before: bool) -> None:
    """The same, five hundred times."""
    _any_history(acts, at, is_before)
