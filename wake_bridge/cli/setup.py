"""`setup` and `uninstall`: sets every agent up that is found, after showing the plan; and removes all of it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import CommandContext, foreign_option, pass_run
from wake_bridge.cli.mcp import require_mcp
from wake_bridge.cli.panes import patiently
from wake_bridge.cli.setup_words import SetupOutcome, show_hooks, show_instructions, show_plan, show_untracked
from wake_bridge.domain.values import dataclass

if TYPE_CHECKING:
    from wake_bridge.config.settings import Settings
    from wake_bridge.domain.errors import OperationFailed
    from wake_bridge.domain.names import Identity
    from wake_bridge.domain.setup import CandidateAgents, FoundAgent, Plan
    from wake_bridge.engine.explain.pane_reports import PaneReport, PaneReports
    from wake_bridge.integrations.agent_files import FileChange
    from wake_bridge.integrations.agent_files.git_exclude import Untracked
    from wake_bridge.offline.fragile_names import NameAdvice
    from wake_bridge.uninstall import Account


def ask_who_lives_where(run: CommandContext, *, yes: bool, dry_run: bool) -> None:
    """Propose an agent for each lost identity, and remember what a person says; with `yes` only what is certain."""
    import asyncio

    from wake_bridge.domain.names import Identity
    from wake_bridge.setup import rebind, who_is_lost

    found = asyncio.run(who_is_lost(run.settings))
    chosen: dict[Identity, FoundAgent] = {}
    for finding in found.findings:
        taken = set(chosen.values())
        agent = _certain(finding) if yes or dry_run else _asked(run, finding, taken)
        if agent is not None:
            chosen[Identity(finding.lost.identity)] = agent
    if chosen and not dry_run:
        gone = asyncio.run(rebind(run.settings, {who: found.sights[agent] for who, agent in chosen.items()}))
        chosen = {who: agent for who, agent in chosen.items() if who not in gone}
        for who in chosen:
            run.poke_daemon(moved=who)
    left = [one for one in found.findings if one.lost.identity not in chosen]
    written = bool(chosen) and not dry_run
    run.console.object(_record(chosen, left, written=written), _words(chosen, left, dry_run=dry_run))


def _certain(finding: CandidateAgents) -> FoundAgent | None:
    return finding.agents[0] if finding.is_certain else None


def _asked(run: CommandContext, finding: CandidateAgents, taken: Collection[FoundAgent]) -> FoundAgent | None:
    """What a person answers; the first one is proposed where the name leads to it, or nothing else could be meant."""
    from wake_bridge.cli.panes import at_home

    agents = [one for one in finding.agents if one not in taken]
    if not agents:
        return None
    rows = [[str(number), one.pane, one.harness, at_home(one.directory)] for number, one in enumerate(agents, 1)]
    run.console.table(["", "pane", "agent", "directory"], rows)
    run.console.flush()
    was = f" (it was {finding.lost.name!r})" if finding.lost.name else ""
    question = f"Where does {finding.lost.identity} live now?{was} 0 for none of them"
    answer = click.prompt(question, type=click.IntRange(0, len(agents)), default=1, err=True)
    return agents[answer - 1] if answer else None


def _record(chosen: Mapping[Identity, FoundAgent], left: Sequence[CandidateAgents], *, written: bool) -> dict[str, Any]:
    return {
        "written": written,
        "rebound": [
            {"agentIdentity": who, "pane": one.pane, "harness": one.harness, "directory": str(one.directory)}
            for who, one in chosen.items()
        ],
        "left": [
            {"agentIdentity": one.lost.identity, "mayLiveIn": [agent.pane for agent in one.agents]} for one in left
        ],
    }


def _words(chosen: Mapping[Identity, FoundAgent], left: Sequence[CandidateAgents], *, dry_run: bool) -> str:
    lines = [f"{who} {'would live' if dry_run else 'lives'} in {one.pane} from now on" for who, one in chosen.items()]
    for one in left:
        panes = ", ".join(agent.pane for agent in one.agents)
        lines.append(
            f"{one.lost.identity} is not pinned: it could be in {panes}; run `wake-bridge setup --rebind` in a terminal, where it can ask"
            if panes
            else f"{one.lost.identity} is not pinned: every agent that was found belongs to another identity; start its agent, then run this again"
        )
    return "\n".join(lines) or "no identity is lost: each one is where it was found before"


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--write-instructions",
    is_flag=True,
    help="Write into the agents' own files how to read mail, and allow the commands.",
)
@click.option("--mcp", is_flag=True, help="Register the MCP server with the agents too.")
@click.option("--git-exclude", is_flag=True, help="List these new files in .git/info/exclude.")
@click.option("--rebind", is_flag=True, help="Ask for the pane of each identity that is held as `moved`.")
@click.option("--tmux-keys", is_flag=True, help="Bind two keys in your tmux configuration, for `next` and back.")
@foreign_option
@pass_run
def setup(
    run: CommandContext,
    yes: bool,
    dry_run: bool,
    write_instructions: bool,
    mcp: bool,
    git_exclude: bool,
    rebind: bool,
    tmux_keys: bool,
    foreign: bool,
) -> None:
    """Find your agents and set each one up: an identity, its pane, and wakes for mail, tasks and rights.

    Safe to repeat. Existing set-ups stay; new agents are added; an agent that moved keeps its identity.
    """
    import asyncio

    from wake_bridge.config.settings import load_settings_at
    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.integrations import agent_files
    from wake_bridge.panes import report_panes
    from wake_bridge.setup import carry_out, fragile, proposed, remember_panes, setup_state
    from wake_bridge.system.files import ConfigPlace, locate_config

    if mcp:
        require_mcp()
    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageMistake(
            "there is no terminal for the question", "setup", hint="use --yes to apply the plan, or --dry-run to see it"
        )
    if rebind or tmux_keys:
        (_bind_tmux_keys if tmux_keys else ask_who_lives_where)(run, yes=yes, dry_run=dry_run)
        return
    # a file that `--config` names is made, as by `init`
    place = ConfigPlace(locate_config(run.config_option, os.environ).path)
    settings = run.where_the_daemon_is(load_settings_at(place, os.environ))
    now = setup_state(settings)
    if not dry_run:
        _require_own_graph(settings, foreign=foreign)
    with patiently(run):
        reports = asyncio.run(report_panes(settings, looks=False))
    made = proposed(settings, reports.panes, now)
    if not made.proposals:
        raise _nobody_found(reports)
    told, untracked = _what_to_tell(run, settings, made, mcp=mcp)
    hooks = _outdated_hooks(run, settings)
    _remarks(run, reports, asyncio.run(fragile(settings, made, reports.panes)))
    with run.console.outliving_its_reader() if yes else nullcontext():
        show_plan(run, made)
        show_hooks(run, hooks)
        show_instructions(run, made, told.missing)
        show_untracked(run, untracked)

    does = bool(made.changes or hooks) and not dry_run and (yes or _asks(run, "Do it?", default=True))
    if does:
        agent_files.apply(hooks, settings.state_dir)
    if does and made.changes:
        carry_out(settings, made, now, foreign=foreign)
        asyncio.run(remember_panes(run.where_the_daemon_is(load_settings_at(place, os.environ)), made, reports.panes))
        _reload_daemon(run, settings)
    is_refused = bool(made.changes or hooks) and not does
    tells = bool(told.missing) and not dry_run and not is_refused
    tells = tells and (write_instructions or (not yes and _asks(run, "Write this into these files?", default=False)))
    are_there = not told.missing and not dry_run and not is_refused
    hides = bool(untracked) and (tells or (are_there and git_exclude))
    hides = hides and (
        git_exclude or (not yes and _asks(run, "Let git not show the new ones (.git/info/exclude)?", default=True))
    )
    if tells or hides:
        agent_files.apply([*told.files, *agent_files.plan_excludes(untracked if hides else [])], settings.state_dir)
    outcome = SetupOutcome(
        settings,
        made,
        told.missing,
        hooks,
        untracked,
        dry_run=dry_run,
        written=does and made.changes,
        updated=does and bool(hooks),
        told=tells,
        hidden=hides,
    )
    run.console.object(outcome.record(), outcome.words())


def _bind_tmux_keys(run: CommandContext, *, yes: bool, dry_run: bool) -> None:
    """Show what would stand in the person's tmux configuration, and write it once they agree."""
    from wake_bridge.integrations import agent_files
    from wake_bridge.system.own_program import own_program

    change = agent_files.plan_tmux_keys(own_program(run.config_option, os.environ), Path.home(), os.environ)
    if change.changes:
        added = change.after.decode(errors="replace").removeprefix((change.before or b"").decode(errors="replace"))
        run.console.warn(f"into {change.path}:\n{added.strip()}")
    does = change.changes and not dry_run and (yes or _asks(run, "Write this into the file?", default=False))
    if does:
        agent_files.apply([change], run.settings.state_dir)
    said = f"written; `tmux source-file {change.path}` loads it" if does else "nothing was written"
    said = said if change.changes else "nothing to do: the keys are bound already"
    run.console.object(
        {"written": does, "file": str(change.path)}, f"{said}; prefix N goes to the next agent, prefix B back"
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What the agents' files must say: all of it, and what is missing."""

    files: Sequence[FileChange]
    missing: Sequence[FileChange]


def _what_to_tell(
    run: CommandContext, settings: Settings, made: Plan, *, mcp: bool
) -> tuple[_Told, Sequence[Untracked]]:
    """The agents' files, with the MCP server where it is asked for or was before; and those that git would show."""
    from wake_bridge.config.recipients import channels_of
    from wake_bridge.integrations import agent_files
    from wake_bridge.system.own_program import own_program

    # a directory that was removed, or that the system does not tell, has no files to write
    housed = [one.agent for one in made.proposals if one.agent.directory.is_absolute() and one.agent.directory.is_dir()]
    earlier = agent_files.read_files_record(settings.state_dir)
    server = own_program(run.config_option, os.environ) if mcp or agent_files.has_mcp_server(earlier) else ()
    files = agent_files.plan_files(housed, Path.home(), server, channels_of(settings.config))
    return _Told(files, [one for one in files if one.changes]), agent_files.untracked_files(files, earlier)


def _outdated_hooks(run: CommandContext, settings: Settings) -> Sequence[FileChange]:
    """The hooks of an earlier version or program; trouble with them is told, and keeps nobody from the rest."""
    from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
    from wake_bridge.integrations.agent_files.hook_settings import plan_updates
    from wake_bridge.system.own_program import own_program

    try:
        return plan_updates(own_program(run.config_option, os.environ), os.environ, settings.state_dir)
    except (OperationFailed, RefusedForSafety) as trouble:
        run.console.warn(f"note: the hooks were left as they are: {trouble}")
        return []


def _asks(run: CommandContext, question: str, *, default: bool) -> bool:
    run.console.flush()
    return click.confirm(question, default=default, err=True)


def _require_own_graph(settings: Settings, *, foreign: bool) -> None:
    """Raise `RefusedForSafety` before anything is asked or written."""
    from wake_bridge.storage.graph.opened import graph_exists, open_graph_to_write

    if graph_exists(settings.graph_place):
        open_graph_to_write(settings.graph_place, allow_foreign=foreign).close()


def _nobody_found(reports: PaneReports) -> OperationFailed:
    from wake_bridge.domain.errors import OperationFailed
    from wake_bridge.setup import nameless

    if left_out := nameless(reports.panes):
        panes = ", ".join(f"{one.sight.pane_id} of {one.sight.server}" for one in left_out)
        return OperationFailed(
            "agents were found, but no name identifies exactly one of them", panes, hint=_named(left_out)
        )
    return OperationFailed(
        "no agent was found in any pane",
        hint="start the agents in tmux; `wake-bridge panes` shows what is seen there",
    )


def _named(left_out: Sequence[PaneReport]) -> str:
    """How agents without a name get one."""
    commands = dict.fromkeys(command for one in left_out for command in one.sight.lasting)
    return ", then ".join([*(f"`{command}`" for command in commands), "`wake-bridge setup`"])


def _remarks(run: CommandContext, reports: PaneReports, fragile: Sequence[NameAdvice]) -> None:
    from wake_bridge.cli.panes import silences_of
    from wake_bridge.offline.fragile_names import remark
    from wake_bridge.setup import nameless

    for silence in silences_of(reports.silent):
        run.console.warn(silence)
    if shutil.which("wake-bridge") is None:
        run.console.warn(
            f"note: `wake-bridge` is not on your PATH, but agents must call it: put {Path(sys.executable).parent} there,"
            " and start tmux and the agents again"
        )
    if fragile:
        run.console.warn(f"note: {remark(fragile)}")
    if left_out := nameless(reports.panes):
        panes = ", ".join(f"{one.sight.harness} in {one.sight.pane_id}" for one in left_out)
        run.console.warn(f"note: left out, because no name identifies it alone: {panes}: {_named(left_out)}")


def _reload_daemon(run: CommandContext, settings: Settings) -> None:
    """Let a daemon that runs take the targets over; one that cannot is told of, nothing more."""
    from wake_bridge.control.client import ask
    from wake_bridge.control.instance_lock import daemon_is_running
    from wake_bridge.domain.errors import NotRunning, OperationFailed

    if not daemon_is_running(settings.state_dir):
        return
    try:
        ask(settings.state_dir, "reload")
    except (NotRunning, OperationFailed) as trouble:
        run.console.warn(f"note: the daemon did not load the new targets ({trouble.what}): restart it")


@click.command()
@click.option("--purge", is_flag=True, help="Also delete state, embedded graph and configuration: all mail is gone.")
@click.option("--yes", is_flag=True, help="With --purge: do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")
@pass_run
def uninstall(run: CommandContext, purge: bool, yes: bool, dry_run: bool) -> None:
    """Remove what wake-bridge installed: the service, marks on panes, instructions, allow rules and targets.

    From a file that you edited since, only our part is removed. State, graph and configuration stay. `--purge` removes them
    too, after a question: nothing brings the mail back. Stop a daemon in a terminal first; a service is stopped for you.
    """
    from wake_bridge.domain.errors import OperationFailed
    from wake_bridge.records import delivery_record
    from wake_bridge.uninstall import leave

    if purge and not (yes or dry_run):
        _confirm(run)
    account = leave(run.settings, os.environ, dry_run=dry_run, with_state=purge)
    record = {
        "dryRun": dry_run,
        "done": account.done,
        "stays": account.stays,
        "troubles": account.troubles,
        "restart": account.restart,
        "open": [delivery_record(one, ()) for one in account.open],
    }
    run.console.object(record, _words_of_account(account))
    if account.troubles:
        raise OperationFailed(
            "not everything could be removed",
            "; ".join(account.troubles),
            hint="fix what is listed, then run this again",
        )


def _confirm(run: CommandContext) -> None:
    """Have a person say that all of it may be deleted."""
    from wake_bridge.uninstall import Account, purge

    account = Account(dry_run=True)
    purge(run.settings, account)
    run.console.warn("\n".join(["--purge would:", *(f"  {one}" for one in account.done)]))
    run.ask_a_person("Delete it for ever?", hint="--dry-run shows what would be deleted; --purge --yes deletes it")


def _words_of_account(account: Account) -> str:
    lines = ["would:" if account.dry_run else "done:"] if account.done else ["there is nothing to remove"]
    lines += [f"  {one}" for one in account.done]
    if account.open:
        lines.append(
            "these deliveries stay undelivered:"
            if not account.dry_run
            else "open deliveries that would stay undelivered:"
        )
        lines += [f"  {one.id} for {one.identity}: {one.state}" for one in account.open]
    if account.restart:
        lines.append("restart these agents, which still use what was removed:")
        lines += [f"  {one}" for one in account.restart]
    if account.stays:
        lines += ["stays:", *(f"  {one}" for one in account.stays)]
    if not account.dry_run:
        lines.append(
            "to remove the program itself: `uv tool uninstall wake-bridge`, `pipx uninstall wake-bridge`, or delete its venv"
        )
    return "\n".join(lines)
