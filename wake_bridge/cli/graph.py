"""Graph commands: the embedded graph, identities, subscriptions."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, IdentityType, WordType, foreign_option, pass_run
from wake_bridge.config.file import write_first_config
from wake_bridge.config.settings import Settings, installed_adapters, load_settings_at, matching_rules, why_no_webhooks
from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.domain.errors import LedgerError, OperationFailed, UsageMistake, WakeBridgeError
from wake_bridge.domain.names import Identity, Priority, Trigger, WakePolicy
from wake_bridge.domain.receivers import WEBHOOK, WEBHOOK_TARGET, why_no_url
from wake_bridge.domain.subscriptions import BRIDGE_TARGET, DEFAULT_ADAPTER, Subscription
from wake_bridge.offline.owner import invoker, may_touch
from wake_bridge.storage.graph import nodes
from wake_bridge.storage.graph.file import GraphFile
from wake_bridge.storage.graph.forecast import Circumstances, judge_subscriptions
from wake_bridge.storage.graph.nodes import (
    IDENTITY_LABEL,
    Wish,
    find_identity,
    put_identity,
    require_identity,
    short_ids,
)
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.storage.graph.status import book_of
from wake_bridge.system.clock import timestamp_now
from wake_bridge.system.files import ConfigPlace, expanded, locate_config, make_private_directory

if TYPE_CHECKING:
    from wake_bridge.engine.explain.presence_query import Reach
    from wake_bridge.engine.tail.upstream import AdoptedCursor


@click.command("list")
@click.argument("identity", type=IDENTITY, required=False)
@pass_run
def list_subscriptions(run: CommandContext, identity: str | None) -> None:
    """List subscriptions and whether each can be delivered now.

    Ids are shortened; every command takes the short form, and `--json` prints the full one.
    """
    with run.open_graph() as graph:
        if identity is not None:
            require_identity(graph, identity)
            may_touch(run, "list", identity)
        homes = _Homes(run, identity)
        verdicts = judge_subscriptions(graph, Circumstances(run.settings, installed_adapters(), homes.why_unreachable))
    shown = [
        {
            **one,
            "pane": homes.where(one["subscriptionId"], one["agentIdentity"]) or None,
            "note": "; ".join(filter(None, (one["note"], homes.overruled(one["subscriptionId"])))),
            "windowHits": homes.window_hits(one["subscriptionId"]),
        }
        for one in verdicts
        if identity in {None, one["agentIdentity"]} and invoker(run).may_be(one["agentIdentity"])
    ]
    homes.warn_of_names({Identity(one["agentIdentity"]) for one in shown})
    if run.console.as_json:
        run.console.object({"subscriptions": shown})
        return
    shorter = short_ids([one["subscriptionId"] for one in verdicts])
    shown.sort(key=lambda one: (one["agentIdentity"], one["trigger"]))
    rows = [
        [
            shorter[one["subscriptionId"]],
            one["agentIdentity"],
            one["trigger"],
            one["pane"] or "",
            "yes" if one["deliverable"] else "no",
            "; ".join(filter(None, (one["why"], one["note"]))),
        ]
        for one in shown
    ]
    if rows:
        run.console.table(["subscription", "identity", "trigger", "pane", "deliverable", "remark"], rows)
    else:
        run.console.say(f"no subscriptions{f' of {identity}' if identity else ''}")


class _Homes:
    """Where each identity can be woken now; asked once, for all that are shown."""

    def __init__(self, run: CommandContext, whose: str | None) -> None:
        from wake_bridge.offline.inspection import Inspection

        self._run = run
        self._view = Inspection(run.settings)
        asked = [Identity(whose)] if whose is not None else self._view.identities()
        self._known = asyncio.run(self._view.reach(asked))
        self._subscriptions = {one.id: one for who in self._view.identities() for one in self._view.subscribed(who)}

    def of(self, identity: Identity) -> Reach:
        """Where the identity is, or why nowhere."""
        if identity not in self._known:
            self._known |= asyncio.run(self._view.reach([identity]))
        return self._known[identity]

    def where(self, subscription_id: str, identity: Identity) -> str:
        """Where the subscription itself wakes: its receiver, else the place of its identity."""
        subscription = self._subscriptions.get(subscription_id)
        if subscription is not None and subscription.receiver is not None:
            return subscription.receiver.shown
        return self.of(identity).where

    def window_hits(self, subscription_id: str) -> int:
        """How many of its events joined a wake that another one had begun."""
        return self._view.window_hits.get(subscription_id, 0)

    def why_unreachable(self, subscription: Subscription) -> str:
        """A `ResolveTarget`."""
        if subscription.receiver is not None:
            # one that is suspended is tried again by itself
            return self._view.why_not_posted(subscription.receiver)
        hold = self.of(subscription.identity).hold
        if hold is None:
            return ""
        speaker = self._view.speaker(subscription.identity)
        is_anothers = speaker is not None and speaker.pane != subscription.pane
        culprit = f"{speaker.id} says where it lives: " if speaker and is_anothers else ""
        return f"{culprit}{hold.detail}: {hold.remedy(subscription.identity)}"

    def overruled(self, subscription_id: str) -> str:
        """Why its identity is not in the pane that this very subscription names; empty for one that names none."""
        subscription = self._subscriptions.get(subscription_id)
        if subscription is None:
            return ""
        spoke = self._view.routes.speaks_for(subscription.identity)
        is_meant = spoke is not None and spoke.pane == subscription.pane
        return self.of(subscription.identity).overruled if is_meant else ""

    def warn_of_names(self, shown: Iterable[Identity]) -> None:
        """One remark on all who are found by a name that need not last."""
        from wake_bridge.panes import fragile_names, told_of

        if fragile := asyncio.run(fragile_names(self._view, self._run.settings, sorted(shown))):
            self._run.console.warn(f"note: {told_of(fragile)}")


HARNESS_TARGETS = ("mcp-notifications", WEBHOOK_TARGET, BRIDGE_TARGET, "disabled", "none")
PUBLIC_TRIGGERS = (Trigger.SENT_TO_ME, Trigger.TASK_STATE_CHANGED, Trigger.PERMISSION_GRANTED)


@click.command()
@click.option("--graph", "graph_file", metavar="FILE", help="Create the graph here instead of in the default place.")
@click.option("--from-neo", "neo_directory", metavar="DIR", help="Continue where an upstream wake daemon stopped.")
@pass_run
def init(run: CommandContext, graph_file: str | None, neo_directory: str | None) -> None:
    """Create the configuration, if there is none, and the embedded graph.

    Safe to repeat. An existing graph is used as it is; a file that is not ours is never changed.
    """
    config = locate_config(run.config_option, os.environ).path
    chosen = expanded(graph_file).absolute() if graph_file else None
    graph = chosen or load_settings_at(ConfigPlace(config), os.environ).graph_path
    created = create_embedded_graph(graph, timestamp_now())
    with GraphFile(graph) as present:
        is_ours = present.is_embedded
    config_written = write_first_config(config, chosen)
    settings = load_settings_at(ConfigPlace(config), os.environ)
    inherited = (
        _take_over(run, run.where_the_daemon_is(replace(settings, graph_path=graph)), neo_directory)
        if neo_directory
        else None
    )

    made = "made" if created else "there already, unchanged" if is_ours else "another program's, used and not changed"
    words = [
        f"configuration: {config} ({'written' if config_written else 'there already'})",
        f"graph: {graph} ({made})",
    ]
    answer: dict[str, Any] = {"config": str(config), "graph": str(graph), "created": created}
    if inherited is not None:
        answer["takenOver"] = {"cursor": inherited.cursor, "unannounced": inherited.unannounced}
        words.append(
            f"taken over: from log id {inherited.cursor}, {inherited.unannounced} unannounced ({inherited.reason})"
        )
    run.console.object(answer, "\n".join(words))
    if settings.graph_path != graph:
        run.console.warn(f"note: graph.path is {settings.graph_path}; set it to {graph} in {config} to use this one")


@click.group()
def agent() -> None:
    """Add and list identities."""


@agent.command("add")
@click.argument("identity", type=IDENTITY)
@click.option("--display-name", metavar="T", help="A name for people.")
@click.option("--human", is_flag=True, help="A person: gets no broadcasts, and resets the loop brake by writing.")
@foreign_option
@pass_run
def agent_add(run: CommandContext, identity: str, display_name: str | None, human: bool, foreign: bool) -> None:
    """Add an identity, or rename an existing one."""
    with run.open_graph_to_write(foreign=foreign) as graph:
        was_there = find_identity(graph, identity) is not None
        put_identity(graph, identity, timestamp_now(), display_name=display_name, human=human)
    run.poke_daemon()
    run.console.object({"agentIdentity": identity}, f"{identity} {'is there' if was_there else 'was added'}")


@agent.command("list")
@pass_run
def agent_list(run: CommandContext) -> None:
    """List identities, one per line."""
    with run.open_graph() as graph:
        nodes = graph.nodes(IDENTITY_LABEL)
    records = [
        {
            "agentIdentity": node.id,
            "displayName": node.properties.get("displayName"),
            "accountType": node.properties.get("accountType"),
            "participationStatus": node.properties.get("participationStatus", "active"),
        }
        for node in nodes
    ]
    if run.console.as_json:
        for record in records:
            run.console.line(record)
        return
    rows = [[str(value or "") for value in record.values()] for record in records]
    run.console.table(["identity", "name", "kind", "participation"], rows)


def subscription_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags that `subscribe` and `update` share."""
    options = (
        click.option(
            "--tmux",
            "pane",
            metavar="PANE",
            help="The exact pane: %id, session, session:window or session:window.pane.",
        ),
        click.option("--webhook", metavar="URL", help="Post its wakes to this address, signed (docs/webhook.md)."),
        click.option(
            "--harness-target", type=click.Choice(HARNESS_TARGETS), help="Who delivers; bridge-daemon is wake-bridge."
        ),
        click.option("--adapter", metavar="NAME", help="The adapter that reaches it."),
        click.option(
            "--window",
            metavar="SECONDS",
            type=click.IntRange(0, 300),
            help="Collect events this long before a wake; 0: wake at once.",
        ),
        click.option("--policy", type=WordType(WakePolicy), help="When to wake: never, at the next turn, or at once."),
        click.option("--priority", type=WordType(Priority), help="Only mail of this priority."),
        click.option(
            "--sender",
            "senders",
            type=IdentityType(""),
            multiple=True,
            help="Only from this sender; may be repeated; '' removes the filter.",
        ),
        click.option(
            "--tag", "tags", multiple=True, help="Only with this tag; may be repeated; '' removes the filter."
        ),
        click.option(
            "--in-reply-to",
            multiple=True,
            metavar="ID",
            help="Only answers to this message; may be repeated; '' removes the filter.",
        ),
        foreign_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option("--trigger", type=WordType(PUBLIC_TRIGGERS), required=True, help="The kind of event.")
@subscription_options
@pass_run
def subscribe(run: CommandContext, /, identity: str, foreign: bool, **flags: Any) -> None:
    """Subscribe an identity to mail, tasks or rights, and name the pane where it is woken.

    An active subscription with the same trigger and filters is updated instead of created twice. An identity has one pane: the one that its
    newest subscription names, unless `bind` or [targets] says otherwise. To correct a subscription, use `update`.
    """
    wish = _wish(**flags)
    _require_webhooks(run, wish)
    if wish.harness_target is None and wish.pane is None and Identity(identity) not in run.settings.config.targets:
        raise UsageMistake(
            f"nothing says where {identity} lives",
            "subscribe",
            hint="add --tmux PANE, --webhook URL or --harness-target, or a [targets] entry to the configuration",
        )
    wish = replace(wish, harness_target=wish.harness_target or BRIDGE_TARGET)
    _require_pane(run, wish)
    with run.open_graph_to_write(foreign=foreign) as graph:
        require_identity(graph, identity)
        done = nodes.subscribe(graph, identity, wish, timestamp_now())
        book = book_of(graph, run.settings)
        made = book.get(done.subscription_id)
        why = book.why_unwoken(made) if made is not None else ""
    run.poke_daemon()
    words = f"{identity} is woken for {wish.trigger} ({done.subscription_id})"
    if why:
        words = f"{identity} is subscribed for {wish.trigger} ({done.subscription_id}), and not woken by it: {why}"
    answer = {"subscriptionId": done.subscription_id, "harnessTarget": done.harness_target}
    run.console.object(*_with_key(answer, words, done.signing_key))
    if not done.created:
        run.console.warn("note: an active subscription like this was there; it was brought up to date")
    if wish.pane is not None:
        _warn_of_target(run, Identity(identity))


def _require_webhooks(run: CommandContext, wish: Wish) -> None:
    """Refuse a receiver where nothing can be posted: it would only wait."""
    if wish.webhook is not None and (why := why_no_webhooks(run.settings)):
        raise OperationFailed(why, "--webhook")


def _require_pane(run: CommandContext, wish: Wish) -> None:
    """Refuse a pane that tmux does not know: the newest name wins, and a misspelled one would overrule the good one.

    Where tmux does not answer at all nobody can tell, and it is written.
    """
    from wake_bridge.offline.inspection import Inspection

    if wish.pane is None:
        return
    with contextlib.suppress(LedgerError, OperationFailed):
        place = asyncio.run(Inspection(run.settings).require_pane(DEFAULT_ADAPTER, wish.pane))
        session = wish.pane.removeprefix("=").partition(":")[0]
        if place is not None and "." in session and place.label.startswith(f"{session.replace('.', '_')}:"):
            run.console.warn(f"note: tmux calls it {place.label}: no session's name has a dot in it")


def _warn_of_target(run: CommandContext, identity: Identity) -> None:
    """Say at once what is wrong with a pane that was just named; a wake would only be held for it."""
    from wake_bridge.offline.inspection import Inspection
    from wake_bridge.panes import fragile_names, told_of

    try:
        view = Inspection(run.settings)
        reach = asyncio.run(view.reach([identity]))[identity]
        fragile = asyncio.run(fragile_names(view, run.settings, [identity]))
    except WakeBridgeError as blind:
        # the subscription is written: what cannot be looked at is no failure of this command
        run.console.warn(f"note: whether {identity} can be reached is not known: {blind}")
        return
    if reach.hold is not None:
        run.console.warn(f"note: {identity} cannot be reached now: {reach.hold.detail}")
    elif reach.overruled:
        run.console.warn(f"note: {reach.overruled}")
    elif fragile:
        run.console.warn(f"note: {told_of(fragile)}")


@click.command()
@click.argument("subscription_id", metavar="ID")
@foreign_option
@pass_run
def unsubscribe(run: CommandContext, subscription_id: str, foreign: bool) -> None:
    """Remove a subscription. ID is its id, or the start of it if no other id starts alike."""
    with run.open_graph_to_write(foreign=foreign) as graph:
        _require_own(run, "unsubscribe", graph, subscription_id)
        removed = nodes.unsubscribe(graph, subscription_id)
    run.poke_daemon()
    run.console.object({"subscriptionId": removed, "status": "removed"}, f"removed {removed}")


@click.command()
@click.argument("subscription_id", metavar="ID")
@click.option("--trigger", type=WordType(PUBLIC_TRIGGERS), help="The kind of event.")
@click.option(
    "--recover", is_flag=True, help="Reactivate a degraded or retired subscription; try its webhook again at once."
)
@click.option(
    "--rotate-key", is_flag=True, help="Make a new signing key for its webhook; the old one still signs for a day."
)
@subscription_options
@pass_run
def update(run: CommandContext, /, subscription_id: str, foreign: bool, **flags: Any) -> None:
    """Change a subscription. Options that you leave out keep their values.

    ID is its id, or the start of it if no other id starts alike.
    """
    wish = _wish(**flags)
    _require_webhooks(run, wish)
    _require_pane(run, wish)
    with run.open_graph_to_write(foreign=foreign) as graph:
        _require_own(run, "update", graph, subscription_id)
        done = nodes.update(graph, subscription_id, wish, timestamp_now())
    run.poke_daemon()
    node, state = done.node, nodes.shown_subscription(done.node)
    answer = {"subscriptionId": node.id, "currentState": state}
    run.console.object(*_with_key(answer, f"changed {node.id}", done.signing_key))


def _with_key(answer: dict[str, Any], words: str, signing_key: str) -> tuple[dict[str, Any], str]:
    """What is answered, with a key that was just made: it is said this once."""
    if not signing_key:
        return answer, words
    return {**answer, "signingKey": signing_key}, f"{words}\nsigning key, which nobody shows again: {signing_key}"


def _require_own(run: CommandContext, command: str, graph: GraphFile, subscription_id: str) -> None:
    """Raise `RefusedForSafety` where an agent names another's subscription."""
    meant = nodes.require_subscription(graph, subscription_id)
    may_touch(run, command, nodes.owner_of_subscription(meant))


def _take_over(run: CommandContext, settings: Settings, neo_directory: str) -> AdoptedCursor | None:
    """Put an upstream daemon's place into the ledger, once; None where the ledger has a place of its own.

    Raises:
        OperationFailed: there is no such directory.
        AlreadyRunning: a daemon of ours is at work.
    """
    from wake_bridge.engine.tail.upstream import adopt_upstream
    from wake_bridge.storage.graph.change_log import SqliteGraph
    from wake_bridge.storage.graph.upstream import read_upstream_state
    from wake_bridge.storage.ledger import LedgerStore
    from wake_bridge.system.clock import SteadyClock
    from wake_bridge.system.ulids import new_ulid

    directory = expanded(neo_directory)
    if not directory.is_dir():
        raise OperationFailed("there is no such directory", neo_directory, hint="it is upstream's NEO_AI_DAEMON_DIR")
    upstream_state, problems = read_upstream_state(directory)
    for problem in problems:
        run.console.warn(f"note: {problem}")
    make_private_directory(settings.state_dir)
    with InstanceLock(settings.state_dir), contextlib.closing(LedgerStore.open(settings.state_dir)) as ledger:
        if (position := ledger.position()) is not None:
            run.console.warn(f"note: the ledger stands at log id {position.cursor} already; nothing was taken over")
            return None
        rules = matching_rules(settings, installed_adapters())
        with contextlib.closing(SqliteGraph(settings.graph_path)) as log:
            return adopt_upstream(log, ledger, upstream_state, rules, SteadyClock(), new_ulid)


def _wish(
    *, pane: str | None, adapter: str | None, harness_target: str | None, webhook: str | None, **flags: Any
) -> Wish:
    """The flags as a wish; `--tmux` means our own daemon and the tmux adapter, `--webhook` a receiver.

    Raises:
        UsageMistake: flags contradict each other.
    """
    if pane is not None:
        if not pane.strip() or not pane.isprintable():
            raise UsageMistake(
                "a tmux target must be a name without control characters",
                "--tmux",
                hint="`tmux list-panes -a` lists them",
            )
        if adapter not in {None, DEFAULT_ADAPTER} or harness_target not in {None, BRIDGE_TARGET}:
            raise UsageMistake(
                "--tmux is delivered by bridge-daemon with the tmux adapter", "--tmux", hint="leave the other flag out"
            )
        if webhook is not None:
            raise UsageMistake(
                "a subscription leads to a pane or to a webhook",
                "--tmux",
                hint="subscribe twice: the webhook comes first",
            )
        adapter, harness_target = DEFAULT_ADAPTER, BRIDGE_TARGET
    if webhook is not None:
        if why := why_no_url(webhook):
            raise UsageMistake(why, "--webhook", hint="write it as https://host/path")
        if harness_target not in {None, WEBHOOK_TARGET} or adapter not in {None, WEBHOOK}:
            raise UsageMistake(f"--webhook is served by {WEBHOOK_TARGET}", "--webhook", hint="leave the other flag out")
        adapter, harness_target = None, WEBHOOK_TARGET
    return Wish(
        pane=pane,
        adapter=adapter,
        harness_target=harness_target,
        webhook=webhook,
        **{n: v for n, v in flags.items() if v != ()},
    )
