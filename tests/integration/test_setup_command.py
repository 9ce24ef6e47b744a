"""`panes`, `setup`: the installed program, real panes, a HOME and a tmux directory of its own."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.cli.panes import _is_all, silences_of
from wake_bridge.config.file import read_block, remove_block
from wake_bridge.control.serving import surroundings
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.integrations.agent_files import apply, claude_plugin, hook_settings, remove
from wake_bridge.integrations.agent_files.claude_plugin import plan_plugin
from wake_bridge.integrations.agent_files.hook_settings import plan_hooks
from wake_bridge.integrations.setup_record import read_record
from wake_bridge.system.own_program import for_a_shell
from wake_bridge.testing.playground import AgentPane, Playground

TRIGGERS = {"SENT_TO_ME", "TASK_STATE_CHANGED", "PERMISSION_GRANTED"}


@pytest.fixture
def world(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Playground]:  # noqa: ARG001
    """A playground whose tmux directory nobody else uses."""
    with tempfile.TemporaryDirectory(prefix="wbt-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMUX_TMPDIR", directory)
        with Playground(tmp_path, program) as made:
            yield made


def settle(world: Playground, name: str, directory: str = "", session: str = "agents") -> AgentPane:
    """A fake agent in a window of that name; its program runs in a directory of HOME."""
    where = world.sandbox.home / directory
    where.mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(where)
    try:
        made = world.agent(name, session=session)
    finally:
        os.chdir(before)
    world.tmux.run("rename-window", "-t", made.id, name)
    return made


def everything(sandbox: Sandbox) -> dict[str, bytes]:
    """Every file below HOME, but for logs and what SQLite leaves beside a file that was only read."""
    return {
        str(file.relative_to(sandbox.home)): file.read_bytes()
        for file in sorted(sandbox.home.rglob("*"))
        if file.is_file() and not file.name.endswith((".log", "-wal", "-shm"))
    }


def identities(answer: dict[str, Any]) -> dict[str, str]:
    return {one["pane"]: one["agentIdentity"] for one in answer["agents"]}


def steps(answer: dict[str, Any]) -> dict[str, str]:
    return {one["agentIdentity"]: one["step"] for one in answer["agents"]}


def test_panes_tells_for_each_pane_who_is_there_how_it_stands_and_whose_it_is(world: Playground) -> None:
    """Harness recognised, cwd, state, a name; JSON lines."""
    settle(world, "api", "api")
    settle(world, "web", "web").fake.shows("busy")
    world.tmux.run("new-window", "-d", "-t", "agents:", "-n", "notes", "exec sleep 600")
    world.sandbox.run("init")
    world.sandbox.enlist("@neo", "agents:api")

    found = {one["pane"]: one for one in world.sandbox.lines("panes")}

    assert set(found) == {"agents:api.0", "agents:web.0", "agents:notes.0"}
    api, web, notes = (found[f"agents:{name}.0"] for name in ("api", "web", "notes"))
    # what looks idle once may be between two lines of its answer
    assert (api["harness"], api["state"], api["looks"], api["agentIdentity"]) == ("fake", "unknown", 1, "@neo")
    assert api["why"] == "looks idle; a second look must agree"
    assert api["cwd"] == str(world.sandbox.home / "api")
    assert (web["state"], web["looks"], web["agentIdentity"]) == ("active", 1, None)
    assert (notes["harness"], notes["state"], notes["why"]) == (None, "unknown", "sleep has the terminal")
    table = world.sandbox.run("panes").stdout
    assert "idle? (one look) " in table
    assert "active (one look: " in table
    assert "no agent: sleep has the terminal" in table
    assert all(one.fake.bytes_received() == b"" for one in world.agents.values())


def test_panes_asks_a_daemon_that_runs_which_has_looked_already(world: Playground) -> None:
    """Whoever it watches needs no second look; the others get one, which proves nothing."""
    settle(world, "api")
    settle(world, "new")
    world.sandbox.run("init")
    world.sandbox.enlist("@neo", "agents:api")
    world.sandbox.daemon()

    def found() -> dict[str, tuple[str, int]]:
        return {one["pane"]: (one["state"], one["looks"]) for one in world.sandbox.lines("panes")}

    world.sandbox.waits_for(lambda: found()["agents:api.0"] == ("idle", 2), what="two looks of the daemon's")
    assert found()["agents:new.0"] == ("unknown", 1)
    assert "idle (two looks) " in world.sandbox.run("panes").stdout
    # what the daemon does not see is looked at from here
    elsewhere = world.sandbox.run("panes", environment={"TMUX_TMPDIR": str(world.sandbox.home)})
    assert "no tmux server of yours is running" in elsewhere.stdout


def test_the_daemons_panes_are_taken_where_it_sees_every_server_that_the_command_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was started elsewhere, or that a server did not answer, or that sees not the one we are in, does not."""
    told = {"panes": [{"server": "/tmp/usual"}], "silent": [], "alike": True}
    monkeypatch.delenv("TMUX", raising=False)
    assert _is_all(told)
    assert not any(map(_is_all, ({}, told | {"alike": False}, told | {"panes": []}, told | {"silent": [["a", "b"]]})))
    # of a daemon of the last release
    assert not _is_all({"panes": [{"adapter": "tmux", "key": "k", "state": "idle", "why": "", "looks": 2}]})
    monkeypatch.setenv("TMUX", "/tmp/another,1,0")
    assert not _is_all(told)
    here = {"TMUX_TMPDIR": "/tmp", "WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME": "x"}
    assert surroundings(here) == surroundings(here | {"HOME": "/root", "TMUX": "/tmp/usual,1,0"})
    assert surroundings(here) != surroundings({"TMUX_TMPDIR": "/tmp"})


