"""`wake-bridge`: finds the command, runs it, and turns every failure into an error that a person can act on.

Commands are imported when they are called, so that `--version` and `--help` stay quick.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from click.exceptions import Abort, Exit, NoArgsIsHelpError

from wake_bridge.cli.context import CommandContext
from wake_bridge.cli.output import complaint, harmless, problems_of
from wake_bridge.cli.streams import NO_ROOM, NOBODY_READS, stop_writing
from wake_bridge.domain.errors import OperationFailed, WakeBridgeError
from wake_bridge.program_version import PROGRAM, program_version

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_ID: Final = "01M8FQXY1DZ6BPD2SHH367VR0Y"

EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "": ("setup --dry-run", "status --watch"),
    "setup": ("setup --dry-run", "setup --yes --write-instructions"),
    "init": ("init", "init --graph ~/neo/memory.sqlite"),
    "graph": ("graph copy ~/old.sqlite ~/new.sqlite", "graph copy ~/graph.sqlite postgresql://me@db.example/wake"),
    "graph copy": (
        "graph copy ~/graph.sqlite postgresql://me@db.example/wake",
        "graph copy postgresql://me@db.example/wake ~/graph.sqlite",
    ),
    "agent": ("agent list", "agent add @reviewer"),
    "agent add": ("agent add @reviewer", "agent add @me --human"),
    "agent list": ("agent list", "agent list --json"),
    "subscribe": (
        "subscribe @reviewer --trigger SENT_TO_ME --tmux work:api",
        "subscribe @lead --trigger presence --of @worker --when finished,approval,gone",
    ),
    "unsubscribe": (f"unsubscribe {_ID}", f"unsubscribe {_ID} --foreign"),
    "update": (f"update {_ID} --window 60", f"update {_ID} --tmux work:api --recover"),
    "list": ("list", "list @reviewer"),
    "send": (
        'send @reviewer --from @me --subject "Please review" --body "Branch fix-42"',
        'send @reviewer --from @me --subject "Run the tests" --task --priority high',
    ),
    "wake": ('wake @reviewer "Look at your mail"', 'wake @reviewer "Go on" --from @me'),
    "task": (f"task {_ID} completed --as @reviewer", f"task {_ID} inputrequired --as @reviewer"),
    "grant": ("grant CAN_REPLY_TO --to @reviewer --as @me", "grant CAN_READ_INBOX_OF --to @boss --as @me"),
    "sources": ("sources list", "sources token ci"),
    "sources list": ("sources list", "sources list --json"),
    "sources token": ("sources token ci", "sources token ci --remove"),
    "hosts": ("hosts add devbox", "hosts list"),
    "hosts add": ("hosts add devbox", "hosts add devbox --ssh me@devbox.local"),
    "hosts list": ("hosts list", "hosts list --json"),
    "hosts move": ("hosts move @api devbox", "hosts move @api devbox --json"),
    "hosts gone": ("hosts gone devbox", "hosts gone devbox --json"),
    "hosts remove": ("hosts remove devbox", "hosts remove devbox --json"),
    "relay": ("relay", "relay --json"),
    "notify": (
        'notify @reviewer --source build --mode active "the build is red"',
        'notify @me --source cron "the backup is done"',
    ),
    "inbox": ("inbox @reviewer", "inbox @reviewer --bodies --consume"),
    "read": (f"read @reviewer {_ID}", f"read @reviewer {_ID} --keep"),
    "run": ("run", "run --once --dry-run"),
    "serve": ("serve", "serve --json"),
    "status": ("status", "status --watch"),
    "open": ("open", "open --print"),
    "activity": ("activity --since 8h", "activity --follow --agent @reviewer"),
    "next": ("next", "next --back"),
    "deliveries": ("deliveries --state held", "deliveries --target @reviewer --limit 5"),
    "deliveries show": (f"deliveries show {_ID}", f"deliveries show {_ID} --json"),
    "deliveries retry": (f"deliveries retry {_ID}", f"deliveries retry {_ID} --i-looked"),
    "pause": ("pause @reviewer --for 2h", "pause --all"),
    "resume": ("resume @reviewer", "resume --all"),
    "ack": (f"ack {_ID}", f"ack {_ID} --lease 1"),
    "seen": ("seen @reviewer", "seen @reviewer --since 8h"),
    "escalate": (f"escalate {_ID}", f"escalate {_ID} --lease 1"),
    "bind": ("bind @reviewer", "bind @reviewer --pane work:api.0"),
    "unbind": ("unbind @reviewer", "unbind @reviewer --json"),
    "resync": (f"resync {_ID} --since 0", f"resync {_ID} --since 1200"),
    "hook": ("hook install codex", "hook uninstall codex"),
    "hook install": ("hook install codex --dry-run", "hook install claude"),
    "hook uninstall": ("hook uninstall codex --dry-run", "hook uninstall claude"),
    "hook claude": ("hook claude", "hook claude Stop"),
    "hook codex": ("hook codex", "hook codex Stop"),
    "hook copilot": ("hook copilot", "hook copilot agentStop"),
    "hook gemini": ("hook gemini", "hook gemini AfterAgent"),
    "hook qwen": ("hook qwen", "hook qwen Stop"),
    "claude": ("claude install", "claude uninstall"),
    "claude install": ("claude install --dry-run", "claude install"),
    "claude uninstall": ("claude uninstall --dry-run", "claude uninstall"),
    "claude monitor": ("claude monitor", "claude monitor -v"),
    "service": ("service install", "service status"),
    "service install": ("service install", "service install --print"),
    "service uninstall": ("service uninstall", "service uninstall --force"),
    "service status": ("service status", "service status --json"),
    "uninstall": ("uninstall --dry-run", "uninstall --purge"),
    "panes": ("panes", "panes --json"),
    "why": (f"why {_ID}", f"why {_ID} @reviewer"),
    "routes": ("routes @reviewer", "routes @reviewer --explain"),
    "presence": ("presence @reviewer", "presence @reviewer --explain"),
    "screens": ("screens capture work:api.0", "screens trust work:api.0"),
    "screens capture": ("screens capture work:api.0", "screens capture %3 --output idle.txt"),
    "screens classify": ("screens classify idle.txt --harness codex", "screens classify a.txt b.txt --harness claude"),
    "screens trust": ("screens trust work:api.0", "screens trust work:api.0 --print"),
    "screens list": ("screens list", "screens list --json"),
    "screens update": ("screens update claude.toml", "screens update --print"),
    "screens report": ("screens report work:api.0 --expect idle", "screens report %3 --expect active --replace Acme"),
    "push-capable": ("push-capable", "push-capable --json"),
    "adapters": ("adapters", "adapters --json"),
    "config": ("config check", "config check --json"),
    "config check": ("config check", "--config other.toml config check"),
    "channels": ("channels list", "channels test phone"),
    "channels list": ("channels list", "channels list --json"),
    "channels test": ("channels test phone", "channels test desk --json"),
    "channels send": ('channels send "the build is green"', 'channels send --channel phone "come and look"'),
    "remind": ('remind @docs --cron "0 9 * * 1-5" "update the docs"', 'remind --channel phone --in 20m "tea"'),
    "reminders": ("reminders list", f"reminders cancel {_ID}"),
    "reminders list": ("reminders list", "reminders list --json"),
    "reminders cancel": (f"reminders cancel {_ID}", f"reminders cancel {_ID} --json"),
    "channels sent": ("channels sent", "channels sent --limit 5 --json"),
    "completion": (
        "completion bash > ~/.local/share/bash-completion/completions/wake-bridge",
        "completion fish > ~/.config/fish/completions/wake-bridge.fish",
    ),
    "logs": ("logs --follow", "logs --agent @reviewer --since 8h"),
    "doctor": ("doctor", "doctor --json"),
    "mcp": ("mcp", "mcp --http 0 --as @reviewer"),
    "demo": ("demo", "demo --harness codex --keep"),
}


def epilog_of(words: str, program: str) -> str | None:
    """The examples as the end of a command's help; None where the command has none."""
    found = EXAMPLES.get(words)
    return "\b\nExamples:\n" + "\n".join(f"  {program} {one}" for one in found) if found else None


