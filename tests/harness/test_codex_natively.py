"""Codex itself, woken past its composer: by the whole daemon in each state, and by the adapter while its server is killed."""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from wake_bridge_adapters.codex import CodexAdapter
from wake_bridge_adapters.tables import CodexConfig

from tests.harness.cells import arrived_once
from tests.harness.house import MANY_WAKES, PATIENCE, House
from tests.harness.installed import executable, search_path
from tests.harness.model.scenes import PLAY
from tests.harness.programs import KEY, PROGRAMS
from tests.harness.states import DRAFT
from tests.harness.tenancy import ONLY
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step, progress_of
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.domain.routing import Address, Binding, Expected
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Place, Refused, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.memory_core import MemoryCore

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(900),
    pytest.mark.skipif("codex" not in ONLY, reason="another program was asked for"),
]

KILLS: Final = int(os.environ.get("WAKE_BRIDGE_TEST_KILLS", "30"))
"""How often the app-server is killed in the middle of a wake."""

DAEMON_KILLS: Final = int(os.environ.get("WAKE_BRIDGE_TEST_KILLS", "10"))
LATENCIES: Final = 20
_MOMENTS: Final = (0, 1, 2, 5, 10, 20, 30, 40, 45, 50, 60, 80, 120)
"""Milliseconds after the call at which the server dies."""


class NativeHouse(House):
    """Codex in its pane, with its app-server, and a daemon that knows the directory it works in."""

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        super().__init__(PROGRAMS["codex"], directory, command)
        self.codex_home = self.home / ".codex"
        self.configure(natively=True)

    def configure(self, *, natively: bool) -> None:
        """Say whether the app-server's version is a known one; a daemon must be started anew."""
        target = f'pane = "agents"\nagent = "codex"\ndirectory = "{self.work}"\n'
        codex = f'[adapters.codex]\nversions = ["{"0.171" if natively else "0.1"}"]\nhome = "{self.codex_home}"\n'
        self.bridge.configure(f'{QUICK}{MANY_WAKES}{codex}[targets."@codex"]\n{target}')

    @property
    def environment(self) -> Mapping[str, str]:
        """As a shell of the agent's user would have it."""
        mine = {"HOME": str(self.home), "PATH": search_path(), "OPENAI_API_KEY": KEY, "LANG": "C.UTF-8"}
        return {**mine, "NO_PROXY": "127.0.0.1,localhost"}

    def starts_the_server(self) -> None:
        """As the program does when it starts, and a person when it was killed."""
        command = ["codex", "app-server", "daemon", "start"]
        subprocess.run(command, env=dict(self.environment), check=True, capture_output=True, timeout=60)

    def is_settled(self, message: str) -> dict[str, Any]:
        """The delivery of a message, once it is over."""

        def over() -> dict[str, Any] | None:
            return next((one for one in self.deliveries_of(message) if one["settledAt"]), None)

        return self.bridge.waits_for(over, PATIENCE, "the delivery")

    def is_held(self, message: str, reason: str) -> dict[str, Any]:
        """The delivery of a message, once it waits for that reason."""

        def waits() -> dict[str, Any] | None:
            return next((one for one in self.deliveries_of(message) if one["hold_reason"] == reason), None)

        return self.bridge.waits_for(waits, PATIENCE, f"a hold: {reason}")

    def conversations_about(self, mark: str, start: int = 0) -> list[Any]:
        """The agent's requests to the model that hold the mark; finding a title is another matter."""
        asked = (one for one in self.model.requests(start) if one.asked.tools and one.asked.shape is None)
        return [one for one in asked if one.asked.mentions(mark)]


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[NativeHouse]:
    if executable(PROGRAMS["codex"]) is None:
        pytest.fail("codex is not installed: `make harnesses` installs it", pytrace=False)
    with NativeHouse(tmp_path_factory.mktemp("codex-natively"), program) as house:
        house.bridge.waits_for(
            lambda: house.presence()["source"] == "codex-app-server" or None, PATIENCE, "the app-server"
        )
        # before anything was said a thread is on no disk: when its server dies, so does the program's conversation
        house.says("hello there")
        house.waits_until(lambda look: "Noted" in look.text, what="the answer")
        yield house


