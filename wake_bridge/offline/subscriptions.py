"""Subscriptions, as commands and tools make, change, list and replay them: one rule for both."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.config.hosts import host_of_agent
from wake_bridge.config.settings import installed_adapters, why_no_webhooks
from wake_bridge.control.client import ask
from wake_bridge.domain.errors import LedgerError, NotRunning, OperationFailed, UsageMistake
from wake_bridge.domain.homes import Home
from wake_bridge.domain.names import AttentionKind, Identity, LogId, Trigger
from wake_bridge.domain.receivers import PUSHED_TARGET, WEBHOOK, WEBHOOK_TARGET, why_no_url
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import (
    BRIDGE_TARGET,
    DEFAULT_ADAPTER,
    DISABLED_TARGET,
    SUBSCRIPTION_LABEL,
    Subscription,
    chosen_target,
    fingerprint_of,
)
from wake_bridge.domain.values import dataclass
from wake_bridge.offline.looks import homes_now
from wake_bridge.offline.owner import invoker, may_touch
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.graph import nodes
from wake_bridge.storage.graph.access import Graph, Node
from wake_bridge.storage.graph.forecast import Circumstances, judge_subscription
from wake_bridge.storage.graph.nodes import Subscribed, Updated, Wish, require_identity
from wake_bridge.storage.graph.status import book_from, book_of
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import timestamp_now

if TYPE_CHECKING:
    from wake_bridge.engine.tail.resync import ResyncResult

HARNESS_TARGETS: Final = (PUSHED_TARGET, WEBHOOK_TARGET, BRIDGE_TARGET, DISABLED_TARGET, "none")
PUBLIC_TRIGGERS: Final = (Trigger.SENT_TO_ME, Trigger.TASK_STATE_CHANGED, Trigger.PERMISSION_GRANTED, Trigger.PRESENCE)


@dataclass(frozen=True, slots=True)
class SubscribeOutcome:
    """What `subscribe` wrote, and why nothing of it wakes the identity now; empty where it does."""

    done: Subscribed
    why_unwoken: str


def subscribe(work: Workplace, identity: str, wish: Wish, *, foreign: bool) -> SubscribeOutcome:
    """Subscribe an identity.

    Args:
        work: the act.
        identity: who is woken.
        wish: with a trigger.
        foreign: whether another program's graph may be written.

    Raises:
        UsageMistake: nothing says where the identity lives.
        NotFound: there is no such identity or pane.
        OperationFailed: it names a webhook, and nothing can be posted.
        RefusedForSafety: the graph is another program's.
    """
    _require_webhooks(work, wish)
    if wish.trigger is Trigger.PRESENCE:
        if not any(wish.senders or ()):
            raise UsageMistake("nothing says whose presence", "subscribe", hint="add --of @worker")
        if wish.harness_target is None and wish.pane is None and wish.webhook is None:
            served = served_somehow(work, identity, wish)
            wish = served if served.harness_target == BRIDGE_TARGET else wish
    is_elsewhere = wish.pane is None and bool(host_of_agent(work.places.state_dir, identity))
    has_place = wish.pane is not None or Identity(identity) in work.settings.config.targets or is_elsewhere
    target = wish.harness_target or chosen_target(
        takes_pushes=wish.pane is None and takes_pushes(work, identity),
        has_url=wish.webhook is not None,
        has_place=has_place,
    )
    if wish.harness_target is None and target == DISABLED_TARGET:
        raise UsageMistake(
            f"wake-bridge does not know where {identity} is",
            "subscribe",
            hint="add --tmux PANE, --webhook URL or --harness-target, or a [targets] entry to the configuration; if it"
            " lives on another host: `wake-bridge hosts add NAME`",
        )
    wish = replace(wish, harness_target=target)
    if is_elsewhere and target == BRIDGE_TARGET and wish.window is None:
        # the daemon over there collects: two windows would wait twice
        wish = replace(wish, window=0)
    _require_pane(work, wish)
    with work.open_graph_to_write(foreign=foreign) as graph:
        require_identity(graph, identity)
        if wish.trigger is Trigger.PRESENCE:
            if not graph.is_embedded:
                raise OperationFailed(
                    "another program's graph knows no such trigger",
                    "--trigger PRESENCE",
                    hint="it is for graphs that `wake-bridge init` made",
                )
            for watched in wish.senders or ():
                require_identity(graph, watched)
        done = nodes.subscribe(graph, identity, wish, timestamp_now())
        book = book_of(graph, work.settings)
        made = book.get(done.subscription_id)
        why = book.why_unwoken(made) if made is not None else ""
    work.poke_daemon()
    return SubscribeOutcome(done, why)


def served_somehow(work: Workplace, identity: str, wish: Wish) -> Wish:
    """The wish, served by what reaches the identity: an MCP client that takes wakes, a pane or a conversation, else nothing.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from wake_bridge.offline.inspection import Inspection

    if takes_pushes(work, identity):
        return replace(wish, harness_target=PUSHED_TARGET)
    address = Inspection(work.settings).routes.address(Identity(identity))
    lives = bool(address.name or address.binding or address.remembered or address.sessions)
    return replace(wish, harness_target=BRIDGE_TARGET if lives else "disabled")


