"""`why`: what became of a message, a task or a log row, for whom, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run
from wake_bridge.domain.case import NOTHING
from wake_bridge.domain.text import harmless, name

if TYPE_CHECKING:
    from wake_bridge.domain.case import Case, Listener
    from wake_bridge.engine.inquest.inquest import Finding, Report

NAMED_AT_MOST: Final = 3
"""Identities of a broadcast that the one-sentence verdict names; all of them follow below."""


@click.command()
@click.argument("asked", metavar="MESSAGE|TASK|LOGID")
@click.argument("identity", metavar="[@ID]", type=IDENTITY, required=False)
@pass_run
def why(run: CommandContext, asked: str, identity: str | None) -> None:
    """Explain what happened to a message, a task or a log row, and what to do.

    Without @ID it covers everybody concerned. It asks ledger and graph by the daemon's own rules, changes nothing, and works
    without the daemon.
    """
    from wake_bridge.cli.output import time_of_day
    from wake_bridge.domain.names import Identity
    from wake_bridge.offline.history import look_into

    report = look_into(run.settings, asked, Identity(identity) if identity else None, time_of_day)
    run.console.object(_record(report), _words(report))


def _record(report: Report) -> dict[str, Any]:
    from wake_bridge.records import delivery_record, time_or_none

    message = report.scene.message
    rides = {ride.delivery.id: ride for finding in report.findings for ride in finding.rides}
    verdict, remedy = _headline(report)
    return {
        "messageId": message.id if message else None,
        "entityId": report.scene.entity_id or None,
        "asked": report.asked,
        "readAs": report.read_as,
        "subject": message.subject if message else None,
        "from": message.sender if message else None,
        "sentAt": time_or_none(message.sent_at) if message else None,
        "logIds": list(report.log_ids),
        "subscriptions": [
            _listener_record(finding.case, one) for finding in _latest(report) for one in finding.case.listeners
        ],
        "guards": [
            {
                "agentIdentity": finding.case.identity,
                "guard": hold.reason,
                "cause": hold.cause,
                "detail": hold.detail,
                "remedy": hold.remedy(finding.case.identity),
                "until": time_or_none(hold.next_look_at),
            }
            for finding in _latest(report)
            for hold in finding.holds
        ],
        "deliveries": [delivery_record(ride.delivery, ride.events) for ride in rides.values()],
        "findings": [
            {
                "agentIdentity": finding.case.identity,
                "kind": finding.kind,
                "subjectKey": finding.subject_key,
                "logId": finding.case.row or None,
                "eventStatus": finding.case.event.status if finding.case.event else None,
                "verdict": finding.verdict.text,
                "next": finding.verdict.next,
            }
            for finding in report.findings
        ],
        "notes": list(report.notes),
        "verdict": verdict,
        "next": remedy,
    }


def _listener_record(case: Case, listener: Listener) -> dict[str, Any]:
    return {
        "subscriptionId": listener.id,
        "agentIdentity": case.identity,
        "matched": listener.matched,
        "refusedBy": listener.refusal or listener.unheard,
        "why": _why(case, listener),
        "recorded": listener.is_recorded,
    }


def _why(case: Case, listener: Listener) -> str | None:
    from wake_bridge.domain.verdict import refusal_sentences, unheard_sentences

    if listener.refusal is not None:
        return refusal_sentences(case, listener.refusal, listener.id)[0]
    return unheard_sentences(case, listener)[0] if listener.unheard is not None else None


def _latest(report: Report) -> list[Finding]:
    """The newest finding of each identity: a task has one for each of its moves."""
    return list({finding.case.identity: finding for finding in reversed(report.findings)}.values())[::-1]


def _headline(report: Report) -> tuple[str, str]:
    """Verdict and next step, one sentence each, whoever is concerned."""
    latest = _latest(report)
    if not latest:
        return f"nobody was told: {report.silence}", NOTHING
    if len(latest) == 1:
        return latest[0].verdict.text, latest[0].verdict.next
    named = [f"{one.case.identity} {one.verdict.text}" for one in latest[:NAMED_AT_MOST]]
    more = f"; and {len(latest) - NAMED_AT_MOST} more" if len(latest) > NAMED_AT_MOST else ""
    asked = f"`wake-bridge why {report.asked} @ID` says what to do for one of them"
    return "; ".join(named) + more, asked


def _words(report: Report) -> str:
    message = report.scene.message
    title = f"{report.scene.entity_id or report.asked}"
    if message is not None:
        title += f'  "{harmless(message.subject)}" from {name(message.sender, known=True)}'
    rows = ", ".join(map(str, report.log_ids)) or "none"
    lines = [title, f"read as {report.read_as}; rows of the log: {rows}"]
    for finding in report.findings:
        lines += ["", *_paragraph(finding)]
    if not report.findings:
        verdict, remedy = _headline(report)
        lines += ["", verdict, f"  next: {remedy}"]
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def _paragraph(finding: Finding) -> Sequence[str]:
    case = finding.case
    about = f" ({finding.subject_key})" if finding.kind == "task" else ""
    lines = [f"{case.identity}{about}: {finding.verdict.text}", f"  next: {finding.verdict.next}"]
    for listener in case.listeners:
        said = "wanted it" if listener.matched else f"did not: {_why(case, listener)}"
        lines.append(f"  {listener.id} {said}" + ("" if listener.is_recorded else " (asked now)"))
    lines += [f"  guard {hold.reason}: {hold.detail or hold.remedy(case.identity)}" for hold in finding.holds]
    for ride in finding.rides:
        one = ride.delivery
        lines.append(f"  delivery {one.id} {one.state}" + (f", {one.outcome}" if one.outcome else ""))
    return lines
