"""`hook`: what a harness runs at its events, and installing that in its settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.integrations.hook.caller import HARNESSES

if TYPE_CHECKING:
    from wake_bridge.integrations.agent_files import FileChange

_TAKES_EFFECT: Final = {
    "codex": "Codex loads them when you restart it, and asks once whether to trust them (`/hooks`).",
}


def _harness_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("harness", type=click.Choice(HARNESSES))(command)


def _dry_run_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")(command)


@click.group(short_help="Install and serve the hooks of a harness.")
def hook() -> None:
    """Hand waiting events to an agent during its turn, through its harness's own hooks.

    The harness runs `wake-bridge hook HARNESS`, which reads the event on stdin and prints what is handed over, or nothing.
    """


@hook.command(short_help="Install the hooks of a harness.")
@_harness_argument
@_dry_run_option
@pass_run
def install(run: CommandContext, harness: str, dry_run: bool) -> None:
    """Write hooks that call this wake-bridge into your settings of HARNESS. Safe to repeat; do so after an update.

    Existing hooks stay. For Claude Code this is `wake-bridge claude install`.
    """
    from wake_bridge.integrations.agent_files import apply
    from wake_bridge.integrations.agent_files.hook_settings import plan_hooks
    from wake_bridge.integrations.service.launch import why_it_will_not_last
    from wake_bridge.system.own_program import own_program

    _require_settings(harness, "install")
    fragile = why_it_will_not_last(os.environ)
    if fragile:
        run.console.warn(f"attention: {fragile}")
    program = own_program(run.config_option, os.environ)
    change = plan_hooks(harness, program, os.environ, run.settings.state_dir)
    if not dry_run:
        apply([change], run.settings.state_dir)
    run.console.object(
        {"dryRun": dry_run, "harness": harness, "file": str(change.path), "change": _change_of(change)},
        _written(change, harness, dry_run=dry_run),
    )


@hook.command(short_help="Remove the hooks of a harness.")
@_harness_argument
@_dry_run_option
@pass_run
def uninstall(run: CommandContext, harness: str, dry_run: bool) -> None:
    """Remove our hooks from your settings of HARNESS. A file that you did not edit since is restored to the byte.

    What HARNESS itself recorded for the hooks is removed too, or named.
    """
    from wake_bridge.domain.errors import OperationFailed
    from wake_bridge.integrations.agent_files import plan_removal, read_files_record, remove, take_traces
    from wake_bridge.integrations.agent_files.hook_settings import purpose

    _require_settings(harness, "uninstall")
    ours = purpose(harness)
    if dry_run:
        removals = plan_removal([one for one in read_files_record(run.settings.state_dir) if one.what == ours])
    else:
        removals = remove(run.settings.state_dir, lambda one: one.what == ours)
    troubles = [f"{one.path}: {one.trouble}" for one in removals if one.trouble]
    files = [str(one.path) for one in removals if one.changes]
    words = [f"{'would remove' if dry_run else 'removed'} our hooks from {file}" for file in files]
    traces = take_traces(removals, dry_run=dry_run)
    words += [f"{'would take' if dry_run else 'took'} out: {one}" for one in traces if not one.stays]
    stays = [str(one) for one in traces if one.stays]
    changed = [*files, *(str(one.path) for one in traces if not one.stays)]
    words += [f"stays: {one}" for one in stays]
    run.console.object(
        {"dryRun": dry_run, "harness": harness, "removed": changed, "stays": stays, "troubles": troubles},
        "\n".join(words) or f"there are no hooks of {harness} to remove",
    )
    if troubles:
        raise OperationFailed(
            "not everything could be removed", "; ".join(troubles), hint="fix it, then run this again"
        )


def _serving(harness: str) -> click.Command:
    """`hook HARNESS [EVENT]`, where it comes through the command line after all: with global options, say."""

    @click.command(harness, short_help=f"Serve one hook of {harness}.", hidden=True)
    @click.argument("event", required=False)
    @pass_run
    def serve(run: CommandContext, event: str | None) -> None:
        """Read the event on stdin and print what is handed over, or nothing."""
        from wake_bridge.integrations.hook import program
        from wake_bridge.integrations.hook.talk import CONFIG_VARIABLE

        if run.config_option:
            os.environ[CONFIG_VARIABLE] = run.config_option
        program.run([harness, *([event] if event else [])])

    return serve


for _harness in HARNESSES:
    hook.add_command(_serving(_harness))


def _require_settings(harness: str, command: str) -> None:
    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.integrations.agent_files.hook_settings import INTO

    if harness not in INTO:
        raise UsageMistake(
            "Claude Code has its hooks in a plugin", f"hook {command}", hint=f"`wake-bridge claude {command}`"
        )


def _change_of(change: FileChange) -> str:
    if not change.changes:
        return "keep"
    return "write" if change.before is None else "update"


def _written(change: FileChange, harness: str, *, dry_run: bool) -> str:
    if not change.changes:
        return f"the hooks are there already: {change.path}"
    if dry_run:
        return f"would {_change_of(change)} {change.path}"
    again = _TAKES_EFFECT.get(harness, f"{harness} loads them when you restart it.")
    return f"done: {_change_of(change)} {change.path}\n{again}"
