"""WAKE_SUBSCRIPTION nodes: parsed once, filtered the same way for every trigger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar

from wake_bridge.domain.attention import WATCHED_BY_DEFAULT
from wake_bridge.domain.events import Message
from wake_bridge.domain.messages import LONGEST_WINDOW, text_of, texts_of, window_from
from wake_bridge.domain.names import (
    EPOCH_START,
    AttentionKind,
    Identity,
    Priority,
    Trigger,
    WakePolicy,
    is_identity,
    parse_instant,
)
from wake_bridge.domain.receivers import PUSHED_TARGET, RECEIVER_TARGETS, WEBHOOK_TARGET, Receiver, Secret
from wake_bridge.domain.values import dataclass

SUBSCRIPTION_LABEL: Final = "WAKE_SUBSCRIPTION"
BRIDGE_TARGET: Final = "bridge-daemon"
DEFAULT_ADAPTER: Final = "tmux"
DISABLED_TARGET: Final = "disabled"
HEARTBEAT_TARGETS: Final = frozenset({DISABLED_TARGET, "none", "degraded"})
PUSH_TARGETS: Final = frozenset({PUSHED_TARGET, WEBHOOK_TARGET})

APP_METADATA: Final = ("appName", "tabShortcut", "userDataDir")
"""Names of upstream's metadata that say where an application is; they mean something to `APP_ADAPTER` alone."""

APP_ADAPTER: Final = "osascript"

THREAD_METADATA: Final = ("threadId",)
"""Names that say which conversation of a harness is meant, whichever way leads to it."""

UNSUBSCRIBED: Final = "it has no subscription"
"""Why nobody wakes an identity that asked for nothing."""

RECEIVER_METADATA: Final = ("url", "signingKey")
"""Names that say where a webhook goes and what signs it; they mean something to `WEBHOOK_TARGET` alone."""

IGNORED_METADATA: Final = (
    "focusSeedKey",
    "focusSeedSequence",
    "envelopePath",
    "outboxPath",
    "lockPath",
    "cwd",
    "daemonSocketPath",
)
"""Names of upstream's metadata that mean nothing to a bridge; only the names are ever shown, never the values."""

_STATUSES: Final = frozenset({"active", "degraded", "retired", "removed"})
_CONCEPT: Final = "concept:"
_SHOWN: Final = 60

Choice = TypeVar("Choice", AttentionKind, Priority, Trigger, WakePolicy)