def test_panes_says_why_it_sees_none(world: Playground, tmp_path: Path) -> None:
    """Nothing runs, or nothing can be asked: two different things for the person to do."""
    assert "no tmux server of yours is running" in world.sandbox.run("panes").stdout
    world.tmux.run("new-session", "-d", "exec sleep 600")
    unreachable = world.sandbox.run("panes", environment={"PATH": str(tmp_path)})
    assert "no pane can be seen" in unreachable.stdout
    assert "does not answer: tmux is not on PATH" in unreachable.stderr


def test_setup_gives_every_agent_an_identity_three_subscriptions_and_a_target(world: Playground) -> None:
    """One identity per agent, `[targets]` with exact names, subscriptions for the three triggers."""
    settle(world, "api", "api")
    settle(world, "web", "web")
    before = world.sandbox.config_file.read_bytes()

    answer = world.sandbox.ask("setup", "--yes")

    assert identities(answer) == {"agents:api.0": "@fake-api", "agents:web.0": "@fake-web"}
    assert answer["written"] is True
    listed = world.sandbox.ask("list")["subscriptions"]
    assert {(one["agentIdentity"], one["trigger"]) for one in listed} == {
        (who, trigger) for who in ("@fake-api", "@fake-web") for trigger in TRIGGERS
    }
    assert all(one["deliverable"] for one in listed)
    assert {one["pane"] for one in listed} == {"agents:api.0", "agents:web.0"}
    assert world.sandbox.config_file.read_bytes().startswith(before)
    # and it goes without a trace
    remove_block(world.sandbox.config_file)
    assert world.sandbox.config_file.read_bytes() == before


def test_a_second_run_changes_nothing_and_a_new_agent_is_added(world: Playground) -> None:
    """Safe to repeat; new agents are added."""
    settle(world, "api", "api")
    assert identities(world.sandbox.ask("setup", "--yes")) == {"agents:api.0": "@fake"}
    written = everything(world.sandbox)

    again = world.sandbox.ask("setup", "--yes")

    assert (again["written"], steps(again)) == (False, {"@fake": "keep"})
    assert everything(world.sandbox) == written
    assert "nothing was changed" in world.sandbox.run("setup", "--yes").stdout

    settle(world, "web", "web")
    later = world.sandbox.ask("setup", "--yes")
    assert steps(later) == {"@fake": "keep", "@fake-web": "add"}
    assert read_block(world.sandbox.config_file).keys() == {"@fake", "@fake-web"}
    assert len(world.sandbox.ask("list")["subscriptions"]) == 6


