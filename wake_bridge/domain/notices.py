"""Notices to the person: what is worth one, when, and its text.

At most one for each delivery, ever. What ends by itself, or was switched off by a person, is none.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from wake_bridge.domain.attention import Episode, EpisodeElsewhere
from wake_bridge.domain.causes import HoldReason, Tell
from wake_bridge.domain.delivery import Delivery, Hold, Outcome
from wake_bridge.domain.digest import grouped, lasting, phrase
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import AttentionKind, Identity, Instant
from wake_bridge.domain.nudges import is_our_pulse
from wake_bridge.domain.text import harmless, name, without_controls
from wake_bridge.domain.values import dataclass

NO_ROUTES: Final = "no_active_routes"
"""The subject, and the reason, of the notice that nobody can be woken."""

STATE: Final = "state_directory"
"""The subject, and the reason, of the notice that nothing can be written down, or that a ledger was put back."""

WHO_LIVES_WHERE: Final = "who_lives_where"
"""The subject of the one notice for all whose pane nobody can tell since the server began anew."""

ESCALATED: Final = "escalated"
"""The reason of the message that passes to a person what an agent did not answer."""

_NAMED: Final = 4
"""Identities that a notice names before it says how many more there are."""

_SUBJECT: Final = 80
_REMEDY: Final = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """One word to the human. Title and body are harmless text of one line and begin with words of ours.

    `subject` is what it is about: a delivery's id, an episode's, `NO_ROUTES` or `WHO_LIVES_WHERE`. `reason` is the hold's, the
    episode's kind, `failed`, `unknown` or `NO_ROUTES`; `since` when that began. `whose` names the agents where there are
    several.
    """

    subject: str
    reason: str
    title: str
    body: str
    since: Instant
    identity: str = ""
    where: str = ""
    whose: str = ""


def calls_for_a_person(hold: Hold, since: Instant, now: Instant, notice_after_ms: int) -> bool:
    """Whether a hold that began at `since` is worth a notice now."""
    tell = hold.cause.tell
    return tell is Tell.AT_ONCE or (tell is not Tell.NEVER and now - since >= notice_after_ms)


def about_hold(
    delivery: Delivery,
    hold: Hold,
    since: Instant,
    events: Sequence[WakeEvent],
    now: Instant,
    known: Container[Identity],
) -> Notice:
    """The notice that a delivery waits for somebody."""
    who = name(delivery.identity, known=True)
    return Notice(
        subject=delivery.id,
        reason=hold.reason,
        title=f"wake-bridge: {who} cannot be woken ({hold.reason})",
        body=f"To do: {harmless(hold.remedy(delivery.identity), _REMEDY)}. "
        f"Waiting {lasting(now - since)}: {_told(events, now, known)}",
        since=since,
        identity=delivery.identity,
        where=harmless(hold.where or delivery.where),
    )


def about_end(delivery: Delivery, events: Sequence[WakeEvent], now: Instant, known: Container[Identity]) -> Notice:
    """The notice that a delivery failed, or that nobody knows whether it arrived."""
    who, (what, remedy) = name(delivery.identity, known=True), said_of_end(delivery)
    return Notice(
        subject=delivery.id,
        reason=str(delivery.outcome),
        title=f"wake-bridge: a wake for {who} {what}",
        body=f"To do: {remedy}. It told of {_told(events, now, known)}",
        since=delivery.settled_at or now,
        identity=delivery.identity,
        where=harmless(delivery.where),
    )


def about_escalation(
    delivery: Delivery,
    events: Sequence[WakeEvent],
    now: Instant,
    known: Container[Identity],
    *,
    is_called: bool = False,
) -> Notice:
    """The notice that an agent did not answer in time, or could not be woken: what it was to be told is the person's now.

    `is_called`: not its time was over, but `escalate` passed it on.
    """
    who, (what, remedy) = name(delivery.identity, known=True), said_of_escalation(delivery, is_called=is_called)
    return Notice(
        subject=delivery.id,
        reason=ESCALATED,
        title=f"wake-bridge: {who} {what}",
        body=f"To do: {remedy}. {_told(events, now, known)}",
        since=delivery.created_at,
        identity=delivery.identity,
        where=harmless(delivery.seen_in),
    )


def said_of_escalation(delivery: Delivery, *, is_called: bool) -> tuple[str, str]:
    """Why a wake is a person's now, and what to do. One clause each. `is_called`: somebody passed it on by `escalate`."""
    remedy, within = (
        f"it is yours now; `wake-bridge ack {delivery.id}` says that you have it",
        lasting(delivery.ack_within),
    )
    if is_called:
        return "did not answer: its wake was passed to you", remedy
    if not (delivery.awaits_ack or delivery.proof):
        return f"could not be woken within {within}{f' ({delivery.hold.reason})' if delivery.hold else ''}", remedy
    if delivery.hold is not None and delivery.hold.detail:
        return f"did not answer ({harmless(delivery.hold.detail, _REMEDY)})", remedy
    return f"did not answer within {within}", remedy


