"""Reminders from the command line to the agent's pane and to the person's channel, by a real daemon."""

from __future__ import annotations

import json

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import Playground


def test_a_reminder_wakes_its_agent_and_tells_its_person_once(playground: Playground) -> None:
    """`remind @x`: a wake like any other, with the text; `remind --channel`: a message; a cancelled one is neither."""
    sandbox, file = playground.sandbox, playground.directory / "messages.jsonl"
    sandbox.run("init")
    sandbox.configure(f'{QUICK}channels.log = {{kind = "file", recipient = "{file}"}}\n')
    docs = playground.enlisted("docs")
    daemon = sandbox.daemon()
    weekly = sandbox.ask("remind", "@docs", "--cron", "0 9 * * 1-5", "update the docs")
    cancelled = sandbox.ask("remind", "@docs", "--in", "1d", "never")
    assert sandbox.ask("reminders", "cancel", cancelled["reminderId"])["ending"] == "cancelled"
    made = sandbox.ask("remind", "@docs", "--in", "1s", "look at the build")
    sandbox.run("remind", "--channel", "log", "--in", "1s", "tea")
    sandbox.waits_for_delivery(target="@docs", outcome="submitted")
    (submitted,) = docs.fake.submits()
    assert '1 reminder ("look at the build")' in submitted
    sandbox.waits_for(lambda: file.exists() and file.read_text(), what="the person's reminder")
    (told,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (told["body"], told["channel"]) == ("tea", "log")
    assert [one["reminderId"] for one in sandbox.lines("reminders", "list")] == [weekly["reminderId"]]
    assert len(daemon.waits_for_log("reminder_fired", 2)) == 2
    (delivery,) = sandbox.deliveries()
    assert delivery["events"][0]["subject_key"].startswith(f"reminder:{made['reminderId']}:")
    for wrong in (
        ("remind", "@docs", "--in", "1s"),
        ("remind", "@docs", "text"),
        ("remind", "@docs", "--at", "25:00", "text"),
        ("remind", "@docs", "--cron", "0 9 * *", "text"),
        ("remind", "@docs", "--cron", "0 0 9 * * 1-5", "text"),
        ("remind", "@docs", "--in", "1s", "--at", "9:00", "text"),
    ):
        sandbox.run(*wrong, expect=2)
    sandbox.run("remind", "@nobody", "--in", "1s", "text", expect=8)
    sandbox.run("remind", "--channel", "fone", "--in", "1s", "text", expect=8)
    assert daemon.entries("chore_failed") == []
