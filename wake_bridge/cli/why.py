"""`why`: what happened to a message, a task or a log row, or why an identity is not woken now, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run
from wake_bridge.domain.explanation import NOTHING
from wake_bridge.domain.receivers import HOST
from wake_bridge.domain.text import harmless, name

if TYPE_CHECKING:
    from wake_bridge.control.serving import DaemonState
    from wake_bridge.domain.channels import Send
    from wake_bridge.domain.explanation import SubscriptionAnswer, WhyCase
    from wake_bridge.domain.names import Identity
    from wake_bridge.engine.explain.explainer import WhyFinding, WhyReport

EPISODES: Final = 5
"""As many of the latest episodes in which an agent needed a person are shown."""

SHORTEST_ID: Final = 8
"""Characters of the id of a message to a person: fewer are a number of the log, or part of another id."""

UNHELD: Final = {"PENDING": "its window collects further events", "DISPATCHED": "due", "LOCKED": "being announced"}
"""How a delivery of another host stands that nothing holds and that has no outcome, by its state."""

NAMED_AT_MOST: Final = 3
"""Identities of a broadcast that the one-sentence verdict names; all of them follow below."""


@click.command()
@click.argument("asked", metavar="MESSAGE|TASK|LOGID|@ID")
@click.argument("identity", metavar="[@ID]", type=IDENTITY, required=False)
@pass_run
def why(run: CommandContext, asked: str, identity: str | None) -> None:
    """Explain what happened to a message, a task or a log row, and what to do.

    Without @ID it covers everybody concerned. With an identity alone it tells whether a wake would reach it now. It applies the
    daemon's own rules to ledger and graph, changes nothing, and works without the daemon.
    """
    from wake_bridge.cli.output import time_of_day
    from wake_bridge.domain.names import Identity, is_identity

    if is_identity(asked) and identity in {None, asked}:
        record = _identity_record(run, Identity(asked))
        run.console.object(record, _identity_words(record))
        return
    if (told := _message_record(run, asked)) is not None:
        run.console.object(told, _message_words(told))
        return
    from wake_bridge.offline.history import look_into  # with the rules that judge a row anew

    report = look_into(
        run.settings,
        asked,
        Identity(identity) if identity else None,
        time_of_day,
        lambda who: run.unreached([who]).get(who),
    )
    elsewhere = _elsewhere(run, report)
    run.console.object(
        _record(report) | {"elsewhere": elsewhere}, "\n".join([_words(report), *words_elsewhere(elsewhere)])
    )


def _elsewhere(run: CommandContext, report: WhyReport) -> list[dict[str, Any]]:
    """What became of it on the hosts where those live whom it concerns; the host that does not answer now is named."""
    from wake_bridge.config.hosts import host_of_agent
    from wake_bridge.control.client import ask
    from wake_bridge.domain.errors import NotRunning, OperationFailed

    found = []
    for one in _latest(report):
        identity, subject = one.case.identity, one.subject_key or report.subject.entity_id
        host = host_of_agent(run.places.state_dir, identity)
        if not host or not any(history.delivery.adapter == HOST for history in one.histories):
            continue
        told: Mapping[str, Any] = {}
        with suppress(NotRunning, OperationFailed):
            told = ask(run.places.state_dir, "host_outcome", identity=identity, subject=subject)
        found.append(
            {
                "agentIdentity": identity,
                "host": host,
                "answers": bool(told.get("answers")),
                "deliveries": list(told.get("deliveries", ())),
            }
        )
    return found


def words_elsewhere(elsewhere: Sequence[Mapping[str, Any]]) -> list[str]:
    """What became of it on other hosts, line by line; `elsewhere` as the record of `why` has it."""
    lines = []
    for one in elsewhere:
        lines += ["", f"on {one['host']}:"]
        if not one["answers"]:
            lines.append("  it does not answer now: `wake-bridge hosts list`")
        elif not one["deliveries"]:
            lines.append("  it has it in its ledger, and has made no wake of it yet")
        for delivery in one["deliveries"]:
            place = f" in {delivery['pane']}" if delivery["pane"] else ""
            stands = delivery["outcome"] or delivery["why"] or UNHELD.get(delivery["state"], "")
            lines.append(f"  delivery {delivery['id']} {delivery['state']}{place}" + (f": {stands}" if stands else ""))
            if delivery["remedy"]:
                lines.append(f"    next, over there: {delivery['remedy']}")
    return lines


def _message_record(run: CommandContext, asked: str) -> dict[str, Any] | None:
    """What became of a message to a person, in the shape of every answer of `why`; None where it is the id of none."""
    from wake_bridge.domain.channels import told_of
    from wake_bridge.records import send_journal_record, send_record
    from wake_bridge.storage.ledger import LedgerStore

    with closing(LedgerStore.open(run.places.state_dir, read_only=True)) as ledger:
        send = ledger.find_send(asked) if len(asked) >= SHORTEST_ID else None
        if send is None:
            return None
        journal = [send_journal_record(line) for line in ledger.journal_of_send(send.id)]
    return _nothing_else(asked, f"the message {send.id} to you") | {
        "entityId": send.subject,
        "subject": send.title,
        "from": send.sender or None,
        "messages": [{**send_record(send), "journal": journal}],
        "verdict": told_of(send),
        "next": _after(send),
    }


def _after(send: Send) -> str:
    """What a person can do about a message."""
    from wake_bridge.domain.channels import NONE_YET, SendState

    if send.channel == NONE_YET:
        return "add a table [channels.NAME] to the configuration"
    if send.state is SendState.FAILED or send.why:
        return f"`wake-bridge channels test {send.channel}`"
    return NOTHING


def _nothing_else(asked: str, read_as: str) -> dict[str, Any]:
    """An answer of `why` without anything of the graph in it."""
    return {
        "messageId": None,
        "entityId": asked,
        "asked": asked,
        "readAs": read_as,
        **dict.fromkeys(("subject", "from", "sentAt"), None),
        **{
            name: []
            for name in (
                "logIds",
                "subscriptions",
                "guards",
                "deliveries",
                "attention",
                "messages",
                "findings",
                "elsewhere",
            )
        },
        "notes": [],
    }


def _message_words(record: Mapping[str, Any]) -> str:
    (message,) = record["messages"]
    lines = [f"{message['title']}", f"{record['verdict']}", f"  next: {record['next']}"]
    lines += [f"  {one['at']}  {one['step']:<12} {one['why'] or ''}".rstrip() for one in message["journal"]]
    return "\n".join(lines)


def _identity_record(run: CommandContext, identity: Identity) -> dict[str, Any]:
    """Whether it would be woken now, and if not why: what `routes` says, in the shape of every answer of `why`."""
    from wake_bridge.cli.presence import routes_now
    from wake_bridge.control.serving import daemon_state
    from wake_bridge.records import delivery_record, episode_record, send_record
    from wake_bridge.storage.graph.status import book_here
    from wake_bridge.storage.ledger import LedgerStore

    routes = _with_silent_host(run, identity, routes_now(run, identity))
    book = book_here(run.settings)
    theirs = [(one, book.why_unwoken(one)) for one in book.all() if one.identity == identity]
    left = book.why_left_to_heartbeat(identity)
    explanation, remedy = _of_identity(identity, routes, left, daemon_state(run.settings.state_dir))
    explanation += _home_words(run, identity, routes)
    with closing(LedgerStore.open(run.settings.state_dir, read_only=True)) as ledger:
        waiting = [
            delivery_record(one, ledger.events_of(one.id)) for one in ledger.unsettled() if one.identity == identity
        ]
        episodes = [episode_record(one) for one in ledger.episodes_of(identity, EPISODES)]
        messages = [send_record(one) for one in ledger.sends(EPISODES, identity)]
    return _nothing_else(identity, f"the identity {identity}") | {
        "subscriptions": [
            {
                "subscriptionId": one.id,
                "agentIdentity": identity,
                "matched": not why,
                "refusedBy": None,
                "why": why or None,
                "recorded": False,
            }
            for one, why in theirs
        ],
        "guards": [
            {
                "agentIdentity": identity,
                **{name: one[name] for name in ("guard", "cause", "detail", "remedy", "until")},
            }
            for one in routes["guards"]
        ],
        "deliveries": waiting,
        "attention": episodes,
        "messages": messages,
        "findings": [
            {
                "agentIdentity": identity,
                **dict.fromkeys(("kind", "subjectKey", "logId", "eventStatus"), None),
                "verdict": explanation,
                "next": remedy,
            }
        ],
        "verdict": explanation,
        "next": remedy,
    }


def _home_words(run: CommandContext, identity: Identity, routes: Mapping[str, Any]) -> str:
    """On which host it lives, and that another says so as well; empty where no linked host is concerned."""
    from wake_bridge.config.hosts import host_of_agent

    host = host_of_agent(run.places.state_dir, identity)
    if not host:
        return ""
    if any(one["route"] == HOST for one in routes["routes"]):
        return f"; it lives on {host}, whose daemon decides about its pane"
    return f"; {host} says that it lives there as well, and this host wakes it: take one of the two places away"


def _with_silent_host(run: CommandContext, identity: Identity, routes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same, with the host that served it last where nobody can be found here, and that host is silent."""
    from contextlib import suppress

    from wake_bridge.domain.causes import Cause, HoldReason
    from wake_bridge.domain.errors import OperationFailed, SourceError
    from wake_bridge.storage.graph.opened import open_host_desk

    decision = routes["decision"]
    if decision["holdReason"] != HoldReason.UNREACHABLE:
        return routes
    with suppress(SourceError, OperationFailed):
        desk = open_host_desk(run.places.graph_place)
        if desk is None:
            return routes
        with closing(desk):
            silent = [one.host for one in desk.hosts() if identity in one.identities and not one.is_alive]
        if silent:
            away = {"holdReason": HoldReason.HOST_AWAY, "cause": Cause.HOST_SILENT, "where": silent[0]}
            return {**routes, "decision": {**decision, **away}}
    return routes


