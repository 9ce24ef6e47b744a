"""`service`: starts the daemon at login, by systemd or launchd."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import CommandContext, pass_run

if TYPE_CHECKING:
    from wake_bridge.integrations.service import ServiceManager, ServiceStanding
    from wake_bridge.integrations.service.launch import Launch


def _print_option(command: Callable[..., Any]) -> Callable[..., Any]:
    explained = "Print the unit that fits here, and do nothing."
    return click.option("--print", "print_only", is_flag=True, help=explained)(command)


def _force_option(command: Callable[..., Any]) -> Callable[..., Any]:
    explained = "Also for an interpreter in a checkout, and over a file that wake-bridge did not write."
    return click.option("--force", is_flag=True, help=explained)(command)


@click.group()
def service() -> None:
    """Start the daemon at login with systemd or launchd."""


@service.command(short_help="Start the daemon now and at every login.")
@_print_option
@_force_option
@pass_run
def install(run: CommandContext, print_only: bool, force: bool) -> None:
    """Start the daemon now and at every login. Safe to repeat; do so after an update."""
    from wake_bridge.integrations.adapters import checked_settings
    from wake_bridge.integrations.service.launch import other_tmux_server, why_it_will_not_last

    manager, launch = _here(run)
    fragile = why_it_will_not_last(os.environ)
    if print_only:
        if fragile:
            run.console.warn(f"attention: {fragile}")
        _show(run, manager, launch)
        return
    if fragile and not force:
        _refuse(fragile)
    settings = checked_settings(run.config_option)
    _require_no_other(manager.standing().pid, run)
    done = manager.install(launch, force=force)
    tmux = settings.config.adapters.get("tmux", {})
    server = "" if tmux.get("socket_name") or tmux.get("socket_path") else other_tmux_server(os.environ)
    if server:
        done += (f"this tmux server is not the default one: set socket_path in [adapters.tmux] to {server}",)
    run.console.object(
        {"installed": True, "manager": manager.name, "file": str(manager.file), "done": list(done)}, "\n".join(done)
    )


@service.command(short_help="Stop the service and remove it.")
@_print_option
@_force_option
@pass_run
def uninstall(run: CommandContext, print_only: bool, force: bool) -> None:
    """Stop the service and remove it. The daemon's state stays."""
    manager, launch = _here(run)
    if print_only:
        _show(run, manager, launch)
        return
    done = manager.uninstall(force=force) or ("it is not installed",)
    run.console.object(
        {"installed": False, "manager": manager.name, "file": str(manager.file), "done": list(done)}, "\n".join(done)
    )


@service.command(short_help="Show whether the service is installed and runs.")
@_print_option
@pass_run
def status(run: CommandContext, print_only: bool) -> None:
    """Show whether the service is installed, runs, and matches what would be installed now."""
    manager, launch = _here(run)
    if print_only:
        _show(run, manager, launch)
        return
    standing = manager.standing()
    record = {
        "manager": standing.manager,
        "file": str(standing.file),
        "installed": standing.installed,
        "current": standing.text == manager.text(launch) if standing.installed else None,
        "active": standing.active,
        "starts_at_login": standing.starts_at_login,
        "pid": standing.pid,
        "lingers": standing.lingers,
        "trouble": standing.trouble or None,
    }
    run.console.object(record, _words(standing, is_current=bool(record["current"])))


def _here(run: CommandContext) -> tuple[ServiceManager, Launch]:
    from wake_bridge.integrations.service import service_manager
    from wake_bridge.integrations.service.launch import launch_of

    return service_manager(os.environ), launch_of(run.config_option, os.environ, run.configured.state_dir)


def _show(run: CommandContext, manager: ServiceManager, launch: Launch) -> None:
    text = manager.text(launch)
    run.console.object({"manager": manager.name, "file": str(manager.file), "text": text}, text.rstrip("\n"))


def _refuse(fragile: str) -> None:
    from wake_bridge.domain.errors import RefusedForSafety

    raise RefusedForSafety(
        "the program lies in a temporary place, and the service would end with it",
        fragile,
        hint="install wake-bridge with `uv tool install` or `pipx install` and use that one, or use --force",
    )


def _require_no_other(service_pid: int | None, run: CommandContext) -> None:
    """A daemon in a terminal would keep the service's one from starting."""
    from wake_bridge.control.instance_lock import holder, liveness
    from wake_bridge.domain.errors import AlreadyRunning

    if liveness(run.settings.state_dir) != "yes":
        return
    other = holder(run.settings.state_dir)
    if other is not None and other.pid != service_pid:
        raise AlreadyRunning(
            f"a daemon already runs outside the service: {other}",
            str(run.settings.state_dir),
            hint="stop it first, with Ctrl-C in its terminal",
        )


def _words(standing: ServiceStanding, *, is_current: bool) -> str:
    if not standing.installed:
        lines = [f"{standing.manager}: not installed (`wake-bridge service install`)"]
    else:
        running = {True: f"runs (pid {standing.pid})", False: "does not run", None: "cannot be asked"}[standing.active]
        login = {True: ", is started at login", False: ", is not started at login", None: ""}[standing.starts_at_login]
        lines = [f"{standing.manager}: {running}{login}", f"file: {standing.file}"]
        if not is_current:
            lines.append("the file differs from what this version installs: `wake-bridge service install` updates it")
    if standing.trouble:
        lines.append(f"attention: {standing.trouble}")
    if standing.installed and standing.lingers is False:
        lines.append("it ends with your last session: `loginctl enable-linger` keeps it running")
    return "\n".join(lines)
