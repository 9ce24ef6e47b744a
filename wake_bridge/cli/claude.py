"""`claude`: wakes Claude Code without its composer, by a plugin of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import CommandContext, pass_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wake_bridge.integrations.agent_files import FileChange

_TAKES_EFFECT = "Claude Code loads it when you restart it, or after `/reload-plugins`."


def _dry_run_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")(command)


@click.group()
def claude() -> None:
    """Wake Claude Code natively: no key is typed, and a draft is not touched."""


@claude.command(short_help="Install the plugin.")
@_dry_run_option
@pass_run
def install(run: CommandContext, dry_run: bool) -> None:
    """Write the plugin that every new session of Claude Code loads. Safe to repeat; do so after an update.

    The plugin has a monitor, which waits for wakes, and hooks, which report the agent's state and hand over what waits.
    No settings are changed.
    """
    from wake_bridge.integrations.agent_files import apply
    from wake_bridge.integrations.agent_files.claude_plugin import claude_directory, plan_plugin
    from wake_bridge.integrations.service.launch import why_it_will_not_last
    from wake_bridge.system.own_program import own_program

    fragile = why_it_will_not_last(os.environ)
    if fragile:
        run.console.warn(f"attention: {fragile}")
    directory = claude_directory(os.environ)
    changes = plan_plugin(directory, own_program(run.config_option, os.environ))
    if not dry_run:
        apply(changes, run.settings.state_dir)
    run.console.object(
        {
            "dryRun": dry_run,
            "directory": str(directory),
            "files": [{"file": str(one.path), "change": _change_of(one)} for one in changes],
        },
        _written(changes, directory, dry_run=dry_run),
    )


@claude.command(short_help="Remove the plugin.")
@_dry_run_option
@pass_run
def uninstall(run: CommandContext, dry_run: bool) -> None:
    """Remove the plugin's files. A session that runs keeps its monitor until it ends."""
    from wake_bridge.domain.errors import OperationFailed
    from wake_bridge.integrations.agent_files import plan_removal, read_files_record, remove, take_traces
    from wake_bridge.integrations.agent_files.claude_plugin import PURPOSE

    if dry_run:
        removals = plan_removal([one for one in read_files_record(run.settings.state_dir) if one.what == PURPOSE])
    else:
        removals = remove(run.settings.state_dir, lambda one: one.what == PURPOSE)
    troubles = [f"{one.path}: {one.trouble}" for one in removals if one.trouble]
    traces = take_traces(removals, dry_run=dry_run)
    gone = [str(one.path) for one in removals if one.changes]
    gone += [str(one.path) for one in traces if not one.stays]
    stays = [str(one) for one in traces if one.stays]
    run.console.object(
        {"dryRun": dry_run, "removed": gone, "stays": stays, "troubles": troubles},
        _removed(gone, stays, dry_run=dry_run),
    )
    if troubles:
        raise OperationFailed(
            "not everything could be removed", "; ".join(troubles), hint="fix it, then run this again"
        )


@claude.command(short_help="Wait for wakes inside Claude Code.")
def monitor() -> None:
    """Print a line for each wake of this session. Claude Code starts this; nobody else needs to."""
    from wake_bridge.integrations.hook.monitor import run

    run()


def _change_of(change: FileChange) -> str:
    if not change.changes:
        return "keep"
    return "write" if change.before is None else "update"


def _written(changes: Sequence[FileChange], directory: Path, *, dry_run: bool) -> str:
    todo = [one for one in changes if one.changes]
    if not todo:
        return f"the plugin is there already: {directory}"
    lines = ["would:" if dry_run else "done:", *(f"  {_change_of(one)} {one.path}" for one in todo)]
    return "\n".join(lines if dry_run else [*lines, _TAKES_EFFECT])


def _removed(gone: Sequence[str], stays: Sequence[str], *, dry_run: bool) -> str:
    if not (gone or stays):
        return "there is no plugin to remove"
    lines = ["would:" if dry_run else "done:", *(f"  remove {one}" for one in gone)] if gone else []
    return "\n".join([*lines, *(f"stays: {one}" for one in stays)])