def test_a_graph_that_was_made_anew_gets_the_subscriptions_again(world: Playground) -> None:
    """An identity that somebody has added or written as since is not taken for one that is subscribed."""
    settle(world, "api", "api")
    world.sandbox.run("setup", "--yes")
    for file in world.sandbox.graph.parent.glob("graph.sqlite*"):
        file.unlink()
    world.sandbox.run("init")
    world.sandbox.run("agent", "add", "@fake")

    answer = world.sandbox.ask("setup", "--yes")

    assert (answer["written"], steps(answer)) == (True, {"@fake": "restore"})
    listed = world.sandbox.ask("list")["subscriptions"]
    assert {(one["agentIdentity"], one["trigger"]) for one in listed} == {("@fake", trigger) for trigger in TRIGGERS}
    assert steps(world.sandbox.ask("setup", "--yes")) == {"@fake": "keep"}


def test_an_agent_started_anew_elsewhere_takes_its_identity_along(world: Playground) -> None:
    """Stable; what the identity is woken for is not made twice."""
    first = settle(world, "api", "api")
    settle(world, "web", "web")
    world.sandbox.run("setup", "--yes")
    world.tmux.run("kill-pane", "-t", first.id)
    settle(world, "again", "api", session="other")

    answer = world.sandbox.ask("setup", "--yes")

    assert steps(answer) == {"@fake-api": "move", "@fake-web": "keep"}
    (moved,) = [one for one in answer["agents"] if one["step"] == "move"]
    assert (moved["was"], moved["pane"]) == ("agents:api.0", "other:again.0")
    assert read_block(world.sandbox.config_file)["@fake-api"].pane == "other:again.0"
    assert len(world.sandbox.ask("list")["subscriptions"]) == 6
    (recorded,) = [one for one in read_record(world.sandbox.state_dir).identities if one.identity == "@fake-api"]
    assert (recorded.pane, recorded.added, len(recorded.subscriptions)) == ("other:again.0", True, 3)


def test_an_index_that_has_become_anothers_is_noticed_by_the_next_run(world: Playground) -> None:
    """A window was closed and its index given away: the identity goes to where its agent is, and no wake goes astray."""
    first = settle(world, "api", "api")
    second = settle(world, "web", "web")
    for one in (first, second):
        world.tmux.run("set-window-option", "-t", one.id, "automatic-rename", "on")
    assert identities(world.sandbox.ask("setup", "--yes")) == {"agents:0.0": "@fake-api", "agents:1.0": "@fake-web"}
    world.tmux.run("kill-window", "-t", first.id)
    world.tmux.run("move-window", "-r", "-t", "agents:")

    answer = world.sandbox.ask("setup", "--yes")

    assert (identities(answer), steps(answer)) == ({"agents:0.0": "@fake-web"}, {"@fake-web": "move"})
    block = read_block(world.sandbox.config_file)
    assert {name: (one.pane, Path(one.directory).name) for name, one in block.items()} == {
        "@fake-api": ("agents:0.0", "api"),
        "@fake-web": ("agents:0.0", "web"),
    }
    assert world.sandbox.ask("setup", "--yes")["written"] is False


def test_a_name_that_has_come_to_mean_another_agent_holds_the_wake(world: Playground) -> None:
    """Exactly the one pane that was meant; windows are closed and renumbered while the daemon runs."""
    first = settle(world, "api", "api")
    second = settle(world, "web", "web")
    for one in (first, second):
        world.tmux.run("set-window-option", "-t", one.id, "automatic-rename", "on")
    world.sandbox.ask("setup", "--yes")
    world.sandbox.daemon()
    world.tmux.run("kill-window", "-t", first.id)
    world.tmux.run("move-window", "-r", "-t", "agents:")

    world.sandbox.run("wake", "@fake-api", "for the agent that was closed")

    held = world.sandbox.waits_for_delivery(hold_reason="unreachable")
    assert held["target"] == "@fake-api"
    assert "another agent" in str(world.sandbox.ask("presence", "@fake-api", "--explain"))
    assert second.fake.bytes_received() == b""


def side_by_side(world: Playground) -> tuple[AgentPane, AgentPane]:
    """Two agents in one directory and one window, the second to the right of the first."""
    first, second = settle(world, "api", "api"), settle(world, "right", "api")
    world.tmux.run("join-pane", "-d", "-h", "-s", second.id, "-t", first.id)
    return first, second