def _of_identity(identity: Identity, routes: Mapping[str, Any], left: str, daemon: DaemonState) -> tuple[str, str]:
    """Verdict and next step: the first guard, else what the table decides, and the daemon that has to do it.

    `left` says why the heartbeat alone speaks to it; empty where something else does.
    """
    from wake_bridge.cli.presence import move_now
    from wake_bridge.control.serving import DaemonState
    from wake_bridge.domain.causes import HoldReason, cause_written
    from wake_bridge.domain.delivery import Hold
    from wake_bridge.domain.explanation import START
    from wake_bridge.domain.reasons import held_because

    decision = routes["decision"]
    if routes["guards"]:
        explanation, remedy = f"not woken now: {routes['guards'][0]['why']}", routes["guards"][0]["remedy"]
    elif left:
        explanation, remedy = f"not woken now: {left}", f"{NOTHING}: the heartbeat speaks of what is unread"
    elif decision["holdReason"]:
        cause = cause_written(decision["cause"])
        hold = Hold(HoldReason(decision["holdReason"]), decision["why"] or "", decision["where"] or "", cause=cause)
        explanation, remedy = f"not woken now: {held_because(hold, identity)}", hold.remedy(identity)
    else:
        explanation, remedy = f"a wake {move_now(decision)}", NOTHING
    if daemon is DaemonState.RUNNING:
        return explanation, remedy
    if daemon is DaemonState.NOT_RUNNING:
        others = "" if remedy.startswith(NOTHING) else f", then {remedy}"
        return f"{explanation}; the daemon is not running", f"{START}{others}"
    if daemon is DaemonState.STARTING:
        return f"{explanation}; the daemon is just starting", remedy
    return f"{explanation}; whether the daemon runs, nobody can tell", f"`wake-bridge doctor`, then {remedy}"


