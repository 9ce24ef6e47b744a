"""A house in which every command is asked how one identity can be woken, the ways to furnish it, and what all agree on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pytest
from click.testing import CliRunner, Result
from wake_bridge_adapters.heartbeat import HeartbeatAdapter
from wake_bridge_adapters.webhook.adapter import WebhookAdapter

from wake_bridge.cli.app import cli
from wake_bridge.config.settings import load_settings
from wake_bridge.doctor.agents import targets
from wake_bridge.doctor.finding import Finding
from wake_bridge.domain.causes import HoldReason, cause_written
from wake_bridge.domain.delivery import Hold, Outcome, Proof, Step
from wake_bridge.domain.names import Epoch, Identity, LogId
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.reasons import held_because
from wake_bridge.domain.routing import Address
from wake_bridge.integrations.adapters import CatalogueEntry
from wake_bridge.offline.inspection import Inspection
from wake_bridge.ports.adapter import AdapterContext, Nowhere, Place
from wake_bridge.ports.ledger_records import Position
from wake_bridge.storage.graph.graph_file import GraphWriter
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.ledger_samples import counted_ids, lock_with_its_events, open_delivery, sample_event
from wake_bridge.testing.memory_adapter import ImaginedAgent, ImaginedLine, MemoryAdapter, MemoryChannel, MemoryConfig
from wake_bridge.testing.webhook_receiver import WebhookReceiver
from wake_bridge.wiring import wire

ADA: Final = Identity("@ada")


class ImaginedConfig(MemoryConfig):
    """Both tables of an adapter that the set-ups write."""

    enabled: bool = True
    socket_name: str = ""


class Screens(MemoryAdapter):
    """Stands where tmux is: panes are imagined agents by name; `strange` is found as `nowhere` says."""

    name: ClassVar[str] = "tmux"
    Config: ClassVar[type[ImaginedConfig]] = ImaginedConfig
    panes: ClassVar[dict[str, ImaginedAgent]] = {}
    nowhere: ClassVar[dict[str, Nowhere]] = {}

    def __init__(self, config: MemoryConfig, context: AdapterContext) -> None:
        super().__init__(config, context)
        self.agents = self.panes

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The imagined pane, or what a tmux would say."""
        name = address.pane or address.suggested
        return self.nowhere.get(name) or await super().resolve(address)


class Lines(MemoryChannel):
    """A native channel beside it."""

    open_lines: ClassVar[dict[Identity, ImaginedLine]] = {}

    def __init__(self, config: MemoryConfig, context: AdapterContext) -> None:
        super().__init__(config, context)
        self.lines = self.open_lines


def catalogue(tmux: type[Any]) -> list[CatalogueEntry]:
    """What is installed here: something in tmux's place, a native channel, the heartbeat, receivers."""
    kinds: dict[str, type[Any]] = {
        "channel": Lines,
        "heartbeat": HeartbeatAdapter,
        "tmux": tmux,
        "webhook": WebhookAdapter,
    }
    return [CatalogueEntry(name, "tests", kind.__module__, kind) for name, kind in kinds.items()]


