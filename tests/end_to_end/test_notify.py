"""Items from outside: what `notify` says reaches an agent, or the person, by the rules of every wake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing.playground import Playground


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    with Sandbox(tmp_path / "person", command=program) as home:
        yield home


def test_an_active_item_wakes_a_real_pane_and_a_passive_one_rides_along(playground: Playground) -> None:
    """An item is an event like a row's: window, digest and proof are those of every wake."""
    here = playground.sandbox
    here.configure(QUICK)
    here.run("init")
    agent = playground.agent("api")
    here.enlist("@api", agent.session)
    here.daemon()

    here.run("notify", "@api", "--source", "lint", "2 warnings in api.py")
    told = here.ask("notify", "@api", "--source", "build", "--mode", "active", "make ended with 2")

    done = here.waits_for_delivery(target="@api", outcome="submitted")
    (submit,) = agent.fake.submits()
    assert "2 inbox items" in submit
    assert '"make ended with 2" from build' in submit
    assert {one["kind"] for one in done["events"]} == {"item"}
    assert "announced" in here.run("why", told["id"]).stdout


def test_a_listed_item_is_under_a_lease_until_it_is_acknowledged_or_its_reader_reads_on(sandbox: Sandbox) -> None:
    """Nothing is lost between a list and the work on it: only `ack`, the next list or `--consume` settles."""
    sandbox.run("init")
    sandbox.run("agent", "add", "@api")
    ids = [sandbox.ask("notify", "@api", "--source", "build", f"build {one}")["id"] for one in range(3)]

    shown = sandbox.lines("inbox", "@api", "--limit", "2")
    assert [one["id"] for one in shown] == ids[:2]
    assert "acknowledged" in sandbox.run("ack", ids[0]).stdout
    assert [one["id"] for one in sandbox.lines("inbox", "@api", "--consume")] == ids[2:]
    assert sandbox.lines("inbox", "@api") == []
    assert "read by @api" in sandbox.run("why", ids[1]).stdout


def test_what_contradicts_itself_ends_with_2_and_puts_nothing_into_an_inbox(sandbox: Sandbox) -> None:
    """The answer names the option; nothing is written."""
    sandbox.run("init")
    sandbox.run("agent", "add", "@api")
    for options in (
        ("--mode", "active", "--tier", "later"),
        ("--mode", "passive", "--tier", "now"),
        ("--state", "resolved"),
        ("--priority", "urgent"),
        ("--source", "no spaces"),
    ):
        sandbox.run("notify", "@api", "--source", "build", *options, "text", expect=2)
    sandbox.run("notify", "@api", "--source", "build", "  ", expect=2)
    sandbox.run("notify", "@me", "--source", "build", "--mode", "active", "text", expect=2)
    assert sandbox.run("notify", "@nobody", "--source", "build", "text", expect=8).stderr
    assert sandbox.lines("inbox", "@api", "--floor", "later") == []


def test_what_is_for_the_person_stands_in_their_inbox_and_goes_out_by_the_default_channel(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A prompt wakes no agent; the person is told by a channel, and finds it in the inbox of @me."""
    letters = tmp_path / "letters"
    sandbox.configure(f'[channels.letters]\nkind = "file"\nrecipient = "{letters}"\n')
    sandbox.config_file.chmod(0o600)
    sandbox.run("init")
    sandbox.run("agent", "add", "@api")
    sandbox.daemon()

    told = sandbox.ask("notify", "@api", "--source", "ci", "--mode", "prompt", "the release waits for you")

    sandbox.waits_for(
        lambda: letters.exists() and "the release waits for you" in letters.read_text(), what="the letter"
    )
    (item,) = sandbox.lines("inbox", "@me")
    assert (item["id"], item["about"], item["target"], item["handler"]) == (
        told["id"],
        "@api",
        "USER",
        "SYSTEM",
    )
    assert sandbox.lines("inbox", "@api") == []
    (entry,) = [one for one in sandbox.lines("activity") if one["kind"] == "inbox.item"]
    assert (entry["origin"], entry["trigger"], entry["about"]) == ("inbox", "ci", told["id"])
