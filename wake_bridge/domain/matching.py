"""Matches a fact against the subscriptions: whom it wakes, how urgently, and who is refused and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from wake_bridge.domain.events import (
    Detail,
    EventStatus,
    Fact,
    Message,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.names import (
    EPOCH_START,
    Epoch,
    EventKind,
    Identity,
    Instant,
    Priority,
    WakePolicy,
)
from wake_bridge.domain.reasons import Refusal
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import (
    BRIDGE_TARGET,
    DEFAULT_ADAPTER,
    Subscription,
    of_rows,
    parse_subscription,
    with_known_adapters,
)
from wake_bridge.domain.values import dataclass

AUDIENCE_GRACE: Final = 2000
"""Milliseconds a broadcast waits for its audience; whom that names is told at once.

A busy writer commits the first receipt later than 250 ms after the message, and before it a broadcast seems to be for all.
"""


@dataclass(frozen=True, slots=True)
class TargetRule:
    """What a `[targets]` entry says about matching. `window` is in seconds, `ack_within` in milliseconds."""

    window: int | None = None
    policy: WakePolicy | None = None
    adapter: str = DEFAULT_ADAPTER
    ack_within: int | None = None


_ANY_AGE: Final = 2**62
"""Milliseconds."""


@dataclass(frozen=True, slots=True)
class MatchingRules:
    """What the configuration says about matching.

    `default_policy` None is `auto`, `default_window` is in seconds, `catch_up` and `look_back` (how old mail
    may be when seen with a live cursor, and when its row is newer than itself) in milliseconds. `known_adapters` None
    means that nobody knows. `signed` stand for the senders whose signed wakes are taken in. `ack_within` are the milliseconds in
    which mail has to be answered, 0 where it need not be; `ack_within_of` says it of single senders.
    """

    targets: Mapping[Identity, TargetRule] = field(default_factory=dict)
    default_policy: WakePolicy | None = None
    default_window: int = 30
    catch_up: int = 7 * 24 * 3_600_000
    look_back: int = 3_600_000
    user_scope: bool = False
    serve: frozenset[str] = frozenset()
    known_adapters: frozenset[str] | None = None
    unusable: Mapping[str, str] = field(default_factory=dict)
    signed: tuple[Subscription, ...] = ()
    ack_within: int = 0
    ack_within_of: Mapping[str, int] = field(default_factory=dict)

    @property
    def ageless(self) -> MatchingRules:
        """The same rules, to which nothing is too old."""
        return replace(self, catch_up=_ANY_AGE, look_back=_ANY_AGE)


@dataclass(frozen=True, slots=True)
class MatchContext:
    """When and where a fact is judged: steady time and wall time, and which identities are people."""

    epoch: Epoch
    now: Instant
    wall: Instant
    new_id: Callable[[], str]
    rules: MatchingRules = field(default_factory=MatchingRules)
    humans: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _SubscriptionVerdict:
    """What one subscription says to one fact; `refusal` is None where it wants it."""

    subscription: Subscription
    policy: WakePolicy
    window: int
    refusal: Refusal | None
    by_heartbeat: bool


def read_subscription(subscription_id: str, properties: Mapping[str, Any], rules: MatchingRules) -> Subscription:
    """A subscription as it stands under the rules in force: a `[targets]` entry makes its own adapter irrelevant."""
    subscription = parse_subscription(subscription_id, properties)
    if rules.known_adapters is None or subscription.identity in rules.targets or subscription.is_heartbeat_only:
        return subscription
    return with_known_adapters(subscription, rules.known_adapters)


def is_placed(subscription: Subscription, rules: MatchingRules) -> bool:
    """Whether the adapter that leads to its identity is there; where nobody knows which are, it counts as there."""
    if subscription.is_posted:
        return True
    target = rules.targets.get(subscription.identity)
    name = target.adapter if target is not None else subscription.adapter or DEFAULT_ADAPTER
    return rules.known_adapters is None or name in rules.known_adapters


def match(fact: Fact, book: SubscriptionBook, moment: MatchContext) -> list[WakeEvent]:
    """The wake events of a fact: at most one for each identity, open, or refused with the reason.

    Guards, in order: self → suppressed or silent → filters → read → age; what is private under `user_scope` is refused
    before all of them. Of several subscriptions the loudest policy and the shortest window win. Never raises.
    """
    everyone = fact.recipients is None
    identities = book.identities_for(fact.trigger) if everyone else dict.fromkeys(fact.recipients or ())
    events = []
    for identity in identities:
        is_pulse = fact.kind is EventKind.PULSE
        listening = of_rows(book.of(identity)) if is_pulse else book.listening(identity, fact.trigger)
        if listening:
            verdicts = [_judge(fact, identity, subscription, moment) for subscription in listening]
            events.append(_event(fact, identity, verdicts, moment))
    return events


def _judge(fact: Fact, identity: Identity, subscription: Subscription, moment: MatchContext) -> _SubscriptionVerdict:
    policy = _policy(fact, identity, subscription, moment.rules)
    return _SubscriptionVerdict(
        subscription,
        policy,
        _window(fact, subscription, moment.rules),
        _refusal(fact, identity, subscription, policy, moment),
        _is_left_to_heartbeat(fact, identity, subscription, moment.rules),
    )


def _refusal(
    fact: Fact, identity: Identity, subscription: Subscription, policy: WakePolicy, moment: MatchContext
) -> Refusal | None:
    """The first guard that says no; None when none does."""
    if fact.message and moment.rules.user_scope and not _may_see(identity, fact.message):
        return Refusal.PRIVATE
    if fact.actor == identity and not _is_note_to_self(fact):
        return Refusal.SELF
    if fact.kind is EventKind.MESSAGE and fact.message and fact.message.wake_suppressed:
        return Refusal.SUPPRESSED
    if policy is WakePolicy.SILENT:
        return Refusal.SILENT
    if isinstance(fact.detail, PresenceDetail) and fact.detail.stands_at not in subscription.filters.watches_for:
        return Refusal.FILTER_PRESENCE
    if fact.kind is not EventKind.PULSE:
        key = subscription.filters.refuse(fact.message, _priority(fact), _sender(fact))
        if key:
            return Refusal(f"filter {key}")
    if fact.already_read:
        return Refusal.READ
    return _too_old(fact, moment)


def _too_old(fact: Fact, moment: MatchContext) -> Refusal | None:
    """Which of the two limits of age the fact is beyond; None when it is young enough."""
    age = moment.wall - fact.occurred_at if fact.occurred_at is not None else 0
    if age > moment.rules.catch_up:
        return Refusal.AGE
    return Refusal.REWRITTEN if fact.old_at_new_position and age > moment.rules.look_back else None


def _may_see(identity: Identity, message: Message) -> bool:
    return message.visible_to_all or message.user_id == identity.removeprefix("@")


def _is_note_to_self(fact: Fact) -> bool:
    """Mail to oneself is a note; an own broadcast, an own move or an own grant is no news."""
    return isinstance(fact.detail, MessageDetail) and not fact.detail.broadcast


def _policy(fact: Fact, identity: Identity, subscription: Subscription, rules: MatchingRules) -> WakePolicy:
    """Message, else target, else subscription, else default; then what may not be louder than the next turn."""
    policy = _said_policy(fact, identity, subscription, rules)
    if policy is None:
        is_reachable = (
            subscription.harness_target == BRIDGE_TARGET or subscription.is_posted or identity in rules.targets
        )
        policy = WakePolicy.IMMEDIATE if is_reachable else WakePolicy.NEXT_TURN
    if policy is WakePolicy.IMMEDIATE and (
        subscription.is_heartbeat_only or _is_quiet_note(fact, identity, subscription)
    ):
        return WakePolicy.NEXT_TURN
    return policy


def _said_policy(fact: Fact, identity: Identity, subscription: Subscription, rules: MatchingRules) -> WakePolicy | None:
    """What somebody said; None where nobody did."""
    target = rules.targets.get(identity)
    said = fact.message.wake_policy if fact.message and fact.kind is EventKind.MESSAGE else None
    return said or (target.policy if target else None) or subscription.policy or rules.default_policy


def _is_left_to_heartbeat(fact: Fact, identity: Identity, subscription: Subscription, rules: MatchingRules) -> bool:
    """Whether only its route keeps it from being immediate; what is silent or for the next turn by wish stays so."""
    if not subscription.is_heartbeat_only or _is_quiet_note(fact, identity, subscription):
        return False
    return _said_policy(fact, identity, subscription, rules) in {None, WakePolicy.IMMEDIATE}


def _is_quiet_note(fact: Fact, identity: Identity, subscription: Subscription) -> bool:
    """Self-mail waits for the next turn, unless the subscription asks for one of its tags: the hand-over to oneself."""
    if fact.message is None or fact.kind is not EventKind.MESSAGE or fact.actor != identity:
        return False
    return not subscription.filters.names_tag_of(fact.message)


def _window(fact: Fact, subscription: Subscription, rules: MatchingRules) -> int:
    """Seconds: the message's own, else the target's, else the subscription's, else the default."""
    if fact.kind is EventKind.MESSAGE and fact.message and fact.message.wake_window is not None:
        return fact.message.wake_window
    target = rules.targets.get(subscription.identity)
    if target is not None and target.window is not None and not subscription.is_heartbeat_only:
        return target.window
    return rules.default_window if subscription.window is None else subscription.window