def take_literally(world: Playground, said: str) -> list[str]:
    """Run the commands between back-quotes, one after another, in a shell of the person's; answers them."""
    commands = re.findall(r"`([^`]+)`", said)
    for command in commands:
        # a question is answered as it is on a terminal
        line = command.replace("wake-bridge setup", "wake-bridge setup --yes")
        program = Path(world.sandbox.command[0]).parent
        environment = {**world.sandbox.environment, "PATH": f"{program}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", line], check=True, env=environment, cwd=world.sandbox.home, capture_output=True)
    return commands


def wakes_its_own(world: Playground, identity: str, agent: AgentPane) -> bool:
    """Whether a wake for the identity is submitted in that agent and in no other one."""
    before = {name: len(one.fake.submits()) for name, one in world.agents.items()}
    world.sandbox.run("wake", identity, "hello")
    agent.fake.waits_for("submit", before[agent.name] + 1)

    def is_over() -> bool:
        return all(one["settledAt"] for one in world.sandbox.deliveries() if one["target"] == identity)

    world.sandbox.waits_for(is_over, what="an end")
    after = {name: len(one.fake.submits()) for name, one in world.agents.items()}
    return after == {**before, agent.name: before[agent.name] + 1}


def test_two_agents_side_by_side_are_both_set_up_and_the_warning_says_what_makes_their_names_last(
    world: Playground,
) -> None:
    """What `panes` finds, `setup` sets up; its one warning, taken literally, is the last one."""
    first, second = side_by_side(world)
    seen = {one["pane"]: one["harness"] for one in world.sandbox.lines("panes") if one["harness"]}

    answer = world.sandbox.run("--json", "setup", "--yes")

    whose = identities(json.loads(answer.stdout))
    assert (set(whose), len(set(whose.values()))) == (set(seen), 2) == ({"agents:api.0", "agents:api.1"}, 2)
    assert answer.stderr.count("may come to mean another pane") == 1
    (warning,) = [line for line in answer.stderr.splitlines() if "may come to mean another pane" in line]
    world.sandbox.daemon()
    assert wakes_its_own(world, whose["agents:api.0"], first)
    assert wakes_its_own(world, whose["agents:api.1"], second)

    commands = take_literally(world, warning.partition("to make them last:")[2])

    assert commands[0].startswith(f"tmux -S {world.tmux.socket_path} break-pane -d -s {second.id} ")
    assert commands[-1] == "wake-bridge setup"
    again = world.sandbox.run("--json", "setup", "--yes")
    assert "may come to mean another pane" not in again.stderr + world.sandbox.run("list").stderr
    assert json.loads(again.stdout)["written"] is False
    block = read_block(world.sandbox.config_file)
    assert block[whose["agents:api.0"]].pane == "agents:api.0"
    assert block[whose["agents:api.1"]].pane.startswith("agents:api-")
    assert wakes_its_own(world, whose["agents:api.0"], first)
    assert wakes_its_own(world, whose["agents:api.1"], second)


def test_an_index_that_moves_up_before_any_daemon_has_looked_wakes_nobody_else(world: Playground) -> None:
    """`setup` itself remembers the panes that it saw."""
    first, second = side_by_side(world)
    whose = identities(world.sandbox.ask("setup", "--yes"))
    world.tmux.run("kill-pane", "-t", first.id)
    world.sandbox.daemon()

    world.sandbox.run("wake", whose["agents:api.0"], "for the one that was closed")

    world.sandbox.waits_for_delivery(hold_reason="moved", target=whose["agents:api.0"])
    assert second.fake.bytes_received() == b""
    assert wakes_its_own(world, whose["agents:api.1"], second)


def test_an_agent_that_no_name_means_is_told_with_the_command_that_helps(world: Playground) -> None:
    """That no agent was found is never said of agents that `panes` shows."""
    settle(world, "api", "api", session="%12")

    refused = world.sandbox.run("setup", "--yes", expect=1)

    assert "no agent was found" not in refused.stderr
    take_literally(world, refused.stderr.partition("hint: ")[2])
    assert len(read_block(world.sandbox.config_file)) == 1


