"""Receivers that refuse, die and come back, on a turned clock: nothing is lost, nothing is told twice, nobody types a command."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from wake_bridge_adapters.heartbeat import HeartbeatAdapter
from wake_bridge_adapters.webhook import WebhookAdapter
from wake_bridge_adapters.webhook.table import WebhookConfig

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import DAY, Identity
from wake_bridge.domain.receivers import GIVEN_UP, WEBHOOK_TARGET
from wake_bridge.engine.settings import TargetSettings
from wake_bridge.ports.adapter import AdapterContext
from wake_bridge.testing.office import Office
from wake_bridge.testing.webhook_receiver import WebhookReceiver

CI, SENDER = "@ci", "@me"
SECOND, MINUTE = 1_000, 60_000
PATIENCE = 30
"""Seconds for one POST."""

TAKEN = [200, 201, 202, 203, 206]
NOT_TAKEN = [
    *(300, 301, 302, 303, 304, 305, 307, 308),
    *(
        400,
        401,
        402,
        403,
        404,
        405,
        406,
        407,
        408,
        409,
        411,
        412,
        413,
        414,
        415,
        416,
        417,
        418,
        421,
        422,
        423,
        424,
        425,
    ),
    *(426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 507, 508, 511, 599),
]
Story = Callable[[Office, WebhookReceiver], Coroutine[None, None, None]]


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookReceiver]:
    """One for all: it says each time what it is told to."""
    with WebhookReceiver(tmp_path_factory.mktemp("receiver")) as one:
        yield one


def played(directory: Path, receiver: WebhookReceiver, story: Story, *, pane: str = "", gives: str = "204") -> None:
    """Run a story with `@ci`, whose mail is posted, and who may have a pane besides."""

    async def run() -> None:
        receiver.says(gives)
        office = Office(directory, [CI, SENDER], carried={"heartbeat": HeartbeatAdapter}, start=int(time.time() * 1000))
        context = AdapterContext(PATIENCE, PATIENCE, "", {}, office.clock)
        office.adapters["webhook"] = WebhookAdapter(WebhookConfig(allow=("127.0.0.1",)), context)
        office.rules = MatchingRules(serve=frozenset({WEBHOOK_TARGET}))
        settings = office.current.settings
        if pane:
            office.agent(pane)
            settings = replace(settings, targets={Identity(CI): TargetSettings("memory", pane)})
        office.current.settings = replace(settings, sent_per_minute={"webhook": 0})
        metadata = {"url": receiver.url, "signingKey": "whsec_a2V5", "coalesceWindow": 0}
        office.core.subscribe(CI, harnessTarget="a2a-webhook", harnessTargetMetadata=metadata)
        async with office:
            await story(office, receiver)

    asyncio.run(run())


async def sent(office: Office, subject: str) -> str:
    message = office.core.send(SENDER, CI, subject)
    await office.reads()
    await office.passes(1)
    return message


def told(post: dict[str, Any]) -> set[str]:
    """The ids of the messages that a post speaks of."""
    envelope = json.loads(post["body"])
    events = envelope["payload"].get("events") or [envelope]
    return {one["payload"]["messageId"] for one in events}


def open_one(office: Office) -> Delivery:
    (one,) = office.ledger.unsettled()
    return one


def causes(office: Office) -> list[Cause]:
    return [one.hold.cause for one in office.ledger.unsettled() if one.hold is not None]


def test_whatever_a_receiver_answers_nothing_is_lost_and_nobody_types_a_command(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    """Forty-odd statuses, and no answer at all: once it takes wakes again it has each message once, by itself."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        for answer in [*TAKEN, *NOT_TAKEN, "reset", "garbage"]:
            start = len(receiver.received())
            receiver.says(str(answer), "204")
            message = await sent(office, f"answered with {answer}")
            await office.passes(MINUTE)
            posts = receiver.received()[start:]
            assert [one["answer"] for one in posts] == ([str(answer)] if answer in TAKEN else [str(answer), "204"])
            assert all(told(one) == {message} for one in posts), answer
            assert office.ledger.unsettled() == []
            if answer not in {401, 403, 404}:
                assert len({(one["headers"]["webhook-id"], one["body"]) for one in posts}) == 1, answer

    played(tmp_path, receiver, story)


def test_a_receiver_that_is_dead_for_ten_minutes_and_then_does_not_know_us_gets_all_by_itself(tmp_path: Path) -> None:
    """Suspended, and tried again until it takes what waited: each message once, no person needed."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        receiver.close()
        messages = []
        for minute in range(10):
            messages.append(await sent(office, f"in minute {minute}"))
            await office.passes(MINUTE)
        assert set(causes(office)) == {Cause.RECEIVER_SUSPENDED}
        with WebhookReceiver(tmp_path / "receiver", ["404"], port=receiver.port) as again:
            await office.passes(30 * SECOND)
            again.says("204")
            await office.passes(40 * MINUTE)
            taken = [one for one in again.received() if one["answer"] == "204"]
            assert [set(messages)] == [told(one) for one in taken]
        assert office.ledger.unsettled() == []

    with WebhookReceiver(tmp_path / "receiver") as dying:
        (tmp_path / "office").mkdir()
        played(tmp_path / "office", dying, story)


def test_a_restart_hurries_no_receiver_that_is_suspended(tmp_path: Path, receiver: WebhookReceiver) -> None:
    """A try at each start would fail as well, and make the next one later: whoever restarts often would wait for an hour."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        await sent(office, "please look")
        await office.passes(4 * MINUTE)
        count = len(receiver.received())
        for _ in range(3):
            await office.restarts()
            await office.passes(90 * SECOND)
        assert len(receiver.received()) == count
        receiver.says("204")
        # the fourth try is ten minutes after the third, and a fifth of it by chance
        await office.passes(9 * MINUTE)
        assert len(receiver.received()) == count + 1
        assert office.ledger.unsettled() == []

    played(tmp_path, receiver, story, gives="503")


