"""`setup`: every agent that is found gets an identity, its subscriptions and its target, after a look at the plan."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import CommandContext, foreign_option, pass_run

if TYPE_CHECKING:
    from wake_bridge.domain.setup import Plan
    from wake_bridge.edges.configuration.config import Settings
    from wake_bridge.panes import PaneReports


@click.command()
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and write nothing.")
@foreign_option
@pass_run
def setup(run: CommandContext, yes: bool, dry_run: bool, foreign: bool) -> None:
    """Give every agent that is found an identity, wake it for mail, tasks and rights, and say where it lives.

    Safe to repeat: what is set up stays, by hand or not; new agents are added, and one that moved takes its identity along.
    """
    import asyncio

    from wake_bridge.domain.errors import OperationFailed, UsageMistake
    from wake_bridge.edges.configuration.config import load_settings_at
    from wake_bridge.edges.configuration.sources import ConfigPlace, locate_config
    from wake_bridge.panes import report_panes
    from wake_bridge.setup import carry_out, proposed, standing

    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageMistake(
            "there is no terminal to ask on", "setup", hint="--yes does it, --dry-run shows what would be done"
        )
    # a file that `--config` names is made, as by `init`
    settings = load_settings_at(ConfigPlace(locate_config(run.config_option, os.environ).path), os.environ)
    now = standing(settings)
    if not dry_run:
        _require_own_graph(settings, foreign=foreign)
    reports = asyncio.run(report_panes(settings))
    made = proposed(settings, reports.panes, now)
    if not made.proposals:
        raise OperationFailed(
            "no agent was found in any pane",
            hint="start the agents in tmux; `wake-bridge panes` shows what is seen there",
        )
    _remarks(run, reports)
    if not run.console.as_json:
        _show(run, made)
    does = made.changes and not dry_run and (yes or click.confirm("Do it?", default=True, err=True))
    if does:
        carry_out(settings, made, now, foreign=foreign)
        _reload_daemon(run, settings)
    run.console.object(_record(settings, made, written=does), _summary(settings, made, dry_run=dry_run, written=does))


def _require_own_graph(settings: Settings, *, foreign: bool) -> None:
    """Raise `RefusedForSafety` before anything is asked or written."""
    from wake_bridge.edges.graph.graph_writer import GraphWriter

    if settings.graph_path.exists():
        GraphWriter(settings.graph_path, allow_foreign=foreign).close()


def _remarks(run: CommandContext, reports: PaneReports) -> None:
    from wake_bridge.cli.panes import doubts_of

    for server, why in reports.silent:
        run.console.warn(f"note: {server} does not answer: {why}")
    agents = [one.sight for one in reports.panes if one.sight.harness]
    for doubt, names in doubts_of(agents).items():
        run.console.warn(f"note: {', '.join(names)}: {doubt}")


def _show(run: CommandContext, made: Plan) -> None:
    from wake_bridge.cli.panes import at_home

    run.console.table(
        ["identity", "agent", "pane", "directory", "what"],
        [
            [
                one.agent.identity,
                one.agent.harness,
                one.agent.pane,
                at_home(one.agent.directory),
                f"{one.step}, was {one.was}" if one.was else one.step.value,
            ]
            for one in made.proposals
        ],
    )


def _summary(settings: Settings, made: Plan, *, dry_run: bool, written: bool) -> str:
    if not made.changes:
        return "everything is set up already; nothing was changed"
    if written:
        example = next(one.agent.identity for one in made.proposals if one.is_ours)
        return "\n".join(
            (
                f"written: {settings.config_file} (the marked block of targets), {settings.graph_path}",
                f'next: `wake-bridge run` in a pane of its own, then `wake-bridge wake {example} "hello"`',
            )
        )
    return (
        f"nothing was changed{' (--dry-run)' if dry_run else ''}; with it: targets in {settings.config_file},"
        f" identities and subscriptions in {settings.graph_path}"
    )


def _record(settings: Settings, made: Plan, *, written: bool) -> dict[str, Any]:
    from wake_bridge.setup import TRIGGERS

    return {
        "written": written,
        "config": str(settings.config_file),
        "graph": str(settings.graph_path),
        "triggers": [trigger.value for trigger in TRIGGERS],
        "agents": [
            {
                "agentIdentity": one.agent.identity,
                "harness": one.agent.harness,
                "directory": str(one.agent.directory),
                "pane": one.agent.pane,
                "socket": one.socket or None,
                "step": one.step.value,
                "was": one.was or None,
            }
            for one in made.proposals
        ],
    }


def _reload_daemon(run: CommandContext, settings: Settings) -> None:
    """Let a daemon that runs take the targets over; one that cannot is told of, nothing more."""
    from wake_bridge.domain.errors import NotRunning, OperationFailed
    from wake_bridge.edges.service.control_socket import ask
    from wake_bridge.edges.service.instance_lock import daemon_is_running

    if not daemon_is_running(settings.state_dir):
        return
    try:
        ask(settings.state_dir, "reload")
    except (NotRunning, OperationFailed) as trouble:
        run.console.warn(f"note: the daemon did not take the targets over ({trouble.what}): restart it")
