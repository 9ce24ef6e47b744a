"""The links that this host keeps: each is tried again until it is up, and says who lives on the other host."""

from __future__ import annotations

import asyncio
import json
import random
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from wake_bridge.config.hosts import HostsFile, LinkedHost, agents_of_hosts, note_agents_of_hosts
from wake_bridge.domain.attention import EpisodeElsewhere
from wake_bridge.domain.hosts import AnswerState, AnswerThere, HostDirectory, LinkState, MailThere, wait_before_try
from wake_bridge.domain.names import EPOCH_START, Identity, parse_instant, to_beat
from wake_bridge.domain.signed_wakes import signature_of
from wake_bridge.integrations.hosts.connection import HostConnection, LinkBroken
from wake_bridge.ports.hosts import HostReply, NotSentThere, UnansweredThere
from wake_bridge.schemas.host_rows import mail_elsewhere
from wake_bridge.schemas.relay import ASK, WAKE, Frame

if TYPE_CHECKING:
    from wake_bridge.schemas.hosts import AgentElsewhere

AT_ONCE: Final = 16
"""Wakes that are on their way to one host at the same time."""

LOOKED_EVERY: Final = 2.0
"""Seconds between two looks whether hosts were added or removed."""

STANDS: Final = 30.0
"""Seconds after which a link that was up counts as one that works: what failed before is forgotten."""

TAKES_NO_ANSWERS: Final = "its release takes no answers to mail: only this host does"

_OK: Final = 200
_UNKNOWN_THERE: Final = 404


