"""`adapters`, `config check`, `doctor`, `completion`."""

from __future__ import annotations

import click

from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.program_version import PROGRAM


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_run
def completion(run: CommandContext, shell: str) -> None:
    """Print the script that completes commands, options and identities in your shell.

    For zsh, write it as `_wake-bridge` into a directory of `fpath`. The script asks this program, so it needs no update.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click knows all three
    variable = f"_{PROGRAM}_COMPLETE".replace("-", "_").upper()
    script = found.source_template % found(click.Command(PROGRAM), {}, PROGRAM, variable).source_vars()
    run.console.object({"shell": shell, "script": script}, script.rstrip("\n"))


@click.command()
@pass_run
def adapters(run: CommandContext) -> None:
    """List the installed adapters and whether each is usable."""
    from wake_bridge.integrations.adapters import load_catalogue

    rows = []
    for entry in load_catalogue():
        enabled = bool(run.settings.config.adapters.get(entry.name, {}).get("enabled", True))
        usable = entry.kind is not None and enabled and not entry.unavailable
        record = {
            "name": entry.name,
            "distribution": entry.distribution,
            "module": entry.module,
            "enabled": enabled,
            "usable": usable,
            "trouble": entry.trouble or entry.unavailable or None,
            "label": entry.label or None,
        }
        if run.console.as_json:
            run.console.line(record)
        rows.append(
            [
                entry.name,
                "usable" if usable else "not usable",
                entry.distribution,
                entry.trouble or entry.unavailable or ("" if enabled else "switched off") or entry.label,
            ]
        )
    if rows:
        run.console.table(["adapter", "", "from", "remark"], rows)
    else:
        run.console.warn("no adapters: a checkout must be installed (`pip install -e .`) for its entry points to exist")


@click.group("config")
def config() -> None:
    """The configuration."""


@config.command("check", short_help="Check the configuration.")
@pass_run
def check(run: CommandContext) -> None:
    """Check the configuration, the adapters' tables and the screen profiles. All mistakes are shown at once."""
    from wake_bridge.config.channel_fields import takes_a_text_for_an_option
    from wake_bridge.domain.errors import ConfigurationInvalid
    from wake_bridge.integrations.adapters import checked_settings, load_catalogue, make_adapters
    from wake_bridge.system.clock import SteadyClock

    try:
        catalogue = load_catalogue()
        settings = checked_settings(run.config_option, catalogue)
        make_adapters(settings, SteadyClock(), catalogue)  # each reads its own files, whose mistakes are told as well
    except ConfigurationInvalid as error:
        if run.console.as_json:
            mistakes = list(error.problems or (str(error),))
            run.console.object({"ok": False, "error": str(error), "mistakes": mistakes, "hint": error.hint})
        raise
    read = [str(path) for path in settings.source_files]
    record = {
        "ok": True,
        "mistakes": [],
        "files": read,
        "graph": str(settings.graph_place),
        "state_dir": str(settings.state_dir),
    }
    source = ", ".join(read) or f"defaults (there is no {settings.config_file})"
    run.console.object(record, f"the configuration is good: {source}")
    commands = {"human": settings.config.human.command} | {
        f"channels.{name}": one.command.reveal() for name, one in settings.config.channels.items() if one.command
    }
    for table, command in commands.items():
        if takes_a_text_for_an_option(command):
            run.console.warn(
                f'note: {table}.command: notify-send takes a text that begins with - for an option: put "--" before {{title}} and {{body}}'
            )


@click.command()
@pass_run
def doctor(run: CommandContext) -> None:
    """Check everything that wakes depend on."""
    import asyncio

    from wake_bridge.cli.panes import with_tilde
    from wake_bridge.doctor import examine

    rows, remedies = [], []
    is_ill = False
    for finding in asyncio.run(examine(run.config_option)):
        is_ill |= finding.ok is False
        if run.console.as_json:
            run.console.line({"check": finding.check, "ok": finding.ok, "detail": finding.detail, "hint": finding.hint})
        mark = {True: "ok", False: "NOT OK", None: "-"}[finding.ok]
        rows.append([finding.check, mark, with_tilde(finding.detail)])
        if finding.hint and finding.ok is not True:
            remedies.append(f"  {finding.check}: {with_tilde(finding.hint)}")
    run.console.table(["check", "", "detail"], rows)
    if remedies:
        run.console.say("\n".join(["what to do:", *remedies]))
    if is_ill:
        raise click.exceptions.Exit(1)