@pytest.fixture(autouse=True)
def _at_rest(house: NativeHouse) -> None:
    house.waits_for_presence("idle")


class Line:
    """The adapter by itself, one delivery after the other."""

    def __init__(self, house: NativeHouse) -> None:
        context = AdapterContext(10, 10, "", house.environment, SteadyClock())
        self.adapter = CodexAdapter(CodexConfig(home=str(house.codex_home)), context)
        agent = Identity("@codex")
        expected = Expected("codex", str(house.work))
        self.address = Address(agent, expected=expected, has_directory_to_itself=True)
        self.fence: Binding | None = None
        self.begins()

    def begins(self) -> None:
        """A new delivery."""
        self.mark = new_ulid()
        self.steps: list[Step] = []

    @property
    def text(self) -> str:
        return f"[WAKE] 1 event for @codex:\n- 1 new message\nAutomated notice, not your user. Wake: {self.mark}"

    @property
    def progress(self) -> Progress:
        return progress_of(self.steps)

    async def place(self) -> Place:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.adapter.resolve(self.address)
                if isinstance(found, Place):
                    return found
                await asyncio.sleep(0.1)

    async def journal(self, step: Step, evidence: Mapping[str, str]) -> None:
        del evidence
        self.steps.append(step)

    async def delivers(self, place: Place, **told: Any) -> AttemptOutcome:
        if self.progress is Progress.UNTOUCHED:
            self.fence = place.fence
        wake = Wake(self.mark, self.text, self.mark, self.progress, self.fence, **told)
        return await self.adapter.deliver(place, self.address, wake, self.journal)


# -- the whole daemon --------------------------------------------------------------------------------------------


def test_an_idle_codex_is_woken_once_and_its_echo_is_the_proof(house: NativeHouse) -> None:
    """Idle: one wake, proof 3, exactly one matching request in the model's log."""
    start = len(house.model.requests())

    delivery = house.is_settled(house.bridge.send(house.identity, "Review request"))

    assert (delivery["adapter"], delivery["outcome"], delivery["proof"]) == ("codex", "submitted", 3)
    arrived_once(house, delivery, start)


def test_a_half_typed_draft_stays_as_it_is_to_the_byte(house: NativeHouse) -> None:
    """Half-typed draft: one wake, draft byte-identical; what the person then sends is exactly it."""
    house.types(DRAFT)
    house.waits_until(lambda look: DRAFT in look.text, what="the draft")
    start = len(house.model.requests())

    delivery = house.is_settled(house.bridge.send(house.identity, "Review request"))

    assert (delivery["adapter"], delivery["proof"]) == ("codex", 3)
    arrived_once(house, delivery, start)
    house.bridge.waits_for(lambda: "Noted" in house.look().text or None, PATIENCE, "the answer")
    assert house.look().text.count(DRAFT) == 1
    before = len(house.model.requests())
    house.presses("Enter")
    house.bridge.waits_for(lambda: _said(house, before) or None, PATIENCE, "what the person sent")
    assert set(_said(house, before)) == {DRAFT}


def test_a_streaming_codex_is_woken_when_its_turn_has_ended(house: NativeHouse) -> None:
    """Streaming: the wake waits, the answer is not cut, and then comes one wake."""
    house.model.stage.holds()
    house.says(PLAY.format("streaming"))
    house.waits_until(lambda look: "line 2 of a long" in look.text, what="the answer")
    start = len(house.model.requests())

    message = house.bridge.send(house.identity, "Review request")
    house.is_held(message, "active")
    assert house.model.requests(start) == []
    house.model.stage.goes_on()

    delivery = house.is_settled(message)
    assert (delivery["adapter"], delivery["proof"]) == ("codex", 3)
    arrived_once(house, delivery, start)


