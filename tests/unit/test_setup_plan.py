"""`setup`: what is proposed for the agents that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wake_bridge.domain.names import is_identity
from wake_bridge.domain.setup import FoundAgent, LostIdentity, Plan, SetTarget, SetupStep, find_again, plan

HOME = Path("/home/ada")
API, WEB = HOME / "api", HOME / "web"


def agent(harness: str, directory: Path, pane: str, *owners: str) -> FoundAgent:
    return FoundAgent(harness, directory, pane, owners=owners)


def proposed(
    found: Sequence[FoundAgent],
    ours: Sequence[SetTarget] = (),
    by_hand: dict[str, str] | None = None,
    taken: Sequence[str] = (),
    known: Sequence[str] = (),
) -> Plan:
    return plan(found, ours, by_hand or {}, taken, known, HOME)


def names(made: Plan) -> list[str]:
    return [one.agent.identity for one in made.proposals]


def written(made: Plan) -> list[SetTarget]:
    """What a run with this plan leaves behind."""
    return [
        SetTarget(one.agent.identity, one.agent.pane, one.socket, one.agent.harness, one.agent.directory)
        for one in made.proposals
        if one.is_ours
    ]


def as_set_up(found: Sequence[FoundAgent], made: Plan) -> list[FoundAgent]:
    """The same agents, found again after a run."""
    return [replace(one, owners=(owner,)) for one, owner in zip(found, names(made), strict=True)]


def test_the_only_agent_of_its_kind_is_called_by_its_harness_and_several_by_their_directories() -> None:
    """One identity per agent from harness and directory (`@claude-api`, `@codex`)."""
    found = [agent("claude", API, "a:0.0"), agent("claude", WEB, "a:1.0"), agent("codex", API, "a:2.0")]

    assert names(proposed(found)) == ["@claude-api", "@claude-web", "@codex"]


def test_agents_of_one_kind_in_one_directory_are_numbered_and_the_home_directory_gives_no_name() -> None:
    """Identities are unique."""
    found = [
        agent("claude", API, "a:0.0"),
        agent("claude", API, "a:0.1"),
        agent("claude", HOME, "a:1.0"),
        agent("claude", HOME / "Проект", "a:2.0"),
        agent("claude", HOME / "My App (2)", "a:3.0"),
    ]

    assert names(proposed(found)) == ["@claude-api", "@claude-api-2", "@claude", "@claude-2", "@claude-my-app-2"]


def test_a_name_that_somebody_has_is_not_given_again() -> None:
    """Identities are unique, whoever else is in the graph."""
    assert names(proposed([agent("claude", API, "a:0.0")], taken=["@claude"])) == ["@claude-api"]


def test_a_second_run_proposes_the_same_and_changes_nothing() -> None:
    """Stable on repeat."""
    found = [agent("claude", API, "a:0.0"), agent("claude", WEB, "a:1.0"), agent("codex", API, "a:2.0")]
    first = proposed(found)

    again = proposed(as_set_up(found, first), written(first), known=names(first))

    assert names(again) == names(first)
    assert {one.step for one in again.proposals} == {SetupStep.KEEP}
    assert not again.changes


def test_a_new_agent_is_added_and_the_others_keep_their_names() -> None:
    """New agents are added; an only `@claude` is not renamed when a second one comes."""
    found = [agent("claude", API, "a:0.0")]
    first = proposed(found)

    more = [*as_set_up(found, first), agent("claude", WEB, "a:1.0")]
    again = proposed(more, written(first), known=names(first))

    assert [(one.agent.identity, one.step) for one in again.proposals] == [
        ("@claude", SetupStep.KEEP),
        ("@claude-web", SetupStep.ADD),
    ]


def test_an_agent_that_moved_takes_its_identity_along() -> None:
    """An agent started anew in another window is the same one: its harness and directory say so."""
    ours = [SetTarget("@codex", "a:2.0", harness="codex", directory=API)]

    (one,) = proposed([agent("codex", API, "b:0.0")], ours, known=["@codex"]).proposals

    assert (one.step, one.agent.identity, one.was) == (SetupStep.MOVE, "@codex", "a:2.0")


def test_an_identity_whose_agent_is_away_is_not_given_to_another() -> None:
    """A target that nobody answers at now stays whose it was: its agent comes back."""
    ours = [SetTarget("@codex", "a:2.0", harness="codex", directory=API)]

    made = proposed([agent("codex", WEB, "b:0.0")], ours, taken=["@codex"], known=["@codex"])

    assert names(made) == ["@codex-web"]


def test_an_identity_that_the_graph_has_lost_is_restored() -> None:
    """A graph that was made anew knows nobody: the targets alone wake no one."""
    ours = [SetTarget("@codex", "a:2.0", harness="codex", directory=API)]

    (one,) = proposed([agent("codex", API, "a:2.0", "@codex")], ours).proposals

    assert one.step is SetupStep.RESTORE


def test_what_was_set_up_by_hand_stays_as_it_is() -> None:
    """Safe on a set-up that exists: a pane that somebody is woken in gets no second identity."""
    made = proposed([agent("claude", API, "a:0.0", "@neo")], by_hand={"@neo": "a:0.0"}, known=["@neo"])

    assert [(one.agent.identity, one.step, one.is_ours) for one in made.proposals] == [
        ("@neo", SetupStep.KEEP_BY_HAND, False)
    ]
    assert not made.changes
    assert made.conflicts == {}


def test_a_name_that_is_configured_by_hand_for_an_empty_pane_is_a_conflict() -> None:
    """Refused when a target is already configured by hand differently; never silently another name."""
    made = proposed([agent("codex", API, "a:2.0")], by_hand={"@codex": "work:codex.0"}, taken=["@codex"])

    assert made.conflicts == {"@codex": "work:codex.0"}


def test_agents_whose_windows_moved_up_take_their_identities_back() -> None:
    """Indexes move up when a window before them is closed: a wake must not go to whoever has the index now."""
    ours = [
        SetTarget("@claude-api", "a:1.0", harness="claude", directory=API),
        SetTarget("@claude-web", "a:2.0", harness="claude", directory=WEB),
        SetTarget("@codex", "a:3.0", harness="codex", directory=API),
    ]
    found = [agent("claude", WEB, "a:1.0", "@claude-api"), agent("codex", API, "a:2.0", "@claude-web")]

    made = proposed(found, ours, known=["@claude-api", "@claude-web", "@codex"])

    assert [(one.agent.identity, one.step, one.was) for one in made.proposals] == [
        ("@claude-web", SetupStep.MOVE, "a:2.0"),
        ("@codex", SetupStep.MOVE, "a:3.0"),
    ]
    assert [one.identity for one in made.dropped] == ["@claude-api"]
    assert made.changes


def test_another_program_in_the_pane_of_one_of_ours_does_not_inherit_its_mail() -> None:
    """The codex is gone and a claude sits there: it gets a name of its own, and the codex's target goes."""
    ours = [SetTarget("@codex", "a:1.0", harness="codex", directory=API)]

    made = proposed([agent("claude", API, "a:1.0", "@codex")], ours, taken=["@codex"], known=["@codex"])

    assert [(one.agent.identity, one.step) for one in made.proposals] == [("@claude", SetupStep.ADD)]
    assert [one.identity for one in made.dropped] == ["@codex"]


