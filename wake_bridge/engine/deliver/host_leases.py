"""Keeps the leases of this host: renews them, takes those of agents that are seen here, gives back the others.

Loaded only where several hosts may share the graph.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import structlog

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, Outcome, Progress, progress_in
from wake_bridge.domain.errors import OperationFailed, SourceError
from wake_bridge.domain.guards import OtherDriver, moved_to
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.engine.deliver.leases import FenceNotHeld
from wake_bridge.ports.adapter import SendBy
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.leases import ALIVE_FOR, KEY_WITHIN, LEFT_AT_COMMIT, LeaseStore, Owner, Renewal, ToldBy
from wake_bridge.ports.ledger import Ledger

Answer = TypeVar("Answer")

RENEW_EVERY: Final = 5.0
"""Seconds between two renewals: two may be lost, and the host still counts as alive."""

AT_FIRST_EVERY: Final = 1.0
AT_FIRST: Final = 15_000
"""Seconds between renewals in the first milliseconds of a daemon, in which it comes to see its agents one by one."""

CHECK_EVERY: Final = 60_000
"""Milliseconds after which all leases are looked at, and intents without an outcome."""

UNSEEN_FOR: Final = 15_000
"""Milliseconds for which an agent must not have been seen before its lease is given back: after a wake nothing is known."""

SUBJECTS_AT_ONCE: Final = 1000
"""Subjects of one question whether they were told elsewhere."""

COMMIT_LIMIT: Final = 2.0
"""Seconds for which a commit is waited for: later no key could follow it."""

_TELLS_NOTHING: Final = frozenset({Outcome.FAILED, Outcome.EMPTY})


class HostLeases:
    """See `Leases`, on a database.

    Args:
        store: the leases; called on threads of their own.
        host: by which name this host is known.
        seen: the identities whose agents are seen here now.
        waiting: those for which something waits here.
        changed: told whose lease has come or gone.
        told: told what other hosts have told: identity, subject key and host of each.
    """

    are_shared = True

    def __init__(
        self,
        store: LeaseStore,
        host: str,
        ledger: Ledger,
        clock: Clock,
        *,
        seen: Callable[[], set[Identity]],
        waiting: Callable[[], set[Identity]],
        changed: Callable[[Identity], None],
        told: Callable[[Sequence[tuple[Identity, str, str]]], None],
    ) -> None:
        self._told = told
        self.host = host
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._seen = seen
        self._waiting = waiting
        self._changed = changed
        self._tokens: dict[Identity, int] = {}
        self._others: dict[Identity, str] = {}
        self._moving: dict[Identity, str] = {}
        self._silent: dict[Identity, str] = {}
        self._asked: set[Identity] = set()
        self._seen_at: dict[Identity, Instant] = {}
        self._alive_until = EPOCH_START
        self._checked_at = EPOCH_START
        self._trouble = "it has not been asked yet"
        self._open: set[str] | None = None
        self._under_way: set[str] = set()
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "leases")
        self._log = structlog.get_logger("hosts")

    # -- what the engine asks ------------------------------------------------------------------------------------

    def elsewhere(self, identity: Identity) -> OtherDriver | None:
        """See `Leases.elsewhere`."""
        if identity in self._tokens:
            return None if self._is_alive() else self._away()
        if host := self._others.get(identity):
            return OtherDriver(host, Cause.OTHER_HOST)
        return moved_to(host) if (host := self._moving.get(identity)) else None

    def silent_host(self, identity: Identity) -> str:
        """See `Leases.silent_host`."""
        return self._silent.get(identity, "")

    async def take(self, identity: Identity, subject_keys: Sequence[str] = ()) -> OtherDriver | None:
        """See `Leases.take`."""
        try:
            if identity not in self._tokens or not self._is_alive():
                async with self._turn:
                    await self._round({identity}, {identity})
            if not self._is_alive():
                return self._away()
            if (other := self.elsewhere(identity)) is not None:
                return other
            if identity not in self._tokens:
                return self._away()
            return await self._untold_by(identity, subject_keys)
        except (SourceError, OperationFailed) as away:
            self._note_trouble(away)
            return self._away()

    async def told(self, identity: Identity, subject_keys: Sequence[str]) -> Mapping[str, str]:
        """See `Leases.told`. Of what this host has told, its ledger knows more, unless it was lost."""
        if not subject_keys:
            return {}
        found = await self._ask(self._store.told, identity, subject_keys)
        return {key: one.host for key, one in found.items() if one.is_settled and self._is_anothers(one)}

    def _is_anothers(self, told: ToldBy) -> bool:
        return told.host != self.host or self._ledger.delivery(told.delivery_id) is None

    async def _untold_by(self, identity: Identity, subject_keys: Sequence[str]) -> OtherDriver | None:
        """Which host may have told some of that, and can still take it back."""
        found = await self._ask(self._store.told, identity, subject_keys) if subject_keys else {}
        hosts = (one.host for one in found.values() if not one.is_settled and self._is_anothers(one))
        host = next(hosts, "")
        return OtherDriver(host, Cause.TOLD_ELSEWHERE) if host else None

    async def commit(self, delivery: Delivery, subject_keys: Sequence[str]) -> SendBy | None:
        """See `Leases.commit`."""
        identity = delivery.identity
        if (not_ours := await self.take(identity)) is not None:
            raise FenceNotHeld(not_ours)
        # before the question: by the database's clock the commit is later
        send_by = SendBy.within(KEY_WITHIN, self._clock)
        self._under_way.add(delivery.id)
        self._open = {*(self._open or ()), delivery.id}
        commit = partial(self._store.commit_intent, identity, self._tokens[identity], delivery.id, subject_keys)
        try:
            async with asyncio.timeout(COMMIT_LIMIT):
                is_committed = await self._ask(commit)
        except (SourceError, OperationFailed, TimeoutError) as away:
            # it may have been committed all the same: then it is withdrawn, for nothing of it was sent
            self._under_way.discard(delivery.id)
            self._note_trouble(away)
            raise FenceNotHeld(self._away()) from away
        if not is_committed:
            self._under_way.discard(delivery.id)
            self._forget(identity)
            raise FenceNotHeld(await self.take(identity) or await self._told_elsewhere(identity, subject_keys))
        return send_by

    def concluded(self, delivery: Delivery) -> None:
        """See `Leases.concluded`."""
        self._under_way.discard(delivery.id)

    # -- the daemon's job ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Renew for ever."""
        started = self._clock.now()
        while True:
            began = self._clock.now()
            try:
                await self.keep()
            except (SourceError, OperationFailed) as away:
                self._note_trouble(away)
            now = self._clock.now()
            every = AT_FIRST_EVERY if now - started < AT_FIRST else RENEW_EVERY
            await asyncio.sleep(max(every - (now - began) / 1000, 0.5))

    async def keep(self) -> None:
        """One renewal, with what it brings about. Raises `SourceError` or `OperationFailed`."""
        now, seen = self._clock.now(), self._seen()
        self._seen_at.update(dict.fromkeys(seen, now))
        is_check = now - self._checked_at >= CHECK_EVERY or not self._is_alive()
        asked = (seen if is_check else seen - self._tokens.keys()) | self._waiting() - self._tokens.keys()
        asked |= set(self._tokens) if is_check else set()
        async with self._turn:
            await self._round(seen, asked)
        unseen = [one for one in self._tokens if now - self._seen_at.get(one, EPOCH_START) > UNSEEN_FOR]
        await self._give_back(unseen)
        if self._open is None or self._open:
            await self._settle()
        await self._end_told()
        if is_check:
            await self._ask(self._store.tidy)
            self._checked_at = now

    async def leave(self) -> None:
        """Give all back: the daemon ends. What cannot be told now, the others notice by themselves."""
        with suppress(SourceError, OperationFailed, TimeoutError):
            async with asyncio.timeout(COMMIT_LIMIT):
                await self._settle()
                await self._ask(self._store.leave)
        self._tokens.clear()
        self._alive_until = EPOCH_START

    def close(self) -> None:
        """Give up connection and thread."""
        self._thread.submit(self._store.close)
        self._thread.shutdown(wait=False)

    async def _end_told(self) -> None:
        """What was told where an identity is driven need not wait here."""
        subjects = self._ledger.untold(self._others.keys()) if self._others else []
        for first in range(0, len(subjects), SUBJECTS_AT_ONCE):
            some = subjects[first : first + SUBJECTS_AT_ONCE]
            self._told(await self._ask(self._store.told_elsewhere, some))

    # -- below ---------------------------------------------------------------------------------------------------

    async def _round(self, seen: set[Identity], asked: set[Identity]) -> None:
        """Renew, and take what is seen here and nobody holds."""
        before = {**self._tokens}
        asked_at = self._clock.now()
        renewal = await self._ask(self._store.renew, sorted(asked))
        if renewal.was_lapsed and not asked >= self._tokens.keys():
            asked |= self._tokens.keys()
            renewal = await self._ask(self._store.renew, sorted(asked))
        if not renewal.is_enrolled:
            self._tokens.clear()
            self._trouble = f"another daemon uses the name {self.host}: its state directory was copied"
            return
        self._note_alive(Instant(asked_at + ALIVE_FOR * 1000))
        self._note_owners(asked, renewal)
        self._moving |= {one: renewal.owners[one].wanted for one in renewal.unwanted}
        await self._give_back(renewal.unwanted)
        free = [one for one in sorted(seen - self._tokens.keys()) if self._is_free(renewal.owners.get(one))]
        if free:
            lapsed = {owner.host for one in free if (owner := renewal.owners.get(one)) is not None and owner.host}
            taken = await self._ask(self._store.take, free, sorted(lapsed))
            if late := set(free) - taken.keys():
                # another host was quicker, or a person's word
                self._note_owners(late, await self._ask(self._store.renew, sorted(late)))
            self._tokens |= taken
            self._seen_at |= dict.fromkeys(taken, self._clock.now())
            for one in taken:
                self._others.pop(one, None)
                self._silent.pop(one, None)
        for one in sorted({*before, *self._tokens} - {one for one in before if before[one] == self._tokens.get(one)}):
            if one in self._tokens:
                self._log.info("lease_taken", agent=one, lease=self._tokens[one])
            else:
                self._log.info("lease_gone", agent=one, host=self._others.get(one))
            self._changed(one)

    def _note_owners(self, asked: set[Identity], renewal: Renewal) -> None:
        if first_asked := asked - self._asked:
            for one in first_asked & self._waiting():
                # what waits since the last run was held by what was so then
                self._changed(one)
            self._asked |= first_asked
        for one in asked:
            owner = renewal.owners.get(one)
            self._note_move(one, owner.wanted if owner is not None else "")
            if owner is not None and owner.host == self.host:
                self._tokens[one] = owner.token
                # a daemon that begins has not looked yet: what was its own stays so for a while
                self._seen_at.setdefault(one, self._clock.now())
                self._others.pop(one, None)
                self._silent.pop(one, None)
                continue
            self._tokens.pop(one, None)
            if owner is not None and owner.host and not owner.is_alive:
                self._silent[one] = owner.host
            else:
                self._silent.pop(one, None)
            if owner is not None and owner.host and owner.is_alive:
                if self._others.get(one) != owner.host:
                    self._others[one] = owner.host
                    self._changed(one)
            elif self._others.pop(one, None):
                self._changed(one)

    def _note_move(self, identity: Identity, wanted: str) -> None:
        host = "" if wanted == self.host else wanted
        if self._moving.get(identity, "") == host:
            return
        self._moving.pop(identity, None)
        if host:
            self._moving[identity] = host
        self._changed(identity)

    def _is_free(self, owner: Owner | None) -> bool:
        return owner is None or not owner.host or not owner.is_alive

    async def _give_back(self, identities: Sequence[Identity]) -> None:
        """Let others take them, but for those whose key may be on its way."""
        under_way = map(self._ledger.delivery, self._under_way) if identities else ()
        busy = {one.identity for one in under_way if one is not None and not one.state.is_terminal}
        given = [one for one in identities if one not in busy and one in self._tokens]
        if not given:
            return
        for one in given:
            # first here: nothing is committed for it from now on
            self._forget(one)
        await self._ask(self._store.give_back, given)
        for one in given:
            self._log.info("lease_given_back", agent=one)
            self._changed(one)

    async def _settle(self) -> None:
        """Write down what has become of intents of this host; what nothing was sent of is withdrawn."""
        outcomes: dict[str, str] = {}
        still_open: set[str] = set()
        for one in await self._ask(self._store.open_intents):
            outcome = self._outcome_of(one.delivery_id, is_old=one.is_old)
            if outcome == "":
                still_open.add(one.delivery_id)
            elif outcome == "withdrawn":
                await self._ask(self._store.withdraw, one.delivery_id)
            else:
                outcomes[one.delivery_id] = outcome
        if outcomes:
            await self._ask(self._store.settle, outcomes)
        self._open = still_open | self._under_way

    def _outcome_of(self, delivery_id: str, *, is_old: bool) -> str:
        """What became of it by the ledger; empty while it is open there too."""
        delivery = self._ledger.delivery(delivery_id)
        if delivery is None:
            # another ledger began it: nobody can look for it
            return "unknown" if is_old else ""
        if delivery.outcome is not None and delivery.state.is_terminal:
            self._under_way.discard(delivery_id)
            return "withdrawn" if delivery.outcome in _TELLS_NOTHING else delivery.outcome.value
        if delivery_id in self._under_way:
            return ""
        progress = progress_in(self._ledger.journal_of(delivery_id))
        if progress is Progress.SUBMITTED:
            return Outcome.SUBMITTED.value
        return "" if progress is Progress.MAYBE_SUBMITTED else "withdrawn"

    async def _told_elsewhere(self, identity: Identity, subject_keys: Sequence[str]) -> OtherDriver:
        """Why a commit was refused though the lease is ours."""
        try:
            found = await self._ask(self._store.told, identity, subject_keys)
        except (SourceError, OperationFailed) as away:
            self._note_trouble(away)
            return self._away()
        host = next((one.host for one in found.values() if one.host != self.host), "")
        return OtherDriver(host, Cause.TOLD_ELSEWHERE) if host else self._away()

    def _forget(self, identity: Identity) -> None:
        self._tokens.pop(identity, None)

    def _is_alive(self) -> bool:
        return self._clock.now() + LEFT_AT_COMMIT * 1000 < self._alive_until

    def _away(self) -> OtherDriver:
        return OtherDriver(self._trouble, Cause.LEASE_AWAY)

    def _note_alive(self, until: Instant) -> None:
        if not self._is_alive() and self._alive_until != EPOCH_START:
            self._log.info("leases_back", host=self.host)
        self._alive_until, self._trouble = until, ""

    def _note_trouble(self, away: Exception) -> None:
        told = str(away) or "the database did not answer in time"
        if told != self._trouble:
            self._log.warning("leases_away", host=self.host, reason=told)
        self._trouble = told

    async def _ask(self, question: Callable[..., Answer], *values: object) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, *values)