def takes_pushes(work: Workplace, identity: str) -> bool:
    """Whether its target allows pushes, and an MCP client of it takes them now, as the daemon says."""
    target = work.settings.config.targets.get(Identity(identity))
    if target is None or not target.mcp_push:
        return False
    try:
        return ask(work.places.state_dir, "push_client", identity=identity)["client"] is not None
    except (NotRunning, OperationFailed):
        return False


def update(work: Workplace, subscription_id: str, wish: Wish, *, foreign: bool) -> Updated:
    """Change what the wish says of a subscription, and keep the rest.

    Raises:
        NotFound: there is no such subscription or pane.
        OperationFailed: it names a webhook and nothing can be posted, or a key where none may be kept.
        RefusedForSafety: it is another's, or the graph is another program's.
    """
    _require_webhooks(work, wish)
    _require_pane(work, wish)
    with work.open_graph_to_write(foreign=foreign) as graph:
        _require_own(work, "update", graph, subscription_id)
        done = nodes.update(graph, subscription_id, wish, timestamp_now())
    work.poke_daemon()
    return done


def unsubscribe(work: Workplace, subscription_id: str, *, foreign: bool) -> str:
    """Remove a subscription; answers its whole id.

    Raises:
        NotFound: there is no such subscription.
        RefusedForSafety: it is another's, or the graph is another program's.
    """
    with work.open_graph_to_write(foreign=foreign) as graph:
        _require_own(work, "unsubscribe", graph, subscription_id)
        removed = nodes.unsubscribe(graph, subscription_id)
    work.poke_daemon()
    return removed


def resync(work: Workplace, subscription_id: str, since: int) -> tuple[str, ResyncResult]:
    """Replay log rows after `since` through a subscription; answers its whole id and what matched.

    Raises:
        UsageMistake: the log ends before `since`.
        NotFound: there is no such subscription.
        RefusedForSafety: it is another's.
    """
    from wake_bridge.offline.actions import replay

    with work.open_graph() as graph:
        subscription = _require_own(work, "resync", graph, subscription_id)
    again = replay(work.settings, subscription, LogId(since))
    work.poke_daemon()
    return subscription, again


@dataclass(frozen=True, slots=True)
class SubscriptionListing:
    """Subscriptions as programs are told of them.

    `all_ids` are those of all there are, which tell how far one may be shortened; `homes` are those of the identities,
    `is_embedded` whether the graph is our own.
    """

    shown: list[dict[str, Any]]
    all_ids: list[str]
    homes: Mapping[Identity, Home]
    is_embedded: bool


def listed(work: Workplace, identity: str | None) -> SubscriptionListing:
    """The subscriptions of an identity, or of everybody whom the caller may be, and whether each can be delivered now.

    Raises:
        NotFound: there is no such identity.
        RefusedForSafety: it is another.
        LedgerError: the ledger cannot be read.
    """
    with work.open_graph() as graph:
        if identity is not None:
            require_identity(graph, identity)
            may_touch(work, "list", identity)
        nodes_there = graph.nodes(SUBSCRIPTION_LABEL)
        book = book_from(nodes_there, work.settings, embedded=graph.is_embedded)
        asked = [one for one in nodes_there if identity in {None, one.properties["agentIdentity"]}]
        theirs = [one for one in asked if invoker(work).may_be(one.properties["agentIdentity"])]
        homes = _Homes(work, book, theirs)
        circumstances = Circumstances(work.settings, installed_adapters(), homes.why_unreachable)
        verdicts = [judge_subscription(one, book, graph, circumstances) for one in theirs]
    with closing(LedgerStore.open(work.settings.state_dir, read_only=True)) as ledger:
        hits = ledger.window_hits() if verdicts else {}
    shown = [
        {
            **one,
            "pane": homes.where(one["subscriptionId"], one["agentIdentity"]) or None,
            "note": "; ".join(filter(None, (one["note"], homes.overruled(one["subscriptionId"])))),
            "windowHits": hits.get(one["subscriptionId"], 0),
        }
        for one in verdicts
    ]
    return SubscriptionListing(shown, [one.id for one in nodes_there], homes.known, graph.is_embedded)


