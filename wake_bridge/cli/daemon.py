"""`run` and `status`: the daemon, and its state.

A look is a `status` that printed words to a terminal, or a `status --watch` that was ended. A script that asks with
`--json` looks for nobody, and moves nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.domain.names import Instant

if TYPE_CHECKING:
    from pathlib import Path

    from wake_bridge.config.settings import Settings
    from wake_bridge.control.instance_lock import InstanceLock
    from wake_bridge.domain.names import Identity
    from wake_bridge.storage.ledger import LedgerStore


WAITING_SHOWN: Final = 10
"""Held deliveries that `status` explains to people; JSON has them all."""


NOTICES: Final = 5
"""As many of the latest notices `status` shows."""


@click.command()
@click.option("--once", is_flag=True, help="Read to the end of the log, deliver what can be delivered, then exit.")
@click.option("--dry-run", is_flag=True, help="Decide and log, but type nothing and change no state.")
@click.option("--final-exit-zero", is_flag=True, help="Exit with 0 if a restart would not help (for launchd).")
@pass_run
def run(run: CommandContext, once: bool, dry_run: bool, final_exit_zero: bool) -> None:
    """Run the daemon in the foreground."""
    from wake_bridge.cli.output import complaint, problems_of

    # what it is made of takes most of a second to load: until then commands must not say that nothing runs
    early = None if dry_run else _lock_early(run.config_option)
    from wake_bridge.daemon.life import run_daemon
    from wake_bridge.domain.errors import AlreadyRunning, ConfigurationInvalid

    try:
        has_failed = not run_daemon(run.config_option, once=once, dry_run=dry_run, early=early)
    except (AlreadyRunning, ConfigurationInvalid) as error:
        if not final_exit_zero:
            raise
        run.console.warn(complaint(error.what, error.where, error.hint, problems_of(error)))
        return
    if has_failed:
        raise click.exceptions.Exit(1)


@click.command()
@pass_run
def serve(run: CommandContext) -> None:
    """Run the daemon without a graph: it takes signed wakes and items from outside, and wakes the agents of this host.

    `[http]` in the configuration says where it listens, who may send, and whom each sender wakes; `[sources]` says what sources of
    items may do. In a terminal, and where nobody may send yet, a token is made and printed once. Needs the extra `http`.
    """
    early = _lock_early(run.config_option)
    if sys.stdin.isatty() and sys.stdout.isatty():
        _make_first_token(run)
    from wake_bridge.daemon.life import run_daemon

    run_daemon(run.config_option, once=False, dry_run=False, early=early, has_graph=False)


def _make_first_token(run: CommandContext) -> None:
    """Where nothing may be sent yet: without a token there would be no server."""
    from wake_bridge.config.hosts import links_into
    from wake_bridge.config.source_tokens import FIRST_SOURCE, SourceTokens, has_source_tokens

    settings = run.settings
    if settings.config.http.senders or has_source_tokens(settings.state_dir) or links_into(settings.state_dir):
        return
    token = SourceTokens(settings.state_dir).renew(FIRST_SOURCE)
    run.console.warn(
        f"token of the source {FIRST_SOURCE}, which may send items to every agent of this host; it is not shown again:\n  {token}"
    )


def _lock_early(config_option: str | None) -> InstanceLock | None:
    """The lock of a state directory that is there and free; whatever is wrong with it, the daemon itself says."""
    from wake_bridge.config.locations import find_locations
    from wake_bridge.control.instance_lock import InstanceLock
    from wake_bridge.domain.errors import WakeBridgeError
    from wake_bridge.system.files import require_own_place

    try:
        known = find_locations(config_option, os.environ)
        if known is not None:
            state_dir = known.state_dir
        else:
            from wake_bridge.config.settings import load_settings

            state_dir = load_settings(config_option, os.environ).state_dir
        if not state_dir.is_dir():
            return None
        require_own_place(state_dir)
        lock = InstanceLock(state_dir)
        lock.acquire()
    except (WakeBridgeError, OSError):
        return None
    return lock


@click.command()
@click.option(
    "--watch", "is_watched", is_flag=True, help="Show each identity's state live; its last line names the keys."
)
@pass_run
def status(run: CommandContext, is_watched: bool) -> None:
    """Show what happened since you last looked, whether the daemon runs, its position in the log, and what waits.

    With --watch: j and k choose an agent, Enter shows its story, s sorts, / filters, q ends it. A look counts when it prints to a terminal. With `--json` it does not count.
    """
    if is_watched:
        from wake_bridge.cli.watch import agents_now, story_of, watch

        settings = run.settings
        watch(
            run.console,
            lambda: (
                status_record(settings, run.config_option, counts_hits=run.console.as_json)
                | {"agents": agents_now(settings)}
            ),
            _words,
            lambda identity: story_of(settings, identity),
        )
    else:
        record = status_record(run.settings, run.config_option, counts_hits=run.console.as_json)
        run.console.object(record, _words(record))
    if sys.stdout.isatty() and not run.console.as_json:
        from wake_bridge.control.last_look import note_look
        from wake_bridge.system.clock import SteadyClock

        note_look(run.settings.state_dir, SteadyClock().wall())


def status_record(settings: Settings, config_option: str | None = None, *, counts_hits: bool = True) -> dict[str, Any]:
    """The figures of `status`: from the daemon if it runs, else from ledger and graph.

    Args:
        settings: those of the command.
        config_option: the value of `--config`, to compare the file as it is now with what the daemon goes by.
        counts_hits: whether all kept events are gone through for `windowHits`, which is empty else.
    """
    from wake_bridge.control.serving import DaemonState, serving
    from wake_bridge.control.settings_in_force import in_force
    from wake_bridge.domain.errors import LedgerError
    from wake_bridge.storage.graph.status import graph_status
    from wake_bridge.storage.ledger import LedgerStore

    daemon = serving(settings.state_dir, settings.graph_place)
    trouble, position = daemon.trouble, None
    bound: Iterable[Identity] = ()
    kept: Mapping[str, Any] = _NOTHING_KEPT
    try:
        with closing(LedgerStore.open(settings.state_dir, read_only=True)) as ledger:
            position, bound = ledger.position(), ledger.bindings()
            kept = _kept(ledger, settings.state_dir, counts_hits=counts_hits)
    except LedgerError as refusal:
        trouble = trouble or f"{refusal} ({refusal.hint})"
    told, who = daemon.told, daemon.holder
    seen = graph_status(settings, bound)
    refused = str(told.get("settings_refused") or "")
    stand = in_force(settings.state_dir, config_option, os.environ, refused=refused)
    cursor = told.get("cursor", position.cursor if position else None)
    tip = told.get("tip", seen.tip)
    return {
        "running": daemon.running,
        "starting": daemon.state is DaemonState.STARTING,
        "pid": told.get("pid", who.pid if who else None),
        "version": told.get("version"),
        "settings": stand.record() if stand else None,
        "cursor": cursor,
        "tip": tip,
        "lag": max(0, tip - cursor) if tip is not None and cursor is not None else None,
        "active_routes": told.get("active_routes", seen.active_routes),
        "nudged": told.get("nudged", seen.nudged),
        "epoch": told.get("epoch", position.epoch if position else None),
        "since": who.since if who else None,
        "graph": str(settings.graph_place),
        "graph_trouble": seen.trouble or None,
        "listen": told.get("listen") or None,
        "listenFor": told.get("listen_for") or [],
        "state_trouble": trouble or None,
        "other_driver": told.get("other_driver") or None,
        "hosts": told.get("hosts") or [],
        "needing": told.get("needing") or [],
        "versions": told.get("versions") or [],
        **kept,
    }


_COUNTED: Final = ("open", "held", "unknown", "failed", "quarantined")
_LISTED: Final = ("waiting", "windowHits", "paused", "degraded", "notices", "attention")
_NOTHING_KEPT: Final[Mapping[str, Any]] = {
    **dict.fromkeys((*_COUNTED, "sinceYouLeft")),
    "holds": {},
    **{name: [] for name in _LISTED},
}
"""What `status` says of a ledger that cannot be read: no figure, and nothing that waits."""


def _kept(ledger: LedgerStore, state_dir: Path, *, counts_hits: bool) -> dict[str, Any]:
    """What `status` says of the ledger. Raises `LedgerError`."""
    from wake_bridge.control.last_look import last_look
    from wake_bridge.records import absence_record, episode_record, hold_record, time_or_none
    from wake_bridge.system.clock import SteadyClock

    tally, hits = ledger.tally(), ledger.window_hits() if counts_hits else {}
    return {
        **{name: getattr(tally, name) for name in _COUNTED},
        "holds": dict(tally.holds),
        "waiting": [hold_record(one) for one in ledger.unsettled() if one.hold is not None],
        "windowHits": [{"subscriptionId": one, "hits": count} for one, count in sorted(hits.items())],
        "paused": [
            {"target": one.identity, "until": time_or_none(one.until)} for one in ledger.pauses(SteadyClock().now())
        ],
        "degraded": [
            {"agentIdentity": one.identity, "route": one.adapter, "why": one.why, "since": time_or_none(one.at)}
            for one in ledger.degraded_routes()
        ],
        "notices": [
            {
                "at": time_or_none(one.at),
                "subject": one.subject,
                "agentIdentity": one.identity or None,
                "reason": one.reason,
                "title": one.title,
                "body": one.body,
            }
            for one in ledger.standing_notices(NOTICES)
        ],
        "attention": [episode_record(one) for one in ledger.open_episodes()],
        "sinceYouLeft": absence_record(ledger, last_look(state_dir)),
    }


def _words(record: Mapping[str, Any]) -> str:
    from wake_bridge.records import absence_words
    from wake_bridge.system.clock import SteadyClock

    version = f", version {record['version']}" if record["version"] else ""
    state = {"yes": f"running (pid {record['pid']}, since {record['since']}{version})", "no": "not running"}.get(
        record["running"], "cannot tell whether it runs"
    )
    if record["starting"]:
        state = f"starting (pid {record['pid']})"
    absence, is_known = record["sinceYouLeft"], record["open"] is not None
    figures = ", ".join(f"{record[name]} {name}" for name in ("open", "held", "unknown", "failed"))
    lines = [
        *([absence_words(absence, SteadyClock().wall())] if absence else []),
        f"daemon     {state}",
        *_settings_words(record),
        f"graph      {record['graph_trouble'] or record['graph']}",
        *([f"listens    {record['listen']}{taken_in(record['listenFor'])}"] if record["listen"] else []),
        _place_in_log(record),
        f"routes     {record['active_routes']} active"
        + (f", {record['nudged']} left to the heartbeat" if record["nudged"] else ""),
        f"deliveries {figures if is_known else 'nobody can tell: the ledger cannot be read'}",
    ]
    lines += [
        f"host       {one['host']}, {one['state'].replace('_', ' ')}: {one['why'] or ', '.join(one['agents']) or 'no agents'}"
        for one in record["hosts"]
    ]
    if record["holds"]:
        lines.append("held for   " + ", ".join(f"{reason} ({count})" for reason, count in record["holds"].items()))
    lines += [f"           {one['target']}: {one['remedy']}" for one in record["waiting"][:WAITING_SHOWN]]
    if len(record["waiting"]) > WAITING_SHOWN:
        more = len(record["waiting"]) - WAITING_SHOWN
        lines.append(f"           and {more} more: `wake-bridge deliveries --state held`")
    for one in record["paused"]:
        whom = "every identity" if one["target"] == "*" else one["target"]
        until = one["until"] or f"`wake-bridge resume {'--all' if one['target'] == '*' else whom}`"
        lines.append(f"paused     {whom}, until {until}")
    lines += [
        f"set aside  {one['route']} of {one['agentIdentity']}, retried by itself: {one['why']}"
        for one in record["degraded"]
    ]
    lines += _person_words(record, SteadyClock().wall())
    lines += [f"version    {_version_words(one)}" for one in record["versions"]]
    if record["quarantined"]:
        lines.append(f"unreadable {record['quarantined']} log rows set aside")
    if record["other_driver"]:
        lines.append(f"attention  another wake daemon drives the same agents: {record['other_driver']}")
    if record["state_trouble"]:
        what = "written, so no wake is sent" if is_known else "read"
        lines.append(f"attention  the ledger cannot be {what}: {record['state_trouble']}")
    if record["active_routes"] == 0 and not record["nudged"]:
        remedy = "doctor" if record["graph_trouble"] else "subscribe @you --trigger SENT_TO_ME --tmux PANE"
        lines.append(f"attention  no identity can be woken: 0 active routes (`wake-bridge {remedy}`)")
    return "\n".join(lines)


_KINDS: Final = {"wakes": "signed wakes", "items": "items", "page": "the page"}


def taken_in(kinds: Sequence[str]) -> str:
    """`, for signed wakes, items and the page`."""
    named = [_KINDS.get(one, one) for one in kinds]
    return f", for {' and '.join(filter(None, [', '.join(named[:-1]), named[-1]]))}" if named else ""


def _person_words(record: Mapping[str, Any], now: Instant) -> list[str]:
    """Which agents need a person, and what a person was told that is no longer plain from that."""
    from wake_bridge.cli.watch import ago_of

    standing = {one["episodeId"] for one in record["attention"]}
    lines = [
        f"needs you  {one['agentIdentity']}: {one['kind']} in {one['where'] or 'its pane'}, for {ago_of(one['beganAt'], now)}"
        for one in record["attention"]
    ]
    lines += [
        f"needs you  {one['agentIdentity']} on {one['host']}: {one['what']}, for {ago_of(one['since'], now)}: `{one['way']}`"
        for one in record["needing"]
    ]
    for one in record["notices"]:
        if one["subject"] in standing:
            continue
        is_of_delivery = one["agentIdentity"] and ":" not in one["subject"]
        about = f" (`wake-bridge deliveries show {one['subject']}`)" if is_of_delivery else ""
        lines.append(f"you        {one['at']} {one['title'].removeprefix('wake-bridge: ')}{about}")
    return lines


def _version_words(one: Mapping[str, Any]) -> str:
    """`claude 2.1.340 seen, rules tested to 2.1.332, 3 holds since`."""
    tested = f"to {one['tested'][-1]}" if one["isNewer"] else f"with {', '.join(one['tested'])}"
    holds = f"{one['holds']} hold{'' if one['holds'] == 1 else 's'}" if one["holds"] else "no holds"
    return f"{one['harness']} {one['version']} seen, rules tested {tested}, {holds} since"


def _settings_words(record: Mapping[str, Any]) -> list[str]:
    """Which settings run, and what of the file waits; nothing where no daemon says so."""
    stand = record["settings"]
    if stand is None:
        return []
    waiting = [f"wait for a restart: {', '.join(stand['waitForRestart'])}"] if stand["waitForRestart"] else []
    if stand["waitForReload"]:
        waiting.append(f"wait for a reload (`kill -HUP {record['pid']}`): {', '.join(stand['waitForReload'])}")
    if stand["refused"]:
        waiting.append(f"the last good settings; the current file is refused: {stand['refused']}")
    return [f"settings   {'; '.join([stand['file'], *waiting])}"]


def _place_in_log(record: Mapping[str, Any]) -> str:
    if record["cursor"] is None or record["tip"] is None:
        return "log        not read yet"
    return f"log        at {record['cursor']} of {record['tip']}, {record['lag']} behind, epoch {record['epoch']}"