class House:
    """The program in a home of its own, with `@ada` and `@bob`, whose tmux is a server that nobody has started."""

    def __init__(self, home: Path, socket_name: str = "") -> None:
        self.home = home
        self.environment = {
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CODEX_HOME": str(home / "codex"),
        }
        self.environment |= {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "data", "state")}
        self.environment["WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME"] = (
            socket_name or f"wake-bridge-test-{uuid.uuid4().hex}"
        )
        self.receiver: WebhookReceiver | None = None
        self.ends = ExitStack()
        self.config = home / "config/wake-bridge/config.toml"
        self.graph = home / "data/wake-bridge/graph.sqlite"
        self.state = home / "state/wake-bridge"
        if not self.graph.exists():
            self.json("init")
            for one in ("@ada", "@bob"):
                self.json("agent", "add", one)

    def run(self, *arguments: str) -> Result:
        """Run it in this process."""
        return CliRunner(env=self.environment).invoke(cli, arguments)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """Its JSON lines; it must succeed."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def json(self, *arguments: str) -> dict[str, Any]:
        """Its one JSON answer."""
        (answer,) = self.lines(*arguments)
        return answer

    def subscribe(self, *flags: str, identity: str = "@ada") -> str:
        """Subscribe for mail; answers the id."""
        return str(self.json("subscribe", identity, "--trigger", "SENT_TO_ME", *flags)["subscriptionId"])

    def configure(self, text: str) -> None:
        """Add to the configuration file."""
        self.config.write_text(f"{self.config.read_text()}\n{text}\n")

    def change(self, node_id: str, path: str, value: object) -> None:
        """Write into a node what no command would."""
        with GraphWriter(self.graph) as graph:
            graph.run(
                f"UPDATE Nodes SET data = json_set(data, '$.properties.{path}', ?) WHERE id = ?", (value, node_id)
            )

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Its environment is this process's own."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            yield

    def doctor(self) -> dict[str, Finding]:
        """What it says of each identity's place."""
        with self.inside():
            settings = load_settings(None, os.environ)
            return {one.check: one for one in asyncio.run(targets(Inspection(settings), settings))}

    def said_by_send(self, *flags: str) -> str:
        """What `send` says will come of a message for `@ada`."""
        return self.run("send", "@ada", "--from", "@bob", "--subject", "x", *flags).stderr.splitlines()[0]

    def woke(self) -> None:
        """`@ada` was woken in a pane a moment ago."""
        self.state.mkdir(parents=True, exist_ok=True)
        now = SteadyClock().now()
        with closing(LedgerStore.open(self.state)) as ledger:
            ledger.begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", now)
            event = sample_event(0, ADA, subject_key="MESSAGE:before", matched_at=now, window=0)
            delivery = ledger.dispatch(open_delivery(ledger, event, new_id=counted_ids(), now=now), now)
            locked = lock_with_its_events(ledger, delivery, now)
            ledger.append(locked, Step.INTENT_SUBMIT, {}, now)
            ledger.settle(locked, Outcome.SUBMITTED, Proof.SUBMITTED, {}, now)

    def has_looked(self) -> None:
        """A daemon has found everybody's pane, and has ended."""

        async def once() -> None:
            settings = load_settings(None, os.environ)
            parts = wire(settings, LedgerStore.open(self.state), self.state, other_driver=lambda: None, dry_run=False)
            try:
                await parts.tail.catch_up_once()
                for who in parts.tail.reachable_identities():
                    for route in parts.routes.of(who):
                        await parts.watch.locate(route)
            finally:
                await parts.close()

        self.state.mkdir(parents=True, exist_ok=True)
        with self.inside():
            asyncio.run(once())

    def decides(self) -> dict[str, Any]:
        """What the daemon's own parts do with `@ada`'s newest mail; empty where it made no delivery of it."""

        async def once() -> None:
            settings = load_settings(None, os.environ)
            parts = wire(settings, LedgerStore.open(self.state), self.state, other_driver=lambda: None, dry_run=False)
            try:
                await parts.tail.catch_up_once()
                await parts.deliverer.run_once()
            finally:
                await parts.close()

        with self.inside():
            asyncio.run(once())
        return next((one for one in self.lines("deliveries") if one["agentIdentity"] == "@ada"), {})


Stage = Literal["woken", "never", "heartbeat", "place", "guard", "look"]
"""What decides: nothing is in the way, nothing can wake it, the heartbeat alone speaks, it is not found, somebody or a
limit holds it, what its pane shows."""
Prepare = Callable[[House], object]


@dataclass(frozen=True)
class SetUp:
    """One way to stand. `says` is in every answer, `reason` the hold's; `by` the route on which it is woken.

    `is_lost` says that its place is not there besides, `is_seen` that a line shows it nevertheless.
    """

    prepare: Prepare
    stage: Stage
    says: str = ""
    reason: HoldReason | None = None
    by: str = "tmux"
    by_line_alone: bool = False
    is_lost: bool = False
    is_seen: bool = False

    @property
    def is_found(self) -> bool:
        """Whether it has a place where a wake could go."""
        return self.stage in {"woken", "guard", "look"} and not self.is_lost

    @property
    def is_listed(self) -> bool:
        """Whether nobody has to change anything before it can be woken."""
        return self.is_found and self.reason is not HoldReason.BENCHED


