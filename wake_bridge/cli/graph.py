"""Graph commands: the embedded graph, identities, subscriptions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, IdentityType, WordType, foreign_option, pass_run
from wake_bridge.config.settings import Settings, installed_adapters, load_settings_at, matching_rules
from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety, UsageMistake, WakeBridgeError
from wake_bridge.domain.graph_places import SCHEMES, GraphPlace, GraphUrl
from wake_bridge.domain.names import Identity, Priority, WakePolicy, is_identity
from wake_bridge.offline import subscriptions
from wake_bridge.storage.graph import nodes
from wake_bridge.storage.graph.nodes import (
    IDENTITY_LABEL,
    find_identity,
    put_identity,
    short_ids,
)
from wake_bridge.storage.graph.opened import create_graph, open_graph
from wake_bridge.system.clock import timestamp_now
from wake_bridge.system.files import ConfigPlace, expanded, locate_config, make_private_directory

if TYPE_CHECKING:
    from wake_bridge.engine.tail.takeover import AdoptedCursor


@click.command("list")
@click.argument("identity", type=IDENTITY, required=False)
@pass_run
def list_subscriptions(run: CommandContext, identity: str | None) -> None:
    """List subscriptions and whether each can be delivered now.

    Ids are shortened; every command takes the short form, and `--json` prints the full one.
    """
    from wake_bridge.offline.fragile_names import advice_on, remark

    listing = subscriptions.listed(run, identity)
    shown = listing.shown
    names = {who: home.fragile for who, home in listing.homes.items() if is_identity(who)}
    if advice := advice_on(names, run.settings, is_embedded=listing.is_embedded):
        run.console.warn(f"note: {remark(advice)}")
    if run.console.as_json:
        run.console.object({"subscriptions": shown})
        return
    shorter = short_ids(listing.all_ids)
    # a row of the graph may say anything
    shown.sort(key=lambda one: (str(one["agentIdentity"]), str(one["trigger"])))
    rows = [
        [
            shorter[one["subscriptionId"]],
            str(one["agentIdentity"]),
            str(one["trigger"]),
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


@click.command()
@click.option(
    "--graph",
    "graph_file",
    metavar="FILE|URL",
    help="Create the graph here instead of in the default place; a PostgreSQL database by its postgresql:// URL.",
)
@click.option("--from-neo", "neo_directory", metavar="DIR", help="Continue where an upstream wake daemon stopped.")
@pass_run
def init(run: CommandContext, graph_file: str | None, neo_directory: str | None) -> None:
    """Create the configuration, if there is none, and the graph: a file, or the tables in a PostgreSQL database.

    Safe to repeat. An existing graph is used as it is; a file that is not ours is never changed.
    """
    from wake_bridge.config.file import write_first_config

    config = locate_config(run.config_option, os.environ).path
    chosen = _chosen_place(graph_file) if graph_file else None
    graph = chosen or load_settings_at(ConfigPlace(config), os.environ).graph_place
    created = create_graph(graph, timestamp_now())
    with open_graph(graph) as present:
        is_ours = present.is_embedded
    config_written = write_first_config(config, chosen)
    settings = load_settings_at(ConfigPlace(config), os.environ)
    inherited = (
        _take_over(run, run.where_the_daemon_is(replace(settings, graph_place=graph)), neo_directory)
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
    if settings.graph_place != graph:
        key = "graph.url" if isinstance(settings.graph_place, GraphUrl) else "graph.path"
        this = (
            "it"
            if isinstance(settings.graph_place, GraphUrl) == isinstance(graph, GraphUrl)
            else "graph.url or graph.path"
        )
        run.console.warn(f"note: {key} is {settings.graph_place}; set {this} to {graph} in {config} to use this one")


@click.group("graph")
def graph_group() -> None:
    """Move the graph from one place to another."""


@graph_group.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@pass_run
def graph_copy(run: CommandContext, source: str, target: str) -> None:
    """Copy a graph of ours: a file into a PostgreSQL database, or back.

    All or nothing, and compared row by row before it counts. TO is a new file, or an empty database; FROM stays as it is. Log
    ids are kept, so a daemon goes on from where it stood. Stop the daemons first; then name TO in the configuration.
    """
    from wake_bridge.control.graph_lock import daemon_of
    from wake_bridge.offline.mail import take_along_what_was_told
    from wake_bridge.storage.graph.copying import copy_graph

    places = _chosen_place(source, "FROM"), _chosen_place(target, "TO")
    for place in places:
        with contextlib.suppress(OSError):
            if (holder := daemon_of(place)) is not None:
                raise RefusedForSafety(
                    f"a daemon serves this graph: {holder}",
                    str(place),
                    hint="stop it first: what it writes would be lost",
                )
    copied = copy_graph(*places, timestamp_now())
    take_along_what_was_told(run, places[1])
    key = "graph.url" if isinstance(places[1], GraphUrl) else "graph.path"
    run.console.object(
        {"from": str(places[0]), "to": str(places[1]), **copied._asdict()},
        f"copied and compared: {copied.nodes} nodes, {copied.edges} edges, {copied.log} rows of the log\n"
        f"next: set {key} to {places[1]}, then start the daemon",
    )


def _chosen_place(text: str, where: str = "--graph") -> GraphPlace:
    """Raises `UsageMistake` for a URL that cannot be taken; nothing of it is told, for it may hold a password."""
    if not text.startswith(SCHEMES):
        return expanded(text).absolute()
    try:
        return GraphUrl(text)
    except ValueError as why:
        raise UsageMistake(f"the URL {why}", where) from why


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
            "--harness-target",
            type=click.Choice(subscriptions.HARNESS_TARGETS),
            help="Who delivers; bridge-daemon is wake-bridge.",
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
        click.option(
            "--of", "watched", type=IDENTITY, multiple=True, help="PRESENCE: the agent to watch; may be repeated."
        ),
        click.option(
            "--when",
            metavar="KINDS",
            help="PRESENCE: finished, approval, question, limited, failed, gone (all of these without it) or stopped.",
        ),
        foreign_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("identity", type=IDENTITY)
@click.option(
    "--trigger",
    type=WordType(subscriptions.PUBLIC_TRIGGERS, case_sensitive=False),
    required=True,
    help="The kind of event.",
)
@subscription_options
@pass_run
def subscribe(run: CommandContext, /, identity: str, foreign: bool, **flags: Any) -> None:
    """Subscribe an identity to mail, tasks, rights or another agent's presence, and name the pane where it is woken.

    An active subscription with the same trigger and filters is updated instead of created twice. An identity has one pane: the one that its
    newest subscription names, unless `bind` or [targets] says otherwise. To correct a subscription, use `update`.
    """
    wish = subscriptions.wish_of(**flags)
    outcome = subscriptions.subscribe(run, identity, wish, foreign=foreign)
    done, why = outcome.done, outcome.why_unwoken
    words = f"{identity} is woken for {wish.trigger} ({done.subscription_id})"
    if why:
        words = f"{identity} is subscribed for {wish.trigger} ({done.subscription_id}), and not woken by it: {why}"
    answer = {"subscriptionId": done.subscription_id, "harnessTarget": done.harness_target}
    run.console.object(*_with_key(answer, words, done.signing_key))
    if not done.created:
        run.console.warn("note: an active subscription like this was there; it was brought up to date")
    if wish.pane is not None:
        _warn_of_target(run, Identity(identity))


def _warn_of_target(run: CommandContext, identity: Identity) -> None:
    """Say at once what is wrong with a pane that was just named; a wake would only be held for it."""
    import asyncio

    from wake_bridge.offline.fragile_names import remark
    from wake_bridge.offline.inspection import Inspection
    from wake_bridge.panes import fragile_names

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
        run.console.warn(f"note: {remark(fragile)}")


@click.command()
@click.argument("subscription_id", metavar="ID")
@foreign_option
@pass_run
def unsubscribe(run: CommandContext, subscription_id: str, foreign: bool) -> None:
    """Remove a subscription. ID is its id, or the start of it if no other id starts alike."""
    removed = subscriptions.unsubscribe(run, subscription_id, foreign=foreign)
    run.console.object({"subscriptionId": removed, "status": "removed"}, f"removed {removed}")


@click.command()
@click.argument("subscription_id", metavar="ID")
@click.option(
    "--trigger", type=WordType(subscriptions.PUBLIC_TRIGGERS, case_sensitive=False), help="The kind of event."
)
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
    wish = subscriptions.wish_of(**flags)
    done = subscriptions.update(run, subscription_id, wish, foreign=foreign)
    node, state = done.node, nodes.shown_subscription(done.node)
    answer = {"subscriptionId": node.id, "currentState": state}
    is_asked = wish != nodes.Wish()
    words = f"changed {node.id}" if is_asked else f"{node.id} is as it was"
    run.console.object(*_with_key(answer, words, done.signing_key))
    if not is_asked:
        run.console.warn("note: no option says what to change: `wake-bridge update --help` lists them")


def _with_key(answer: dict[str, Any], words: str, signing_key: str) -> tuple[dict[str, Any], str]:
    """What is answered, with a key that was just made: it is said this once."""
    if not signing_key:
        return answer, words
    return {**answer, "signingKey": signing_key}, f"{words}\nsigning key, shown only this once: {signing_key}"


def _take_over(run: CommandContext, settings: Settings, neo_directory: str) -> AdoptedCursor | None:
    """Put an upstream daemon's place into the ledger, once; None where the ledger has a place of its own.

    Raises:
        OperationFailed: there is no such directory.
        AlreadyRunning: a daemon of ours is at work.
    """
    from wake_bridge.engine.tail.takeover import adopt_upstream
    from wake_bridge.storage.graph.absent import log_at
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
        with contextlib.closing(log_at(settings.graph_place)) as log:
            return adopt_upstream(log, ledger, upstream_state, rules, SteadyClock(), new_ulid)
