"""Options, errors and output that all commands share."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from wake_bridge.cli.app import COMMANDS, CommandPlace, cli
from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.cli.output import harmless
from wake_bridge.cli.wakes import DURATION
from wake_bridge.domain import errors
from wake_bridge.domain.errors import WakeBridgeError
from wake_bridge.domain.names import did_you_mean
from wake_bridge.program_version import program_version

PROGRAM = Path(sys.executable).with_name("wake-bridge")


@click.command()
@click.option("--fail", metavar="ERROR")
@pass_run
def probe(run: CommandContext, fail: str | None) -> None:
    """A command that answers, or fails as asked."""
    match fail:
        case "internal":
            raise RuntimeError("something\nodd\x1b[2J")
        case "interrupt":
            raise KeyboardInterrupt
        case "pipe":
            raise BrokenPipeError
        case str():
            raise getattr(errors, fail)("it broke", "/some/where", hint="mend it")
        case None:
            run.console.object({"b": 1, "a": "é\x1b"}, "human é\x1b[2J")


@click.group()
def family() -> None:
    """A group with a command in it."""


@family.command()
@pass_run
def child(run: CommandContext) -> None:
    """Answers whether JSON was asked for."""
    run.console.object({"json": run.console.as_json, "verbosity": run.verbosity}, "words")


@pytest.fixture(autouse=True)
def _probes_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the commands above into the table, as lazily as all others."""
    monkeypatch.setitem(
        COMMANDS, "Probes", {name: CommandPlace("probes", name, "A probe.") for name in ("probe", "family")}
    )
    monkeypatch.setitem(sys.modules, "wake_bridge.cli.probes", sys.modules[__name__])


@pytest.fixture
def invoke() -> Callable[..., Result]:
    """Runs the program in this process."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments)

    return run


def test_version_is_one_line() -> None:
    """`--version` prints `wake-bridge X.Y.Z`."""
    result = CliRunner().invoke(cli, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"wake-bridge {program_version()}\n")


def test_version_and_help_import_no_command_and_nothing_slow() -> None:
    """`--version` ≤ 250 ms; it can only be so while neither commands nor libraries are imported."""
    code = (
        "import sys; from wake_bridge.cli.start import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    for option in ("--version", "--help"):
        done = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
        loaded = set(done.stderr.split())
        slow = {"pydantic", "structlog", "sqlite3", "asyncio", "rich", "libtmux", "platformdirs", "psutil"}
        assert not loaded & slow
        assert not any(
            name.startswith(("wake_bridge.storage", "wake_bridge.config", "wake_bridge.cli.graph")) for name in loaded
        )


def test_every_command_of_the_table_is_shown_by_help(invoke: Callable[..., Result]) -> None:
    """Meta: help is written from the table, section by section."""
    text = invoke("--help").stdout
    for section, commands in COMMANDS.items():
        assert f"{section}:" in text
        for name, place in commands.items():
            assert f"  {name} " in text
            assert place.summary[:40] in text


def test_help_begins_with_what_is_needed_on_the_first_day() -> None:
    """A newcomer reads from the top: find the agents, set them up, run, see how it stands."""
    first = next(iter(COMMANDS.values()))
    assert {"panes", "setup", "subscribe", "run", "status", "why", "doctor"} <= set(first)
    assert all(len(commands) <= 8 for commands in COMMANDS.values())


@pytest.mark.parametrize(
    "error",
    [
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, WakeBridgeError) and error is not WakeBridgeError
    ],
)
def test_every_error_is_said_in_two_lines_with_its_exit_code(
    invoke: Callable[..., Result], error: type[WakeBridgeError]
) -> None:
    """Errors go to stderr as `error: what failed: where` + `hint: what to do`, never a traceback."""
    result = invoke("probe", "--fail", error.__name__)
    assert result.exit_code == error.exit_code
    assert result.stderr == "error: it broke: /some/where\nhint: mend it\n"
    assert result.stdout == ""


def test_exit_codes_are_those_of_the_contract() -> None:
    """Each kind of error has its exit code."""
    codes = {
        name: getattr(errors, name).exit_code
        for name in dir(errors)
        if name[0].isupper() and hasattr(getattr(errors, name), "exit_code")
    }
    assert {codes[name] for name in ("OperationFailed", "LedgerError", "WakeBridgeError")} == {1}
    assert codes["UsageMistake"] == 2
    assert codes["ConfigurationInvalid"] == 3
    assert {codes[name] for name in ("SourceMissing", "SourceNotAGraph", "SourceUnavailable")} == {4}
    assert (codes["AlreadyRunning"], codes["NotRunning"], codes["RefusedForSafety"], codes["NotFound"]) == (5, 6, 7, 8)


def test_an_unexpected_fault_is_told_without_a_traceback_unless_asked_twice(invoke: Callable[..., Result]) -> None:
    """Never a traceback; `-vv` is the way to see one."""
    plain = invoke("probe", "--fail", "internal")
    assert plain.exit_code == 1
    assert plain.stderr.startswith("error: internal: RuntimeError something odd�[2J: test_cli_foundation.py:")
    assert "hint: this is a fault of wake-bridge; please report it" in plain.stderr
    assert "Traceback" not in plain.stderr
    for arguments in (("-vv", "probe"), ("probe", "-vv"), ("-v", "probe", "-v")):
        assert "Traceback" in invoke(*arguments, "--fail", "internal").stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("frobnicate",), "error: there is no command 'frobnicate': wake-bridge"),
        (("probee",), "error: there is no command 'probee' (did you mean probe?): wake-bridge"),
        (("probe", "--nope"), "error: no such option '--nope': wake-bridge probe"),
        (("probe", "--fail"), "error: option '--fail' requires an argument: wake-bridge"),
        (("family", "nobody"), "error: no such command 'nobody': wake-bridge family"),
        (("--config",), "error: option '--config' requires an argument: wake-bridge"),
    ],
)
def test_usage_mistakes_are_exit_2_in_the_same_form(
    invoke: Callable[..., Result], arguments: tuple[str, ...], what: str
) -> None:
    """2 is usage."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    first, hint = result.stderr.splitlines()
    assert first == what
    assert hint.startswith("hint: `wake-bridge")


