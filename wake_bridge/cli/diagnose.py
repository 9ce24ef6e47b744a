"""`adapters`, `config check`, `logs`, `doctor`."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run
from wake_bridge.cli.control import DURATION

LAST_LINES: Final = 200


@click.command()
@pass_run
def adapters(run: CommandContext) -> None:
    """List the installed adapters, and whether each can be used."""
    from wake_bridge.edges.catalogue import load_catalogue

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
        run.console.table(["adapter", "", "from", "trouble"], rows)
    else:
        run.console.warn("no adapters: a checkout must be installed (`pip install -e .`) for its entry points to exist")


@click.group("config")
def config() -> None:
    """The configuration."""


@config.command("check", short_help="Show every mistake in the configuration.")
@pass_run
def check(run: CommandContext) -> None:
    """Check the configuration, adapters' tables and screen profiles included; every mistake is shown."""
    from wake_bridge.domain.errors import ConfigurationInvalid
    from wake_bridge.edges.steady_clock import SteadyClock
    from wake_bridge.wiring import checked_settings, make_adapters

    try:
        settings = checked_settings(run.config_option)
        make_adapters(settings, SteadyClock())
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
        "graph": str(settings.graph_path),
        "state_dir": str(settings.state_dir),
    }
    source = ", ".join(read) or f"defaults (there is no {settings.config_file})"
    run.console.object(record, f"the configuration is good: {source}")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on as lines are written.")
@click.option("--delivery", help="Only lines about this delivery.")
@click.option("--agent", type=IDENTITY, help="Only lines about this identity.")
@click.option("--since", "age", type=DURATION, help="Only lines of the last 8h, 30m, …")
@pass_run
def logs(run: CommandContext, follow: bool, delivery: str | None, agent: str | None, age: int | None) -> None:
    """Show the daemon's log file."""
    from wake_bridge.domain.errors import NotFound
    from wake_bridge.edges.logs import LOG_FILE_NAME

    path = run.settings.log_file or run.settings.state_dir / LOG_FILE_NAME
    if not path.exists():
        raise NotFound(
            "there is no log file",
            str(path),
            hint="a daemon in the foreground logs to its terminal, a service here; set daemon.log_file to have a file always",
        )
    after = datetime.now(UTC).timestamp() - age / 1000 if age else 0.0
    for line in _lines(path, follow=follow, everything=bool(age or delivery or agent)):
        entry = _parsed(line)
        if _is_wanted(entry, delivery or "", agent or "", after):
            run.console.line(entry, _told(entry))
            run.console.flush()


def _lines(path: Path, *, follow: bool, everything: bool) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as stream:
        yield from stream if everything else deque(stream, LAST_LINES)
        while follow:
            line = stream.readline()
            if line:
                yield line
            elif path.exists() and path.stat().st_size < stream.tell():
                # rotated under us: begin the new file
                yield from _lines(path, follow=True, everything=True)
            else:
                time.sleep(0.2)


def _parsed(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {"event": line.strip()}
    return entry if isinstance(entry, dict) else {"event": line.strip()}


def _is_wanted(entry: dict[str, Any], delivery: str, agent: str, after: float) -> bool:
    if delivery and not str(entry.get("delivery", "")).startswith(delivery):
        return False
    if agent and entry.get("agent") != agent:
        return False
    if not after:
        return True
    try:
        return datetime.fromisoformat(str(entry.get("timestamp", ""))).timestamp() >= after
    except ValueError:
        return False


def _told(entry: dict[str, Any]) -> str:
    rest = "  ".join(
        f"{name}={value}" for name, value in entry.items() if name not in {"timestamp", "level", "event", "logger"}
    )
    return f"{entry.get('timestamp', '')}  {entry.get('level', ''):<7} {entry.get('event', '')}  {rest}".strip()


@click.command()
@pass_run
def doctor(run: CommandContext) -> None:
    """Check everything that must be right for wakes to arrive."""
    import asyncio

    from wake_bridge.doctor import examine

    rows = []
    is_ill = False
    for finding in asyncio.run(examine(run.config_option)):
        is_ill |= finding.ok is False
        if run.console.as_json:
            run.console.line({"check": finding.check, "ok": finding.ok, "detail": finding.detail, "hint": finding.hint})
        mark = {True: "ok", False: "NOT OK", None: "-"}[finding.ok]
        rows.append([finding.check, mark, finding.detail, finding.hint if finding.ok is not True else ""])
    run.console.table(["check", "", "detail", "what to do"], rows)
    if is_ill:
        raise click.exceptions.Exit(1)
