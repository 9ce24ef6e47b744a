"""Mail that has to be answered, from `send` to the pane: answered in time nobody hears of it, else a person does, once."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.demo.tmux_server import Typist
from wake_bridge.domain.names import Identity
from wake_bridge.domain.sessions import Session
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing import set_clock
from wake_bridge.testing.playground import Playground

RECORD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
ANSWER = """#!/bin/sh
# answers as the wake says, the first time without the lease that it names
{environment}
mark="${{WAKE_BRIDGE_TEST_FAKE_TEXT##* }}"
lease=$(printf '%s' "$WAKE_BRIDGE_TEST_FAKE_TEXT" | sed -n 's/.*--lease \\([0-9]*\\).*/\\1/p')
{program} ack "$mark" > {answers} 2>&1; echo "exit $?" >> {answers}
{program} ack "$mark" --lease "$lease" >> {answers} 2>&1; echo "exit $?" >> {answers}
"""


class Desk:
    """A world whose daemon lives by a clock that is turned, with one channel that writes down what it is told."""

    def __init__(self, directory: Path) -> None:
        self.world = Playground(directory, (sys.executable, *set_clock.COMMAND))
        self.sandbox = self.world.sandbox
        self._slept, self._record = directory / "slept", directory / "told"
        self._slept.write_text("0", encoding="ascii")
        self.sandbox.environment[set_clock.SLEPT] = str(self._slept)
        self.sandbox.run("init")
        self.configure("")

    def configure(self, text: str) -> None:
        """One channel that writes down what it is told, and what a test says besides."""
        command = json.dumps([sys.executable, "-c", RECORD, str(self._record)])
        self.sandbox.configure(f'{QUICK}channels.desk = {{kind = "command", command = {command}}}\n{text}')

    def later(self, seconds: int) -> None:
        """So much time passes, for all programs of this world."""
        self._slept.write_text(str(int(self._slept.read_text(encoding="ascii")) + seconds), encoding="ascii")

    def told(self) -> list[dict[str, Any]]:
        """What a person heard."""
        lines = self._record.read_text(encoding="utf-8").splitlines() if self._record.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    with desk.world:
        yield desk


def test_an_agent_that_stays_silent_past_the_deadline_has_its_person_told_once(desk: Desk) -> None:
    """LOCKED until the deadline, then the person's: by a real channel, once; a late answer is dropped with exit 7."""
    sandbox = desk.sandbox
    api = desk.world.enlisted("api")
    sandbox.daemon()
    asked = sandbox.send("@api", "Which port?", "--ack-within", "5m")
    waiting = sandbox.waits_for_delivery(hold_reason="awaiting_ack")
    assert (waiting["state"], waiting["proof"], waiting["lease"]) == ("LOCKED", 2, 1)
    assert f"wake-bridge ack {waiting['id']} --lease 1" in " ".join(api.screen().split())
    desk.later(200)
    sandbox.send("@api", "and another thing")
    sandbox.waits_for_delivery(state="DELIVERED", outcome="submitted")
    assert desk.told() == []

    desk.later(101)
    ended = sandbox.waits_for_delivery(outcome="escalated")
    assert (ended["id"], ended["state"]) == (waiting["id"], "DELIVERED")
    assert sandbox.ask("status")["sinceYouLeft"]["escalated"] == 1
    (told,) = desk.told()
    assert (told["reason"], told["subject"], told["identity"]) == ("escalated", waiting["id"], "@api")
    assert told["title"] == "wake-bridge: @api did not answer within 5 min"

    late = sandbox.run("ack", waiting["id"], "--lease", "1", expect=7)
    assert "no longer in force" in late.stderr
    shown = sandbox.ask("deliveries", "show", waiting["id"])
    assert [one["step"] for one in shown["journal"]][-2:] == ["settled", "stale"]
    assert [one["step"] for one in shown["messages"][0]["journal"]] == ["created", "intent_send", "settled"]
    assert len(api.fake.submits()) == 2
    assert "a person was told" in sandbox.run("why", asked).stdout

    sandbox.send("@api", "later")
    sandbox.waits_for(lambda: len(api.fake.submits()) == 3)
    sandbox.send("@api", "still later")
    sandbox.waits_for(lambda: len(api.fake.submits()) == 4)
    told_of = ["History, nothing to do" in str(one) for one in api.fake.submits()]
    assert told_of == [False, False, True, False], "the agent hears of it once"
    (history,) = sandbox.lines("seen", "@api")
    assert (history["deliveryId"], history["subject"]) == (waiting["id"], "Which port?")

    (notice,) = sandbox.ask("status")["notices"]
    assert (notice["subject"], notice["reason"]) == (waiting["id"], "escalated")
    (mine,) = [one for one in sandbox.lines("inbox", "@me") if "deliveryId" in one]
    assert (mine["deliveryId"], mine["agentIdentity"], mine["isAcknowledged"]) == (waiting["id"], "@api", False)
    assert sandbox.ask("deliveries", "show", waiting["id"])["proof"] == 3, "to read is to acknowledge"
    assert sandbox.ask("status")["notices"] == []
    assert [one for one in sandbox.lines("inbox", "@me") if "deliveryId" in one] == []
    desk.later(3600)
    assert len(desk.told()) == 1