def subscribed(*flags: str) -> Prepare:
    return lambda house: house.subscribe(*flags)


def then(*steps: Prepare) -> Prepare:
    return lambda house: [step(house) for step in steps]


def runs(*arguments: str) -> Prepare:
    return lambda house: house.lines(*arguments)


def around_now() -> str:
    """Quiet hours that have begun an hour ago and end in two."""
    now = datetime.now().astimezone()
    return f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}"


def sets(name: str, value: str) -> Prepare:
    return lambda house: house.environment.update({f"WAKE_BRIDGE_{name}": value or around_now()})


def shows(state: PresenceState) -> Prepare:
    return lambda _: Screens.panes.update(work=ImaginedAgent(state))


def lined(state: PresenceState, **line: Any) -> Prepare:
    return lambda _: Lines.open_lines.update({ADA: ImaginedLine(ImaginedAgent(state), **line)})


def leads(name: str, reason: HoldReason, detail: str) -> Prepare:
    return lambda _: Screens.nowhere.update({name: Nowhere(reason, detail, name)})


def written(path: str, value: object, *flags: str) -> Prepare:
    return lambda house: house.change(house.subscribe(*flags), path, value)


def unsubscribes(house: House) -> None:
    house.json("unsubscribe", house.subscribe("--tmux", "work"))


def posted_to(url: str, *steps: Prepare) -> Prepare:
    return then(subscribed("--webhook", url), *steps)


def answers(status: str, *flags: str) -> Prepare:
    """A receiver that runs, and is the newest subscription's."""

    def start(house: House) -> None:
        house.receiver = house.ends.enter_context(WebhookReceiver(house.home / "receiver", (status,)))
        house.configure('[adapters.webhook]\nallow = ["127.0.0.0/8"]')
        house.subscribe("--webhook", house.receiver.url, *flags)

    return start


def all_agree(house: House, one: SetUp) -> None:
    """Put up what is to be looked at, ask everybody, and let the daemon's parts decide."""
    one.prepare(house)
    status_agrees(house, one)
    list_agrees(house, one)
    doctor_agrees(house, one)
    because, deed = routes_agree(house, one)
    presence_agrees(house, one)
    message = send_and_wake_agree(house, one, deed)
    why_agrees(house, one, because, deed, message)
    the_daemon_agrees(house, one, because, message)


def status_agrees(house: House, one: SetUp) -> None:
    """It counts who can be woken, and whom the heartbeat serves; without the daemon it knows of no line."""
    status = house.json("status")
    assert (status["active_routes"] > 0) is (one.stage not in {"never", "heartbeat"} and not one.by_line_alone)
    assert status["nudged"] == (one.stage == "heartbeat")
    assert bool(status["paused"]) is (one.reason is HoldReason.PAUSED)


def list_agrees(house: House, one: SetUp) -> None:
    """What somebody has to change first; what holds for a while, or is seen in the pane, is none of it."""
    rows = house.json("list", "@ada")["subscriptions"]
    # of two, one may have nothing to say
    assert not rows or any(row["deliverable"] for row in rows) is one.is_listed
    for row in rows:
        assert one.is_listed or one.stage == "guard" or one.says in row["why"]


def doctor_agrees(house: House, one: SetUp) -> None:
    """Its place, and what holds; a storm is over before a person has read of it."""
    found = house.doctor()
    if (target := found.get("target @ada")) and one.stage != "heartbeat":
        is_well = one.is_found and one.reason is not HoldReason.NO_AGENT
        assert target.ok is is_well
        assert is_well or one.says in target.detail or one.stage == "guard"
    held = [one for check, one in found.items() if check in {"hold @ada", "budget @ada"} and not one.ok]
    assert any(one.says in finding.detail for finding in held) is (
        one.stage == "guard" and one.reason is not HoldReason.STORM
    )