@pytest.mark.parametrize("by", ["subscription", "target"])
def test_a_name_by_index_is_warned_of_with_what_makes_it_last(world: Playground, by: str) -> None:
    """`subscribe`, `list` and `doctor` say it once; taken literally the warning goes and the agent stays."""
    agent = settle(world, "api", "api", session="my work")
    settle(world, "web", "web", session="my work")
    world.sandbox.run("init")
    world.sandbox.run("agent", "add", "@neo")
    daemon = world.sandbox.daemon()
    said = ""
    if by == "subscription":
        world.tmux.run("set-window-option", "-t", agent.id, "automatic-rename", "on")
        for trigger in ("SENT_TO_ME", "PERMISSION_GRANTED"):
            told = world.sandbox.run("subscribe", "@neo", "--trigger", trigger, "--window", "0", "--tmux", "my work:0")
            said = told.stderr
    else:
        with world.sandbox.config_file.open("a") as stream:
            stream.write('\n[targets."@neo"]\npane = "my work:0"\n')
        daemon.reload()
        world.sandbox.run("subscribe", "@neo", "--trigger", "SENT_TO_ME", "--window", "0")
        said = world.sandbox.run("list", "@neo").stderr
    warnings = [said, world.sandbox.run("list").stderr]
    assert [one.count("@neo by 'my work:0'") for one in warnings] == [1, 1]
    (doctor,) = [one for one in world.sandbox.lines("doctor", expect=None) if one["check"] == "names"]
    assert (doctor["ok"], "@neo by 'my work:0'" in doctor["detail"]) == (None, True)

    steps = doctor["hint"]
    if changed := re.search(r"line (\d+) of (\S+) becomes `(.*?)`", steps):
        lines = Path(changed[2]).read_text().splitlines()
        lines[int(changed[1]) - 1] = changed[3]
        Path(changed[2]).write_text("\n".join(lines) + "\n")
        steps = steps.replace(changed[0], "")
    assert take_literally(world, steps)

    listed = world.sandbox.run("--json", "list")
    assert "may come to mean" not in listed.stderr
    assert all(one["pane"].startswith("my work:api") for one in json.loads(listed.stdout)["subscriptions"])
    assert wakes_its_own(world, "@neo", agent)


def test_dry_run_says_everything_and_writes_nothing(world: Playground) -> None:
    """`--dry-run` prints all and writes nothing, not even a directory."""
    settle(world, "api", "api")
    before = {str(one) for one in world.sandbox.home.rglob("*")}, everything(world.sandbox)

    answer = world.sandbox.ask("setup", "--dry-run")
    words = world.sandbox.run("setup", "--dry-run").stdout

    assert (answer["written"], steps(answer)) == (False, {"@fake": "add"})
    assert "@fake" in words
    assert "nothing was changed (--dry-run)" in words
    assert ({str(one) for one in world.sandbox.home.rglob("*")}, everything(world.sandbox)) == before


def test_without_a_terminal_to_ask_on_it_asks_for_yes(world: Playground) -> None:
    """Without a tty and without --yes: exit 2 with a hint."""
    answer = world.sandbox.run("setup", expect=2)

    assert "error: there is no terminal for the question: setup" in answer.stderr
    assert "hint: use --yes to apply the plan, or --dry-run to see it" in answer.stderr


def test_on_a_terminal_it_shows_the_plan_and_asks(world: Playground) -> None:
    """Shows the plan, asks; `n` writes nothing, `y` does it."""
    settle(world, "api", "api")
    command = " ".join(world.sandbox.command)
    before = everything(world.sandbox)
    # env -u: the server it is typed in is another one than the configured
    pane = world.tmux.new_pane("exec sh", session="person", width=160, environment=world.sandbox.environment)
    told = world.sandbox.home / "api/AGENTS.md"
    for replies, words in (("n", "nothing was changed"), ("yn", "no instructions written: ")):
        world.tmux.run("send-keys", "-t", str(pane.pane_id), "clear; cd; " + command + " setup", "Enter")
        world.tmux.waits_until(pane, lambda look: "Do it? [Y/n]" in look.text, 30, "the question")
        assert everything(world.sandbox) == before
        world.tmux.run("send-keys", "-t", str(pane.pane_id), replies[0], "Enter")
        if len(replies) > 1:
            world.tmux.waits_until(pane, lambda look: "into these files? [y/N]" in look.text, 30, "the question")
            world.tmux.run("send-keys", "-t", str(pane.pane_id), replies[1], "Enter")
        world.tmux.waits_until(pane, lambda look, words=words: words in look.text, 30, words)  # type: ignore[misc]

    assert read_block(world.sandbox.config_file).keys() == {"@fake"}
    assert not told.exists()


