"""AgentIdentity and WAKE_SUBSCRIPTION nodes, as the graph commands write and show them."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.errors import NotFound, OperationFailed, SourceError
from wake_bridge.domain.items import ME
from wake_bridge.domain.names import Identity, Instant, Trigger, WakePolicy, did_you_mean, parse_instant
from wake_bridge.domain.receivers import KEY_BYTES, KEY_STAYS, WEBHOOK_TARGET, shown_url, written_key
from wake_bridge.domain.subscriptions import BRIDGE_TARGET, SUBSCRIPTION_LABEL
from wake_bridge.domain.values import dataclass
from wake_bridge.storage.graph.access import REPAIR, Graph, Node, Properties, WritableGraph, owner_of
from wake_bridge.storage.graph.opened import open_graph
from wake_bridge.system.clock import timestamp_of_instant

if TYPE_CHECKING:
    from wake_bridge.config.settings import Settings


IDENTITY_LABEL: Final = "AgentIdentity"
LABELS: Final = frozenset({IDENTITY_LABEL, "AGENT"})
"""The label, and the one that old graphs still hold."""


def find_identity(graph: Graph, identity: str) -> Node | None:
    """The node of an identity; None if there is none. One that cannot be read is an identity nevertheless, and not whole.

    Raises:
        OperationFailed: another kind of node has that id.
    """
    try:
        node = graph.node(identity)
    except OperationFailed:
        # its mail is delivered, so its mailbox must open
        return Node(identity, IDENTITY_LABEL, {}, is_whole=False)
    if node is not None and node.label not in LABELS:
        raise OperationFailed(f"{identity} is a {node.label} node, not an identity", str(graph.place))
    return node


def require_identity(graph: Graph, identity: str) -> Node:
    """The node of an identity that must exist.

    Raises:
        NotFound: there is none.
    """
    node = find_identity(graph, identity)
    if node is None:
        meant = did_you_mean(identity, [one.id for one in graph.nodes(IDENTITY_LABEL)])
        raise NotFound(
            f"there is no identity {identity}",
            str(graph.place),
            hint=f"{meant}add it: `wake-bridge agent add {identity}`",
        )
    return node


def require_known(settings: Settings, identity: Identity) -> None:
    """Raise `NotFound` for an identity that neither graph nor configuration knows; without a graph nobody can tell."""
    if identity in settings.config.targets or not settings.has_graph:
        return
    try:
        with open_graph(settings.graph_place) as graph:
            require_identity(graph, identity)
    except SourceError:
        return


def ensure_identity(graph: WritableGraph, identity: str, now: str, *, human: bool = False) -> Node:
    """The node of an identity that acts; in an embedded graph it is made if it is not there, and `@me` always becomes a person.

    Raises:
        NotFound: there is none, and the graph is another program's.
    """
    if not graph.is_embedded:
        return require_identity(graph, identity)
    present = find_identity(graph, identity)
    if present is None or (identity == ME and present.is_whole):
        return put_identity(graph, identity, now, human=human)
    return present


def put_identity(
    graph: WritableGraph, identity: str, now: str, *, display_name: str | None = None, human: bool = False
) -> Node:
    """Add an identity, or change the name and the kind of one that is there; all else it holds stays. `@me` is a person.

    Raises:
        OperationFailed: the node that is there cannot be read.
    """
    human = human or identity == ME
    present = find_identity(graph, identity)
    if present is not None and not present.is_whole:
        raise OperationFailed("the node cannot be read, so wake-bridge does not overwrite it", identity, hint=REPAIR)
    kept = present.properties if present is not None else _newcomer(identity, now, human=human)
    changed: dict[str, Any] = {"accountType": "human"} if human else {}
    if display_name is not None:
        changed |= {"name": display_name, "displayName": display_name}
    node = Node(identity, present.label if present else IDENTITY_LABEL, kept | changed)
    if present is None or node.properties != present.properties:
        graph.put_node(node.id, node.label, node.properties)
    return node


def _newcomer(identity: str, now: str, *, human: bool) -> dict[str, Any]:
    login = identity.removeprefix("@")
    participation: dict[str, Any] = {
        "participationStatus": "active",
        "statusReason": None,
        "authority": None,
        "since": None,
        "reactivationTrigger": None,
    }
    return {
        "name": login,
        "description": "",
        "githubLogin": identity,
        "displayName": login,
        "modelFamily": None,
        "accountType": "human" if human else "agent",
        "trustTier": "owner" if human else "peer-trusted",
        **({} if human else participation),
        "createdAt": now,
        "userId": None,
    }


ID_PREFIX: Final = "WAKE_SUB:"
_SHORTEST: Final = 8
"""Characters that are shown at least."""

_SECRET: Final = re.compile(r"(key|token|secret)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked of a subscription; None where nothing was said.

    `pane` is a tmux target, `window` in seconds. Lists replace the whole filter; blank entries are dropped, so a blank one alone removes it.
    """

    trigger: Trigger | None = None
    harness_target: str | None = None
    adapter: str | None = None
    pane: str | None = None
    window: int | None = None
    policy: WakePolicy | None = None
    priority: str | None = None
    senders: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    in_reply_to: tuple[str, ...] | None = None
    stands_at: tuple[str, ...] | None = None
    webhook: str | None = None
    rotate_key: bool = False
    recover: bool = False


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What `subscribe` did: a new subscription, or an identical one brought up to date.

    `signing_key` is the one that was made for it just now, empty where none was: nobody is told it again.
    """

    subscription_id: str
    harness_target: str
    created: bool
    signing_key: str = ""


@dataclass(frozen=True, slots=True)
class Updated:
    """What `update` made of a subscription; `signing_key` is the one that was made for it just now, empty where none was."""

    node: Node
    signing_key: str = ""


def subscribe(graph: WritableGraph, identity: str, wish: Wish, now: str) -> Subscribed:
    """Subscribe an identity. There are never two active subscriptions alike: the older one is updated instead.

    Alike are those with the same trigger, filters, harness target, adapter and pane.
    """
    wanted = _changed({"filters": {}, "harnessTargetMetadata": {}}, wish)
    for node in graph.nodes(SUBSCRIPTION_LABEL):
        if (
            _is_active(node)
            and node.properties.get("agentIdentity") == identity
            and _route(node.properties) == _route(wanted)
        ):
            done = update(graph, node.id, wish, now)
            target = str(done.node.properties["harnessTarget"])
            return Subscribed(node.id, target, created=False, signing_key=done.signing_key)
    subscription_id = f"{ID_PREFIX}{uuid.uuid4()}"
    key = _make_key(graph, subscription_id, wanted, wish, now)
    properties = {
        "name": subscription_id,
        "description": "",
        "updatedAt": now,
        "agentIdentity": identity,
        "trigger": wanted["trigger"],
        "filters": wanted["filters"],
        "harnessTarget": wanted["harnessTarget"],
        "harnessTargetMetadata": wanted["harnessTargetMetadata"],
        "createdAt": now,
        "userId": owner_of(identity),
        "sharedEntity": False,
        "status": "active",
        **({"wakePolicy": wish.policy.value} if wish.policy is not None else {}),
    }
    graph.put_node(subscription_id, SUBSCRIPTION_LABEL, properties)
    graph.link(identity, subscription_id, "SUBSCRIBES_TO", {"userId": owner_of(identity)})
    return Subscribed(subscription_id, str(properties["harnessTarget"]), created=True, signing_key=key)


def update(graph: WritableGraph, subscription_id: str, wish: Wish, now: str) -> Updated:
    """Change what was asked for and keep the rest.

    Raises:
        NotFound: there is no such subscription.
        OperationFailed: a key is asked for where none may be kept, or is of no use.
    """
    node = require_subscription(graph, subscription_id)
    changed = _changed(node.properties, wish) | {"updatedAt": now}
    key = _make_key(graph, node.id, changed, wish, now)
    if wish.recover:
        changed |= {"status": "active", "harnessTarget": _recovered_target(changed)}
    graph.put_node(node.id, node.label, changed)
    return Updated(Node(node.id, node.label, changed), key)


def _make_key(graph: WritableGraph, subscription_id: str, changed: Properties, wish: Wish, now: str) -> str:
    """Put a new signing key into changed properties where one is missing or asked for; answers it, empty for none."""
    metadata = changed["harnessTargetMetadata"]
    is_posted = changed.get("harnessTarget") == WEBHOOK_TARGET and "url" in metadata
    if wish.rotate_key and not is_posted:
        raise OperationFailed(
            "only a subscription with a webhook has a key",
            subscription_id,
            hint=f"give it one: `wake-bridge update {subscription_id} --webhook URL`",
        )
    has_key = bool(metadata.get("signingKey"))
    if not is_posted or (has_key and not wish.rotate_key):
        return ""
    if not graph.is_embedded:
        raise OperationFailed(
            "another program owns this graph; wake-bridge stores keys only in its own graph",
            str(graph.place),
            hint="let its own services make the subscription; `[graph] serve` lets wake-bridge serve it",
        )
    if has_key:
        metadata["formerSigningKey"] = metadata["signingKey"]
        metadata["formerSigningKeyUntil"] = timestamp_of_instant(Instant((parse_instant(now) or 0) + KEY_STAYS))
    metadata["signingKey"] = key = written_key(secrets.token_bytes(KEY_BYTES))
    return key


def unsubscribe(graph: WritableGraph, subscription_id: str) -> str:
    """Remove a subscription with its edges; answers its whole id.

    Raises:
        NotFound: there is no such subscription.
    """
    node = require_subscription(graph, subscription_id)
    graph.delete_node(node.id)
    return node.id


def require_subscription(graph: Graph, subscription_id: str) -> Node:
    """The subscription meant by an id, or by a beginning that no other has; its prefix may be left out.

    Raises:
        NotFound: there is none, or more than one.
        OperationFailed: it cannot be read.
    """
    node = graph.node(subscription_id)
    if node is not None and not node.is_whole:
        raise OperationFailed("it is too large to read", subscription_id, hint=REPAIR)
    if node is not None and node.label == SUBSCRIPTION_LABEL:
        return node
    beginnings = (subscription_id, ID_PREFIX + subscription_id) if subscription_id else ()
    meant = [one for one in graph.nodes(SUBSCRIPTION_LABEL) if one.id.startswith(beginnings)]
    if len(meant) != 1:
        what = "more than one subscription starts with that" if meant else "there is no such subscription"
        raise NotFound(what, subscription_id, hint="`wake-bridge list` shows them")
    return meant[0]


def owner_of_subscription(node: Node) -> str:
    """Whose it is; empty where it says no name."""
    return str(node.properties.get("agentIdentity") or "")


def short_ids(ids: Collection[str]) -> dict[str, str]:
    """For each id the beginning behind the prefix that is shown to a person, of a length at which all of them differ."""
    bare = {one: one.removeprefix(ID_PREFIX) for one in ids}
    length = _SHORTEST
    while len({one[:length] for one in bare.values()}) < len(set(bare.values())):
        length += 1
    return {one: name[:length] for one, name in bare.items()}


def shown_subscription(node: Node) -> dict[str, Any]:
    """A subscription as the commands print it: all it holds, keys withheld."""
    properties = {name: value for name, value in node.properties.items() if name not in {"name", "description"}}
    metadata = properties.get("harnessTargetMetadata")
    if isinstance(metadata, dict):
        properties["harnessTargetMetadata"] = {
            name: "(withheld)" if _SECRET.search(name) else shown_url(str(value)) if name == "url" else value
            for name, value in metadata.items()
        }
    return {"subscriptionId": node.id, "status": "active", **properties}


def _changed(properties: Properties, wish: Wish) -> Properties:
    filters = dict(_object(properties, "filters"))
    metadata = _changed_metadata(properties, wish)
    lists = {
        "senderFilter": wish.senders,
        "taggedConcepts": wish.tags,
        "inReplyToFilter": wish.in_reply_to,
        "presenceFilter": wish.stands_at,
    }
    for name, values in lists.items():
        if values is not None:
            filters[name] = [value for value in values if value]
    if wish.priority is not None:
        filters["priority"] = wish.priority
    changed = {**properties, "filters": filters, "harnessTargetMetadata": metadata}
    if wish.trigger is not None:
        changed["trigger"] = wish.trigger.value
    if wish.harness_target is not None:
        changed["harnessTarget"] = wish.harness_target
    if wish.policy is not None:
        changed["wakePolicy"] = wish.policy.value
    return changed


def _changed_metadata(properties: Properties, wish: Wish) -> Properties:
    metadata = dict(_object(properties, "harnessTargetMetadata"))
    if wish.adapter is not None:
        metadata["adapter"] = wish.adapter
    if wish.pane is not None:
        metadata["tmuxSession"] = wish.pane
        # an instance address would win over it
        metadata.pop("instanceAddress", None)
        metadata.pop("addressType", None)
    if wish.webhook is not None:
        metadata["url"] = wish.webhook
    if wish.window is not None:
        metadata["coalesceWindow"] = wish.window
    return metadata


def _route(properties: Properties) -> tuple[object, ...]:
    """What makes two subscriptions alike; window and policy do not."""
    filters, metadata = _object(properties, "filters"), _object(properties, "harnessTargetMetadata")
    judged = tuple(
        (name, tuple(sorted(map(str, value))) if isinstance(value, list) else value)
        for name, value in sorted(filters.items())
        if value
    )
    address = metadata.get("instanceAddress") or metadata.get("tmuxSession")
    where = (address, metadata.get("url"))
    return (properties.get("trigger"), judged, properties.get("harnessTarget"), metadata.get("adapter"), *where)


def _recovered_target(properties: Properties) -> object:
    """The harness target; old services wrote `degraded` over it, and only webhooks were degraded so."""
    target = properties.get("harnessTarget")
    if target != "degraded":
        return target
    return WEBHOOK_TARGET if "url" in _object(properties, "harnessTargetMetadata") else BRIDGE_TARGET


def _object(properties: Properties, name: str) -> Properties:
    """An object that properties hold; an empty one where they hold something else."""
    value = properties.get(name)
    return value if isinstance(value, dict) else {}


def _is_active(node: Node) -> bool:
    return str(node.properties.get("status", "active")) == "active"
