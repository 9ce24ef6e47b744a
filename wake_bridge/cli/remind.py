"""`remind`, `reminders`: an agent is woken, or a person told, at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.cli.wakes import DURATION

if TYPE_CHECKING:
    from wake_bridge.domain.reminders import Reminder


@click.command()
@click.argument("words", metavar="[@ID] TEXT", nargs=-1)
@click.option("--channel", default="", metavar="NAME", help="Tell you by this channel, instead of waking an agent.")
@click.option("--in", "duration", type=DURATION, help="After so long, such as 20m or 2h.")
@click.option("--at", default="", metavar="TIME", help="At this time, such as 18:00 or '2026-12-24 18:00'.")
@click.option("--cron", default="", metavar="EXPRESSION", help="Again and again, such as '0 9 * * 1-5'.")
@pass_run
def remind(run: CommandContext, words: tuple[str, ...], channel: str, duration: int | None, at: str, cron: str) -> None:
    """Remind an agent, or you, of something at a time.

    @ID is woken with the text, by the rules of every wake. Without @ID you are told, by --channel or the default channel. Times are
    of this machine's zone, which is kept with the reminder. The daemon tells reminders; one that it missed by up to 24 hours comes
    once, late, and says so.
    """
    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.domain.names import is_identity
    from wake_bridge.offline.reminders import remind as set_reminder
    from wake_bridge.records import reminder_record

    identity = words[0] if words and is_identity(words[0]) else ""
    texts = words[1:] if identity else words
    if len(texts) != 1 or (identity and channel):
        raise UsageMistake(
            "say whom, and one text", hint="`remind @ID --in 20m TEXT` or `remind --channel NAME --in 20m TEXT`"
        )
    reminder = set_reminder(run, texts[0], identity=identity, channel=channel, in_ms=duration, at=at, cron=cron.strip())
    run.console.object(reminder_record(reminder), f"{reminder.id}: {_whom(reminder)} is reminded at {_when(reminder)}")


@click.group()
def reminders() -> None:
    """List and cancel reminders."""


@reminders.command("list")
@pass_run
def list_reminders(run: CommandContext) -> None:
    """List the reminders that are still to come, the earliest first."""
    from wake_bridge.offline.reminders import open_reminders
    from wake_bridge.records import reminder_record

    found = open_reminders(run)
    for one in found:
        if run.console.as_json:
            run.console.line(reminder_record(one))
    if found:
        rows = [[one.id, _whom(one), _when(one), one.cron or "once", one.text] for one in found]
        run.console.table(["reminder", "whom", "next", "again", "text"], rows)
    else:
        run.console.say("no reminders")


@reminders.command("cancel")
@click.argument("reminder_id", metavar="ID")
@pass_run
def cancel_reminder(run: CommandContext, reminder_id: str) -> None:
    """Cancel a reminder."""
    from wake_bridge.offline.reminders import cancel
    from wake_bridge.records import reminder_record

    ended = cancel(run, reminder_id)
    run.console.object(reminder_record(ended), f"{ended.id} is cancelled")


def _whom(reminder: Reminder) -> str:
    return reminder.identity or f"you, by {reminder.channel or 'the first channel that there is'}"


def _when(reminder: Reminder) -> str:
    """`09:00 on 2026-11-30 (Europe/Berlin)`."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    at = datetime.fromtimestamp(reminder.due_at / 1000, ZoneInfo(reminder.zone))
    return f"{at:%H:%M} on {at:%Y-%m-%d} ({reminder.zone})"
