"""`push-capable`: whom a heartbeat of somebody else's must leave alone."""

from __future__ import annotations

import click

from wake_bridge.cli.context import CommandContext, pass_run


@click.command("push-capable")
@pass_run
def push_capable(run: CommandContext) -> None:
    """Print the identities that another heartbeat must skip, one a line, each with the reason.

    Those a push reaches, always; those wake-bridge wakes or nudges, while its daemon runs: two drivers must never serve
    one identity.
    """
    from wake_bridge.viewpoint import driven_elsewhere

    for identity, driver in driven_elsewhere(run.settings).items():
        run.console.line({"agentIdentity": identity, "driver": driver}, f"{identity}  {_REASONS[driver]}")


_REASONS = {
    "push": "a push reaches it",
    "bridge": "wake-bridge wakes it",
    "heartbeat": "wake-bridge's own heartbeat nudges it",
}