def test_a_dialog_is_not_touched_and_the_wake_comes_after_it(house: NativeHouse) -> None:
    """At an approval: dialog untouched, then one wake, proof 3."""
    _asks_for_approval(house)
    before, start = house.look().text, len(house.model.requests())

    message = house.bridge.send(house.identity, "Review request")
    house.is_held(message, "waitingOnApproval")
    for _ in range(3):
        house.presence()
    assert house.look().text == before
    assert house.model.requests(start) == []
    _lets_it_run(house)

    delivery = house.is_settled(message)
    assert (delivery["adapter"], delivery["proof"]) == ("codex", 3)
    arrived_once(house, delivery, start)


def test_a_daemon_killed_at_any_moment_of_a_wake_neither_loses_nor_doubles_it(house: NativeHouse) -> None:
    """Kill the daemon in the middle of a wake: 0 lost, 0 double."""
    chance, ends = random.Random(11), Counter[str]()
    for number in range(DAEMON_KILLS):
        start = len(house.model.requests())
        message = house.bridge.send(house.identity, f"Review request {number}")
        # from before it is seen until after it was proven
        time.sleep(chance.uniform(0, 0.25))
        house.bridge.daemons[-1].kill()
        house.bridge.daemon()
        delivery = house.is_settled(message)
        ends[f"{delivery['adapter']} {delivery['outcome']}, proof {delivery['proof']}"] += 1
        arrived_once(house, delivery, start)
        house.waits_for_presence("idle")
    print(f"\n{DAEMON_KILLS} daemons killed: {dict(ends)}")


def test_while_its_server_is_away_a_wake_waits_and_then_comes_natively(house: NativeHouse) -> None:
    """The app-server is killed: nothing is typed into a program that has lost it, and the way back."""
    line = Line(house)
    place = asyncio.run(line.place())
    assert place.fence is not None
    os.kill(place.fence.server_pid, 9)
    house.waits_until(lambda look: "Reconnecting to server" in look.text, what="that it was noticed")
    start = len(house.model.requests())

    message = house.bridge.send(house.identity, "Review request")
    house.bridge.waits_for(lambda: _holds(house, message) or None, PATIENCE, "a hold")
    for _ in range(5):
        time.sleep(1)
        assert _holds(house, message)
    assert "[WAKE]" not in house.look().text.rpartition("Reconnecting")[2]
    house.starts_the_server()

    delivery = house.is_settled(message)
    assert (delivery["adapter"], delivery["proof"]) == ("codex", 3)
    arrived_once(house, delivery, start)


