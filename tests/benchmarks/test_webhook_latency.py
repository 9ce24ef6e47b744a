"""From the commit of a row to its receiver; and what dead receivers cost the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.benchmarks.figures import Figures, quantile_of
from tests.benchmarks.office import LIMITS, PATIENCE, Office
from wake_bridge.testing.memory_core import MemoryCoreProcess
from wake_bridge.testing.webhook_receiver import WebhookReceiver

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

WAKES: Final = 100
RECEIVERS: Final = 50
DEAD: Final = 5
ROUNDS: Final = 10
SETTINGS: Final = (
    f'{LIMITS}[graph]\nserve = ["a2a-webhook"]\n[adapters.webhook]\nallow = ["127.0.0.1"]\nper_minute = 0\n'
)


def test_row_committed_to_received(office: Office, figures: Figures) -> None:
    """Row committed → received: p50 ≤ 25 ms; five dead of fifty receivers cost the others' p99 200 ms at most."""
    office.sandbox.configure(SETTINGS)
    with (
        WebhookReceiver(office.directory / "live") as live,
        WebhookReceiver(office.directory / "dead", ["hang"]) as dead,
    ):
        names = [f"@r{number}" for number in range(RECEIVERS)]
        with office.core() as core:
            core.identity("@person", accountType="human")
            for number, name in enumerate(names):
                core.identity(name)
                url = (dead if number < DEAD else live).url
                metadata = {"url": url, "signingKey": "whsec_a2V5", "coalesceWindow": 0}
                core.subscribe(name, harnessTarget="a2a-webhook", harnessTargetMetadata=metadata)
        daemon, _ = office.daemon()
        with MemoryCoreProcess(office.sandbox.graph) as writer:

            def send(who: str) -> tuple[str, float]:
                return str(writer.do("send", "@person", who, "posted")), time.time()

            # the libraries are loaded with the first one
            _delays(live, [send(names[-1])])
            alone = [_delays(live, [send(names[-1])])[0] for _ in range(WAKES)]
            without = _rounds(live, lambda: [send(one) for one in names[DEAD:]])

            def with_dead() -> Sequence[tuple[str, float]]:
                for one in names[:DEAD]:
                    send(one)
                return [send(one) for one in names[DEAD:]]

            beside = _rounds(live, with_dead)
        daemon.stop()
    figures.add("commit → received", alone, "ms", at_most=25)
    figures.add("commit → received, 45 at once", without, "ms", quantile=0.99)
    figures.add("commit → received, 45 at once beside 5 dead", beside, "ms", quantile=0.99)
    late = quantile_of(beside, 0.99) - quantile_of(without, 0.99)
    figures.add("  later by, p99", [late], "ms", at_most=200)
    figures.add("  POSTs to the dead", [len(dead.received())], "")


def _rounds(live: WebhookReceiver, send: Callable[[], Sequence[tuple[str, float]]]) -> list[float]:
    return [delay for _ in range(ROUNDS) for delay in _delays(live, send())]


def _delays(live: WebhookReceiver, sent: Sequence[tuple[str, float]]) -> list[float]:
    """Milliseconds from the commit of each message to its POST."""
    committed, deadline = dict(sent), time.monotonic() + PATIENCE
    while True:
        posts = {json.loads(one["body"])["payload"]["messageId"]: one["at"] for one in live.received()}
        if committed.keys() <= posts.keys():
            return [(posts[message] - at) * 1000 for message, at in committed.items()]
        assert time.monotonic() < deadline, "it was never received"
        time.sleep(0.02)