@dataclass(frozen=True, slots=True)
class Filters:
    """AND across keys, OR inside a key; an empty key does not filter."""

    priorities: frozenset[Priority] = frozenset()
    senders: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    in_reply_to: frozenset[str] = frozenset()
    stands_at: frozenset[AttentionKind] = frozenset()

    def refuse(self, message: Message | None, priority: Priority, sender: str) -> str:
        """The first key that says no, by upstream's name for it; empty when all agree.

        `message` is None for what is no mail: it has no tags and answers nothing.
        """
        if self.priorities and priority not in self.priorities:
            return "priority"
        if self.senders and sender not in self.senders:
            return "senderFilter"
        if self.tags and not (message and self.names_tag_of(message)):
            return "taggedConcepts"
        if self.in_reply_to and not (message and message.in_reply_to in self.in_reply_to):
            return "inReplyToFilter"
        return ""

    @property
    def watches_for(self) -> frozenset[AttentionKind]:
        """What of an agent's presence it wakes for."""
        return self.stands_at or WATCHED_BY_DEFAULT

    def names_tag_of(self, message: Message) -> bool:
        """Whether one of the message's tags is among those asked for; `concept:x` equals `x`."""
        return any(plain_tag(tag) in self.tags for tag in message.tags)


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription as it stands.

    `trigger` is None where it names none we know. `window` is in seconds, None where the default applies. `details`
    are what an adapter for applications is told besides, as pairs of name and value. `receiver` is where its wakes are posted, None where they are not. `problems`
    say why it cannot be delivered (someone must change it), `remarks` what of it goes by the default because it cannot
    be meant, `ignored` which of upstream's metadata names have no meaning here. `is_signed`: no row matches it, signed wakes do.
    """

    id: str
    identity: Identity
    trigger: Trigger | None
    filters: Filters = Filters()
    harness_target: str = BRIDGE_TARGET
    adapter: str = ""
    pane: str = ""
    details: tuple[tuple[str, str], ...] = ()
    receiver: Receiver | None = None
    window: int | None = None
    policy: WakePolicy | None = None
    status: str = "active"
    created_at: str = ""
    updated_at: str = ""
    user_id: str | None = None
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    is_signed: bool = False

    @property
    def is_active(self) -> bool:
        """Absent status means active; removed and retired ones match nothing, degraded ones are stored."""
        return self.status in {"active", "degraded"}

    @property
    def is_posted(self) -> bool:
        """Whether a program beside the agent is sent its wakes, wherever the agent lives."""
        return self.receiver is not None and self.harness_target == WEBHOOK_TARGET

    @property
    def is_heartbeat_only(self) -> bool:
        """Whether its events are stored and left to the heartbeat (disabled, none, degraded)."""
        return self.harness_target in HEARTBEAT_TARGETS or self.status == "degraded"


def chosen_target(*, takes_pushes: bool = False, has_url: bool = False, has_place: bool = True) -> str:
    """The harnessTarget of a subscription that names none: pushes, else the webhook, else the place, else nobody."""
    if takes_pushes:
        return PUSHED_TARGET
    if has_url:
        return WEBHOOK_TARGET
    return BRIDGE_TARGET if has_place else DISABLED_TARGET


def of_rows(subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
    """Those of them that the graph has a node for."""
    return tuple(one for one in subscriptions if not one.is_signed)


def fingerprint_of(subscriptions: Iterable[Subscription]) -> str:
    """The same, in every process, for subscriptions that lead to the same places and are served alike."""
    whole = sha256()
    for one in sorted(of_rows(subscriptions), key=attrgetter("id")):
        receiver = one.receiver
        told = (
            *(one.id, one.identity, one.trigger, one.harness_target, one.adapter, one.pane, one.details, one.status),
            *(one.created_at, one.updated_at, one.user_id),
            receiver and (receiver.adapter, receiver.url.reveal(), receiver.as_of),
        )
        whole.update(repr(told).encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


def plain_tag(tag: str) -> str:
    """`concept:x` and `x` are one tag."""
    return tag.removeprefix(_CONCEPT)


def serves(subscription: Subscription, *, embedded: bool, serve: Collection[str] = ()) -> bool:
    """Whether the subscription is ours to serve.

    On an embedded graph every one is. On a foreign graph only bridge-daemon rows, those left to the heartbeat, and what
    `serve` (`[graph] serve`) names besides: its own server has the rest.
    """
    return embedded or subscription.harness_target in {BRIDGE_TARGET, *HEARTBEAT_TARGETS, *serve}


def why_unwoken(
    subscription: Subscription,
    *,
    embedded: bool,
    serve: Collection[str] = (),
    has_target: bool = False,
    unusable: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """What somebody must change before this subscription can wake anyone; empty when nothing, as far as it says itself.

    `has_target` says that a `[targets]` entry tells where its identity lives, and by which adapter; `unusable` are the
    adapters of receivers that cannot send here, each with why.
    """
    if not subscription.is_active or subscription.status == "degraded":
        return f"its status is {subscription.status}: `wake-bridge update {subscription.id} --recover`"
    if subscription.is_heartbeat_only:
        return f"its harnessTarget is {subscription.harness_target}: wake-bridge types nothing, only the heartbeat reminds it"
    if not serves(subscription, embedded=embedded, serve=serve):
        return f"the graph's own server serves {subscription.harness_target}, not wake-bridge"
    if not subscription.identity or subscription.trigger is None:
        return "; ".join(subscription.problems)
    if has_target:
        return ""
    if subscription.receiver is not None and subscription.is_posted:
        problem = subscription.receiver.problem
        return problem or unusable.get(subscription.receiver.adapter, "")
    if subscription.harness_target == WEBHOOK_TARGET and WEBHOOK_TARGET not in serve:
        return f"it names no url: `wake-bridge update {subscription.id} --webhook URL`"
    if subscription.harness_target not in {BRIDGE_TARGET, *serve}:
        # a client is pushed to only where the target says so
        return f"no adapter serves the harnessTarget {subscription.harness_target}"
    return ""


def why_no_adapter(name: str, enabled: Collection[str], installed: Collection[str]) -> str:
    """Why an adapter serves nobody: it is switched off, or not there; empty where it does."""
    if name in enabled:
        return ""
    if name in installed:
        return f"the adapter {name} is switched off in the configuration"
    there_are = ", ".join(sorted({*enabled, *installed})) or "none"
    return f"no adapter named {name} is installed (there are: {there_are})"


def with_known_adapters(subscription: Subscription, known: Collection[str]) -> Subscription:
    """The same subscription, with a problem more when its adapter is none of the `known` ones."""
    if not subscription.adapter or subscription.adapter in known:
        return subscription
    there_are = ", ".join(sorted(known)) or "none"
    problem = f"adapter {_shown(subscription.adapter)} is not installed (there are: {there_are})"
    return replace(subscription, problems=(*subscription.problems, problem))


def parse_subscription(subscription_id: str, properties: Mapping[str, Any]) -> Subscription:
    """Read a WAKE_SUBSCRIPTION node's properties.

    Never raises: what cannot be meant becomes one of `problems`, or of `remarks` where its default is taken instead.
    """
    problems: list[str] = []
    remarks: list[str] = []
    given = properties.get("harnessTargetMetadata")
    metadata: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    pane = _pane(metadata)
    # who names a pane too means the pane, as ever
    chosen = chosen_target(has_url=bool(text_of(metadata.get("url"))) and not pane)
    harness_target = text_of(properties.get("harnessTarget")) or chosen
    if harness_target not in {BRIDGE_TARGET, *PUSH_TARGETS, *HEARTBEAT_TARGETS}:
        problems.append(f"harnessTarget {_shown(harness_target)} is unknown")
    status = text_of(properties.get("status")) or "active"
    if status not in _STATUSES:
        problems.append(f"status {_shown(status)} is unknown")
    return Subscription(
        id=text_of(subscription_id),
        identity=_identity(properties, problems),
        trigger=_one_of(Trigger, properties.get("trigger"), "trigger", problems),
        filters=_filters(properties.get("filters"), remarks),
        harness_target=harness_target,
        adapter=text_of(metadata.get("adapter")),
        pane=pane,
        details=_details(metadata),
        receiver=_receiver(subscription_id, harness_target, metadata, properties),
        window=_window(metadata, remarks),
        policy=_policy(properties.get("wakePolicy"), remarks),
        status=status,
        created_at=text_of(properties.get("createdAt")),
        updated_at=text_of(properties.get("updatedAt")),
        user_id=text_of(properties.get("userId")) or None,
        problems=tuple(problems),
        remarks=tuple(remarks),
        ignored=_ignored(metadata, harness_target),
    )


def _identity(properties: Mapping[str, Any], problems: list[str]) -> Identity:
    identity = text_of(properties.get("agentIdentity"))
    if not is_identity(identity):
        problems.append(
            f"agentIdentity {_shown(identity)} is not an identity" if identity else "agentIdentity is missing"
        )
        return Identity("")
    return Identity(identity)


def _one_of(kind: type[Choice], value: object, name: str, problems: list[str]) -> Choice | None:
    text = text_of(value)
    try:
        return kind(text)
    except ValueError:
        allowed = ", ".join(kind)
        problems.append(f"{name} {_shown(text)} is unknown (there are: {allowed})" if text else f"{name} is missing")
        return None


def _policy(value: object, remarks: list[str]) -> WakePolicy | None:
    return None if value is None else _one_of(WakePolicy, value, "wakePolicy", remarks)


def _pane(metadata: Mapping[str, Any]) -> str:
    """Where its tmux pane is said to be: the instance address if it is one, else the session."""
    if text_of(metadata.get("addressType")) == "tmuxSession":
        return text_of(metadata.get("instanceAddress")) or text_of(metadata.get("tmuxSession"))
    return text_of(metadata.get("tmuxSession"))


def _details(metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    is_app = text_of(metadata.get("adapter")) == APP_ADAPTER
    names = (*APP_METADATA, *THREAD_METADATA) if is_app else THREAD_METADATA
    return tuple((name, text) for name in names if (text := text_of(metadata.get(name))))


def _receiver(
    subscription_id: str, harness_target: str, metadata: Mapping[str, Any], properties: Mapping[str, Any]
) -> Receiver | None:
    """Where a webhook goes, or that it is pushed; None for other targets, and for a webhook that names no URL."""
    url = text_of(metadata.get("url"))
    as_of = text_of(properties.get("updatedAt")) or text_of(properties.get("createdAt"))
    if harness_target == PUSHED_TARGET:
        return Receiver(text_of(subscription_id), as_of=as_of, adapter=RECEIVER_TARGETS[harness_target])
    if harness_target != WEBHOOK_TARGET or not url:
        return None
    return Receiver(
        subscription_id=text_of(subscription_id),
        url=Secret(url),
        key=Secret(text_of(metadata.get("signingKey"))),
        former_key=Secret(text_of(metadata.get("formerSigningKey"))),
        former_until=parse_instant(metadata.get("formerSigningKeyUntil")) or EPOCH_START,
        as_of=as_of,
        adapter=RECEIVER_TARGETS[harness_target],
    )


def _ignored(metadata: Mapping[str, Any], harness_target: str) -> tuple[str, ...]:
    is_app = text_of(metadata.get("adapter")) == APP_ADAPTER
    names = IGNORED_METADATA if is_app else (*APP_METADATA, *IGNORED_METADATA)
    names = names if harness_target == WEBHOOK_TARGET else (*names, *RECEIVER_METADATA)
    return tuple(name for name in names if metadata.get(name) is not None)


def _window(metadata: Mapping[str, Any], remarks: list[str]) -> int | None:
    value = metadata.get("coalesceWindow")
    if value is None:
        return None
    window = window_from(value)
    if window is None:
        remarks.append(f"coalesceWindow {_shown(value)} is not a whole number of seconds from 0 to {LONGEST_WINDOW}")
    return window


def _filters(value: object, remarks: list[str]) -> Filters:
    if value is None:
        return Filters()
    if not isinstance(value, Mapping):
        remarks.append("filters is not an object")
        return Filters()
    asked = texts_of(value.get("priority"))
    priorities = (_one_of(Priority, text, "filters.priority", remarks) for text in asked)
    named = texts_of(value.get("presenceFilter"))
    kinds = (_one_of(AttentionKind, text, "filters.presenceFilter", remarks) for text in named)
    return Filters(
        priorities=frozenset(priority for priority in priorities if priority),
        senders=frozenset(texts_of(value.get("senderFilter"))),
        tags=frozenset(plain_tag(tag) for tag in texts_of(value.get("taggedConcepts"))),
        in_reply_to=frozenset(texts_of(value.get("inReplyToFilter"))),
        stands_at=frozenset(kind for kind in kinds if kind),
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