def _priority(fact: Fact) -> Priority:
    return fact.message.priority if fact.message else Priority.NORMAL


def _sender(fact: Fact) -> str:
    """Whose doing it is: the message's sender, the granter, whoever made the move (else the task's originator)."""
    match fact.detail:
        case PermissionDetail():
            return fact.detail.granted_by
        case TaskDetail():
            return fact.detail.actor or fact.detail.originator
        case MessageDetail():
            return fact.detail.sender
        case PresenceDetail():
            return fact.detail.of
        case _:
            return ""


def _event(fact: Fact, identity: Identity, verdicts: Sequence[_SubscriptionVerdict], moment: MatchContext) -> WakeEvent:
    wanted = [verdict for verdict in verdicts if not verdict.refusal]
    speaking = sorted(wanted or verdicts[:1], key=lambda verdict: (-verdict.policy.loudness, verdict.window))
    first, others = speaking[0], speaking[1:]
    return WakeEvent(
        id=moment.new_id(),
        epoch=moment.epoch,
        log_id=fact.log_id,
        identity=identity,
        kind=fact.kind,
        subject_key=fact.subject_key,
        detail=_with_sender_kind(fact.detail, fact.actor, moment.humans),
        subscription_id=first.subscription.id,
        matched_at=moment.now,
        occurred_at=fact.occurred_at,
        other_subscriptions=tuple(verdict.subscription.id for verdict in others),
        policy=first.policy,
        priority=_priority(fact),
        window=min(verdict.window for verdict in speaking),
        not_before=Instant(moment.now + AUDIENCE_GRACE) if fact.audience_open else EPOCH_START,
        status=EventStatus.OPEN if wanted else EventStatus.REFUSED,
        refused_by=first.refusal or "",
        refusals=tuple((verdict.subscription.id, verdict.refusal) for verdict in verdicts if verdict.refusal),
        by_heartbeat=any(verdict.by_heartbeat for verdict in wanted) and first.policy is WakePolicy.NEXT_TURN,
        ack_within=_ack_within(fact, identity, moment.rules) if first.policy is WakePolicy.IMMEDIATE else 0,
    )


def _ack_within(fact: Fact, identity: Identity, rules: MatchingRules) -> int:
    """Milliseconds in which it has to be answered: the message's own, else the target's, else its sender's, else the default.

    Only mail is answered; 0 where it need not be.
    """
    if fact.kind is not EventKind.MESSAGE or fact.message is None:
        return 0
    if fact.message.ack_within is not None:
        return fact.message.ack_within * 1000
    target = rules.targets.get(identity)
    if target is not None and target.ack_within is not None:
        return target.ack_within
    return rules.ack_within_of.get(fact.message.sender, rules.ack_within)


def _with_sender_kind(detail: Detail, actor: str | None, humans: Collection[str]) -> Detail:
    if isinstance(detail, MessageDetail | TaskDetail) and actor in humans:
        return replace(detail, from_human=True)
    return detail