def said_of_end(delivery: Delivery) -> tuple[str, str]:
    """What became of a wake that failed, or of which nobody knows whether it arrived; and what to do. One clause each."""
    where = harmless(delivery.seen_in) or "its pane"
    if delivery.outcome is Outcome.UNKNOWN:
        look = f"look in {where} for {delivery.id}; if it is not there, "
        return "may or may not have arrived", f"{look}`wake-bridge deliveries retry {delivery.id} --i-looked`"
    see = f"see `wake-bridge deliveries show {delivery.id}`, "
    return "failed", f"{see}then `wake-bridge deliveries retry {delivery.id}`"


def about_failed_turns(
    delivery: Delivery, events: Sequence[WakeEvent], now: Instant, known: Container[Identity]
) -> Notice:
    """The notice that the turn of every wake for the same mail failed at once, and that nothing is tried any more."""
    who, where = name(delivery.identity, known=True), harmless(delivery.seen_in) or "its pane"
    return Notice(
        subject=delivery.id,
        reason=AttentionKind.FAILED,
        title=f"wake-bridge: the turn of each wake for {who} failed",
        body=f"To do: look in {where}; `wake-bridge wake {delivery.identity}` tries once more. It told of {_told(events, now, known)}",
        since=delivery.settled_at or now,
        identity=delivery.identity,
        where=harmless(delivery.where),
    )


_NEEDS: Final[Mapping[AttentionKind, tuple[str, str]]] = {
    AttentionKind.APPROVAL: ("waits for an approval", "answer the dialog in {where} (`wake-bridge next` goes there)"),
    AttentionKind.QUESTION: ("asks you a question", "answer the question in {where} (`wake-bridge next` goes there)"),
    AttentionKind.FINISHED: ("has finished", "look in {where}"),
    AttentionKind.STOPPED: ("has stopped", "look in {where}"),
    AttentionKind.FAILED: ("failed in its last turn", "look in {where}"),
    AttentionKind.LIMITED: ("has reached a usage limit", "nothing, or look in {where}"),
    AttentionKind.GONE: ("is gone", "start the agent again in {where}"),
}


def standing_at(kind: AttentionKind) -> str:
    """What an agent stands at, one clause."""
    return _NEEDS[kind][0]


def remedy_at(episode: Episode) -> str:
    """What a person can do about it, one clause."""
    return _NEEDS[episode.kind][1].format(where=harmless(episode.where) or "its pane")


def about_attention(episodes: Sequence[Episode], now: Instant, resets: str = "") -> Notice:
    """The notice that agents stand at the same: one for all of them, under the id of the first. It quotes no screen.

    `resets` is when their limit does, as a person reads it; empty where nobody knows.
    """
    first = episodes[0]
    says, remedy = _NEEDS[first.kind]
    names = [name(one.identity, known=True) for one in episodes]
    where = harmless(first.where) or "its pane"
    if len(episodes) == 1:
        title, whose = f"{names[0]} {says} ({first.kind})", ""
    else:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        title, where = f"{len(names)} agents need you ({first.kind})", "the pane of each"
        whose = f"{', '.join(names[:_NAMED])}{more}"
    return Notice(
        subject=first.id,
        reason=first.kind,
        title=f"wake-bridge: {title}",
        body=f"To do: {remedy.format(where=where)}.{f' It resets at {resets}.' if resets else ''}"
        f" For {lasting(now - first.began_at)}{whose and f': {whose}'}",
        since=first.began_at,
        identity=first.identity if len(episodes) == 1 else "",
        where=harmless(first.where) if len(episodes) == 1 else "",
        whose=whose,
    )