def test_the_same_program_in_another_directory_of_its_pane_stays_who_it_is() -> None:
    """Started anew one directory further: no reason for a second identity."""
    ours = [SetTarget("@codex", "a:1.0", harness="codex", directory=API)]

    made = proposed([agent("codex", WEB, "a:1.0", "@codex")], ours, taken=["@codex"], known=["@codex"])

    assert [(one.agent.identity, one.step) for one in made.proposals] == [("@codex", SetupStep.KEEP)]
    assert not made.changes


HARNESSES = st.sampled_from(["claude", "codex", "odd name", "ü"])
DIRECTORIES = st.sampled_from([HOME, API, WEB, Path("/"), HOME / "веб", HOME / ("x" * 200), Path("/srv/api")])


@given(st.lists(st.tuples(HARNESSES, DIRECTORIES), max_size=8), st.integers(0, 8))
def test_names_are_identities_and_unique_and_a_repeated_run_changes_nothing(
    kinds: list[tuple[str, Path]], at_first: int
) -> None:
    """Whatever runs where, and whatever came later: unique names, and the next run is at rest."""
    found = [agent(harness, directory, f"a:{index}.0") for index, (harness, directory) in enumerate(kinds)]
    first = proposed(found[:at_first])
    later = [*as_set_up(found[:at_first], first), *found[at_first:]]
    second = proposed(later, written(first), taken=names(first), known=names(first))
    third = proposed(as_set_up(found, second), written(second), taken=names(second), known=names(second))

    assert all(is_identity(name) for name in names(second))
    assert len(set(names(second))) == len(found)
    assert names(second)[:at_first] == names(first)
    assert names(third) == names(second)
    assert not third.changes


def test_a_lost_identity_is_offered_the_agents_that_are_nobodys_its_own_name_first() -> None:
    """`setup --rebind` proposes; only what is expected of one alone is certain."""
    free = [agent("claude", API, "work:0.0"), agent("claude", API, "work:0.1"), agent("codex", WEB, "work:1.0")]
    a, b = LostIdentity("@a", "work:0.1", "claude", API), LostIdentity("@b", "work", "claude", API)
    c, d = LostIdentity("@c", "work:1.0", "codex", WEB), LostIdentity("@d", "gone:0.0")

    twins = find_again([a, b], free)
    alone = find_again([c], free)

    assert [[one.pane for one in finding.agents] for finding in twins] == [
        ["work:0.1", "work:0.0"],
        ["work:0.0", "work:0.1"],
    ]
    assert [finding.is_certain for finding in (*twins, *alone)] == [False, False, True]
    assert [finding.is_certain for finding in find_again([c, d], free)] == [False, False]
    assert [finding.is_certain for finding in find_again([d], free[:1])] == [False]
    assert find_again([c], free[:2])[0].agents == ()