def test_it_says_when_agents_will_not_find_the_program(world: Playground, tmux_program: str) -> None:
    """An agent that is told to call what is not on its PATH reads no mail."""
    settle(world, "api", "api")
    elsewhere = str(Path(tmux_program).parent)
    without = world.sandbox.run("setup", "--dry-run", environment={"PATH": elsewhere})
    found = Path(world.sandbox.command[0]).parent
    within = world.sandbox.run("setup", "--dry-run", environment={"PATH": f"{found}:{elsewhere}"})

    assert f"`wake-bridge` is not on your PATH, but agents must call it: put {found} there" in without.stderr
    assert "not on your PATH" not in within.stderr


def test_a_reason_is_named_once_for_all_servers_that_do_not_answer() -> None:
    """Where tmux is missing, a hundred sockets that it left say nothing new."""
    silent = [("/tmp/a", "no tmux"), ("/tmp/b", "refused"), ("/tmp/c", "no tmux"), ("/tmp/d", "no tmux")]
    assert silences_of(silent) == [
        "note: /tmp/a and 2 others do not answer: no tmux",
        "note: /tmp/b does not answer: refused",
    ]


def test_where_no_agent_runs_it_says_so(world: Playground) -> None:
    """A person who forgot tmux is told, not given an empty plan."""
    answer = world.sandbox.run("setup", "--yes", expect=1)

    assert "error: no agent was found in any pane" in answer.stderr
    assert "wake-bridge panes" in answer.stderr


def test_what_was_set_up_by_hand_is_left_alone(world: Playground) -> None:
    """An agent that somebody is woken in keeps that identity, and nothing is written about it."""
    settle(world, "api", "api")
    world.sandbox.run("init")
    world.sandbox.enlist("@neo", "agents:api")
    before = everything(world.sandbox)

    answer = world.sandbox.ask("setup", "--yes")

    assert (answer["written"], steps(answer)) == (False, {"@neo": "keep, set up by hand"})
    assert everything(world.sandbox) == before


def test_a_name_configured_by_hand_for_another_pane_is_refused(world: Playground) -> None:
    """Refuse with a clear error when a target is already configured by hand differently."""
    settle(world, "api", "api")
    with world.sandbox.config_file.open("a") as stream:
        stream.write('\n[targets."@fake"]\npane = "work:7.0"\n')
    before = everything(world.sandbox)

    answer = world.sandbox.run("setup", "--yes", expect=7)

    assert "@fake is configured by hand for the pane 'work:7.0', where no agent is now" in answer.stderr
    assert 'correct or remove [targets."@fake"]' in answer.stderr
    assert everything(world.sandbox) == before


def test_a_graph_of_another_program_is_not_written_without_being_told_to(world: Playground) -> None:
    """A foreign graph needs `--foreign`, else exit 7; nothing is half done."""
    settle(world, "api", "api")
    foreign = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"
    world.sandbox.graph.parent.mkdir(parents=True)
    world.sandbox.graph.write_bytes(foreign.read_bytes())
    before = everything(world.sandbox)

    refused = world.sandbox.run("setup", "--yes", expect=7)

    assert "this graph belongs to another program" in refused.stderr
    assert everything(world.sandbox) == before
    assert steps(world.sandbox.ask("setup", "--yes", "--foreign")) == {"@fake": "add"}
    assert [one["pane"] for one in world.sandbox.ask("list", "@fake")["subscriptions"]] == ["agents:api.0"] * 3