def about_attention_elsewhere(one: EpisodeElsewhere, now: Instant) -> Notice:
    """The notice that an agent on another host stands at something; it quotes no screen."""
    says = standing_at(one.kind)
    # a command is copied as it stands, so its @ stays what it is
    way = " ".join(without_controls(one.way).split())
    return Notice(
        subject=one.subject,
        reason=one.kind,
        title=f"wake-bridge: {name(one.identity, known=True)} on {harmless(one.host)} {says} ({one.kind})",
        body=f"To do: `{way}`. For {lasting(max(0, now - one.began_at))}",
        since=one.began_at,
        identity=one.identity,
        where=harmless(one.host),
    )


def about_no_routes(since: Instant) -> Notice:
    """The notice that no subscription can wake anybody."""
    return Notice(
        subject=NO_ROUTES,
        reason=NO_ROUTES,
        title="wake-bridge: no identity can be woken (0 active routes)",
        body="To do: run `wake-bridge list` to see what is wrong with each subscription, or `wake-bridge subscribe` to add one",
        since=since,
    )


def about_state(trouble: str, since: Instant) -> Notice:
    """The notice of what is the matter with the state directory: wake-bridge sends no wake that it cannot record first."""
    return Notice(
        subject=STATE,
        reason=STATE,
        title=f"wake-bridge: {harmless(trouble, _REMEDY)}",
        body="To do: look at the state directory and its disk; `wake-bridge doctor` says more. Wakes wait until then",
        since=since,
    )


def about_channel(channel: str, label: str, why: str, since: Instant, *, given_up: str = "") -> Notice:
    """The notice that a channel takes nothing, or that the message `given_up` has failed for good."""
    who = harmless(label) or channel
    what = f"a message to {who} failed" if given_up else f"the channel {who} takes nothing"
    then = "wake-bridge no longer tries this one" if given_up else "messages are tried again for 24 h"
    return Notice(
        subject=given_up or f"channel:{channel}",
        reason="channel_failed" if given_up else "channel_away",
        title=f"wake-bridge: {what}",
        body=f"To do: `wake-bridge channels test {channel}`; {then}. {harmless(why, _REMEDY)}",
        since=since,
    )


def is_one_question(hold: Hold) -> bool:
    """Whether one answer ends the hold for everybody who waits so, and one notice is enough for them all."""
    return hold.cause.tell is Tell.ONCE_FOR_ALL


def about_moved(waiting: Sequence[Delivery], hold: Hold, since: Instant, now: Instant) -> Notice:
    """The notice that nobody can tell who lives where since the server began anew."""
    who = sorted({name(one.identity, known=True) for one in waiting})
    more = f" and {len(who) - _NAMED} more" if len(who) > _NAMED else ""
    return Notice(
        subject=WHO_LIVES_WHERE,
        reason=HoldReason.MOVED,
        title=f"wake-bridge: {len(who)} {'agent' if len(who) == 1 else 'agents'} cannot be woken ({HoldReason.MOVED})",
        body=f"To do: {hold.remedy(waiting[0].identity)}. Waiting {lasting(now - since)}: mail for {', '.join(who[:_NAMED])}{more}",
        since=since,
    )


def _told(events: Sequence[WakeEvent], now: Instant, known: Container[Identity]) -> str:
    if events and all(is_our_pulse(one) for one in events):
        return "unread mail, which the heartbeat announces"
    return "; ".join(phrase(group, _SUBJECT, now, known) for group in grouped(events)[:2]) or "nothing any more"