def test_steps_follow_each_other_until_the_person_acknowledges(desk: Desk) -> None:
    """Each step in its order and time, all of them again, and none after the acknowledgement."""
    sandbox = desk.sandbox
    desk.configure(
        f'channels.phone = {{kind = "file", recipient = "{desk.world.directory / "phone"}"}}\n'
        'escalation.steps = [{channel = "desk"}, {channel = "phone", after = 600.0}]\nescalation.repeats = 9\n'
    )
    desk.world.enlisted("api")
    sandbox.daemon()
    sandbox.send("@api", "Which port?", "--ack-within", "5m")
    waiting = sandbox.waits_for_delivery(hold_reason="awaiting_ack")
    desk.later(301)
    sandbox.waits_for_delivery(outcome="escalated")
    phone = desk.world.directory / "phone"
    assert (len(desk.told()), phone.exists()) == (1, False)
    desk.later(600)
    sandbox.waits_for(phone.exists, what="the second step")
    sandbox.waits_for(lambda: len(desk.told()) == 2, what="the first step again")
    sandbox.run("ack", waiting["id"])
    desk.later(7200)

    def withdrawn() -> list[str]:
        messages = sandbox.ask("deliveries", "show", waiting["id"])["messages"]
        return [one["outcome"] for one in messages]

    sandbox.waits_for(lambda: None not in withdrawn(), what="the rest to be withdrawn")
    assert sorted(withdrawn()) == ["sent"] * 3 + ["withdrawn"] * 17


def test_what_no_channel_takes_is_a_dead_letter_that_can_be_tried_again(desk: Desk) -> None:
    """FAILED after a day, listed, and `retry` wakes the agent for it anew."""
    sandbox = desk.sandbox
    desk.configure('channels.lost = {kind = "command", command = ["false"], default = true}\n')
    api = desk.world.enlisted("api")
    sandbox.daemon()
    sandbox.send("@api", "Which port?", "--ack-within", "5m")
    waiting = sandbox.waits_for_delivery(hold_reason="awaiting_ack")
    desk.later(301)
    sandbox.waits_for_delivery(id=waiting["id"], state="ESCALATED")
    sandbox.waits_for(lambda: sandbox.ask("deliveries", "show", waiting["id"])["messages"][0]["attempts"])
    desk.later(25 * 3600)
    sandbox.waits_for_delivery(id=waiting["id"], state="FAILED")
    (dead,) = sandbox.lines("deliveries", "--state", "FAILED")
    assert (dead["id"], dead["outcome"]) == (waiting["id"], "failed")
    again = sandbox.ask("deliveries", "retry", waiting["id"])
    assert again["id"] != waiting["id"]
    waits = sandbox.waits_for_delivery(id=again["id"], hold_reason="awaiting_ack")
    assert waits["lease"] == 1
    assert len(api.fake.submits()) == 2


def test_an_agent_that_answers_in_time_under_its_lease_is_never_told_on(desk: Desk) -> None:
    """The agent's own command, from its pane, under the lease that the wake named; without a lease it is refused."""
    sandbox = desk.sandbox
    answers = desk.world.directory / "answers"
    environment = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in sandbox.environment.items())
    # a process of its own, below the agent's
    program = shlex.join(sandbox.command)
    script = desk.world.directory / "answer"
    script.write_text(ANSWER.format(environment=environment, program=program, answers=answers), encoding="utf-8")
    script.chmod(0o755)
    desk.world.enlisted("api", "--on-submit", str(script))
    sandbox.daemon()
    sandbox.send("@api", "Which port?", "--ack-within", "5m")
    ended = sandbox.waits_for_delivery(outcome="acknowledged")
    assert (ended["state"], ended["proof"]) == ("DELIVERED", 3)
    said = sandbox.waits_for(lambda: answers.read_text().count("exit") == 2 and answers.read_text())
    assert "has to be answered under its lease" in str(said)
    assert [line for line in str(said).splitlines() if line.startswith("exit")] == ["exit 7", "exit 0"]
    desk.later(3600)
    sandbox.send("@api", "a later one")
    sandbox.waits_for_delivery(outcome="submitted")
    assert desk.told() == []
    assert sandbox.ask("status")["sinceYouLeft"]["delivered"] == 2, "what was answered was delivered"