def test_what_one_emission_is_refused_for_keeps_no_other_back(tmp_path: Path, receiver: WebhookReceiver) -> None:
    """It is sent again apart, more and more rarely; what comes after it goes out at once, and after three days it fails."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        refused = await sent(office, "refused")
        assert causes(office) == [Cause.RECEIVER_REJECTED]
        for number in range(5):
            receiver.says("204", "422")
            message = await sent(office, f"fine {number}")
            assert [told(one) for one in receiver.received() if one["answer"] == "204"][-1] == {message}
            await office.passes(MINUTE)
        assert open_one(office).outcome is None
        with structlog.testing.capture_logs() as logs:
            await office.passes(4 * DAY)
        assert office.ledger.unsettled() == []
        (failed,) = (one for one in office.deliveries(CI) if one.outcome is Outcome.FAILED)
        (told_of,) = (one for one in logs if one["event"] == "delivery_settled")
        assert (told_of["delivery"], told_of["log_level"]) == (failed.id, "warning")
        assert (refused in failed.digest, failed.state) == (True, DeliveryState.FAILED)

    played(tmp_path, receiver, story, gives="422")


def test_what_may_have_arrived_and_was_left_to_the_pane_is_never_posted_again(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    """Under another eventId the receiver could not know it. The pane has it once, also if it was busy for long."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        agent = office.agent("pane")
        start = len(receiver.received())
        await sent(office, "may have arrived")
        await office.passes(30 * SECOND)
        assert len(agent.received) == 1, "after a time-out no other route takes it before the receiver is suspended"
        posts = receiver.received()[start:]
        assert len({(one["headers"]["webhook-id"], one["body"]) for one in posts}) == 1
        receiver.says("204")
        await office.restarts()
        await office.passes(60 * MINUTE)
        assert len(receiver.received()[start:]) == len(posts)
        assert [one.adapter for one in office.deliveries(CI)] == ["memory"]
        assert (len(posts), len(agent.received)) == (4, 1)

    played(tmp_path, receiver, story, pane="pane", gives="reset")


def test_what_a_receiver_refused_is_left_to_the_pane_also_after_a_restart(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    """Who refused what is in the ledger; what comes after it is offered to the receiver."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        agent = office.agent("pane")
        agent.state = agent.state.ACTIVE
        start = len(receiver.received())
        await sent(office, "refused")
        assert len(receiver.received()) == start + 1
        await office.restarts()
        receiver.says("204")
        await office.passes(10 * MINUTE)
        assert len(receiver.received()) == start + 1
        later = await sent(office, "taken")
        await office.passes(MINUTE)
        assert told(receiver.received()[-1]) == {later}
        agent.state = agent.state.IDLE
        await office.passes(10 * MINUTE)
        assert len(agent.received) == 1
        assert len(receiver.received()) == start + 2

    played(tmp_path, receiver, story, pane="pane", gives="422")


@pytest.mark.parametrize("answer", ["410", "503"])
def test_what_waits_for_a_receiver_that_is_given_up_the_heartbeat_tells_the_agent(
    tmp_path: Path, receiver: WebhookReceiver, answer: str
) -> None:
    """At once, or after three days; where the agent has a place, through its pane, once."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        await sent(office, "nobody takes it")
        if answer != "410":
            await office.passes(GIVEN_UP + 2 * 60 * MINUTE)
        assert causes(office) == [Cause.RECEIVER_DEGRADED]
        count = len(receiver.received())
        office.agent("found")
        office.current.settings = replace(office.current.settings, fallback_pane="found")
        await office.passes(10 * MINUTE)
        assert len(office.agent("found").received) == 1
        assert [(one.adapter, one.outcome) for one in office.deliveries(CI)][-1] == ("heartbeat", Outcome.SUBMITTED)
        assert len(receiver.received()) == count

    played(tmp_path, receiver, story, gives=answer)


@pytest.mark.parametrize("pane", ["", "pane"])
def test_what_matched_two_receivers_goes_to_the_second_where_the_first_is_suspended(
    tmp_path: Path, receiver: WebhookReceiver, pane: str
) -> None:
    """One fact reaches an identity once: by the first of its receivers that takes it, and only then by its pane."""

    async def story(office: Office, receiver: WebhookReceiver) -> None:
        with WebhookReceiver(tmp_path / "second") as second:
            metadata = {"url": second.url, "signingKey": "whsec_a2V5", "coalesceWindow": 0}
            office.core.subscribe(CI, harnessTarget="a2a-webhook", harnessTargetMetadata=metadata)
            await sent(office, "for the second")
            await office.passes(MINUTE)
            await sent(office, "at once")
            subjects = [json.loads(one["body"])["payload"]["subject"] for one in second.received()]
            assert subjects == ["for the second", "at once"]
            # by its time it was tried once more, with what came then
            refused = [json.loads(one["body"])["payload"]["subject"] for one in receiver.received()[before:]]
            assert refused == subjects
            assert not pane or office.agent(pane).received == []
            assert {one.outcome for one in office.deliveries(CI)} == {Outcome.SUBMITTED}

    before = len(receiver.received())
    (tmp_path / "office").mkdir()
    played(tmp_path / "office", receiver, story, pane=pane, gives="401")