def test_what_it_wrote_is_recorded_for_uninstall(world: Playground) -> None:
    """What setup wrote can be undone; the record is the owner's alone."""
    settle(world, "api", "api")
    world.sandbox.run("setup", "--yes")

    record = read_record(world.sandbox.state_dir)

    assert stat.S_IMODE((world.sandbox.state_dir / "setup.json").stat().st_mode) == 0o600
    assert (record.config, record.config_made) == (str(world.sandbox.config_file), False)
    assert (record.graph, record.graph_made) == (str(world.sandbox.graph), True)
    assert str(world.sandbox.state_dir) in record.directories
    assert str(world.sandbox.config_file.parent) not in record.directories
    (one,) = record.identities
    assert (one.identity, one.harness, one.pane, one.added) == ("@fake", "fake", "agents:api.0", True)
    assert one.finished
    listed = world.sandbox.ask("list")["subscriptions"]
    assert set(one.subscriptions) == {subscription["subscriptionId"] for subscription in listed}


def test_on_a_clean_machine_configuration_and_graph_are_made_first(world: Playground) -> None:
    """`init` if needed; the record knows which files and directories were not there."""
    settle(world, "api", "api", session="agents")
    world.sandbox.config_file.unlink()
    world.sandbox.config_file.parent.rmdir()

    world.sandbox.run("setup", "--yes", environment={"WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME": world.tmux.socket_name})

    record = read_record(world.sandbox.state_dir)
    assert (record.config_made, record.graph_made) == (True, True)
    assert str(world.sandbox.config_file.parent) in record.directories
    assert world.sandbox.lines("config", "check")


def test_a_daemon_that_runs_takes_the_targets_over_at_once(world: Playground) -> None:
    """Targets are taken over without restart; the wake arrives."""
    agent = settle(world, "api", "api")
    world.sandbox.run("init")
    daemon = world.sandbox.daemon()

    world.sandbox.run("setup", "--yes")

    daemon.waits_for_log("config_reloaded")
    world.sandbox.run("wake", "@fake", "hello")
    delivered = world.sandbox.waits_for_delivery(state="DELIVERED", target="@fake")
    assert [delivered["id"] in text for text in agent.fake.submits()] == [True]


