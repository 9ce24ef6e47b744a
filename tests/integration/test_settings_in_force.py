"""Commands are about the daemon of their graph: where it keeps its state, and the settings it goes by."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wake_bridge.cli.app import COMMANDS, cli
from wake_bridge.config.checked import written_down
from wake_bridge.config.settings import Settings, changed_keys, load_settings, needs_restart, taken_over
from wake_bridge.control.graph_lock import LOCK_DIRECTORY, GraphLock, graph_key
from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.control.settings_in_force import in_force, settings_of_daemon, write_settings
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import counted_ids, fresh_ledger, open_delivery, sample_event

TYPO = "limits.storn = 3"
NO_TOML = "limits = ["
GOES_ON = "the daemon keeps its last good settings, and this command uses them too"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """The program in a HOME of its own, with an embedded graph, one agent, and a message to it."""
    made = Sandbox(tmp_path, f"wake-bridge-test-{tmp_path.name}")
    made.configure()
    invoke(made, "init")
    invoke(made, "agent", "add", "@agent")
    invoke(made, "agent", "add", "@me")
    return made


def invoke(sandbox: Sandbox, *arguments: str, expect: int | None = 0, **environment: str) -> Result:
    """Run a command in this process."""
    done = CliRunner(env=sandbox.environment | environment).invoke(cli, arguments)
    assert expect in {None, done.exit_code}, done.output
    return done


@contextmanager
def a_daemon(sandbox: Sandbox) -> Iterator[Settings]:
    """What a daemon holds and has written down, in this process; nobody answers on its socket."""
    settings = load_settings(str(sandbox.config_file), {})
    settings = settings if settings.state_dir.is_relative_to(sandbox.home) else moved(settings, sandbox.state_dir)
    settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with InstanceLock(settings.state_dir), GraphLock(sandbox.graph, settings.state_dir):
        write_settings(settings.state_dir, moved(settings, settings.state_dir, sandbox.graph))
        yield settings


def moved(settings: Settings, state_dir: Path, graph: Path | None = None) -> Settings:
    return replace(settings, state_dir=state_dir, graph_place=graph or settings.graph_place)


def edited(sandbox: Sandbox, line: str) -> None:
    """The configuration, changed while the daemon runs."""
    sandbox.config_file.write_text(f"{line}\n{sandbox.config_file.read_text()}")


# -- where the daemon keeps its state --------------------------------------------------------------------------------

ANYWHERE = [
    ("pause", "--all"),
    ("resume", "--all"),
    ("status",),
    ("deliveries",),
    ("inbox", "@agent"),
    ("wake", "@agent", "hello"),
    ("send", "@agent", "--from", "@me", "--subject", "hello"),
    ("list",),
    ("why", "no-such-message"),
    ("push-capable",),
]


@pytest.mark.parametrize("command", ANYWHERE, ids=" ".join)
def test_a_command_goes_to_the_daemon_of_its_graph(sandbox: Sandbox, tmp_path: Path, command: tuple[str, ...]) -> None:
    """`daemon.state_dir` edited while it runs must not lead into a new, empty ledger."""
    elsewhere = tmp_path / "elsewhere"
    with a_daemon(sandbox) as daemon:
        edited(sandbox, f'daemon.state_dir = "{elsewhere}"')

        told = invoke(sandbox, *command, expect=None)

        assert (
            f"keeps its state in {daemon.state_dir}, not in {elsewhere}; this command uses {daemon.state_dir}"
            in told.stderr
        )
        assert "not running" not in told.output
        assert not elsewhere.exists()


def test_a_pause_of_all_stops_the_daemon_that_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    """A command acts on the daemon of its graph, also after `daemon.state_dir` was edited."""
    with a_daemon(sandbox) as daemon:
        edited(sandbox, f'daemon.state_dir = "{tmp_path / "elsewhere"}"')
        invoke(sandbox, "pause", "--all")

        with contextlib.closing(LedgerStore.open(daemon.state_dir, read_only=True)) as ledger:
            assert [one.identity for one in ledger.pauses(0)] == ["*"]  # type: ignore[arg-type]


def test_a_daemon_that_does_not_say_where_its_state_is_is_not_passed_by(sandbox: Sandbox) -> None:
    """What cannot be done there is refused, with what to do."""
    with GraphLock(sandbox.graph, sandbox.state_dir):
        (LOCK_DIRECTORY / f"{graph_key(sandbox.graph)}.lock").write_bytes(b"")

        told = invoke(sandbox, "pause", "--all", expect=1)

    assert "a daemon serves this graph, and does not say where it keeps its state" in told.stderr
    assert not (sandbox.state_dir / "state.sqlite").exists()


def test_without_a_daemon_the_configuration_says_where(sandbox: Sandbox, tmp_path: Path) -> None:
    """A lock that nobody holds leads nowhere."""
    with a_daemon(sandbox):
        pass
    edited(sandbox, f'daemon.state_dir = "{tmp_path / "elsewhere"}"')

    assert invoke(sandbox, "pause", "--all").stderr == ""
    assert (tmp_path / "elsewhere/state.sqlite").exists()


# -- a configuration with a mistake ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "command"),
    [
        *((TYPO, one) for one in (*ANYWHERE, ("agent", "list"), ("adapters",))),
        *((NO_TOML, one) for one in (("pause", "--all"), ("inbox", "@agent"))),
        ('graph.pth = "x"', ("status",)),
    ],
)
def test_what_is_about_the_daemon_works_by_its_last_good_settings(
    sandbox: Sandbox, mistake: str, command: tuple[str, ...]
) -> None:
    """A typo stopped every command with 3, while the daemon went on."""
    with a_daemon(sandbox):
        edited(sandbox, mistake)

        told = invoke(sandbox, *command, expect=None)

    assert told.exit_code == (8 if command[0] == "why" else 0), told.output
    needs_nothing_else = command[0] in {"deliveries", "inbox"} and mistake == TYPO
    assert (GOES_ON in told.stderr) != needs_nothing_else


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--once"),
        ("init",),
        ("setup", "--yes"),
        ("subscribe", "@agent", "--trigger", "SENT_TO_ME", "--tmux", "x"),
        ("service", "status"),
        ("uninstall",),
        ("hook", "install", "codex"),
        ("config", "check"),
    ],
    ids=" ".join,
)
def test_what_starts_a_daemon_or_sets_something_up_needs_the_file(sandbox: Sandbox, command: tuple[str, ...]) -> None:
    """They go on ending with 3, every mistake shown."""
    with a_daemon(sandbox):
        edited(sandbox, TYPO)

        told = invoke(sandbox, *command, expect=3)

    assert "limits.storn = 3: unknown key; did you mean storm?" in told.stderr


def test_the_rule_stands_in_the_table_of_commands() -> None:
    """One rule, in one place, and these are its exceptions (docs/settings.md)."""
    needing = {name for commands in COMMANDS.values() for name, place in commands.items() if place.needs_file}
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text(encoding="utf-8")

    assert needing == {"run", "serve", "service", "init", "setup", "subscribe", "hook", "claude", "uninstall", "config"}
    assert all(f"`{name}`" in page for name in needing)


@pytest.mark.parametrize("how", ["no daemon", "another graph is named", "another file is read"])
def test_nobody_elses_settings_are_taken(sandbox: Sandbox, tmp_path: Path, how: str) -> None:
    """The last good settings are those of the daemon that reads this file and serves this graph."""
    environment, options = {}, []
    with a_daemon(sandbox) if how != "no daemon" else contextlib.nullcontext():
        edited(sandbox, TYPO)
        if how == "another graph is named":
            environment["WAKE_BRIDGE_GRAPH_PATH"] = str(tmp_path / "other.sqlite")
        if how == "another file is read":
            options = ["--config", str(tmp_path / "other.toml")]
            (tmp_path / "other.toml").write_text(TYPO)

        invoke(sandbox, *options, "pause", "--all", expect=3, **environment)


# -- which settings run ----------------------------------------------------------------------------------------------


def read(sandbox: Sandbox, text: str) -> Settings:
    sandbox.config_file.write_text(text)
    return load_settings(str(sandbox.config_file), {})


EVERYTHING = Path(__file__).parents[2] / "config.example.toml"


@pytest.mark.parametrize(
    "text", ["", EVERYTHING.read_text(encoding="utf-8"), '[targets."@a"]\nadapter = "tmux"\npane = "a:1.0"\n']
)
def test_what_a_daemon_writes_down_is_what_it_goes_by(sandbox: Sandbox, text: str) -> None:
    """The last good settings, to the key."""
    settings = moved(read(sandbox, text), sandbox.state_dir)
    settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with InstanceLock(settings.state_dir):
        write_settings(settings.state_dir, settings)

        found = settings_of_daemon(settings.state_dir)
        assert found is not None
        assert replace(found, config=settings.config) == settings
        assert written_down(found.config) == written_down(settings.config)
    assert settings_of_daemon(settings.state_dir) is None


BEFORE = "limits.storm = 3\ngraph.poll_interval = 2.0\nheartbeat.interval = 1800"
AFTER = "limits.storm = 4\ngraph.poll_interval = 3.0\nheartbeat.interval = 900\ndaemon.log_level = 'debug'\nadapters.tmux.enabled = false"


def test_a_reload_takes_over_what_it_can_and_the_rest_waits(sandbox: Sandbox) -> None:
    """What is said to wait for a restart is not in force, and nothing else waits."""
    before, after = read(sandbox, BEFORE), read(sandbox, AFTER)

    now = taken_over(before, after)

    waiting = ["adapters.tmux", "graph.poll_interval", "heartbeat.interval"]
    assert changed_keys(now, after) == needs_restart(before, after) == waiting
    assert changed_keys(before, now) == ["daemon.log_level", "limits.storm"]


@pytest.mark.parametrize(
    ("line", "refused", "restart", "reload"),
    [
        ("", "", (), ()),
        ("limits.storm = 3", "", (), ("limits.storm",)),
        ("graph.poll_interval = 3.0\nlimits.storm = 3", "", ("graph.poll_interval",), ("limits.storm",)),
        ('targets."@a".pane = "a:1.0"', "", (), ('targets."@a"',)),
        (TYPO, "limits.storn", (), ()),
    ],
)
def test_status_says_which_settings_run_and_which_wait(
    sandbox: Sandbox, line: str, refused: str, restart: tuple[str, ...], reload: tuple[str, ...]
) -> None:
    """A reload that did not take was told in the log alone."""
    with a_daemon(sandbox) as daemon:
        edited(sandbox, line)
        stand = in_force(daemon.state_dir, str(sandbox.config_file), {})
        told = invoke(sandbox, "status")
        record = json.loads(invoke(sandbox, "status", "--json").stdout)["settings"]

    assert stand is not None
    assert (stand.for_restart, stand.for_reload) == (restart, reload)
    assert refused in stand.refused
    assert bool(stand.refused) == bool(refused)
    assert record == stand.record()
    (line_told,) = [one for one in told.stdout.splitlines() if one.startswith("settings ")]
    assert str(sandbox.config_file) in line_told
    assert all(key in line_told for key in (*restart, *reload))
    assert ("wait for a restart" in line_told, "wait for a reload (`kill -HUP" in line_told) == (
        bool(restart),
        bool(reload),
    )
    assert ("is refused" in line_told) == bool(refused)


def test_what_the_environment_says_waits_for_nothing(sandbox: Sandbox) -> None:
    """A shell and a service have different ones: that is no change of the file."""
    with a_daemon(sandbox) as daemon:
        stand = in_force(daemon.state_dir, str(sandbox.config_file), {"WAKE_BRIDGE_LIMITS_STORM": "3"})

    assert stand is not None
    assert (stand.for_restart, stand.for_reload, stand.refused) == ((), (), "")


def test_the_acknowledgement_of_a_person_is_no_matter_of_the_file(sandbox: Sandbox) -> None:
    """`ack` and `read` need the ledger and the graph alone."""
    invoke(sandbox, "send", "@agent", "--from", "@me", "--subject", "hello")
    (message,) = [json.loads(one) for one in invoke(sandbox, "inbox", "@agent", "--json").stdout.splitlines()]
    with a_daemon(sandbox) as daemon, fresh_ledger(daemon.state_dir) as ledger:
        waiting = open_delivery(ledger, sample_event(1), new_id=counted_ids())
        edited(sandbox, NO_TOML)

        invoke(sandbox, "ack", waiting.id)
        assert "hello" in invoke(sandbox, "read", "@agent", message["messageId"]).stdout
