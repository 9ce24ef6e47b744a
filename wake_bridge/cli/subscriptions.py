"""`list`: every subscription, where its identity lives, and whether it can be delivered as things stand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run
from wake_bridge.cli.owner import invoker, may_touch
from wake_bridge.config.settings import installed_adapters
from wake_bridge.domain.names import Identity
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.storage.graph.forecast import Circumstances, judge_subscriptions
from wake_bridge.storage.graph.nodes import require_identity, short_ids

if TYPE_CHECKING:
    from wake_bridge.engine.explain.presence_query import Reach


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
            "pane": homes.of(one["agentIdentity"]).where or None,
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

    def window_hits(self, subscription_id: str) -> int:
        """How many of its events joined a wake that another one had begun."""
        return self._view.window_hits.get(subscription_id, 0)

    def why_unreachable(self, subscription: Subscription) -> str:
        """A `ResolveTarget`."""
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