def test_each_way_begins_a_turn_and_says_how_soon(house: NativeHouse) -> None:
    """Natively and by screen, side by side, and the way back; the figures are for the reader."""
    house.bridge.run("agent", "add", "@me", "--human")
    natively = [_commit_to_turn(house, "codex") for _ in range(LATENCIES // 2)]
    house.bridge.daemons[-1].stop()
    house.configure(natively=False)
    house.bridge.daemon()
    house.waits_for_presence("idle")
    by_screen = [_commit_to_turn(house, "tmux") for _ in range(LATENCIES // 2)]
    house.bridge.daemons[-1].stop()
    house.configure(natively=True)
    house.bridge.daemon()

    for what, values in (("natively", natively), ("by screen", by_screen)):
        print(f"\ncommit to the model's being asked, {what}: {_told(values)}")


# -- the adapter by itself ---------------------------------------------------------------------------------------


def test_a_running_turn_is_added_to_by_its_id(house: NativeHouse) -> None:
    """`turn/steer` with `expectedTurnId`; the text is in the running turn, once."""
    line = Line(house)
    house.model.stage.holds()
    house.says(PLAY.format("streaming"))
    house.waits_until(lambda look: "line 2 of a long" in look.text, what="the answer")

    async def scenario() -> AttemptOutcome:
        place = await line.place()
        seen = await line.adapter.observe(place, line.address)
        assert single_vote(seen.evidence).vote is PresenceState.ACTIVE
        refused = await line.delivers(place)
        assert isinstance(refused, Refused), refused
        assert line.progress is Progress.UNTOUCHED
        return await line.delivers(place, turn_id=seen.active_turn_id)

    outcome = asyncio.run(scenario())
    house.model.stage.goes_on()

    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof is Proof.ACKNOWLEDGED
    assert outcome.evidence["added to"]
    house.waits_for_presence("idle")
    assert {one.asked.mentions(line.mark) for one in house.conversations_about(line.mark)} == {1}


def test_a_wake_behind_a_dialog_is_read_at_the_tools_end(house: NativeHouse) -> None:
    """A dialog that came up meanwhile stays; the echo is found once a person has answered."""
    line = Line(house)
    _asks_for_approval(house)
    before = house.look().text

    async def steers_blindly() -> None:
        place = await line.place()
        connection = await line.adapter._server.connection()
        said = {"type": "text", "text": line.text}
        thread = place.key.rpartition(":")[2]
        await connection.call("turn/start", threadId=thread, clientUserMessageId=line.mark, input=[said])
        line.steps, line.fence = [Step.INTENT_SUBMIT], place.fence
        waits = await line.delivers(place)
        assert isinstance(waits, Refused), waits
        assert waits.reason is HoldReason.ACTIVE

    asyncio.run(steers_blindly())
    assert house.look().text == before
    _lets_it_run(house)
    house.waits_for_presence("idle")

    async def looks_again() -> AttemptOutcome:
        return await line.delivers(await line.place())

    outcome = asyncio.run(looks_again())
    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof is Proof.ACKNOWLEDGED
    assert {one.asked.mentions(line.mark) for one in house.conversations_about(line.mark)} == {1}


def test_a_wake_survives_its_server_being_killed_at_any_moment(house: NativeHouse) -> None:
    """Kill the app-server in the middle of a wake: 0 lost, 0 double, and the way back."""
    line = Line(house)
    chance, ends = random.Random(7), Counter[str]()

    async def one_run() -> None:
        line.begins()
        place = await line.place()
        assert place.fence is not None
        pid = place.fence.server_pid
        attempt = asyncio.create_task(line.delivers(place))
        moment = chance.choice(_MOMENTS)
        await asyncio.sleep(moment / 1000)
        os.kill(pid, 9)
        await asyncio.to_thread(house.starts_the_server)
        outcome = await attempt
        first = type(outcome).__name__
        async with asyncio.timeout(PATIENCE):
            while not isinstance(outcome, Delivered):
                assert isinstance(outcome, Refused), outcome
                await asyncio.sleep(0.2)
                outcome = await line.delivers(await line.place())
        begun_again = " (begun again)" if "begun again" in outcome.evidence else ""
        ends[f"{first}, then {outcome.proof.name.lower()}{begun_again}"] += 1
        await _at_rest_again(line)

    marks = []
    for _ in range(KILLS):
        asyncio.run(one_run())
        marks.append(line.mark)
    told = [house.conversations_about(mark) for mark in marks]
    lost = sum(not one for one in told)
    double = sum(
        any(request.asked.mentions(mark) > 1 for request in one) for mark, one in zip(marks, told, strict=True)
    )
    print(f"\n{KILLS} servers killed: {lost} lost, {double} double; {dict(ends)}")
    assert double == 0
    assert lost == 0


def test_how_long_it_takes(house: NativeHouse) -> None:
    """Latency from the call to the model being asked, and to the proof."""
    line = Line(house)
    asked, proven = [], []

    async def one_run() -> None:
        line.begins()
        place = await line.place()
        began = time.monotonic()
        outcome = await line.delivers(place)
        proven.append(time.monotonic() - began)
        assert isinstance(outcome, Delivered), outcome
        await _at_rest_again(line)
        asked.append(house.conversations_about(line.mark)[0].at - began)

    async def scenario() -> None:
        for _ in range(LATENCIES):
            await one_run()

    asyncio.run(scenario())
    for what, values in (("call to the model's being asked", asked), ("call to the proof", proven)):
        print(f"\n{what}: {_told(values)}")
    assert statistics.median(asked) < 1


def test_a_thread_that_nobody_has_open_is_begun_by_codex_queue(house: NativeHouse) -> None:
    """Not loaded → hold, or `codex queue` with authority. The last test: the program has quit."""
    line = Line(house)

    async def closes() -> tuple[Place, str]:
        place = await line.place()
        # a message, so that there is something to come back to
        assert isinstance(await line.delivers(place), Delivered)
        await _at_rest_again(line)
        return place, place.key.rpartition(":")[2]

    place, thread = asyncio.run(closes())
    line.address = replace(line.address, sessions=(Session("codex", thread, line.address.identity),))
    house.says(house.manners.quit)
    line.begins()

    async def scenario() -> AttemptOutcome:
        async with asyncio.timeout(120):
            while True:
                seen = single_vote((await line.adapter.observe(place, line.address)).evidence)
                if seen.hold is HoldReason.NOT_LOADED:
                    break
                await asyncio.sleep(1)
        refused = await line.delivers(place)
        assert isinstance(refused, Refused), refused
        assert refused.reason is HoldReason.NOT_LOADED
        return await line.delivers(place, may_start_thread=True)

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Delivered), outcome
    print(f"\ncodex queue on {thread}: proof {outcome.proof.name}")
    house.bridge.waits_for(lambda: house.conversations_about(line.mark) or None, PATIENCE, "the model's being asked")
    assert {one.asked.mentions(line.mark) for one in house.conversations_about(line.mark)} == {1}
    house.starts()


async def _at_rest_again(line: Line) -> None:
    place = await line.place()
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = await line.adapter.observe(place, line.address)
            if single_vote(seen.evidence).vote is PresenceState.IDLE:
                return
            await asyncio.sleep(0.05)


def _holds(house: NativeHouse, message: str) -> bool:
    return any(one["hold_reason"] and one["state"] == "DISPATCHED" for one in house.deliveries_of(message))


def _commit_to_turn(house: NativeHouse, adapter: str) -> float:
    """Seconds from the message's commit to the model's being asked about it."""
    house.waits_for_presence("idle")
    # as a pane that has been at rest for a while, so that the screen needs no second look
    time.sleep(3)
    with closing(MemoryCore(house.bridge.graph)) as core:
        message = core.send("@me", house.identity, "Review request", [house.identity])
    committed = time.monotonic()
    delivery = house.is_settled(message)
    assert delivery["adapter"] == adapter
    mark = str(delivery["id"])
    house.bridge.waits_for(lambda: house.conversations_about(mark) or None, PATIENCE, "the model's being asked")
    asked = house.conversations_about(mark)[0].at - committed
    house.bridge.run("read", house.identity, message)
    return float(asked)


def _told(values: Sequence[float]) -> str:
    return f"p50 {statistics.median(values) * 1000:.0f} ms, worst {max(values) * 1000:.0f} ms, of {len(values)}"


def _said(house: NativeHouse, start: int) -> list[str]:
    requests = (one.asked for one in house.model.requests(start) if one.asked.tools)
    return [asked.last for asked in requests]


def _asks_for_approval(house: NativeHouse) -> None:
    for sign in ("started", "go"):
        (house.work / sign).unlink(missing_ok=True)
    house.says(PLAY.format("tool"))
    house.waits_until(lambda look: re.search(house.manners.approval, look.text) is not None, what="the approval")
    house.waits_for_presence("waitingOnApproval")


def _lets_it_run(house: NativeHouse) -> None:
    house.presses(*house.manners.approve)
    house.bridge.waits_for(lambda: (house.work / "started").exists() or None, PATIENCE, "the command")
    (house.work / "go").touch()
