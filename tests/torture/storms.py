"""A source that storms: ten thousand items a minute over HTTP, and what its recipient and the person get of them."""

from __future__ import annotations

import http
import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import psutil

from tests.torture.report import Table, Verdict
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG

A_MINUTE: Final = 10_000
AT_ONCE: Final = 4
WHO: Final = "@api"
MEGABYTE: Final = 1024 * 1024
MOST_MEMORY: Final = 110
"""Megabytes that the daemon may take."""

MOST_WAKES: Final = 8
"""Items within a minute before a source storms (`limits.storm`): so many could wake, each alone."""

TAKEN: Final = "taken"
REFUSED: Final = "refused"

ABOUT: Final = (
    "One source posts active items, each under a key of its own, to an agent that is idle. Judged are the answers, the pane,"
    " the ledger and the process: each item that was answered 202 is in the inbox, at most so many wakes as a storm begins with"
    " reach the pane, the person gets one notice, and the daemon stays below its memory. The daemon's limits are everybody's."
)


def storm(directory: Path, tmux: PrivateTmux, *, minutes: float) -> Table:
    """Post so many minutes of items to a real daemon without a graph."""
    table = Table("What comes of a storm of items", ABOUT, "minute", (TAKEN, REFUSED))
    fake = FakeHarness(directory, "api")
    pane = tmux.new_pane(fake.command(), session="agents", width=100, height=30)
    fake.waits_for("started", timeout=HUNG)
    with Sandbox(directory, tmux.socket_name) as box:
        box.configure(f'[http]\nlisten = "127.0.0.1:0"\n[targets."{WHO}"]\npane = "{pane.pane_id}"\n')
        token = str(box.ask("sources", "token", "ci")["token"])
        daemon = box.daemon(command="serve")
        port = int(daemon.waits_for_log("http_listening")[0]["where"].rpartition(":")[2])
        process, most = psutil.Process(daemon.pid), 0.0
        began, count = time.monotonic(), round(minutes * A_MINUTE)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            poster = _Poster(port, token, table, began)
            under_way = [pool.submit(poster.posts, first, count) for first in range(AT_ONCE)]
            while not all(one.done() for one in under_way):
                most = max(most, process.memory_info().rss / MEGABYTE)
                time.sleep(0.5)
            for one in under_way:
                one.result()
        took = time.monotonic() - began
        time.sleep(5)
        most = max(most, process.memory_info().rss / MEGABYTE)
        daemon.stop()
        with closing(LedgerStore.open(box.state_dir, read_only=True)) as ledger:
            items = int(ledger._db.value("SELECT COUNT(*) FROM wake_event WHERE kind = 'item'"))
            notices = int(ledger._db.value("SELECT COUNT(*) FROM send WHERE reason = 'storm'"))
        wakes = len(fake.submits())
        taken = sum(row[TAKEN] for row in table.rows.values())
        table.demand(taken == count, "answers", f"{count - taken} items were refused")
        table.demand(items == taken, "the ledger", f"{items} items are kept of {taken} that were taken")
        table.demand(1 <= wakes <= MOST_WAKES, "the pane", f"the agent was woken {wakes} times")
        table.demand(notices == 1, "the person", f"{notices} notices of the storm")
        table.demand(most <= MOST_MEMORY, "memory", f"the daemon took {most:.0f} MB")
        table.demand(not daemon.entries("job_fell"), "the daemon", "a job fell")
        table.measures |= {
            "items a minute": f"{60 * taken / took:,.0f}",
            "wakes": str(wakes),
            "notices": str(notices),
            "most memory": f"{most:.0f} MB",
        }
    return table


class _Poster:
    """A source with connections that stay open, and a pace."""

    def __init__(self, port: int, token: str, table: Table, began: float) -> None:
        self._port, self._table, self._began = port, table, began
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def posts(self, first: int, count: int) -> None:
        """Every `AT_ONCE`-th item from `first` on, each at its time."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=HUNG)
        with closing(connection):
            for number in range(first, count, AT_ONCE):
                at = self._began + number * 60 / A_MINUTE
                time.sleep(max(0.0, at - time.monotonic()))
                item = {"identity": WHO, "mode": "active", "text": f"build {number} is red", "key": f"build-{number}"}
                connection.request("POST", "/api/inbox", json.dumps(item), self._headers)
                with connection.getresponse() as answer:
                    answer.read()
                    result = TAKEN if answer.status == http.HTTPStatus.ACCEPTED else REFUSED
                self._table.add(str(number // A_MINUTE + 1), Verdict(result))