def _identity_words(record: Mapping[str, Any]) -> str:
    lines = [f"{record['asked']}: {record['verdict']}", f"  next: {record['next']}"]
    lines += [
        f"  {one['subscriptionId']} can wake it" + ("" if one["matched"] else f" once this is changed: {one['why']}")
        for one in record["subscriptions"]
    ]
    lines += [f"  guard {one['guard']}: {one['detail'] or one['remedy']}" for one in record["guards"]]
    lines += [f"  delivery {one['id']} {one['state']}" for one in record["deliveries"]]
    lines += [f"  {_episode_words(one)}" for one in record["attention"]]
    lines += [
        f"  message {one['messageId'][:10]} by {one['channel'] or 'no channel yet'}: {one['title']}"
        for one in record["messages"]
    ]
    return "\n".join(lines)


def _episode_words(episode: Mapping[str, Any]) -> str:
    """`approval in work:api.0 since 2026-…Z, told 2026-…Z, answered 2026-…Z`."""
    parts = [f"{episode['kind']} in {episode['where'] or 'its pane'} since {episode['beganAt']}"]
    if episode["resetsAt"]:
        parts.append(f"resets {episode['resetsAt']}")
    parts.append(f"told {episode['toldAt']}" if episode["toldAt"] else "not told")
    if episode["endedAt"]:
        parts.append(f"{episode['ending']} {episode['endedAt']}")
    return ", ".join(parts)


