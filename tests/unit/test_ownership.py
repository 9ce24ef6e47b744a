"""An agent manages only its own: who runs a command, and what it may touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.names import Identity
from wake_bridge.domain.ownership import PERSON, READ_INBOX, RULES, Invoker, require_own
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.sessions import Session
from wake_bridge.system.ancestry import Ancestry, Homes, RunningProcess, names_of_harnesses

A, B = Identity("@a"), Identity("@b")
SHELL = RunningProcess(300, "9", ("bash", "-c", "wake-bridge list"))
AGENT = RunningProcess(110, "6", ("claude",))
PANE = RunningProcess(100, "5", ("-bash",))
HERE = Binding("/tmp/tmux-0/default", 1, "$0", "%1", 100, "5", 110, "6")
THERE = replace(HERE, pane_id="%2", pane_pid=200, pane_started="7", agent_pid=210, agent_started="8")
MINE = Invoker("claude", 110, frozenset({A}), "it is so", frozenset({B}))
UNKNOWN = Invoker("claude", 110, frozenset(), "nobody knows whose it is", frozenset({B}))


def nothing(scope: str, grantee: Identity) -> bool:  # noqa: ARG001 - a permission nobody has
    return False


def invoker(
    *above: RunningProcess,
    fences: Mapping[Identity, Binding] | None = None,
    sessions: tuple[Session, ...] = (),
    own: Mapping[str, str] | None = None,
    environments: Mapping[int, Mapping[str, str]] | None = None,
) -> Invoker:
    """Who runs a command below these processes; @a and @b are known, and 210 is @b's agent, alive."""
    ancestry = Ancestry(
        above,
        names_of_harnesses(Path("/nowhere")),
        own or {},
        {A, B}.__contains__,
        lambda pid: (environments or {}).get(pid, {}),
        {110: "6", 210: "8"}.get,  # type: ignore[arg-type] # no other is asked for
    )
    return ancestry.invoker(Homes(list((fences or {}).items()), sessions))


@pytest.mark.parametrize("command", RULES)
def test_an_agent_may_use_no_command_of_the_table_for_another(command: str) -> None:
    """Every one of them ends with 7, says for whom the agent is taken and why, and what to do."""
    assert require_own(MINE, command, A, nothing)
    assert require_own(PERSON, command, B, nothing)
    with pytest.raises(RefusedForSafety) as refused:
        require_own(MINE, command, B, nothing)

    assert refused.value.where == "you are taken for @a (claude, process 110), because it is so"
    assert "a person can do this in their own shell" in refused.value.hint


@pytest.mark.parametrize("command", RULES)
def test_a_permission_opens_what_only_shows_the_mail(command: str) -> None:
    """CAN_READ_INBOX_OF allows `inbox` and `read --keep`, and nothing that changes anything."""

    def has(scope: str, grantee: Identity) -> bool:
        return (scope, grantee) == (READ_INBOX, A)

    if command in {"inbox", "read --keep"}:
        assert not require_own(MINE, command, B, has)
        return
    with pytest.raises(RefusedForSafety):
        require_own(MINE, command, B, has)


def test_an_agent_that_nobody_knows_is_nobody_who_lives_elsewhere() -> None:
    """Who runs in no known pane may be anybody whose agent is not known to be another one: it gains nothing by hiding."""
    assert require_own(UNKNOWN, "inbox", A, nothing)
    with pytest.raises(RefusedForSafety, match="has an agent of its own, @b"):
        require_own(UNKNOWN, "inbox", B, nothing)


def test_a_shell_without_a_harness_above_it_is_the_persons() -> None:
    """Whatever its environment says, and in whosever pane it is."""
    assert invoker(SHELL, PANE, fences={A: replace(HERE, agent_pid=110)}, own={"WAKE_BRIDGE_AGENT": "@b"}).is_person


WAYS = {
    "its process": {"fences": {A: HERE}},
    "its pane, where it was started anew": {"fences": {A: replace(HERE, agent_pid=99)}},
    "a recorded conversation": {"sessions": (Session("claude", "s1", A, pid=110, started="6"),)},
    "a conversation without a process": {
        "sessions": (Session("claude", "s1", A),),
        "environments": {300: {"CLAUDE_CODE_SESSION_ID": "s1"}},
    },
    "what it was started with": {"environments": {110: {"WAKE_BRIDGE_AGENT": "@a"}}},
}


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_is_known_by_process_pane_conversation_and_variable(way: str) -> None:
    """By each of them alone; a variable of the command itself changes nothing."""
    for own in ({}, {"WAKE_BRIDGE_AGENT": "@b"}):
        found = invoker(SHELL, AGENT, PANE, own=own, **WAYS[way])  # type: ignore[arg-type] # as the table has them

        assert found.identities == {A}


def test_a_harness_that_an_agent_starts_with_another_name_is_still_its_own() -> None:
    """A forged variable widens nothing: the outermost harness's own counts, and process and pane before it."""
    inner = RunningProcess(400, "9", ("codex",))
    forged = {400: {"WAKE_BRIDGE_AGENT": "@b"}, 110: {"WAKE_BRIDGE_AGENT": "@a"}}

    assert invoker(inner, SHELL, AGENT, environments=forged).identities == {A}
    assert invoker(inner, SHELL, AGENT, fences={A: HERE}, environments={400: forged[400]}).identities == {A}


def test_nobody_claims_by_a_variable_to_be_one_whose_agent_lives_elsewhere() -> None:
    """A tmux server hands the variable of whoever started it to every pane: @b's own agent is another one."""
    found = invoker(SHELL, AGENT, fences={B: THERE}, environments={110: {"WAKE_BRIDGE_AGENT": "@b"}})

    assert not found.identities
    assert found.elsewhere == {B}


def test_an_agent_without_a_known_name_is_told_by_its_fence() -> None:
    """Where [targets] names the harness of a program that nobody recognises, its process is an agent all the same."""
    found = invoker(SHELL, RunningProcess(110, "6", ("/opt/own-agent",)), fences={A: HERE})

    assert found.harness == "own-agent"
    assert found.identities == {A}


def test_a_profile_of_the_users_own_makes_its_program_an_agent(tmp_path: Path) -> None:
    """`screens/` adds harnesses; a file that cannot be read adds none and stops nothing."""
    (tmp_path / "quill.toml").write_text('[recognise]\ncommands = "quill"\n')
    (tmp_path / "broken.toml").write_text("[")

    names = names_of_harnesses(tmp_path)

    assert names["quill"].commands == ("quill",)
    assert "broken" not in names
