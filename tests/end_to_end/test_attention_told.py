"""A person hears of an agent that needs them from a real daemon, about real panes, without any mail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.demo.tmux_server import Typist
from wake_bridge.testing.playground import Playground

RECORD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def _told(record: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def test_an_agent_that_needs_a_person_is_told_once_without_any_mail(playground: Playground) -> None:
    """An approval after `attention.after`, a limit at once; `status` and `why` know both, a kill repeats neither."""
    sandbox, record = playground.sandbox, playground.directory / "told"
    sandbox.run("init")
    command = json.dumps([sys.executable, "-c", RECORD, str(record)])
    sandbox.configure(f"{QUICK}attention.after = 1\nhuman.command = {command}\n")
    asks, limited = playground.enlisted("asks"), playground.enlisted("limited")
    daemon = sandbox.daemon()
    daemon.waits_for_log("caught_up")
    asks.fake.shows("approval")
    limited.fake.control(say="⚠ You have reached your limit")

    sandbox.waits_for(lambda: len(_told(record)) == 2, what="both notices")
    told = {one["identity"]: one for one in _told(record)}
    assert told["@asks"]["title"] == "wake-bridge: @asks waits for an approval (approval)"
    assert f"answer the dialog in {asks.label}" in told["@asks"]["body"]
    assert told["@limited"]["reason"] == "limited"
    standing = {one["agentIdentity"]: one for one in sandbox.ask("status")["attention"]}
    assert {who: one["kind"] for who, one in standing.items()} == {"@asks": "approval", "@limited": "limited"}
    assert told["@asks"]["subject"] == standing["@asks"]["episodeId"]
    assert f"@asks: approval in {asks.label}" in sandbox.run("status").stdout

    attach = ["tmux", "-u", "-L", playground.tmux.socket_name, "-f", "/dev/null", "attach-session", "-t", "=limited"]
    with Typist(attach, width=120) as person:
        person.waits_until_shown()
        client = playground.tmux.run("list-clients", "-F", "#{client_name}").strip()
        inside = {"TMUX": playground.tmux.run("display-message", "-p", "#{socket_path},#{pid},0").strip()}
        assert [one["agentIdentity"] for one in sandbox.lines("next")] == ["@asks"]
        assert f"attach-session -t {asks.id}`" in sandbox.run("next").stdout
        sandbox.run("next", "--client", client, environment=inside)
        shown = ["list-clients", "-F", "#{pane_id}"]
        assert playground.tmux.run(*shown).strip() == asks.id
        sandbox.run("next", "--back", "--client", client, environment=inside)
        assert playground.tmux.run(*shown).strip() == limited.id

    daemon.kill()
    again = sandbox.daemon()
    asks.fake.shows("idle")
    again.waits_for_log("attention_ended")
    (episode,) = sandbox.ask("why", "@asks")["attention"]
    assert episode["ending"] == "answered"
    assert [one["agentIdentity"] for one in sandbox.ask("status")["attention"]] == ["@limited"]
    assert len(_told(record)) == 2
    assert asks.fake.bytes_received() == limited.fake.bytes_received() == b""
    assert again.entries("chore_failed") == []