class Link:
    """The link to one host, kept up for ever.

    `why` says why it is not up, and holds the wakes of that host; `lacks` says what an older release there cannot do, and holds none.

    Args:
        host: the host.
        changed: told of every change of what is known of it; with the identities that may be woken there from now on.
        opened: makes a connection.
        jitter: between 0 and 1; spreads the tries of many that lost the same network.
    """

    def __init__(
        self,
        host: LinkedHost,
        changed: Callable[[str], None],
        opened: Callable[[LinkedHost], Awaitable[HostConnection]] = HostConnection.open,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._opened = opened
        self.host = host
        self.state = LinkState.CONNECTING
        self.why = "the link is being made"
        self.version = ""
        self.lacks = ""
        self.agents: tuple[AgentElsewhere, ...] = ()
        self._changed = changed
        self._jitter = jitter
        self._connection: HostConnection | None = None
        self._permits = asyncio.Semaphore(AT_ONCE)
        self._hurry = asyncio.Event()
        self._log = structlog.get_logger("hosts")

    async def run(self) -> None:
        """Keep it up until cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await self._session()
            except LinkBroken as broken:
                failures = 1 if time.monotonic() - began >= STANDS else failures + 1
                self._is_down(str(broken), failures)
            except Exception as broken:  # noqa: BLE001 - one host's trouble must not stop the link for good
                failures += 1
                self._log.exception("job_fell", job=f"link {self.host.name}", reason=str(broken))
                self._is_down(f"the link broke: {broken}", failures)
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_before_try(failures, self._jitter()) / 1000):
                    await self._hurry.wait()

    def hurry(self) -> None:
        """Try again now, if it is down."""
        self._hurry.set()

    async def _session(self) -> None:
        connection = await self._opened(self.host)
        try:
            self._connection = connection
            self.version = str(connection.hello.get("version", ""))
            self.lacks = ""
            await connection.serve(self._take_state)
        finally:
            self._connection = None
            await connection.close()

    def _take_state(self, frame: Frame) -> None:
        from wake_bridge.schemas.hosts import agents_elsewhere  # noqa: PLC0415 - models, for who has linked hosts

        trouble, before = str(frame.get("trouble") or ""), self.state
        self.state, self.why = (LinkState.NO_DAEMON, trouble) if trouble else (LinkState.UP, "")
        if not trouble:
            self.agents = agents_elsewhere(frame.get("agents"))
        if self.state is not before:
            self._log.info("host_linked", host=self.host.name, version=self.version, reason=trouble or None)
        self._changed(self.host.name)

    def _is_down(self, why: str, failures: int) -> None:
        if self.state is not LinkState.DOWN or self.why != why:
            self._log.warning("host_away", host=self.host.name, reason=why, failures=failures)
        self.state, self.why = LinkState.DOWN, why
        self._changed(self.host.name)

    def way_to(self, agent: AgentElsewhere) -> str:
        """The command that shows an agent of the host to a person here."""
        if not agent.way:
            return f"ssh {self.host.destination}"
        return f"ssh -t {shlex.quote(self.host.destination)} {shlex.quote(agent.way)}"

    async def hand_over(self, envelope: str) -> HostReply:
        """See `HostLinks.hand_over`."""
        async with self._permits:
            answer = await self._ask(WAKE, body=envelope, signature=self._signed(envelope))
        status = answer.get("status")
        return HostReply(status if type(status) is int else 0, str(answer.get("why") or ""))

    async def ask(self, command: str, request: Mapping[str, Any]) -> Frame:
        """Have a question answered over there. Raises `NotSentThere` or `UnansweredThere`."""
        return await self._ask(ASK, command=command, request=dict(request))

    async def answers(self, asked: Sequence[MailThere]) -> Sequence[AnswerThere]:
        """See `HostAnswers.answers`."""
        from wake_bridge.schemas.hosts import answers_elsewhere  # noqa: PLC0415 - as above

        answer = await self.ask("relay_answers", {"asked": mail_elsewhere(asked)})
        if answer.get("status") != _OK:
            if answer.get("status") == _UNKNOWN_THERE:
                self._takes_no_answers()
                return [AnswerThere(AnswerState.UNASKED)] * len(asked)
            raise UnansweredThere(str(answer.get("why") or "it did not say why"))
        return answers_elsewhere(answer.get("said"), len(asked))

    async def tell_answered(self, answered: Sequence[MailThere]) -> None:
        """See `HostAnswers.tell_answered`."""
        body = json.dumps({"answered": mail_elsewhere(answered)})
        answer = await self.ask("relay_answered", {"body": body, "signature": self._signed(body)})
        if answer.get("status") not in {_OK, _UNKNOWN_THERE}:
            raise UnansweredThere(str(answer.get("why") or "it did not say why"))

    def _takes_no_answers(self) -> None:
        """Say so, once for each session: the program over there is older."""
        if not self.lacks:
            self.lacks = TAKES_NO_ANSWERS
            self._log.warning("host_linked", host=self.host.name, version=self.version, reason=TAKES_NO_ANSWERS)

    async def _ask(self, kind: str, **fields: Any) -> Frame:
        if self._connection is None:
            raise NotSentThere(self.why)
        return await self._connection.ask(kind, **fields)

    def _signed(self, envelope: str) -> str:
        return signature_of(self.host.key.reveal(), envelope.encode())


class Links:
    """All links. See `HostLinks` for what the adapter is served, and `HostAnswers`.

    Args:
        directory: the state directory.
        arrived: called with identities that may be woken on another host from now on.
    """

    def __init__(self, directory: Path, arrived: Callable[[Iterable[Identity]], None]) -> None:
        self._directory = directory
        self._file = HostsFile(directory)
        self._arrived = arrived
        self._links: dict[str, Link] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._agents = agents_of_hosts(directory)
        self._up: set[str] = set()
        self._looks = asyncio.Event()
        self._trouble = ""
        self._log = structlog.get_logger("hosts")
        self.homes = HostDirectory(self.host_of, self.is_known)

    def host_of(self, identity: Identity) -> str:
        """The first host that says that the identity lives there; empty where none does."""
        return next(iter(self.hosts_of(identity)), "")

    def hosts_of(self, identity: Identity) -> list[str]:
        """All hosts that say so, by name."""
        return [name for name in sorted(self._agents) if identity in self._agents[name]]

    def is_known(self, host: str) -> bool:
        """Whether there is such a host."""
        try:
            return host in self._file.now().linked
        except OSError:
            return True

    def why_away(self, host: str) -> str:
        """See `HostLinks.why_away`."""
        link = self._links.get(host)
        return link.why if link is not None else "the link is being made"

    async def hand_over(self, host: str, envelope: str) -> HostReply:
        """See `HostLinks.hand_over`."""
        return await self._link(host).hand_over(envelope)

    def hosts_up(self) -> Sequence[str]:
        """See `HostAnswers.hosts_up`."""
        return [one.host.name for one in self.all() if one.state is LinkState.UP]

    async def answers(self, host: str, asked: Sequence[MailThere]) -> Sequence[AnswerThere]:
        """See `HostAnswers.answers`."""
        return await self._link(host).answers(asked)

    async def tell_answered(self, host: str, answered: Sequence[MailThere]) -> None:
        """See `HostAnswers.tell_answered`."""
        await self._link(host).tell_answered(answered)

    def _link(self, host: str) -> Link:
        link = self._links.get(host)
        if link is None:
            raise NotSentThere("there is no link to it now")
        return link

    def all(self) -> Sequence[Link]:
        """The links, by name."""
        return [self._links[name] for name in sorted(self._links)]

    def agents(self) -> Mapping[str, tuple[Identity, ...]]:
        """Who lives on each host, as it told last."""
        return dict(self._agents)

    def episodes(self) -> Mapping[str, Sequence[EpisodeElsewhere]]:
        """What agents stand at on the hosts whose links are up, and their person was to be told of."""
        return {
            link.host.name: [
                EpisodeElsewhere(
                    link.host.name,
                    identity,
                    told.id,
                    told.kind,
                    parse_instant(told.since or "") or EPOCH_START,
                    link.way_to(one),
                    told.is_unheard,
                )
                for one in link.agents
                if (told := one.episode) is not None
                and self.host_of(identity := Identity(one.agent_identity)) == link.host.name
            ]
            for link in self.all()
            if link.state is LinkState.UP
        }

    def poke(self) -> None:
        """Look at once whether hosts were added or removed, and try those that are down."""
        self._looks.set()
        for link in self._links.values():
            link.hurry()

    async def run(self) -> None:
        """Keep links to all hosts that there are, until cancelled."""
        try:
            while True:
                self._looks.clear()
                await self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(to_beat(LOOKED_EVERY, asyncio.get_running_loop().time())):
                        await self._looks.wait()
        finally:
            await self._end(list(self._tasks))

    async def _look(self) -> None:
        try:
            linked = self._file.now().linked
        except OSError as refusal:
            if str(refusal) != self._trouble:
                self._log.warning("config_refused", reason=f"the list of hosts: {refusal}", problems=[])
            self._trouble = str(refusal)
            return
        self._trouble = ""
        await self._end([name for name, link in self._links.items() if linked.get(name) != link.host])
        for name, host in linked.items():
            if name not in self._tasks:
                link = self._links[name] = Link(host, self._note)
                self._tasks[name] = asyncio.create_task(link.run(), name=f"link {name}")
        gone = [name for name in self._agents if name not in linked]
        if gone:
            freed = [one for name in gone for one in self._agents.pop(name)]
            self._write_down()
            self._arrived(freed)

    async def _end(self, names: Sequence[str]) -> None:
        ending = [self._tasks.pop(name) for name in names if name in self._tasks]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for name in names:
            self._links.pop(name, None)
            self._up.discard(name)

    def _note(self, name: str) -> None:
        """What is known of a host has changed."""
        link = self._links.get(name)
        if link is None:
            return
        if link.state is not LinkState.UP:
            self._up.discard(name)
            return
        before = self._agents.get(name, ())
        now = tuple(Identity(one.agent_identity) for one in link.agents)
        if now != before:
            self._agents[name] = now
            self._write_down()
        is_new = name not in self._up
        self._up.add(name)
        if is_new or now != before:
            self._arrived({*now, *before})

    def _write_down(self) -> None:
        # what cannot be written down now is told again by the host
        with suppress(OSError):
            note_agents_of_hosts(self._directory, self._agents)
