"""Messages on their way through channels: a real ledger, real files, commands and receivers, and a turned clock."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from wake_bridge_adapters.webhook import WebhookAdapter
from wake_bridge_adapters.webhook.table import WebhookConfig

from wake_bridge.config.fields import Configuration
from wake_bridge.config.recipients import channels_of
from wake_bridge.domain.channels import (
    GIVEN_UP,
    HUMAN,
    NONE_YET,
    Channel,
    ChannelKind,
    Send,
    SendOutcome,
    SendState,
    chosen,
    messages_of,
    text_message,
)
from wake_bridge.domain.errors import NotFound, StaleLease
from wake_bridge.domain.guards import QuietHours
from wake_bridge.domain.names import HOUR, MINUTE, SECOND, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.engine.attention.outbox import Outbox
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.integrations.channels import ChannelSenders
from wake_bridge.ports.adapter import AdapterContext
from wake_bridge.ports.human import Told
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import lay_ledger
from wake_bridge.testing.turned_clock import TurnedClock
from wake_bridge.testing.webhook_receiver import WebhookReceiver

KEY = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
NOON = 1_795_910_400_000
PHONE, DESK, LOG = (
    Channel("phone", ChannelKind.WEBHOOK),
    Channel("desk", ChannelKind.COMMAND),
    Channel("log", ChannelKind.FILE),
)
NOTICE = Notice(
    "01X", "approval", "wake-bridge: @api waits", "To do: answer. mail: a secret subject", Instant(NOON), "@api"
)


@dataclass
class Ways:
    """Hears what is sent by every channel, and answers what the test says; `dies` in the middle of it."""

    answers: dict[str, Told] = field(default_factory=dict)
    heard: list[Send] = field(default_factory=list)
    dies: bool = False

    async def tell(self, send: Send) -> Told:
        self.heard.append(send)
        await asyncio.sleep(0)
        if self.dies:
            raise asyncio.CancelledError
        return self.answers.get(send.channel, Told(send.channel))


class House:
    """A ledger, an outbox over it, and the time."""

    def __init__(self, directory: Path, *channels: Channel) -> None:
        self.clock = TurnedClock(NOON)
        self.ledger = LedgerStore.open(lay_ledger(directory))
        self.current = Current(EngineSettings(channels=channels))
        self.ways = Ways()
        self.is_somebody_active = False
        self.begins()

    def begins(self) -> None:
        self.outbox = Outbox(
            self.ledger, self.ways, self.current, self.clock, is_somebody_active=lambda: self.is_somebody_active
        )

    @property
    def now(self) -> Instant:
        return self.clock.now()

    async def lets_pass(self, milliseconds: int, step: int = 5 * SECOND) -> None:
        for _ in range(max(1, milliseconds // step)):
            self.clock.turn(step)
            self.outbox.tick(self.now)
            await self.outbox.drain()

    def puts(self, channel: str, text: str = "hello", sender: str = "") -> Send:
        send = text_message(text, channel, sender, f"{channel}{len(self.ledger.sends(1000))}", self.now)
        assert self.ledger.put_send(send, self.now)
        return send

    def stands(self, send: Send) -> Send:
        found = self.ledger.find_send(send.id)
        assert found is not None
        return found

    def notices(self) -> set[str]:
        return self.ledger.noticed()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "state", DESK, PHONE, LOG)
    yield made
    made.ledger.close()


def test_sent_is_only_what_the_channel_accepted_and_the_rest_is_tried_for_a_day(house: House) -> None:
    """Offline for hours: more and more rarely, a local notice once; accepted when it is back, with the same id."""

    async def story() -> None:
        house.ways.answers["phone"] = Told("phone", "it cannot be connected to")
        send = house.puts("phone")
        await house.lets_pass(3 * HOUR, MINUTE)
        tries = [one for one in house.ways.heard if one.channel == "phone"]
        assert {one.id for one in tries} == {send.id}
        assert 6 <= len(tries) <= 9
        standing = house.stands(send)
        assert (standing.state, standing.outcome, standing.why) == (
            SendState.PENDING,
            None,
            "it cannot be connected to",
        )
        here = [one for one in house.ways.heard if one.channel == "desk"]
        assert [one.title for one in here] == ["wake-bridge: the channel phone takes nothing"]

        house.ways.answers.clear()
        await house.lets_pass(HOUR + MINUTE, MINUTE)
        assert house.stands(send).outcome is SendOutcome.SENT
        assert house.notices() == set()

    asyncio.run(story())


def test_after_a_day_it_has_failed_and_the_person_at_the_host_is_told(house: House) -> None:
    """Retried for 24 h, then FAILED."""

    async def story() -> None:
        house.ways.answers["phone"] = Told("phone", "HTTP 500")
        send = house.puts("phone")
        await house.lets_pass(GIVEN_UP - MINUTE, MINUTE)
        assert house.stands(send).outcome is None
        await house.lets_pass(5 * MINUTE, MINUTE)
        ended = house.stands(send)
        assert (ended.state, ended.outcome, ended.why) == (SendState.FAILED, SendOutcome.FAILED, "HTTP 500")
        assert house.ways.heard[-1].title == "wake-bridge: a message to phone failed"
        heard = len(house.ways.heard)
        await house.lets_pass(3 * HOUR, MINUTE)
        assert len(house.ways.heard) == heard

    asyncio.run(story())


async def _cut_off(house: House, channel: str) -> tuple[Send, list[str]]:
    """A crash in the middle of a send, and all that was heard until long after it."""
    house.ways.dies = True
    send = house.puts(channel)
    await house.lets_pass(5 * SECOND)
    assert house.stands(send).state is SendState.LOCKED
    house.ways.dies = False
    house.begins()
    await house.lets_pass(10 * MINUTE)
    return house.stands(send), [one.id for one in house.ways.heard]


@pytest.mark.parametrize("channel", ["phone", "log", "desk"])
def test_a_crash_repeats_at_most_once_by_the_same_id_where_the_channel_takes_ids(house: House, channel: str) -> None:
    """At most one repeat for a crash, with the same id."""
    send, heard = asyncio.run(_cut_off(house, channel))
    assert (send.outcome, heard) == (SendOutcome.SENT, [send.id] * 2)


def test_what_a_crash_cut_off_is_not_repeated_where_the_channel_takes_no_id(house: House) -> None:
    """It is `unknown`: a second one would look like another."""
    house.current.settings = EngineSettings(channels=(Channel("bubble", ChannelKind.DESKTOP),))
    send, heard = asyncio.run(_cut_off(house, "bubble"))
    assert (send.outcome, heard) == (SendOutcome.UNKNOWN, [send.id])
    assert "ended in the middle" in send.why


def test_two_processes_never_send_the_same_message(tmp_path: Path) -> None:
    """Each message has one owner: the second lock of the same lease is stale, and its sender sends nothing."""
    one, other = House(tmp_path, DESK), House(tmp_path, DESK)

    async def story() -> None:
        for _ in range(50):
            one.puts("desk")
        for house in (one, other):
            house.clock.turn(1000)
            house.outbox.tick(house.now)
        await asyncio.gather(one.outbox.drain(), other.outbox.drain())
        ids = [send.id for send in (*one.ways.heard, *other.ways.heard)]
        assert len(ids) == len(set(ids)) == 50
        assert one.ways.heard

    asyncio.run(story())
    one.ledger.close()
    other.ledger.close()


def test_a_sender_that_slept_through_its_lease_changes_nothing(house: House) -> None:
    """State changes are compare-and-swap: who lost the lease is refused, and what the new owner does stands."""
    send = house.puts("phone")
    old = house.ledger.lock_send(send, "phone", house.now, house.now)
    freed = house.ledger.release_send(old, house.now, "taken over", house.now)
    house.ledger.lock_send(freed, "phone", Instant(house.now + MINUTE), house.now)
    with suppress(StaleLease):
        house.ledger.settle_send(old, SendOutcome.FAILED, "late", house.now)
    assert house.stands(send).state is SendState.LOCKED
    with pytest.raises(StaleLease):
        house.ledger.lock_send(send, "phone", house.now, house.now)


def test_who_is_away_is_told_off_the_host_and_who_is_there_is_not(house: House) -> None:
    """The phone only if no client is active: a question waits for that, anything else has been seen at the host."""

    async def story() -> None:
        house.is_somebody_active = True
        for notice, is_patient in ((NOTICE, True), (Notice("02X", "gone", "t", "b", house.now), False)):
            sends = messages_of(
                notice, house.current.settings.channels, house.now, far_at=house.now, is_patient=is_patient
            )
            assert house.ledger.give_notice(notice, house.now, sends)
        await house.lets_pass(10 * MINUTE)
        assert [(one.channel, one.reason) for one in house.ways.heard] == [("desk", "approval"), ("desk", "gone")]
        house.is_somebody_active = False
        await house.lets_pass(MINUTE)
        assert [(one.channel, one.reason) for one in house.ways.heard[2:]] == [("phone", "approval")]
        (gone,) = [one for one in house.ledger.sends(9) if one.reason == "gone" and one.channel == "phone"]
        assert (gone.outcome, gone.why) == (SendOutcome.WITHDRAWN, "a client was active")

    asyncio.run(story())


def test_a_notice_off_the_host_carries_agent_and_reason_only_unless_more_is_asked_for(house: House) -> None:
    """Off-host channels carry agent and reason only; subjects with `detail = "full"`."""
    near, far = messages_of(NOTICE, [DESK, PHONE], house.now, far_at=house.now)
    assert (near.channel, near.body, far.channel) == ("desk", NOTICE.body, "phone")
    assert (far.title, far.body, far.where) == (NOTICE.title, "", "")
    whole = Channel("phone", ChannelKind.WEBHOOK, has_full_detail=True)
    assert messages_of(NOTICE, [whole], house.now, far_at=house.now)[1].body == NOTICE.body
    assert messages_of(NOTICE, [], house.now, far_at=house.now)[0].channel == HUMAN


def test_quiet_hours_of_a_channel_hold_what_comes_until_their_end(house: House) -> None:
    """`quiet_hours`: kept, not lost; other channels go on."""
    quiet = Channel("phone", ChannelKind.WEBHOOK, quiet_hours=QuietHours.parse("00:00-01:00"))
    house.current.settings = EngineSettings(channels=(quiet, LOG))
    house.clock = TurnedClock(NOON - NOON % (24 * HOUR) + 30 * MINUTE)
    house.begins()

    async def story() -> None:
        house.puts("phone")
        house.puts("log")
        await house.lets_pass(20 * MINUTE)
        assert [one.channel for one in house.ways.heard] == ["log"]
        await house.lets_pass(15 * MINUTE)
        assert [one.channel for one in house.ways.heard] == ["log", "phone"]

    asyncio.run(story())


def test_without_a_channel_a_text_is_kept_and_goes_out_when_there_is_one(house: House) -> None:
    """None: kept; the default, or the first, takes it later."""
    house.current.settings = EngineSettings()

    async def story() -> None:
        send = house.puts(NONE_YET)
        await house.lets_pass(HOUR, MINUTE)
        assert house.ways.heard == []
        house.current.settings = EngineSettings(channels=(PHONE, Channel("log", ChannelKind.FILE, is_default=True)))
        await house.lets_pass(MINUTE)
        assert [one.channel for one in house.ways.heard] == ["log"]
        assert house.stands(send).outcome is SendOutcome.SENT

    asyncio.run(story())


def test_an_unknown_channel_is_an_error_that_names_the_valid_ids() -> None:
    """Unknown: the ids are named; omitted: the default, else the first; none: nobody."""
    with pytest.raises(NotFound) as refused:
        chosen([DESK, PHONE], "fone")
    assert "desk, phone" in refused.value.hint
    assert chosen([DESK, PHONE], "") is DESK
    assert chosen([DESK, Channel("x", ChannelKind.FILE, is_default=True)], "") == Channel(
        "x", ChannelKind.FILE, is_default=True
    )
    assert chosen([], "") is None


# -- the kinds, as real ones ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookReceiver]:
    with WebhookReceiver(tmp_path_factory.mktemp("receiver")) as one:
        yield one


def told(
    directory: Path, table: dict[str, Any], send: Send, *, allow: Sequence[str] = ("127.0.0.0/8", "127.0.0.1")
) -> Told:
    """Send it by a channel that is configured so."""
    config = Configuration.model_validate({"channels": {"way": table}})
    assert [one.name for one in channels_of(config)] == ["way"]

    async def story() -> Told:
        context = AdapterContext(5.0, 10.0, "", {}, TurnedClock(NOON))
        adapter = WebhookAdapter(WebhookConfig(allow=tuple(allow)), context)
        senders = ChannelSenders(config, directory / "config.toml", 5.0, [adapter])
        return await senders.tell(send)

    return asyncio.run(story())


def message(text: str = "a text", number: int = 1) -> Send:
    return text_message(text, "way", "", f"S{number}", Instant(NOON))


def test_a_file_gets_one_line_for_each_message_whole_and_once(tmp_path: Path) -> None:
    """`file`: JSON, for its owner alone; the same message again changes nothing, a half line swallows nothing."""
    table = {"kind": "file", "recipient": "logs/messages.jsonl"}
    path = tmp_path / "logs/messages.jsonl"
    assert told(tmp_path, table, message()) == Told("way")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert told(tmp_path, table, message()) == Told("way")
    with path.open("a") as file:
        file.write('{"id": "' + message(number=2).id)
    assert told(tmp_path, table, message(number=2)) == Told("way")
    lines = path.read_text().splitlines()
    assert [json.loads(lines[0])["id"], json.loads(lines[2])["id"]] == [message().id, message(number=2).id]
    assert len(lines) == 3
    link = tmp_path / "link"
    link.symlink_to(path)
    assert "cannot be written" in told(tmp_path, {"kind": "file", "recipient": str(link)}, message(number=3)).trouble
    assert len(path.read_text().splitlines()) == 3


def test_a_command_is_given_the_message_and_its_failure_says_nothing_of_it(tmp_path: Path) -> None:
    """`command`: place-holders and JSON with the id; of one that fails only its status is told."""
    record = tmp_path / "record"
    program = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + sys.stdin.read())"
    table = {"kind": "command", "command": [sys.executable, "-c", program, str(record), "{body}"]}
    assert told(tmp_path, table, message("$(touch x)")) == Told("way")
    text = record.read_text()
    assert text.startswith("$(touch x){")
    assert json.loads(text.removeprefix("$(touch x)"))["id"] == message().id
    failing = {"kind": "command", "command": ["sh", "-c", "echo token-of-mine >&2; exit 3"]}
    assert told(tmp_path, failing, message()).trouble == "its program ended with status 3"
    absent = {"kind": "command", "command": ["/nonexistent/token-of-mine"]}
    assert told(tmp_path, absent, message()).trouble == "its program cannot be started"


def test_a_webhook_is_posted_signed_with_the_message_s_id(tmp_path: Path, receiver: WebhookReceiver) -> None:
    """`webhook`: the same guard against private addresses, signed where there is a key, the id for who was posted twice."""
    table = {"kind": "webhook", "recipient": receiver.url, "key": KEY}
    receiver.says("204", "503|Retry-After: 7", "hang")
    assert told(tmp_path, table, message()) == Told("way")
    posted = receiver.received()[-1]
    headers = {name.lower(): value for name, value in posted["headers"].items()}
    # the clock of this test is another one than the library's
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    assert Webhook(KEY).sign(headers["webhook-id"], at, posted["body"]) == headers["webhook-signature"]
    body = json.loads(posted["body"])
    assert (body["eventId"], body["body"], headers["webhook-id"]) == (message().id, "a text", message().id)
    assert told(tmp_path, table, message()) == Told("way", "HTTP 503", wish=7000)
    lost = told(tmp_path, table, message())
    assert lost.is_unknown
    receiver.says("204")
    assert told(tmp_path, {"kind": "webhook", "recipient": receiver.url}, message(number=2)) == Told("way")
    assert "webhook-signature" not in {name.lower() for name in receiver.received()[-1]["headers"]}


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/token-of-mine", "https://169.254.169.254/token-of-mine", "https://token-of-mine.invalid/x"],
)
def test_what_a_webhook_answers_names_nothing_of_its_url(tmp_path: Path, url: str) -> None:
    """A private address that nobody allowed, a name that leads nowhere: the trouble says so, and not which."""
    trouble = told(tmp_path, {"kind": "webhook", "recipient": url}, message(), allow=()).trouble
    assert trouble
    for part in ("token-of-mine", "127.0.0.1", "169.254"):
        assert part not in trouble
