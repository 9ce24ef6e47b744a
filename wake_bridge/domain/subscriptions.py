"""WAKE_SUBSCRIPTION nodes: parsed once, found by identity and trigger, filtered the same way for every trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wake_bridge.domain.names import Identity, Priority, Trigger, WakePolicy

SUBSCRIPTION_LABEL: Final = "WAKE_SUBSCRIPTION"
HEARTBEAT_TARGETS: Final = frozenset({"disabled", "none", "degraded"})
BRIDGE_TARGET: Final = "bridge-daemon"


@dataclass(frozen=True, slots=True)
class Filters:
    """AND across keys, OR inside a key; an empty key does not filter (DESIGN §2)."""

    priorities: frozenset[Priority] = frozenset()
    senders: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    in_reply_to: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription as it stands.

    `window` is in seconds, None where the default applies. `problems` say why it cannot be delivered (someone must
    change it), `ignored` which of upstream's metadata names have no meaning here.
    """

    id: str
    identity: Identity
    trigger: Trigger
    filters: Filters = Filters()
    harness_target: str = BRIDGE_TARGET
    adapter: str = ""
    pane: str = ""
    window: int | None = None
    policy: WakePolicy | None = None
    status: str = "active"
    created_at: str = ""
    updated_at: str = ""
    user_id: str | None = None
    problems: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Absent status means active; removed and retired ones match nothing."""
        return self.status == "active"