def routes_agree(house: House, one: SetUp) -> tuple[str, str]:
    """The first guard, else what the table decides; answers why, and what to do about it."""
    routes = house.json("routes", "@ada")
    decision, guards = routes["decision"], routes["guards"]
    if one.stage == "guard":
        assert (guards[0]["guard"], one.says in guards[0]["why"]) == (one.reason, True)
        return guards[0]["why"], guards[0]["remedy"]
    assert guards == []
    if one.stage == "woken":
        assert (decision["move"], decision["route"]) == (
            {"tmux": "inject", "channel": "start", "webhook": "start"}[one.by],
            one.by,
        )
        return "", ""
    if one.stage == "heartbeat":
        assert [route["route"] for route in routes["routes"]] == ["heartbeat"]
        return one.says, ""
    assert (decision["holdReason"], one.says in decision["why"]) == (one.reason or HoldReason.NO_ADAPTER, True)
    cause = cause_written(decision["cause"])
    hold = Hold(HoldReason(decision["holdReason"]), decision["why"], decision["where"] or "", cause=cause)
    return held_because(hold, ADA), hold.remedy(ADA)


def presence_agrees(house: House, one: SetUp) -> None:
    """How the agent stands, wherever it is seen; where it is nowhere to be seen, why."""
    seen = house.json("presence", "@ada")
    if one.is_seen:
        assert (seen["state"], seen["route"]) == ("idle", "channel")
    elif one.stage == "woken" and one.by == "webhook":
        # a pane is told of where there is one; a receiver needs nothing from a person
        assert seen["route"] != "webhook" or seen["remedy"] is None
    elif one.stage == "woken":
        assert (seen["state"], seen["route"]) == ("idle", one.by)
    elif one.stage in {"never", "place", "look"}:
        assert (one.reason or HoldReason.NO_ADAPTER) in {seen["state"], seen["holdReason"]}
        assert one.says in seen["why"]


def send_and_wake_agree(house: House, one: SetUp, deed: str) -> str:
    """A time is promised where only the agent's own work is in the way; answers the message's id."""
    sent = house.run("send", "@ada", "--from", "@bob", "--subject", "x", "--policy", "immediate")
    for result, due in ((sent, "in 30 s"), (house.run("wake", "@ada", "look"), "at once")):
        told = result.stderr.splitlines()[0]
        if one.stage in {"look", "woken"}:
            assert told == f"@ada is due {due}"
        else:
            assert one.says in told
            assert "is due" not in told
            assert told.endswith((deed or "waits in the inbox", "waits in the inbox"))
    return sent.stdout.split()[1]


def why_agrees(house: House, one: SetUp, because: str, deed: str, message: str) -> None:
    """Of the identity and of its mail, to people and to programs."""
    record = house.json("why", "@ada")
    assert (record["verdict"].startswith("not woken now: "), because in record["verdict"]) == (
        one.stage != "woken",
        True,
    )
    assert deed in record["next"] or deed.startswith("nothing to do")
    told = house.run("why", message, "@ada").stdout
    record = house.json("why", message, "@ada")
    assert record["verdict"] in told
    assert record["next"] in told
    if one.stage in {"never", "place", "guard"}:
        assert one.says in record["verdict"]
        assert deed in record["next"] or deed.startswith("nothing to do") or one.stage == "never"


def the_daemon_agrees(house: House, one: SetUp, because: str, message: str) -> None:
    """What its parts do with the mail is what was said before."""
    after = house.decides()
    if one.stage == "woken":
        assert after["outcome"] == Outcome.SUBMITTED
    elif not after:
        assert one.stage in {"never", "heartbeat"}
    else:
        assert (after["holdReason"], one.says in after["hold_detail"]) == (one.reason or HoldReason.NO_ADAPTER, True)
        (waiting,) = [row for row in house.json("status")["waiting"] if row["agentIdentity"] == "@ada"]
        assert (waiting["holdReason"], waiting["holdDetail"]) == (after["holdReason"], after["holdDetail"])
        told = house.json("why", message, "@ada")["verdict"]
        assert (because if one.stage == "look" else one.says) in told
