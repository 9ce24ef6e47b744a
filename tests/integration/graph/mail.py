"""What lies unread in a mailbox, for tests of the graph."""

from __future__ import annotations

from wake_bridge.storage.graph.access import Graph
from wake_bridge.storage.graph.mailbox import Mail, mailbox_of


def unread_mail_of(graph: Graph, identity: str) -> list[Mail]:
    """The mail that can be read and is not read yet."""
    return [one for one in mailbox_of(graph, identity) if isinstance(one, Mail)]