class _Homes:
    """What a list says of the home of each subscription; see `homes_now`."""

    def __init__(self, work: Workplace, book: SubscriptionBook, shown: Sequence[Node]) -> None:
        self._book = book
        # the identity in a row may be anything; the book has what it is read as, and either is asked for below
        written = {Identity(str(one.properties["agentIdentity"])) for one in shown}
        read = {found.identity for one in shown if (found := book.get(one.id)) is not None and found.identity}
        self.known = homes_now(work.settings, sorted(written | read), fingerprint_of(book.all()))

    def _served(self, subscription_id: str) -> Subscription | None:
        """The subscription with this id if it can match, else None."""
        one = self._book.get(subscription_id)
        return one if one is not None and one in self._book.of(one.identity) else None

    def where(self, subscription_id: str, identity: Identity) -> str:
        """Where the subscription itself wakes: its receiver, else the place of its identity."""
        subscription = self._served(subscription_id)
        if subscription is not None and subscription.receiver is not None and subscription.is_posted:
            return subscription.receiver.shown
        return self.known[Identity(str(identity))].reach.where

    def why_unreachable(self, subscription: Subscription) -> str:
        """A `ResolveTarget`."""
        home = self.known[subscription.identity]
        if (receiver := subscription.receiver) is not None and subscription.is_posted:
            # one that is suspended is tried again by itself
            shut = home.shut.get(subscription.id)
            return shut.remedy(subscription.identity, receiver.subscription_id) if shut is not None else ""
        hold = home.reach.hold
        if hold is None:
            return ""
        is_anothers = bool(home.speaker) and not home.is_placed and home.pane != subscription.pane
        culprit = f"{home.speaker} says where it lives: " if is_anothers else ""
        return f"{culprit}{hold.detail}: {hold.remedy(subscription.identity)}"

    def overruled(self, subscription_id: str) -> str:
        """Why its identity is not in the pane that this very subscription names; empty for one that names none."""
        subscription = self._served(subscription_id)
        if subscription is None:
            return ""
        home = self.known[subscription.identity]
        if subscription.receiver is not None and not subscription.is_posted:
            aside = home.shut.get(subscription_id)
            return f"it is not pushed to its MCP client now: {aside.detail}" if aside is not None else ""
        return home.reach.overruled if home.speaker and home.pane == subscription.pane else ""


def _require_webhooks(work: Workplace, wish: Wish) -> None:
    """Refuse a receiver where nothing can be posted: it would only wait."""
    if wish.webhook is not None and (why := why_no_webhooks(work.settings)):
        raise OperationFailed(why, "--webhook")


def _require_pane(work: Workplace, wish: Wish) -> None:
    """Refuse a pane that tmux does not know: the newest name wins, and a misspelled one would overrule the good one.

    Where tmux does not answer at all nobody can tell, and it is written.
    """
    if wish.pane is None:
        return

    import asyncio

    from wake_bridge.offline.inspection import Inspection

    with contextlib.suppress(LedgerError, OperationFailed):
        place = asyncio.run(Inspection(work.settings).require_pane(DEFAULT_ADAPTER, wish.pane))
        session = wish.pane.removeprefix("=").partition(":")[0]
        if place is not None and "." in session and place.label.startswith(f"{session.replace('.', '_')}:"):
            work.warn(f"note: tmux calls it {place.label}: it replaces dots in session names")


def _require_own(work: Workplace, command: str, graph: Graph, subscription_id: str) -> str:
    """The whole id. Raises `RefusedForSafety` where an agent names another's subscription."""
    meant = nodes.require_subscription(graph, subscription_id)
    may_touch(work, command, nodes.owner_of_subscription(meant))
    return meant.id


def _kinds(words: str) -> tuple[str, ...]:
    """`finished,approval` as kinds of attention. Raises `UsageMistake` for a word that is none."""
    named = tuple(one.strip() for one in words.split(",") if one.strip())
    unknown = [one for one in named if one not in set(AttentionKind)]
    if unknown:
        raise UsageMistake(f"no such kind: {unknown[0]}", "--when", hint=f"there are {', '.join(AttentionKind)}")
    return named


def wish_of(
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
                "a subscription has either a pane or a webhook",
                "--tmux",
                hint="subscribe twice; the webhook takes precedence over the pane",
            )
        adapter, harness_target = DEFAULT_ADAPTER, BRIDGE_TARGET
    watched, kinds = flags.pop("watched", ()), flags.pop("when", None)
    if watched:
        flags["senders"] = (*flags.get("senders", ()), *watched)
    if kinds is not None:
        flags["stands_at"] = _kinds(kinds)
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
