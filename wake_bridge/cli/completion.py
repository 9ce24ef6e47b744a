"""`completion`: what a shell has to read to complete our commands, options and identities."""

from __future__ import annotations

import click

from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.cli.start import PROGRAM


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_run
def completion(run: CommandContext, shell: str) -> None:
    """Print the script with which a shell completes commands, options and identities.

    For zsh, write it as `_wake-bridge` into a directory of `fpath`. It asks this program, so an update needs no new one.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click knows all three
    variable = f"_{PROGRAM}_COMPLETE".replace("-", "_").upper()
    script = found.source_template % found(click.Command(PROGRAM), {}, PROGRAM, variable).source_vars()
    run.console.object({"shell": shell, "script": script}, script.rstrip("\n"))
