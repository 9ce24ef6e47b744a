"""`presence` and `screens`: what is seen in a pane, and which rule says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option("--explain", is_flag=True, help="Show every piece of evidence and what it speaks for.")
@pass_run
def presence(run: CommandContext, identity: str, explain: bool) -> None:
    """Say what is known about an identity's agent now, and why."""
    record = _presence(run, identity)
    lines = [f"{identity} is {record['state']}" + (f" in {record['where']}" if record["where"] else "")]
    if record["why"]:
        lines.append(f"because: {record['why']}")
    lines += [f"waiting: {one}" for one in _waiting(run, identity)]
    if explain:
        lines.append("")
        for one in record["evidence"]:
            saw = f"  saw {one['saw']!r}" if one["saw"] else ""
            region = f" in {one['region']}" if one["region"] else ""
            lines.append(f"  {one['vote']:<18} {one['rule']}{region}{saw}  [{one['source']}]")
    run.console.object(record, "\n".join(lines))


def _waiting(run: CommandContext, identity: str) -> list[str]:
    """What waits for the identity, and why it does not wait any longer or still does."""
    from wake_bridge.edges.ledger_store import LedgerStore
    from wake_bridge.edges.records import delivery_record

    ledger = LedgerStore.open(run.settings.state_dir, read_only=True)
    mine = [one for one in ledger.unsettled() if one.identity == identity]
    records = [delivery_record(one, ledger.events_of(one.id)) for one in mine]
    ledger.close()
    return [
        f"{one['id']} is held: {one['hold_reason']}; {one['remedy']}"
        if one["hold_reason"]
        else f"{one['id']} is due {one['dueAt'] or 'now'}"
        for one in records
    ]


def _presence(run: CommandContext, identity: str) -> dict[str, Any]:
    """From the daemon, which has watched; without it two looks of our own."""
    import asyncio

    from wake_bridge.domain.errors import NotRunning
    from wake_bridge.domain.names import Identity
    from wake_bridge.edges.records import presence_record
    from wake_bridge.edges.service.control_socket import ask
    from wake_bridge.engine.look import presence_of
    from wake_bridge.viewpoint import Viewpoint

    try:
        return dict(ask(run.settings.state_dir, "presence", identity=identity, timeout=30))
    except NotRunning:
        view = Viewpoint(run.settings)
        who = Identity(identity)
        view.require(who)
        return presence_record(who, asyncio.run(presence_of(who, view.routes, view.watch, view.clock)))


@click.group()
def screens() -> None:
    """Judge captured screens, or capture one."""


@screens.command("classify", short_help="Say what captured screens speak for.")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--harness", help="Judge by this harness's profile instead of the one the capture names.")
@pass_run
def classify(run: CommandContext, files: tuple[Path, ...], harness: str | None) -> None:
    """Say for each capture file what its screen speaks for, taken alone."""
    from wake_bridge.viewpoint import workshop

    judge = workshop(run.settings)
    for file in files:
        record = {"file": str(file), **judge.classify_capture(file, harness or "")}
        run.console.line(record, f"{record['state']:<18} {record['composer']:<12} {record['rule']:<28} {file}")


@screens.command("capture")
@click.argument("pane")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@pass_run
def capture(run: CommandContext, pane: str, output: Path | None) -> None:
    """Record a pane's screen as a capture file."""
    import asyncio

    from wake_bridge.viewpoint import workshop

    text = asyncio.run(workshop(run.settings).capture(pane))
    if output is None:
        click.echo(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")
        run.console.object({"file": str(output)}, f"written to {output}")
