"""The commands that change the ledger: each works with the daemon, which acts at once, and without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.testing.playground import Playground

NAMES = ("paused", "acked", "letter", "bound", "replayed", "doubted", "reader")
Delivery = dict[str, Any]


@dataclass
class Story:
    """What the commands said, and how the deliveries stood before and after them."""

    world: Playground
    is_running: bool
    messages: dict[str, str] = field(default_factory=dict)
    subscriptions: dict[str, str] = field(default_factory=dict)
    before: dict[str, Delivery] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    after: dict[str, list[Delivery]] = field(default_factory=dict)

    def play(self) -> None:
        """Everybody is written to; one is paused, one types, one is nowhere yet, one loses its pane mid-wake."""
        self._settle_in()
        if self.is_running:
            self.world.sandbox.daemon()
        self._write()
        self.before = {name: found[0] for name, found in self._by_name().items()}
        self._command()
        self._advance(self._is_over)
        self.after = self._by_name()

    def _by_name(self) -> dict[str, list[Delivery]]:
        """Everybody's deliveries, newest first."""
        found = self.world.sandbox.deliveries()
        return {name: [one for one in found if one["target"] == f"@{name}"] for name in NAMES}

    def submits(self, name: str) -> list[str]:
        """What an agent was told."""
        return self.world.agents[name].fake.submits()

    def _settle_in(self) -> None:
        sandbox = self.world.sandbox
        sandbox.run("init")
        self.subscriptions = self.world.together(self._settle, NAMES)
        self.said["pause"] = sandbox.ask("pause", "@paused", "--for", "1h")
        self.world.agents["reader"].fake.shows("draft", "I am writing")

    def _settle(self, name: str) -> str:
        """One agent and its subscription; one that will be bound says nothing of its pane."""
        self.world.agent(name, *(("--paste-delay", "2500") if name == "doubted" else ()))
        self.world.sandbox.run("agent", "add", f"@{name}")
        where = ("--harness-target", "bridge-daemon") if name == "bound" else ("--tmux", name)
        mail = ("--trigger", "SENT_TO_ME", "--window", "0", *where)
        return str(self.world.sandbox.ask("subscribe", f"@{name}", *mail)["subscriptionId"])

    def _write(self) -> None:
        send = self.world.sandbox.send
        self.messages = self.world.together(lambda name: send(f"@{name}", f"for {name}", "--body", "Read me."), NAMES)
        once = None if self.is_running else self.world.sandbox.daemon("--once")
        doubted = self.world.agents["doubted"]
        doubted.fake.waits_for("bytes")
        self.world.tmux.run("kill-pane", "-t", doubted.id)
        if once is not None:
            self.said["once"] = once.process.wait(30)
        self.world.sandbox.waits_for(lambda: all(one["settledAt"] or one["hold_reason"] in HELD for one in self._all()))
        doubted.moves_in()
        doubted.fake.turn(paste_delay=0)

    def _all(self) -> list[Delivery]:
        found = self.world.sandbox.deliveries()
        return found if len(found) == len(NAMES) else [{"settledAt": None, "hold_reason": None}]

    def _command(self) -> None:
        sandbox, said = self.world.sandbox, self.said
        said["status"] = sandbox.ask("status")
        said["all"], said["held"] = sandbox.deliveries(), sandbox.deliveries("--state", "held")
        said["held reader"] = sandbox.deliveries("--state", "held", "--target", "@reader")
        said["one held"] = sandbox.lines("deliveries", "--state", "HELD", "--limit", "1")
        said["resume"] = sandbox.ask("resume", "@paused")
        said["ack"] = sandbox.ask("ack", self.before["acked"]["id"])
        said["read"] = sandbox.lines("read", "@letter", self.messages["letter"])
        said["bind"] = sandbox.ask("bind", "@bound", "--pane", self.world.agents["bound"].id)
        # what a look-back found, before there was a cursor, belongs to no row
        since = str(max(0, self.before["replayed"]["events"][0]["logId"] - 1))
        said["resync"] = sandbox.ask("resync", self.subscriptions["replayed"], "--since", since)
        said["careless retry"] = sandbox.run("deliveries", "retry", self.before["doubted"]["id"], expect=7)
        said["retry"] = sandbox.ask("deliveries", "retry", self.before["doubted"]["id"], "--i-looked")
        said["inbox"] = sandbox.lines("inbox", "@reader", "--bodies", "--consume")

    def _is_over(self) -> bool:
        """Nothing is open any more, and what was read counts as acknowledged."""
        found = self._by_name()
        return all(one["settledAt"] for theirs in found.values() for one in theirs) and found["letter"][0]["proof"] == 3

    def _advance(self, until: Callable[[], bool]) -> None:
        if self.is_running:
            self.world.sandbox.waits_for(until, what="the commands to take effect")
        else:
            self.world.sandbox.run("run", "--once")
            assert until()


HELD = {"paused", "unreachable", "userTyping"}


