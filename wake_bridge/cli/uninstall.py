"""`uninstall`: stop the service, and take back what was written for the agents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from wake_bridge.cli.context import CommandContext, pass_run

if TYPE_CHECKING:
    from wake_bridge.uninstall import Account


@click.command()
@click.option("--purge", is_flag=True, help="Also delete state, embedded graph and configuration: all mail is gone.")
@click.option("--yes", is_flag=True, help="With --purge: do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
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
    run.console.object(record, _words(account))
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
    run.ask_a_person("Delete it for ever?", hint="--dry-run shows what would go, --purge --yes does it")


def _words(account: Account) -> str:
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
        lines.append("restart these agents, which still use what is gone:")
        lines += [f"  {one}" for one in account.restart]
    if account.stays:
        lines += ["stays:", *(f"  {one}" for one in account.stays)]
    if not account.dry_run:
        lines.append(
            "to remove the program itself: `uv tool uninstall wake-bridge`, `pipx uninstall wake-bridge`, or delete its venv"
        )
    return "\n".join(lines)