def test_no_command_at_all_shows_the_help_and_is_usage(invoke: Callable[..., Result]) -> None:
    """A bare call shows what there is."""
    for arguments in ((), ("family",)):
        result = invoke(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Usage: " in result.stderr


@pytest.mark.parametrize("arguments", [("--json", "probe"), ("probe", "--json"), ("--json", "probe", "--json")])
def test_json_is_accepted_before_and_after_the_command(
    invoke: Callable[..., Result], arguments: tuple[str, ...]
) -> None:
    """Then stdout holds only JSON, compact, one object a line."""
    assert invoke(*arguments).stdout == '{"b":1,"a":"\\u00e9\\u001b"}\n'


@pytest.mark.parametrize(
    "arguments", [("--json", "family", "child"), ("family", "--json", "child"), ("family", "child", "--json")]
)
def test_json_is_accepted_around_subcommands_too(invoke: Callable[..., Result], arguments: tuple[str, ...]) -> None:
    """`--json` is accepted before or after the command."""
    assert json.loads(invoke(*arguments, "-vv").stdout) == {"json": True, "verbosity": 2}


def test_words_for_people_cannot_steer_their_terminal(invoke: Callable[..., Result]) -> None:
    """Text from the graph is shown, not obeyed."""
    assert invoke("probe").stdout == "human é�[2J\n"
    assert harmless("a\tb\nc\r\x9b1m\u202e\ud800") == "a\tb\nc��1m��"


def test_an_interrupt_and_a_closed_pipe_are_quiet(invoke: Callable[..., Result]) -> None:
    """Ctrl-C and `| head` are no faults."""
    interrupted = invoke("probe", "--fail", "interrupt")
    assert (interrupted.exit_code, interrupted.output) == (130, "")


def test_a_reader_that_goes_away_is_no_fault() -> None:
    """`wake-bridge … | head`: a real pipe whose reader has left; nothing on stderr."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run([PROGRAM, "--help"], stdout=write_end, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's own device")
@pytest.mark.parametrize("words", ["--help", "adapters", "adapters --json", "--version"])
def test_a_full_disk_under_the_output_is_named(words: str) -> None:
    """`wake-bridge … > file` on a full disk: no fault of ours, and the person learns what to do."""
    with Path("/dev/full").open("w", encoding="ascii") as full:
        done = subprocess.run([PROGRAM, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: the disk is full where the output goes")
    assert "internal" not in done.stderr


@pytest.mark.parametrize(("arguments", "code"), [(["status"], 0), (["setup"], 2), (["adapters", "--json"], 0)])
def test_closed_streams_are_no_fault(tmp_path: Path, arguments: list[str], code: int) -> None:
    """`wake-bridge … >&- <&-`, as some supervisors start programs: an answer to nobody, and no internal error."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMUX_TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$@" <&- >&-', PROGRAM, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    assert "internal" not in done.stderr
    assert done.returncode == code


def test_the_program_runs_as_a_module_too() -> None:
    """`python -m wake_bridge` is the same program."""
    done = subprocess.run(
        [sys.executable, "-m", "wake_bridge", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"wake-bridge {program_version()}\n"


@pytest.mark.parametrize("value", ["99999999999999d", "9999999d", f"{'9' * 5000}s"])
def test_a_duration_beyond_every_calendar_is_a_mistake_of_usage(value: str) -> None:
    """A value that cannot be meant is usage, never an internal error."""
    with pytest.raises(click.BadParameter, match="more than a hundred years"):
        DURATION.convert(value, None, None)


def all_commands(command: click.Command = cli, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that lead to it, groups included."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from all_commands(inner, *words, name)


def parses(arguments: list[str]) -> None:
    """Read a command line to its end, and run nothing."""
    command: click.Command = cli
    parent: click.Context | None = None
    while True:
        context = command.make_context(command.name or "", arguments, parent=parent)
        # click keeps what a group has not read here
        rest = [*context._protected_args, *context.args]
        if not isinstance(command, click.Group) or not rest:
            assert context.args == []
            return
        _, found, arguments = command.resolve_command(context, rest)
        assert found is not None
        command, parent = found, context


@pytest.mark.parametrize(("words", "command"), [pytest.param(*one, id=" ".join(one[0])) for one in all_commands()])
def test_every_help_ends_with_two_examples_that_parse(words: tuple[str, ...], command: click.Command) -> None:
    """Two examples in every `--help`."""
    _, _, told = command.get_help(click.Context(command, info_name="wake-bridge")).partition("Examples:\n")

    examples = [line.strip() for line in told.splitlines() if line.strip()]
    assert len(set(examples)) == 2
    for example in examples:
        program, *arguments = shlex.split(example.partition(" > ")[0])
        assert program == "wake-bridge"
        parses(arguments)
        assert all(word in arguments for word in words)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_is_the_script_that_the_shell_reads(invoke: Callable[..., Result], shell: str) -> None:
    """`completion bash|zsh|fish`; the script asks this program."""
    script = invoke("completion", shell).stdout
    assert "_WAKE_BRIDGE_COMPLETE" in script
    assert "wake-bridge" in script
    if (program := shutil.which(shell)) is not None:
        assert subprocess.run([program, "-n", "-c", script], check=True, capture_output=True).stderr == b""


def test_commands_options_and_identities_are_completed(tmp_path: Path) -> None:
    """Identities too; without a graph, nothing and no complaint."""
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}

    def completed(*words: str) -> list[str]:
        asked = {
            "_WAKE_BRIDGE_COMPLETE": "bash_complete",
            "COMP_WORDS": shlex.join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        done = subprocess.run([PROGRAM], env=home | asked, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    assert completed("wake-bridge", "un") == ["unbind", "unsubscribe", "uninstall"]
    assert "--explain" in completed("wake-bridge", "routes", "--")
    assert completed("wake-bridge", "inbox", "@") == []
    for arguments in (["init"], ["agent", "add", "@reviewer"]):
        subprocess.run([PROGRAM, *arguments], env=home, check=True, capture_output=True)
    assert completed("wake-bridge", "inbox", "@r") == ["@reviewer"]


def test_an_unknown_identity_is_asked_whether_another_was_meant() -> None:
    """An unknown identity is answered with "did you mean"."""
    known = ["@claude-api", "@codex", "@Neo"]
    assert did_you_mean("@claude-apo", known) == "did you mean @claude-api? "
    assert did_you_mean("@neo", known) == "did you mean @Neo? "
    assert did_you_mean("@nobody", known) == ""
