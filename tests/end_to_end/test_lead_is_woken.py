"""A lead in a real pane is woken by a real daemon when its worker needs a person."""

from __future__ import annotations

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import Playground


def test_a_lead_is_woken_by_its_worker_s_approval(playground: Playground) -> None:
    """`subscribe --trigger presence` with no pane of its own: the lead lives where it does, and a kill repeats nothing."""
    sandbox = playground.sandbox
    sandbox.run("init")
    sandbox.configure(QUICK)
    lead, worker = playground.enlisted("lead"), playground.enlisted("worker")
    watching = ("subscribe", "@lead", "--trigger", "presence")
    assert "add --of @worker" in sandbox.run(*watching, expect=2).stderr
    assert "there is no identity @nobody" in sandbox.run(*watching, "--of", "@nobody", expect=None).stderr
    assert "no such kind: tea" in sandbox.run(*watching, "--of", "@worker", "--when", "tea", expect=2).stderr
    made = sandbox.ask(*watching, "--of", "@worker", "--when", "approval,gone", "--window", "0")
    assert made["harnessTarget"] == "bridge-daemon"

    daemon = sandbox.daemon()
    daemon.waits_for_log("caught_up")
    worker.fake.shows("approval")
    sandbox.waits_for_delivery(agentIdentity="@lead", state="DELIVERED")
    assert b"1 change of presence (latest: @worker waits for an approval)" in lead.fake.bytes_received()
    daemon.kill()
    again = sandbox.daemon()
    again.waits_for_log("caught_up")
    worker.fake.shows("idle")
    again.waits_for_log("attention_ended")
    assert len(sandbox.deliveries()) == 1
    assert worker.fake.bytes_received() == b""