@pytest.fixture(scope="module", params=[True, False], ids=["with the daemon", "without the daemon"])
def story(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Story:
    """All commands, each for an identity of its own."""
    directory: Path = tmp_path_factory.mktemp("commands")
    with Playground(directory, program) as world:
        played = Story(world, is_running=request.param)
        played.play()
        return played


def test_pause_holds_and_resume_lets_go_on(story: Story) -> None:
    """`pause`, `resume`: nothing is lost meanwhile."""
    held, (after,) = story.before["paused"], story.after["paused"]
    assert story.said["pause"]["paused"] == "@paused"
    assert story.said["pause"]["until"] is not None
    assert (held["hold_reason"], held["remedy"]) == ("paused", "`wake-bridge resume @paused`")
    assert story.said["resume"] == {"resumed": "@paused", "agentIdentity": "@paused"}
    assert (after["id"], after["outcome"]) == (held["id"], "submitted")
    assert len(story.submits("paused")) == 1


def test_status_counts_what_is_open_held_and_unknown(story: Story) -> None:
    """`status`: the ledger tells, with or without the daemon."""
    status = story.said["status"]
    assert status["running"] == ("yes" if story.is_running else "no")
    assert (status["open"], status["held"], status["unknown"], status["failed"]) == (3, 3, 1, 0)
    assert status["holds"] == dict.fromkeys(HELD, 1)


def test_what_is_held_is_listed_by_itself(story: Story) -> None:
    """`deliveries --state`: what is held is no state of its own, but what one asks for."""
    held = story.said["held"]
    assert [one["hold_reason"] for one in held] == [
        one["hold_reason"] for one in story.said["all"] if one["hold_reason"] and not one["settledAt"]
    ]
    assert {one["hold_reason"] for one in held} == HELD
    assert [one["target"] for one in story.said["held reader"]] == ["@reader"]
    assert len(story.said["one held"]) == 1


def test_ack_raises_the_proof_to_3(story: Story) -> None:
    """Proof 3, acknowledged; state and outcome of a terminal delivery never change."""
    assert (story.before["acked"]["state"], story.before["acked"]["proof"]) == ("DELIVERED", 2)
    assert story.said["ack"]["proof"] == 3
    (after,) = story.after["acked"]
    assert (after["state"], after["outcome"], after["proof"]) == ("DELIVERED", "submitted", 3)


def test_mail_that_is_read_raises_the_proof_to_3(story: Story) -> None:
    """The agent that was woken read its mail."""
    assert story.before["letter"]["proof"] == 2
    (line,) = story.said["read"]
    assert (line["messageId"], line["body"]) == (story.messages["letter"], "Read me.")
    (after,) = story.after["letter"]
    assert (after["outcome"], after["proof"]) == ("submitted", 3)
    assert len(story.submits("letter")) == 1


def test_bind_says_where_an_identity_lives(story: Story) -> None:
    """A live `@wake_identity` option and a fenced binding."""
    held, (after,) = story.before["bound"], story.after["bound"]
    assert held["hold_reason"] == "unreachable"
    assert "`wake-bridge bind @bound`" in held["remedy"]
    assert story.said["bind"]["agentIdentity"] == "@bound"
    assert (after["id"], after["outcome"], after["pane"]) == (held["id"], "submitted", story.said["bind"]["pane"])
    assert len(story.submits("bound")) == 1


def test_resync_matches_past_rows_again_for_one_subscription(story: Story) -> None:
    """`resync`: what matches wakes again, by the filters of today."""
    said = story.said["resync"]
    assert said["subscriptionId"] == story.subscriptions["replayed"]
    assert said["eventsReplayed"] == 1
    assert said["lastLogId"] >= story.before["replayed"]["events"][0]["logId"]
    again, first = story.after["replayed"]
    assert first["id"] == story.before["replayed"]["id"]
    assert again["events"][0]["subject_key"] == first["events"][0]["subject_key"] == story.messages["replayed"]
    assert [story.submits("replayed")[at].count(one["id"]) for at, one in enumerate((first, again))] == [1, 1]
    assert all(len(story.after[name]) == 1 for name in NAMES if name not in {"replayed", "doubted"})


def test_what_may_have_arrived_is_retried_only_by_who_looked(story: Story) -> None:
    """Unknown is FAILED/unknown, never typed again by itself; exit 7 says how to go on."""
    unknown = story.before["doubted"]
    assert (unknown["state"], unknown["outcome"]) == ("FAILED", "unknown")
    refused = story.said["careless retry"]
    assert "error: the wake may have been submitted already" in refused.stderr
    assert "--i-looked" in refused.stderr
    assert story.said["retry"]["events"] == unknown["events"]
    again, failed = story.after["doubted"]
    assert (failed["id"], failed["outcome"]) == (unknown["id"], "unknown")
    assert again["outcome"] == "submitted"
    assert [again["id"] in text for text in story.submits("doubted")] == [True]
    if not story.is_running:
        assert story.said["once"] == 1


def test_a_hold_ends_when_the_mail_is_read_and_nothing_is_typed(story: Story) -> None:
    """A set that was read meanwhile settles as DELIVERED/`read` with zero bytes."""
    held, (after,) = story.before["reader"], story.after["reader"]
    assert held["hold_reason"] == "userTyping"
    (line,) = story.said["inbox"]
    assert (line["messageId"], line["body"]) == (story.messages["reader"], "Read me.")
    assert (after["id"], after["state"], after["outcome"]) == (held["id"], "DELIVERED", "read")
    assert story.world.agents["reader"].fake.bytes_received() == b""
