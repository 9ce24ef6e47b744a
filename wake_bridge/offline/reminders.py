"""What commands and tools do with reminders: set, list and cancel them in the ledger; the daemon tells them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Final

from wake_bridge.domain.channels import chosen
from wake_bridge.domain.errors import NotFound, RefusedForSafety, UsageMistake
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.reminders import LONGEST_TEXT, Reminder, at_time, next_after, require_five_fields
from wake_bridge.domain.text import harmless
from wake_bridge.offline.channels import channels_here
from wake_bridge.offline.owner import may_touch, sender_of
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.graph.nodes import require_known
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid

MOST_OPEN: Final = 50
"""Reminders that one agent has at most."""


def remind(
    run: Workplace,
    text: str,
    *,
    identity: str = "",
    channel: str = "",
    in_ms: int | None = None,
    at: str = "",
    cron: str = "",
) -> Reminder:
    """Set a reminder.

    Args:
        run: the act.
        text: what it says, one line.
        identity: the agent that is woken; empty for a person.
        channel: the channel by which a person is told; empty for the default.
        in_ms: milliseconds from now.
        at: a time such as `18:00`, in this machine's zone.
        cron: a cron expression, in this machine's zone.

    Raises:
        UsageMistake: there is no text or no time, or they mean nothing.
        NotFound: there is no such identity or channel.
        RefusedForSafety: an agent reminds another one, or has too many.
    """
    said = harmless(text, LONGEST_TEXT + 1)
    if not said or len(said) > LONGEST_TEXT:
        raise UsageMistake(
            f"a reminder says 1 to {LONGEST_TEXT} characters", hint="say the rest in a file, and name it"
        )
    if identity:
        require_known(run.settings, Identity(identity))
        may_touch(run, "remind", identity)
    else:
        found = chosen(channels_here(run), channel)
        channel = found.name if found else ""
    zone, now = _zone(), SteadyClock().wall()
    due_at = _due_at(in_ms, at, cron, zone, now)
    reminder = Reminder(new_ulid(), said, zone, due_at, identity, channel, cron, sender_of(run), now)
    with closing(LedgerStore.open(run.settings.state_dir)) as ledger:
        if not ledger.set_reminder(reminder, at_most=MOST_OPEN if reminder.by else None):
            raise RefusedForSafety(
                f"{reminder.by} has {MOST_OPEN} reminders, and may set no more",
                hint="`wake-bridge reminders list` shows them, `reminders cancel` removes one",
            )
    return reminder


def _due_at(in_ms: int | None, at: str, cron: str, zone: str, now: Instant) -> Instant:
    if (in_ms is not None) + bool(at) + bool(cron) != 1:
        raise UsageMistake("say once when it is due", hint="--in 20m, --at 18:00 or --cron '0 9 * * 1-5'")
    if in_ms is not None:
        return Instant(now + in_ms)
    try:
        if at:
            return at_time(at, zone, now)
        require_five_fields(cron)
        return next_after(cron, zone, now)
    except ValueError as wrong:
        raise UsageMistake(str(wrong), hint="--at 18:00, --at '2026-12-24 18:00' or --cron '0 9 * * 1-5'") from None


def _zone() -> str:
    """This machine's zone, by its IANA name; UTC where the system names none."""
    from tzlocal import get_localzone_name  # noqa: PLC0415 - only where one is set

    try:
        name = get_localzone_name()
    except (LookupError, ValueError, OSError):
        name = ""
    return name or "UTC"


def open_reminders(run: Workplace) -> Sequence[Reminder]:
    """Those that are still to come, the earliest first."""
    with closing(LedgerStore.open(run.settings.state_dir, read_only=True)) as ledger:
        return ledger.reminders()


def cancel(run: Workplace, reminder_id: str) -> Reminder:
    """End a reminder before it comes.

    Raises:
        NotFound: there is none that is still to come.
        RefusedForSafety: it is another agent's.
    """
    with closing(LedgerStore.open(run.settings.state_dir)) as ledger:
        reminder = ledger.find_reminder(reminder_id)
        if reminder is None or reminder.ended_at is not None:
            raise NotFound("there is no such reminder", reminder_id, hint="`wake-bridge reminders list` shows them")
        _require_own(run, reminder)
        ledger.end_reminder(reminder, "cancelled", SteadyClock().wall())
        return ledger.find_reminder(reminder.id) or reminder


def _require_own(run: Workplace, reminder: Reminder) -> None:
    if reminder.identity:
        may_touch(run, "reminders cancel", reminder.identity)
        return
    who = sender_of(run)
    if who and who != reminder.by:
        raise RefusedForSafety(
            "this reminder is not yours",
            reminder.id,
            hint="a person can cancel it in their own shell, outside any agent",
        )