INTERRUPTED: Final = 130


class CommandPlace(NamedTuple):
    """Where a command is, and what `--help` says of it without importing it."""

    module: str
    attribute: str
    summary: str
    needs_file: bool = False
    """It starts a daemon, or sets something up: a configuration with a mistake ends it. All others are about the daemon
    that runs, and go by its last good settings then."""


COMMANDS: Final[dict[str, dict[str, CommandPlace]]] = {
    "First day": {
        "panes": CommandPlace("panes", "panes", "List tmux panes and the agents in them."),
        "setup": CommandPlace("setup", "setup", "Find your agents and set each one up to be woken.", needs_file=True),
        "subscribe": CommandPlace(
            "graph", "subscribe", "Subscribe an identity to mail, tasks, rights or another's presence.", needs_file=True
        ),
        "run": CommandPlace("daemon", "run", "Run the daemon in the foreground.", needs_file=True),
        "status": CommandPlace("daemon", "status", "Show whether the daemon runs and what waits."),
        "why": CommandPlace("why", "why", "Explain what happened to a message, a task or a log row."),
        "doctor": CommandPlace("diagnose", "doctor", "Check everything that wakes depend on."),
        "demo": CommandPlace("demo", "demo", "Play one wake from start to end in a private tmux server."),
    },
    "Mail": {
        "send": CommandPlace("mail", "send", "Send a message or a task."),
        "wake": CommandPlace("mail", "wake", "Wake one identity at once with a message from you."),
        "notify": CommandPlace("notify", "notify", "Put something from outside into an inbox."),
        "inbox": CommandPlace("mail", "inbox", "Show unread mail and items from outside."),
        "seen": CommandPlace("mail", "seen", "Show what a person was told in an agent's place."),
        "read": CommandPlace("mail", "read", "Show messages and mark them read."),
        "task": CommandPlace("mail", "task", "Move a task to another state."),
        "grant": CommandPlace("mail", "grant", "Grant a right to an identity."),
    },
    "Wakes": {
        "deliveries": CommandPlace("wakes", "deliveries", "List deliveries; show or retry one."),
        "pause": CommandPlace("wakes", "pause", "Pause wakes for one identity or for all."),
        "resume": CommandPlace("wakes", "resume", "Resume wakes and lift spent limits."),
        "ack": CommandPlace("wakes", "ack", "Acknowledge a delivery."),
        "escalate": CommandPlace("wakes", "escalate", "Pass a delivery to a person now."),
        "bind": CommandPlace("wakes", "bind", "Pin an identity to a tmux pane."),
        "unbind": CommandPlace("wakes", "unbind", "Unpin an identity from its pane."),
        "resync": CommandPlace("wakes", "resync", "Replay past log rows through one subscription."),
    },
    "Attention and reminders": {
        "next": CommandPlace("next", "next_agent", "Go to the agent that needs you; again for the one after it."),
        "open": CommandPlace("page", "open_page", "Open the page of all your agents in the browser."),
        "activity": CommandPlace("activity", "activity", "Show what happened, newest last; follow it with --follow."),
        "channels": CommandPlace("channels", "channels", "List and test the ways to you; send a text by one of them."),
        "remind": CommandPlace("remind", "remind", "Remind an agent, or you, of something at a time."),
        "reminders": CommandPlace("remind", "reminders", "List and cancel reminders."),
    },
    "Identities and subscriptions": {
        "init": CommandPlace("graph", "init", "Create the configuration and the embedded graph.", needs_file=True),
        "agent": CommandPlace("graph", "agent", "Add and list identities."),
        "list": CommandPlace(
            "graph", "list_subscriptions", "List subscriptions and whether each can be delivered now."
        ),
        "update": CommandPlace("graph", "update", "Change a subscription."),
        "unsubscribe": CommandPlace("graph", "unsubscribe", "Remove a subscription."),
        "sources": CommandPlace("sources", "sources", "List the sources of items, and make their tokens."),
    },
    "Many hosts": {
        "hosts": CommandPlace(
            "hosts", "hosts", "Link another host by ssh; list and manage the hosts that share a graph."
        ),
        "relay": CommandPlace("hosts", "relay", "Serve the link of another host; its daemon runs this by ssh."),
        "graph": CommandPlace("graph", "graph_group", "Move the graph from one place to another."),
    },
    "Installation": {
        "service": CommandPlace(
            "service", "service", "Start the daemon at login with systemd or launchd.", needs_file=True
        ),
        "hook": CommandPlace("hook", "hook", "Install and serve the hooks of a harness.", needs_file=True),
        "claude": CommandPlace(
            "claude", "claude", "Install the plugin that wakes Claude Code natively.", needs_file=True
        ),
        "mcp": CommandPlace("mcp", "mcp", "Serve mail and subscriptions as MCP tools."),
        "serve": CommandPlace("daemon", "serve", "Run the daemon for signed wakes, without a graph.", needs_file=True),
        "config": CommandPlace("diagnose", "config", "Check the configuration.", needs_file=True),
        "completion": CommandPlace("diagnose", "completion", "Print the shell completion script."),
        "uninstall": CommandPlace(
            "setup", "uninstall", "Remove everything that wake-bridge installed.", needs_file=True
        ),
    },
    "Diagnosis": {
        "logs": CommandPlace("logs", "logs", "Show the daemon's log, or the full story of one wake."),
        "routes": CommandPlace("presence", "routes", "Show the routes to an agent and the one that applies now."),
        "presence": CommandPlace("presence", "presence", "Show the state of an identity's agent, with evidence."),
        "screens": CommandPlace("screens", "screens", "Capture, classify and learn agent screens."),
        "adapters": CommandPlace("diagnose", "adapters", "List the installed adapters."),
        "push-capable": CommandPlace("presence", "push_capable", "List identities that other heartbeats should skip."),
    },
}
"""By section of `--help`, in its order: what a newcomer needs first stands first."""


