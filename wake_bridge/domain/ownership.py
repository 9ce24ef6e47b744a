"""Decides what a caller may touch: an agent manages only its own things. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.names import Identity
from wake_bridge.domain.values import dataclass

READ_INBOX: Final = "CAN_READ_INBOX_OF"


@dataclass(frozen=True, slots=True)
class Invoker:
    """Who runs a command: an agent, or a person where no harness is above the command.

    `harness` and `pid` are the agent's program, `identities` whose it is (several share a pane), empty where nobody
    knows; `why` says in a clause how that is known. `elsewhere` are those who have an agent of their own that is not above
    the command.
    """

    harness: str = ""
    pid: int = 0
    identities: frozenset[Identity] = frozenset()
    why: str = ""
    elsewhere: frozenset[Identity] = frozenset()

    @property
    def is_person(self) -> bool:
        """Whether no harness runs the command."""
        return not self.harness

    def may_be(self, identity: Identity) -> bool:
        """Whether the identity is the invoker's own, as far as can be told; a person may be anybody."""
        if self.is_person or identity in self.identities:
            return True
        return not self.identities and identity not in self.elsewhere

    @property
    def told(self) -> str:
        """Whom the invoker is taken for, and why, as a clause."""
        program = f"{self.harness}, process {self.pid}"
        if not self.identities:
            return f"you are taken for an agent ({program}), and {self.why}"
        return f"you are taken for {' and '.join(sorted(self.identities))} ({program}), because {self.why}"


PERSON: Final = Invoker()


@dataclass(frozen=True, slots=True)
class OwnershipRule:
    """What a command does to an identity, and the permission with which another one's agent may do it as well."""

    does: str
    with_permission: str = ""
    instead: str = ""


RULES: Final[Mapping[str, OwnershipRule]] = {
    "list": OwnershipRule("shows the subscriptions"),
    "update": OwnershipRule("changes a subscription"),
    "unsubscribe": OwnershipRule("removes a subscription"),
    "resync": OwnershipRule("replays a subscription"),
    "inbox": OwnershipRule("shows the mail", READ_INBOX),
    "inbox --consume": OwnershipRule("marks mail read", instead=f"{READ_INBOX} allows `inbox` without --consume; "),
    "read": OwnershipRule("marks mail read", instead=f"{READ_INBOX} allows `read --keep`; "),
    "read --keep": OwnershipRule("shows the mail", READ_INBOX),
    "ack": OwnershipRule("acknowledges a wake"),
    "escalate": OwnershipRule("passes on a wake"),
    "seen": OwnershipRule("shows what a person was told in the place"),
    "send": OwnershipRule("sends in the name"),
    "wake": OwnershipRule("sends in the name", instead="name yourself with --from; "),
    "task": OwnershipRule("moves a task in the name"),
    "grant": OwnershipRule("gives a right in the name"),
    "remind": OwnershipRule("sets a reminder", instead="`send` tells another agent; "),
    "reminders cancel": OwnershipRule("cancels a reminder"),
    "mcp --http": OwnershipRule("serves the tools", instead="`mcp` without --http serves your own; "),
}
"""Every command that is refused to the agent of another identity."""


def require_own(
    invoker: Invoker, command: str, identity: Identity, has_permission: Callable[[str, Identity], bool]
) -> bool:
    """Whether the identity is the invoker's own, or only opened to it by a permission.

    Args:
        invoker: who runs the command.
        command: a key of `RULES`.
        identity: whose things it would touch.
        has_permission: whether an identity has a permission from the one that is touched.

    Raises:
        RefusedForSafety: it is another's, and nothing allows it.
    """
    if invoker.may_be(identity):
        return True
    rule = RULES[command]
    if rule.with_permission and any(has_permission(rule.with_permission, one) for one in invoker.identities):
        return False
    told = "" if invoker.identities else f", which has an agent of its own, {identity}"
    me = min(invoker.identities, default=Identity(""))
    ask = f"`wake-bridge grant {rule.with_permission} --to {me} --as {identity}`, given by {identity}, allows it; "
    raise RefusedForSafety(
        f"`{command}` {rule.does} of {identity}, and an agent manages only its own",
        f"{invoker.told}{told}",
        hint=f"{rule.instead}{ask if rule.with_permission and me else ''}"
        "a person can do this in their own shell, outside any agent",
    )
