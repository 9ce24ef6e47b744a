"""AgentIdentity nodes: who can send and be woken (DESIGN §2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.errors import NotFound, OperationFailed, SourceError
from wake_bridge.domain.names import Identity, did_you_mean
from wake_bridge.edges.graph.graph_file import REPAIR, GraphFile, Node
from wake_bridge.edges.graph.graph_writer import GraphWriter

if TYPE_CHECKING:
    from wake_bridge.edges.configuration.config import Settings

IDENTITY_LABEL: Final = "AgentIdentity"
LABELS: Final = frozenset({IDENTITY_LABEL, "AGENT"})
"""The label, and the one that old graphs still hold."""


def find_identity(graph: GraphFile, identity: str) -> Node | None:
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
        raise OperationFailed(f"{identity} is a {node.label} node, not an identity", str(graph.path))
    return node


def require_identity(graph: GraphFile, identity: str) -> Node:
    """The node of an identity that must exist.

    Raises:
        NotFound: there is none.
    """
    node = find_identity(graph, identity)
    if node is None:
        meant = did_you_mean(identity, [one.id for one in graph.nodes(IDENTITY_LABEL)])
        raise NotFound(
            f"there is no identity {identity}",
            str(graph.path),
            hint=f"{meant}add it: `wake-bridge agent add {identity}`",
        )
    return node


def require_known(settings: Settings, identity: Identity) -> None:
    """Raise `NotFound` for an identity that neither graph nor configuration knows; without a graph nobody can tell."""
    if identity in settings.config.targets:
        return
    try:
        with GraphFile(settings.graph_path) as graph:
            require_identity(graph, identity)
    except SourceError:
        return


def ensure_identity(graph: GraphWriter, identity: str, now: str, *, human: bool = False) -> Node:
    """The node of an identity that acts; in an embedded graph it is made if it is not there.

    Raises:
        NotFound: there is none, and the graph is another program's.
    """
    if not graph.is_embedded:
        return require_identity(graph, identity)
    return find_identity(graph, identity) or put_identity(graph, identity, now, human=human)


def put_identity(
    graph: GraphWriter, identity: str, now: str, *, display_name: str | None = None, human: bool = False
) -> Node:
    """Add an identity, or change the name and the kind of one that is there; all else it holds stays.

    Raises:
        OperationFailed: the node that is there cannot be read.
    """
    present = find_identity(graph, identity)
    if present is not None and not present.is_whole:
        raise OperationFailed("the node cannot be read, and is not written over", identity, hint=REPAIR)
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