def _place(name: str) -> CommandPlace | None:
    return next((commands[name] for commands in COMMANDS.values() if name in commands), None)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, each with the global options added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All names, in the order of the table."""
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import one command; None if there is none of that name."""
        if (place := _place(cmd_name)) is None:
            return None
        module = importlib.import_module(f"wake_bridge.cli.{place.module}")
        return _completed(getattr(module, place.attribute), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which was meant."""
        name = args[0]
        if (command := self.get_command(ctx, name)) is not None:
            place = _place(name)
            ctx.ensure_object(CommandContext).needs_file = place is not None and place.needs_file
            return name, command, args[1:]
        if ctx.resilient_parsing:
            return None, None, args
        import difflib

        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise click.UsageError(f"there is no command {name!r}{meant}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names with their summaries, and options, without importing any command."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=place.summary)
            for commands in COMMANDS.values()
            for name, place in commands.items()
            if name.startswith(incomplete)
        ]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the commands by section, without importing any."""
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name, place.summary) for name, place in commands.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT002 - click's signature
        **extra: Any,
    ) -> Any:
        """Run one command and exit with the exit code that its error has."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        run = CommandContext()
        self._main_shell_completion(extra, PROGRAM, complete_var)
        sys.exit(self._run(run, list(sys.argv[1:] if args is None else args), extra))

    def _run(self, run: CommandContext, args: list[str], extra: dict[str, Any]) -> int:
        try:
            with self.make_context(PROGRAM, args, **{**extra, "obj": run}) as context:
                self.invoke(context)
            run.console.flush()
        except Exit as exit_:
            return exit_.exit_code
        except BrokenPipeError:
            stop_writing()
            return NOBODY_READS
        except (Abort, KeyboardInterrupt):
            return INTERRUPTED
        except NoArgsIsHelpError as bare:
            bare.show()
            return bare.exit_code
        except click.UsageError as mistake:
            path = mistake.ctx.command_path if mistake.ctx else PROGRAM
            _complain(_clause(mistake.format_message()), path, f"`{path} --help` shows its usage")
            return mistake.exit_code
        except WakeBridgeError as error:
            _complain(error.what, error.where, error.hint, problems_of(error))
            if run.verbosity:
                _explain(error)
            return error.exit_code
        except Exception as broken:  # noqa: BLE001 - the last line of defence: a person never meets a traceback
            if isinstance(broken, OSError) and broken.errno == errno.ENOSPC:
                stop_writing()
                _complain(NO_ROOM, str(broken.filename or ""), "free some space: not all could be written")
                return OperationFailed.exit_code
            return _internal(broken, run.verbosity)
        return 0


def _completed(command: click.Command, words: str) -> click.Command:
    """Let the command, and all below it, take `--json` and `-v` as well, and end its help with examples."""
    taken = {name for parameter in command.params for name in parameter.opts}
    if "--json" not in taken:
        command.params = [*command.params, *_global_options()]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            _completed(inner, f"{words} {name}")
    command.epilog = command.epilog or epilog_of(words, PROGRAM)
    return command


def _global_options() -> list[click.Parameter]:
    def set_json(context: click.Context, _: click.Parameter, chosen: bool) -> None:
        if chosen:
            context.ensure_object(CommandContext).console.as_json = True

    def set_verbosity(context: click.Context, _: click.Parameter, count: int) -> None:
        context.ensure_object(CommandContext).verbosity += count

    return [
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=set_json, help="Print JSON on stdout, nothing else."
        ),
        click.Option(
            ["-v", "--verbose"], count=True, expose_value=False, callback=set_verbosity, help="Show more detail."
        ),
    ]


@click.group(
    cls=LazyGroup,
    params=_global_options(),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Begin with `panes`, `setup` and `run`; `doctor` says what is missing.\n\n{epilog_of('', PROGRAM)}",
)
@click.option("--config", "config_file", metavar="FILE", help="Read this configuration file.")
@click.version_option(f"{PROGRAM} {program_version()}", message="%(version)s")
@click.pass_context
def cli(context: click.Context, config_file: str | None) -> None:
    """Wake idle terminal coding agents when something arrives for them."""
    context.ensure_object(CommandContext).config_option = config_file


def _clause(message: str) -> str:
    """Click's sentence as a clause, on one line."""
    text = " ".join(message.split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _complain(what: str, where: str, hint: str, problems: tuple[str, ...] = ()) -> None:
    with contextlib.suppress(OSError):
        click.echo(harmless(complaint(what, where, hint, problems)), err=True)


def _explain(error: WakeBridgeError) -> None:
    """What the error means for the wakes that wait, for whoever asked to be told more."""
    from wake_bridge.domain.reasons import consequence_of

    with contextlib.suppress(OSError):
        click.echo(f"meaning: {consequence_of(error)}", err=True)


def _internal(broken: Exception, verbosity: int) -> int:
    import os.path
    import traceback

    if verbosity > 1:
        click.echo(harmless("".join(traceback.format_exception(broken))), err=True)
    place = traceback.extract_tb(broken.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119 - the name alone
    message = " ".join(f"{type(broken).__name__} {broken}".split())
    _complain(f"internal: {message}", where, "this is a fault of wake-bridge; please report it with the output of -vv")
    return 1
