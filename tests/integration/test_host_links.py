"""The link between two hosts, both sides real and in one process: cut at every byte, told rubbish, not read, not heard."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.answers.relay import RelayAnswers
from wake_bridge.config.hosts import HostsFile, LinkedHost, agents_of_hosts, note_agents_of_hosts
from wake_bridge.config.settings import load_settings
from wake_bridge.control.server import ControlServer
from wake_bridge.domain.attention import Episode
from wake_bridge.domain.channels import Channel, ChannelKind, Send
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.hosts import LinkState
from wake_bridge.domain.names import AttentionKind, Identity
from wake_bridge.domain.notices import about_attention
from wake_bridge.domain.receivers import Secret
from wake_bridge.domain.signed_wakes import signature_of
from wake_bridge.integrations.hosts import connection
from wake_bridge.integrations.hosts.connection import HostConnection, LinkBroken
from wake_bridge.integrations.hosts.links import Link, Links
from wake_bridge.integrations.hosts.relay import Relay
from wake_bridge.ports.hosts import NotSentThere, UnansweredThere
from wake_bridge.schemas.relay import ANSWER, ASK, HELLO, LONGEST, PROTOCOL, STATE, WAKE, read, written
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG
from wake_bridge.testing.wake_entrance import KEY, OTHER_KEY, message_wake
from wake_bridge.wiring import Parts, wire

FAR = Identity("@far")
HOST = LinkedHost("devbox", "devbox", "laptop-1", Secret(KEY))


class Gone:
    """The other end of a pair of sockets."""

    complaint = ""

    async def why_ended(self) -> str:
        return "the line was cut"

    async def end(self) -> None:
        """Nothing runs."""


class Line:
    """What two sockets are joined by: passes bytes on until so many have passed one way, then is cut both ways."""

    def __init__(self) -> None:
        self.passed = {"there": 0, "back": 0}
        self.cut_after: tuple[str, int] | None = None
        self._ways: list[asyncio.Task[None]] = []

    def cut(self) -> None:
        """Cut it now, both ways."""
        for one in self._ways:
            one.cancel()

    async def join(self, near: socket.socket, far: socket.socket) -> None:
        """Pass on until one side ends."""
        self.passed = {"there": 0, "back": 0}
        ways = [asyncio.create_task(self._pass(near, far, "there")), asyncio.create_task(self._pass(far, near, "back"))]
        self._ways = ways
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ways:
                one.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            near.close()
            far.close()

    async def _pass(self, here: socket.socket, there: socket.socket, way: str) -> None:
        loop = asyncio.get_running_loop()
        while piece := await loop.sock_recv(here, 65536):
            room = len(piece)
            if self.cut_after is not None and self.cut_after[0] == way:
                room = self.cut_after[1] - self.passed[way]
            with suppress(OSError):
                await loop.sock_sendall(there, piece[:room])
            self.passed[way] += min(room, len(piece))
            if room <= len(piece) and self.cut_after is not None and self.cut_after[0] == way:
                return


class FarHost:
    """A host without a graph: its parts are the daemon's own, its control socket and its relay are real."""

    def __init__(self, parts: Parts, directory: Path) -> None:
        self.parts = parts
        self.directory = directory
        self.line = Line()
        self.sessions: set[asyncio.Task[None]] = set()

    async def opened(self, host: LinkedHost) -> HostConnection:
        """As `HostConnection.open`, over the line instead of ssh."""
        near, near_end = (one for one in socket.socketpair())
        far, far_end = (one for one in socket.socketpair())
        for one in (near_end, far_end):
            one.setblocking(False)
        there = await asyncio.open_connection(sock=far, limit=LONGEST)
        here = await asyncio.open_connection(sock=near, limit=LONGEST)
        self._keep(self.line.join(near_end, far_end))
        self._keep(self._relayed(*there))
        made = HostConnection(*here, Gone())
        await made.greet(host.link)
        return made

    async def _relayed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Relay(self.directory, reader, writer).run()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _keep(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.sessions.add(task)
        task.add_done_callback(self.sessions.discard)

    def taken(self) -> dict[str, int]:
        """How many events each message became in the ledger."""
        with sqlite3.connect(self.directory / "state.sqlite") as ledger:
            rows = ledger.execute("SELECT subject_key, count(*) FROM wake_event GROUP BY subject_key").fetchall()
        return {subject.split()[0]: count for subject, count in rows}


async def nobody(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"panes": []}


@asynccontextmanager
async def far_host(directory: Path) -> AsyncIterator[FarHost]:
    config = directory / "config.toml"
    config.write_text('[targets."@far"]\npane = "nowhere:0.0"\n[adapters.tmux]\nsocket_name = "wbt-nobody"\n')
    state = directory / "state"
    state.mkdir(mode=0o700)
    settings = replace(load_settings(str(config), {"HOME": str(directory)}), has_graph=False, state_dir=state)
    HostsFile(state).let_in("laptop-1", Secret(KEY))
    parts = wire(settings, LedgerStore.open(state), state, other_driver=lambda: None, dry_run=False)
    await parts.tail.catch_up_once()
    control = ControlServer(state, RelayAnswers(parts, state, nobody).handlers())
    await control.start()
    host = FarHost(parts, state)
    try:
        yield host
    finally:
        for one in host.sessions:
            one.cancel()
        await asyncio.gather(*host.sessions, return_exceptions=True)
        await control.stop()
        await parts.close()


class Session:
    """One connection to the far host, from the hello to its end."""

    def __init__(self, host: FarHost) -> None:
        self._host = host
        self.states: list[Mapping[str, Any]] = []
        self._has_state = asyncio.Event()

    async def sends(self, envelope: str, key: str = KEY) -> Mapping[str, Any]:
        """Greet, hear how the agents stand, hand a wake over; answers the answer. Raises what a link meets."""
        connection = await self._host.opened(HOST)
        serving = asyncio.create_task(connection.serve(self._note))
        try:
            heard = asyncio.create_task(self._has_state.wait())
            await asyncio.wait({serving, heard}, return_when=asyncio.FIRST_COMPLETED)
            heard.cancel()
            return await connection.ask(WAKE, body=envelope, signature=signature_of(key, envelope.encode()))
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await connection.close()

    def _note(self, state: Mapping[str, Any]) -> None:
        self.states.append(state)
        self._has_state.set()


def at(directory: Path, story: Callable[[FarHost], Awaitable[None]]) -> None:
    async def play() -> None:
        async with far_host(directory) as host, asyncio.timeout(HUNG):
            await story(host)

    asyncio.run(play())


EVERY_BYTE = pytest.param(1, marks=pytest.mark.torture)


@pytest.mark.parametrize("step", [7, EVERY_BYTE])
@pytest.mark.parametrize("way", ["there", "back"])
def test_a_link_that_is_cut_at_any_byte_loses_and_doubles_nothing(
    tmp_path: Path, way: str, step: int, record_property: Callable[[str, object], None]
) -> None:
    """A wake for each byte of a session, from the first of the hello to the last of the answer; each is taken in once."""

    async def story(host: FarHost) -> None:
        wake = message_wake()
        assert (await Session(host).sends(json.dumps(wake)))["status"] == 202
        whole = host.line.passed[way]
        cuts = sorted({*range(0, whole, step), *range(whole - 40, whole)})
        sent, answers = [wake["payload"]["messageId"]], []
        for cut_after in cuts:
            wake = message_wake()
            host.line.cut_after = (way, cut_after)
            with pytest.raises((LinkBroken, NotSentThere, UnansweredThere)):
                await Session(host).sends(json.dumps(wake))
            host.line.cut_after = None
            answers.append((await Session(host).sends(json.dumps(wake)))["status"])
            sent.append(wake["payload"]["messageId"])
        assert host.taken() == dict.fromkeys(sent, 1)
        # cut within the answer it is there, cut before the end of the wake it is not
        assert set(answers) == ({202} if way == "there" else {200, 202})
        assert whole > 500
        record_property("trials", len(cuts))

    at(tmp_path, story)


@asynccontextmanager
async def link_to(
    opened: Callable[[LinkedHost], Awaitable[HostConnection]], whys: list[str] | None = None
) -> AsyncIterator[Link]:
    """A link that is tried again at once, but a played one; `whys` are filled with the reasons for which it broke."""
    loop = asyncio.get_running_loop()
    is_played = isinstance(getattr(opened, "__self__", None), Played)

    def changed(_: str) -> None:
        if link.state is LinkState.DOWN:
            if whys is not None:
                whys.append(link.why)
            if not is_played:
                loop.call_soon(link.hurry)

    link = Link(HOST, changed, opened, lambda: 0.0)
    task = asyncio.create_task(link.run())
    try:
        yield link
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def comes_true(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for sets no event
        await asyncio.sleep(0.005)


def test_a_link_is_made_again_and_says_how_it_stands(tmp_path: Path) -> None:
    """Cut, made again, refused by the other host, let in again; a wake for a stranger or by another key is not taken."""

    async def story(host: FarHost) -> None:
        whys: list[str] = []
        async with link_to(host.opened, whys) as link:
            await comes_true(lambda: link.state is LinkState.UP)
            assert [one.agent_identity for one in link.agents] == ["@far"]
            host.line.cut()
            await comes_true(lambda: whys and link.state is LinkState.UP)
            assert whys == ["the line was cut"]

            stranger = await link.hand_over(json.dumps(message_wake(agentIdentity="@stranger")))
            assert (stranger.status, stranger.why) == (404, "@stranger does not live on this host")
            assert (await link.hand_over("{}")).status == 422
            wake = message_wake()
            assert (await link.hand_over(json.dumps(wake))).status == 202
            assert (await link.hand_over(json.dumps(wake))).status == 200
            assert (await link.hand_over(json.dumps(wake | {"logId": 18}))).status == 409

            # one that has moved away since: what was taken in is known, and goes no other way
            targets = host.parts.current.settings.targets
            host.parts.current.settings = replace(host.parts.current.settings, targets={})
            assert (await link.hand_over(json.dumps(wake))).status == 200
            assert (await link.hand_over(json.dumps(message_wake()))).status == 404
            host.parts.current.settings = replace(host.parts.current.settings, targets=targets)

            HostsFile(host.directory).shut_out("laptop-1")
            await comes_true(lambda: link.state is LinkState.NO_DAEMON)
            assert link.why.startswith("this host takes no wakes of laptop-1: run `wake-bridge hosts add` again")
            assert (await link.hand_over(json.dumps(message_wake()))).status == 401
            HostsFile(host.directory).let_in("laptop-1", Secret(OTHER_KEY))
            assert (await link.hand_over(json.dumps(message_wake()))).status == 401
            HostsFile(host.directory).let_in("laptop-1", Secret(KEY))
            await comes_true(lambda: link.state is LinkState.UP)
            assert sum(host.taken().values()) == 1

    at(tmp_path, story)


def is_shown(link: Link, episodes: list[tuple[str, bool]]) -> bool:
    """Whether the other host tells of these episodes, each with whether it was unheard."""
    return [(one.episode.id, one.episode.is_unheard) for one in link.agents if one.episode] == episodes


def test_a_host_says_which_of_its_agents_need_somebody_whom_no_channel_of_its_own_has_told(tmp_path: Path) -> None:
    """A line in a terminal over there is no channel; what waits to be sent may be heard yet; what was not to be told is not."""

    async def story(host: FarHost) -> None:
        ledger, now = host.parts.ledger, host.parts.clock.now()
        async with link_to(host.opened) as link:
            await comes_true(lambda: link.state is LinkState.UP)

            for name, channel, is_told, is_unheard in (
                ("01A", "human", True, True),
                ("01B", "desk", True, False),
                ("01C", "", False, False),
            ):
                host.parts.current.settings = replace(
                    host.parts.current.settings, channels=(Channel("desk", ChannelKind.FILE),)
                )
                before = next(iter(ledger.open_episodes()), None)
                begun = Episode(name, FAR, AttentionKind.APPROVAL, now, "a dialog", "pane", where="far:0.0")
                ledger.turn_episode(before, "answered", begun, now)
                if is_told:
                    notice = about_attention([begun], now)
                    send = Send(**asdict(notice), id=name, channel=channel, episodes=(name,))
                    ledger.tell_of_episodes(notice, [name], [send], now)
                await comes_true(partial(is_shown, link, [(name, is_unheard)] if is_told else []))

    at(tmp_path, story)


class Played:
    """A relay that is played: it says what it is told to, and reads or does not."""

    def __init__(self, *said: bytes, reads: bool = True) -> None:
        self._said = said
        self._reads = reads
        self.tasks: list[asyncio.Task[None]] = []
        self.heard = b""

    async def opened(self, host: LinkedHost) -> HostConnection:
        near, far = socket.socketpair()
        here = await asyncio.open_connection(sock=near, limit=LONGEST)
        there = await asyncio.open_connection(sock=far, limit=1024)
        self.tasks.append(asyncio.create_task(self._play(*there)))
        made = HostConnection(*here, Gone())
        await made.greet(host.link)
        return made

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                for one in self._said:
                    writer.write(one)
                    await writer.drain()
                while self._reads and (piece := await reader.read(4096)):
                    self.heard += piece
                await asyncio.Event().wait()
        finally:
            writer.close()


HELLO_LINE = written(HELLO, protocol=PROTOCOL, version="0.3.0", host="devbox")
NEXT_RELEASE = written(HELLO, protocol=PROTOCOL + 1, oldest=PROTOCOL, version="0.4.0", host="devbox", news={"a": 1})
FAR_AHEAD = written(HELLO, protocol=PROTOCOL + 9, oldest=PROTOCOL + 8, version="9.0.0")
UP_STATE = written(STATE, trouble="", agents=[{"agentIdentity": "@far", "unknown": 1}, "nobody", {"agentIdentity": 7}])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((b"Welcome!" * 40_000,), "no hello within"),
        ((b"Welcome!\n" * 40_000,), "what the shell over there prints is no hello"),
        ((b"\xff\x00{}\n" + HELLO_LINE, b"not a frame\n"), "what came is no frame: it is no JSON"),
        ((HELLO_LINE, b"[1]\n"), "what came is no frame: it is no frame"),
        ((HELLO_LINE, b"{" * (LONGEST + 10)), "a line is longer than a frame may be"),
        ((FAR_AHEAD,), "it speaks protocol 10 (wake-bridge 9.0.0), here is 1: install the same release on both hosts"),
        ((b"no newline",), "no hello within"),
        ((HELLO_LINE, UP_STATE), "nothing was heard for"),
    ],
    ids=["one long line", "many lines", "no JSON", "no object", "a huge frame", "another time", "silence", "died"],
)
def test_whatever_the_other_side_says_the_link_breaks_with_a_clause(
    said: tuple[bytes, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither rubbish, nor a frame without end, nor silence keeps a link that leads nowhere; nothing is read without a bound."""
    monkeypatch.setattr(connection, "GREETED_WITHIN", 0.3 if why.startswith("no hello") else HUNG)
    monkeypatch.setattr(connection, "DEAD_AFTER", 0.3 if why.startswith("nothing") else HUNG)

    async def story() -> None:
        relayed, whys = Played(*said), list[str]()
        async with asyncio.timeout(HUNG), link_to(relayed.opened, whys):
            await comes_true(lambda: whys)
        assert whys[0].startswith(why)
        for one in relayed.tasks:
            one.cancel()
        await asyncio.gather(*relayed.tasks, return_exceptions=True)

    asyncio.run(story())


def test_a_release_later_is_understood_as_far_as_this_one_goes() -> None:
    """Unknown frames and fields are passed over, and so is what the shell over there prints before the hello."""

    async def story() -> None:
        relayed = Played(b"Last login: today\n{}\nMOTD" + b"\n" + NEXT_RELEASE, written("of-tomorrow", x=1), UP_STATE)
        async with asyncio.timeout(HUNG), link_to(relayed.opened) as link:
            await comes_true(lambda: link.state is LinkState.UP)
            assert link.version == "0.4.0"
            assert [one.agent_identity for one in link.agents] == ["@far"]
        for one in relayed.tasks:
            one.cancel()
        await asyncio.gather(*relayed.tasks, return_exceptions=True)

    asyncio.run(story())


def test_a_side_that_reads_nothing_fills_no_memory_and_holds_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into the pipe waits for a bounded time, for a bounded number of wakes; then the link counts as cut."""
    monkeypatch.setattr(connection, "DEAD_AFTER", 0.5)
    monkeypatch.setattr(connection, "ANSWERED_WITHIN", 0.4)

    async def story() -> None:
        relayed = Played(HELLO_LINE, UP_STATE, reads=False)
        async with asyncio.timeout(HUNG), link_to(relayed.opened) as link:
            await comes_true(lambda: link.state is LinkState.UP)
            large = "x" * 60_000
            handed = [asyncio.create_task(link.hand_over(large)) for _ in range(40)]
            ended = await asyncio.gather(*handed, return_exceptions=True)
            assert {type(one) for one in ended} <= {UnansweredThere, NotSentThere}
            assert any(isinstance(one, UnansweredThere) for one in ended)
        for one in relayed.tasks:
            one.cancel()
        await asyncio.gather(*relayed.tasks, return_exceptions=True)

    asyncio.run(story())


def test_who_lives_on_another_host_is_known_when_that_host_is_away(tmp_path: Path) -> None:
    """What it said last is kept; of two hosts that both say so the first by name counts; who is removed frees its agents."""
    file, arrived = HostsFile(tmp_path), list[Identity]()
    for name in ("devbox", "attic"):
        file.put(replace(HOST, name=name, destination=f"{name}.invalid"))
    note_agents_of_hosts(tmp_path, {"devbox": [FAR, Identity("@b")], "attic": [FAR]})

    async def story() -> None:
        links = Links(tmp_path, arrived.extend)
        running = asyncio.create_task(links.run())
        assert links.homes.host_of(FAR) == "attic"
        assert links.homes.host_of(Identity("@b")) == "devbox"
        assert links.homes.host_of(Identity("@c")) == ""
        assert links.hosts_of(FAR) == ["attic", "devbox"]
        assert links.why_away("devbox")
        with pytest.raises(NotSentThere):
            await links.hand_over("devbox", "{}")
        file.forget("attic")
        links.poke()
        await comes_true(lambda: links.homes.host_of(FAR) == "devbox")
        assert arrived == [FAR]
        assert [links.homes.is_known(one) for one in ("attic", "devbox")] == [False, True]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
    assert agents_of_hosts(tmp_path) == {"devbox": (FAR, "@b")}


def test_the_list_of_hosts_is_the_users_own_and_what_is_no_list_is_said(tmp_path: Path) -> None:
    """The name by which others know this host is made once; others may not read the file; what is broken names it."""
    file = HostsFile(tmp_path)
    assert file.own_name("01ABCDEF") == file.own_name("01XYZXYZ") == HostsFile(tmp_path).own_name("")
    file.put(HOST)
    assert HostsFile(tmp_path).known().linked == {"devbox": HOST}
    (tmp_path / "hosts.json").chmod(0o644)
    with pytest.raises(OperationFailed, match="others may read it"):
        HostsFile(tmp_path).known()
    (tmp_path / "hosts.json").chmod(0o600)
    for text in ("", "[]", '{"linked": {"a": 1}}', '{"incoming": []}'):
        (tmp_path / "hosts.json").write_text(text)
        with pytest.raises(OperationFailed, match="the list of hosts cannot be used"):
            HostsFile(tmp_path).known()


def test_an_answer_that_comes_as_its_asker_gives_up_leaves_the_link_whole() -> None:
    """The answer is read in the very turn in which who asked was cancelled: it is dropped, and the next one arrives."""

    async def story() -> None:
        near, far = socket.socketpair()
        far.setblocking(False)
        _, writer = await asyncio.open_connection(sock=near)
        reader = asyncio.StreamReader()
        link = HostConnection(reader, writer, Gone())
        serving = asyncio.create_task(link.serve(lambda _: None))

        async def asks() -> tuple[asyncio.Task[Any], int]:
            asking = asyncio.create_task(link.ask(ASK, what="anything"))
            sent = read(await asyncio.get_running_loop().sock_recv(far, LONGEST))
            return asking, int(sent["id"])

        given_up, number = await asks()
        # in this order: the reader is woken first
        reader.feed_data(written(ANSWER, id=number))
        given_up.cancel()
        await asyncio.wait([given_up])
        assert not serving.done(), serving.exception()

        asking, number = await asks()
        reader.feed_data(written(ANSWER, id=number, said="here"))
        assert (await asking)["said"] == "here"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await link.close()
        far.close()

    asyncio.run(asyncio.wait_for(story(), HUNG))