def _record(report: WhyReport) -> dict[str, Any]:
    from wake_bridge.records import delivery_record, time_or_none

    message = report.subject.message
    histories = {history.delivery.id: history for finding in report.findings for history in finding.histories}
    explanation, remedy = _headline(report)
    return {
        "messageId": message.id if message else None,
        "entityId": report.subject.entity_id or None,
        "asked": report.asked,
        "readAs": report.read_as,
        "subject": message.subject if message else None,
        "from": message.sender if message else None,
        "sentAt": time_or_none(message.sent_at) if message else None,
        "logIds": list(report.log_ids),
        "subscriptions": [
            _answer_record(finding.case, one) for finding in _latest(report) for one in finding.case.answers
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
        "deliveries": [delivery_record(history.delivery, history.events) for history in histories.values()],
        "attention": [],
        "messages": [],
        "findings": [
            {
                "agentIdentity": finding.case.identity,
                "kind": finding.kind,
                "subjectKey": finding.subject_key,
                "logId": finding.case.row or None,
                "eventStatus": finding.case.event.status if finding.case.event else None,
                "verdict": finding.explanation.text,
                "next": finding.explanation.next,
            }
            for finding in report.findings
        ],
        "notes": list(report.notes),
        "verdict": explanation,
        "next": remedy,
    }


def _answer_record(case: WhyCase, answer: SubscriptionAnswer) -> dict[str, Any]:
    return {
        "subscriptionId": answer.id,
        "agentIdentity": case.identity,
        "matched": answer.matched,
        "refusedBy": answer.refusal or answer.unheard,
        "why": _why(case, answer),
        "recorded": answer.is_recorded,
    }


def _why(case: WhyCase, answer: SubscriptionAnswer) -> str | None:
    from wake_bridge.domain.explanation import refusal_sentences, unheard_sentences

    if answer.refusal is not None:
        return refusal_sentences(case, answer.refusal, answer.id)[0]
    return unheard_sentences(case, answer)[0] if answer.unheard is not None else None


def _latest(report: WhyReport) -> list[WhyFinding]:
    """The newest finding of each identity: a task has one for each of its moves."""
    return list({finding.case.identity: finding for finding in reversed(report.findings)}.values())[::-1]


def _headline(report: WhyReport) -> tuple[str, str]:
    """Verdict and next step, one sentence each, whoever is concerned."""
    latest = _latest(report)
    if not latest:
        return f"nobody was told: {report.silence}", report.remedy
    if len(latest) == 1:
        return latest[0].explanation.text, latest[0].explanation.next
    named = [f"{one.case.identity} {one.explanation.text}" for one in latest[:NAMED_AT_MOST]]
    more = f"; and {len(latest) - NAMED_AT_MOST} more" if len(latest) > NAMED_AT_MOST else ""
    asked = f"`wake-bridge why {report.asked} @ID` says what to do for one of them"
    return "; ".join(named) + more, asked


def _words(report: WhyReport) -> str:
    message = report.subject.message
    title = f"{report.subject.entity_id or report.asked}"
    if message is not None:
        title += f'  "{harmless(message.subject)}" from {name(message.sender, known=True)}'
    rows = ", ".join(map(str, report.log_ids)) or "none"
    lines = [title, f"read as {report.read_as}; rows of the log: {rows}"]
    for finding in report.findings:
        lines += ["", *_paragraph(finding)]
    if not report.findings:
        explanation, remedy = _headline(report)
        lines += ["", explanation, f"  next: {remedy}"]
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def _paragraph(finding: WhyFinding) -> Sequence[str]:
    case = finding.case
    about = f" ({finding.subject_key})" if finding.kind == "task" else ""
    lines = [f"{case.identity}{about}: {finding.explanation.text}", f"  next: {finding.explanation.next}"]
    for answer in case.answers:
        said = "wanted it" if answer.matched else f"did not: {_why(case, answer)}"
        lines.append(f"  {answer.id} {said}" + ("" if answer.is_recorded else " (asked now)"))
    lines += [f"  guard {hold.reason}: {hold.detail or hold.remedy(case.identity)}" for hold in finding.holds]
    for history in finding.histories:
        one = history.delivery
        lines.append(f"  delivery {one.id} {one.state}" + (f", {one.outcome}" if one.outcome else ""))
    return lines