@pytest.mark.parametrize("crash", ["graph", "config"])
def test_a_run_that_stopped_half_way_is_finished_by_the_next_one(
    world: Playground, crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is recorded before it is done: what the first run made is known as ours afterwards."""
    from click.testing import CliRunner

    from wake_bridge import setup
    from wake_bridge.cli.app import cli

    settle(world, "api", "api")

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(setup, {"graph": "put_identity", "config": "write_block"}[crash], fails)
        environment = {**dict.fromkeys(os.environ), **world.sandbox.environment}
        result = CliRunner(env=environment).invoke(cli, ["setup", "--yes"])
    assert result.exit_code == 130, result.output

    world.sandbox.run("setup", "--yes")

    (one,) = read_record(world.sandbox.state_dir).identities
    assert (one.identity, one.added, len(one.subscriptions)) == ("@fake", True, 3)
    listed = world.sandbox.ask("list")["subscriptions"]
    assert {entry["subscriptionId"] for entry in listed} == set(one.subscriptions)
    assert read_block(world.sandbox.config_file).keys() == {"@fake"}


@pytest.mark.parametrize(("removed", "left"), [(1, 2), (3, 3)], ids=["one trigger", "all of them"])
def test_a_target_that_was_taken_out_is_restored_with_what_the_person_had_chosen(
    world: Playground, removed: int, left: int
) -> None:
    """After `uninstall` everything comes back; a trigger that somebody removed does not, while others are there."""
    settle(world, "api", "api")
    world.sandbox.run("setup", "--yes")
    for one in world.sandbox.ask("list")["subscriptions"][:removed]:
        world.sandbox.run("unsubscribe", one["subscriptionId"])
    remove_block(world.sandbox.config_file)

    answer = world.sandbox.ask("setup", "--yes")

    assert steps(answer) == {"@fake": "restore"}
    assert read_block(world.sandbox.config_file).keys() == {"@fake"}
    assert len(world.sandbox.ask("list")["subscriptions"]) == left


def test_the_json_plan_is_one_object(world: Playground) -> None:
    """With `--json` stdout holds only JSON, one object."""
    settle(world, "api", "api")
    (line,) = world.sandbox.run("--json", "setup", "--dry-run").stdout.splitlines()
    assert set(json.loads(line)) >= {"written", "told", "config", "graph", "triggers", "agents", "files"}


def test_what_agents_must_be_told_is_shown_and_written_only_on_request(world: Playground) -> None:
    """Prints, and on request writes, the instructions; a second run finds them there."""
    settle(world, "api", "api")
    file = world.sandbox.home / "api/AGENTS.md"
    file.write_bytes(b"# My project\n")

    shown = world.sandbox.run("setup", "--yes")

    assert "wake-bridge inbox @fake --bodies --consume" in shown.stdout
    assert "It is **not your user**" in shown.stdout
    assert "~/api/AGENTS.md" in shown.stdout
    assert "no instructions written: `wake-bridge setup --write-instructions`" in shown.stdout
    assert file.read_bytes() == b"# My project\n"

    answer = world.sandbox.ask("setup", "--yes", "--write-instructions")

    assert (answer["written"], answer["told"]) == (False, True)
    assert [one["path"] for one in answer["files"]] == [str(file)]
    assert file.read_bytes().startswith(b"# My project\n")
    assert b"wake-bridge inbox @fake --bodies --consume" in file.read_bytes()
    again = world.sandbox.ask("setup", "--yes", "--write-instructions")
    assert (again["told"], again["files"]) == (False, [])
    remove(world.sandbox.state_dir)
    assert file.read_bytes() == b"# My project\n"


def test_setup_behind_head_does_what_was_asked(world: Playground) -> None:
    """`setup --yes | head` wrote nothing, for its first table had no reader."""
    settle(world, "api", "api")
    box = world.sandbox
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*box.command, "setup", "--yes"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            env=box.environment,
            cwd=box.home,
            text=True,
            check=False,
        )
    finally:
        os.close(write_end)

    assert done.returncode == 0, done.stderr
    assert {one["agentIdentity"] for one in box.ask("list")["subscriptions"]} == {"@fake"}


def test_a_file_that_is_new_in_a_repository_is_said_first_and_hidden_on_request(world: Playground) -> None:
    """`setup` leaves an untracked file in a repository: said before, and by --git-exclude not shown by git."""
    settle(world, "api", "api")
    repository = world.sandbox.home / "api"
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)

    shown = world.sandbox.run("setup", "--yes").stdout
    assert "git would show as untracked: ~/api/AGENTS.md" in shown
    said = world.sandbox.run("setup", "--yes", "--write-instructions").stdout
    assert "git shows ~/api/AGENTS.md as untracked: commit, or let `wake-bridge setup --git-exclude`" in said
    assert untracked(repository) == ["AGENTS.md"]

    answer = world.sandbox.ask("setup", "--yes", "--git-exclude")

    assert (answer["untracked"], answer["hidden"]) == ([str(repository / "AGENTS.md")], True)
    assert untracked(repository) == []
    assert world.sandbox.ask("setup", "--yes")["untracked"] == []
    remove(world.sandbox.state_dir)
    assert "wake-bridge" not in (repository / ".git/info/exclude").read_text()


def untracked(repository: Path) -> list[str]:
    """What git shows as new."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout.split()


def test_hooks_of_an_earlier_version_are_updated(world: Playground) -> None:
    """What was installed in the old form, which complains once the program is gone, is brought up to date."""
    settle(world, "api", "api")
    box = world.sandbox
    box.run("setup", "--yes")
    program, home = ("/old/wake-bridge",), {"HOME": str(box.home)}
    with pytest.MonkeyPatch.context() as patch:
        for module in (hook_settings, claude_plugin):
            patch.setattr(module, "silent_when_gone", for_a_shell)
        apply([plan_hooks("gemini", program, home, box.state_dir)], box.state_dir)
        apply(plan_plugin(box.home / ".claude", program), box.state_dir)
    files = [box.home / ".claude/skills/wake-bridge/hooks/hooks.json", box.home / ".gemini/settings.json"]
    assert all("/bin/sh" not in file.read_text() for file in files)

    answer = box.ask("setup", "--yes")

    assert (answer["written"], answer["updated"]) == (False, True)
    assert {one["path"] for one in answer["hooks"]} >= set(map(str, files))
    assert all("/bin/sh" in file.read_text() and "/old/" not in file.read_text() for file in files)
    assert box.ask("setup", "--yes")["hooks"] == []
    box.run("uninstall")
    assert [file for file in files if file.exists()] == []