def test_an_item_whose_source_wants_an_answer_passes_to_the_person_and_one_that_is_read_does_not(desk: Desk) -> None:
    """`[sources.NAME] ack_within`: told under a lease in the pane; a read answers it, silence tells the person once.

    What is tied to a conversation passes to those who look at its pane, and to no channel.
    """
    sandbox, tmux = desk.sandbox, desk.world.tmux
    desk.configure('sources.ci = {mode = "active", ack_within = 300.0, debounce = 0.0}\n')
    api = desk.world.enlisted("api")
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        ledger.meet_session(
            Session(
                "claude", "S1", Identity("@api"), socket=str(tmux.socket_path), pane=api.id, seen_at=SteadyClock().now()
            )
        )
    sandbox.daemon()

    words = ("--source", "ci")
    answered = sandbox.ask("notify", "@api", "main is slow", *words)
    sandbox.waits_for_delivery(hold_reason="awaiting_ack")
    sandbox.run("ack", answered["id"])
    silent = sandbox.ask("notify", "@api", "main is red", *words)
    tied = sandbox.ask("notify", "@api", "and the tests", *words, "--conversation", "S1")

    def of(item: dict[str, Any]) -> dict[str, Any]:
        found = [one for one in sandbox.deliveries() if one["events"][0]["subjectKey"] == item["id"]]
        return found[0] if found else {}

    sandbox.waits_for(lambda: all(of(one).get("holdReason") == "awaiting_ack" for one in (silent, tied)))
    assert f"--lease {of(tied)['lease']}" in " ".join(api.screen().split())
    listed = {one["id"]: one for one in sandbox.lines("inbox", "@api")}
    assert listed.keys() == {silent["id"], tied["id"]}
    assert all(one["deadline"] and one["deliveredAt"] for one in listed.values())
    sandbox.waits_for(lambda: of(answered)["outcome"] == "acknowledged", what="the answer")

    attach = ["tmux", "-u", "-L", tmux.socket_name, "-f", "/dev/null", "attach-session", "-t", "=api"]
    with Typist(attach, width=160) as person:
        person.waits_until_shown()
        desk.later(301)
        sandbox.waits_for(lambda: "did not answer" in person.shown(), what="the line in the client")
    sandbox.waits_for(lambda: all(of(one)["outcome"] == "escalated" for one in (silent, tied)))
    (told,) = desk.told()
    assert (told["reason"], told["subject"], told["identity"]) == ("escalated", of(silent)["id"], "@api")
    assert "main is red" in told["body"]
    sandbox.run("ack", of(silent)["id"], "--lease", "1", expect=7)
    assert len(api.fake.submits()) == 3


def test_what_is_tied_to_a_conversation_is_a_line_for_those_who_look_at_it_and_nothing_is_typed(desk: Desk) -> None:
    """A client that shows the pane sees it, one that shows another does not; without the conversation it is the inbox's."""
    sandbox, tmux = desk.sandbox, desk.world.tmux
    api, other = desk.world.enlisted("api"), desk.world.enlisted("other")
    socket = tmux.socket_path
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        ledger.meet_session(
            Session("claude", "S1", Identity("@api"), socket=str(socket), pane=api.id, seen_at=SteadyClock().now())
        )
    sandbox.daemon()
    attach = ["tmux", "-u", "-L", tmux.socket_name, "-f", "/dev/null", "attach-session", "-t"]
    with Typist([*attach, "=api"], width=160) as here, Typist([*attach, "=other"], width=160) as there:
        here.waits_until_shown()
        there.waits_until_shown()
        words = ("--source", "build", "--mode", "prompt")
        sandbox.run("notify", "@api", "the build is red", *words, "--conversation", "S1")
        sandbox.waits_for(lambda: "the build is red" in here.shown(), what="the line in the client")
        assert "the build is red" not in there.shown()
    assert (api.fake.submits(), other.fake.submits(), desk.told()) == ([], [], [])
    sandbox.run("notify", "@api", "and the tests as well", *words, "--conversation", "S2")
    (told,) = sandbox.waits_for(desk.told, what="the desk")
    assert "and the tests as well" in told["body"]
