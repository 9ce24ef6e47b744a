"""A link whose other end is the release before answers came over links: what that one said was recorded, and is played here.

`tests/end_to_end/test_releases_linked.py` has the older release itself, built from history, in the long runs.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.integration.test_answers_of_hosts import asks, waiting_in
from tests.integration.test_host_links import FAR, FarHost, Gone, at, comes_true, link_to
from wake_bridge.config.hosts import LinkedHost
from wake_bridge.domain.delivery import Outcome
from wake_bridge.domain.hosts import AnswerState, LinkState, MailThere
from wake_bridge.domain.signed_wakes import signature_of
from wake_bridge.integrations.hosts.connection import HostConnection
from wake_bridge.integrations.hosts.links import TAKES_NO_ANSWERS
from wake_bridge.schemas.relay import ANSWER, LONGEST
from wake_bridge.testing import HUNG
from wake_bridge.testing.wake_entrance import KEY

SAID: Final = json.loads((Path(__file__).parents[1] / "fixtures/relay-older.json").read_text(encoding="utf-8"))
"""What the older release said: its relay, by what it was said to, and its host with the graph."""


def line_of(frame: Mapping[str, Any], **changed: object) -> bytes:
    return json.dumps({**frame, **changed}).encode() + b"\n"


async def older_relay(host: LinkedHost) -> HostConnection:
    """A link to the older relay."""
    near, far = socket.socketpair()
    here = await asyncio.open_connection(sock=near, limit=LONGEST)
    reader, writer = await asyncio.open_connection(sock=far, limit=LONGEST)

    async def play() -> None:
        writer.write(line_of(SAID["relay"]["hello"]) + line_of(SAID["relay"]["state"]))
        with suppress(OSError):
            while line := await reader.readline():
                frame = json.loads(line)
                if (answer := SAID["relay"].get(frame["frame"])) and "id" in answer:
                    writer.write(line_of(answer, id=frame["id"]))
        writer.close()

    playing.append(asyncio.create_task(play()))
    made = HostConnection(*here, Gone())
    await made.greet(host.link)
    return made


playing: list[asyncio.Task[None]] = []


def test_an_older_host_takes_wakes_and_is_asked_for_no_answer() -> None:
    """Its agents are listed, and woken for mail that has to be answered as for other mail: the host with the graph takes the answer."""

    async def story() -> None:
        async with asyncio.timeout(HUNG), link_to(older_relay) as link:
            await comes_true(lambda: link.state is LinkState.UP)
            assert [(one.agent_identity, one.where) for one in link.agents] == [("@far", "far:0.0")]
            assert (await link.hand_over(asks("MESSAGE:1"))).status == 202
            (answer,) = await link.answers([MailThere(FAR, "MESSAGE:1")])
            # the link says what the host lacks, and is none that is away: wakes go on
            assert (answer.state, link.why, link.lacks) == (AnswerState.UNASKED, "", TAKES_NO_ANSWERS)
            await link.tell_answered([MailThere(FAR, "MESSAGE:1")])
            assert link.state is LinkState.UP
        await asyncio.gather(*playing)

    asyncio.run(story())


def test_an_older_host_with_the_graph_wakes_an_agent_here_who_owes_no_answer(tmp_path: Path) -> None:
    """Its wake is taken in once, whatever it says twice; of what this release knows besides nobody is told."""

    async def story(host: FarHost) -> None:
        near, far = socket.socketpair()
        here, there = [await asyncio.open_connection(sock=one, limit=LONGEST) for one in (near, far)]
        host.sessions.add(asyncio.create_task(host._relayed(*there)))
        reader, writer = here
        # it is younger than when it was recorded
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.000Z}"
        body = json.dumps(json.loads(SAID["near"]["wake"]["body"]) | {"emittedAt": now})
        writer.write(line_of(SAID["near"]["hello"]))
        answers: list[Mapping[str, Any]] = []
        for number in (1, 2):
            signature = signature_of(KEY, body.encode())
            writer.write(line_of(SAID["near"]["wake"], id=number, body=body, signature=signature))
            while len(answers) < number:
                line = await reader.readline()
                if line.strip() and (frame := json.loads(line))["frame"] == ANSWER:
                    answers.append(frame)
        writer.close()
        assert [one["status"] for one in answers] == [202, 200]
        assert list(host.taken().values()) == [1]
        # it is told, and nobody waits for an answer
        assert waiting_in(host) == []
        assert [one.outcome for one in host.parts.ledger.deliveries(state=None, identity=FAR, limit=9)] == [
            Outcome.SUBMITTED
        ]

    at(tmp_path, story)
