"""What people have switched off at this moment (paused, benched, quiet hours)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, Hold
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.guards import LimitMet, Limits, OtherDriver, Switches, WakeCandidate, every_hold, switched_off
from wake_bridge.domain.names import DAY, AttentionKind, Identity, Instant
from wake_bridge.domain.usage_limits import clock_time, free_at
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Archive, SwitchStore
from wake_bridge.ports.sends import EpisodeStore


def holds_now(
    archive: Archive,
    switches: SwitchReader,
    limits: Limits,
    identity: Identity,
    now: Instant,
    *,
    events: Sequence[WakeEvent] = (),
    participation: str = "active",
    delivery: Delivery | None = None,
) -> list[Hold]:
    """All that would hold a wake of the identity now, but for what only a look into its pane tells; the first one decides.

    Args:
        archive: asked for past wakes, and when limits were lifted.
        switches: what people have switched off.
        limits: the configured ones.
        identity: who is to be woken.
        now: the moment of judging.
        events: what the wake would tell.
        participation: the identity's own, as its node has it.
        delivery: the one that carries them; None where there is none yet.
    """
    past = archive.past_wakes(Instant(now - DAY))
    of_identity = [wake.pane_key for wake in past if wake.identity == identity]
    hold = delivery.hold if delivery else None
    return every_hold(
        WakeCandidate(
            identity=identity,
            events=events,
            pane_key=(delivery.pane_key if delivery else "") or (of_identity[-1] if of_identity else ""),
            where=(delivery.where if delivery else "") or (hold.where if hold else ""),
            lifted_at=archive.limits_lifted_at(identity),
        ),
        limits,
        past,
        switches.of(identity, participation),
        now,
        switches.local_minutes(),
    )


class SwitchSource(SwitchStore, EpisodeStore, Protocol):
    """What switches are read from."""


class SwitchReader:
    """Reads the switches of one identity.

    Args:
        other_driver: what else drives the same directory, None if nothing does.
        elsewhere: which other host drives an identity, None if none does.
    """

    def __init__(
        self,
        ledger: SwitchSource,
        current: Current,
        clock: Clock,
        other_driver: Callable[[], OtherDriver | None],
        elsewhere: Callable[[Identity], OtherDriver | None] = lambda _: None,
    ) -> None:
        self._elsewhere = elsewhere
        self._ledger = ledger
        self._current = current
        self._clock = clock
        self._other_driver = other_driver

    def of(self, identity: Identity, participation: str = "active") -> Switches:
        """All switches; `participation` is the identity's own, as its node has it."""
        pauses = {one.identity: one for one in self._ledger.pauses(self._clock.now())}
        own, all_of_them = pauses.get(identity), pauses.get("*")
        return Switches(
            is_paused=own is not None,
            paused_until=own.until if own else None,
            all_are_paused=all_of_them is not None,
            all_paused_until=all_of_them.until if all_of_them else None,
            participation=participation,
            quiet_hours=self._current.settings.quiet_hours,
            other_driver=self._other_driver() or self._elsewhere(identity),
            limit=self._limit_of(identity),
        )

    def _limit_of(self, identity: Identity) -> LimitMet | None:
        """The usage limit at which its agent was seen last; None where it is at none."""
        standing = (one for one in self._ledger.open_episodes() if one.identity == identity)
        episode = next((one for one in standing if one.kind is AttentionKind.LIMITED), None)
        if episode is None or self._ledger.limits_lifted_at(identity) > episode.began_at:
            return None
        wakes = [one.at for one in self._ledger.past_wakes(episode.began_at) if one.identity == identity]
        ends_at = free_at(episode, wakes)
        cause = Cause.LIMIT_UNTIMED if episode.resets_at is None else Cause.LIMITED
        until = clock_time(ends_at, self._clock.now(), self._clock.wall(), self._clock.local())
        return LimitMet(ends_at, f"until {until}", episode.where, cause)

    def off(self, identity: Identity) -> Hold | None:
        """The switch that keeps any key from being sent for the identity now; None when none does."""
        return switched_off(self.of(identity), self._clock.now(), self.local_minutes())

    def local_minutes(self) -> int:
        """Minutes after local midnight."""
        local = self._clock.local()
        return local.hour * 60 + local.minute
