"""Cursor and epochs against a model: a log that is pruned, replaced, counted anew, and a tail that dies at its commits."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from wake_bridge.domain.names import Epoch
from wake_bridge.ports.change_log import Published
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.tail_rig import TailRig

AGENT = "@a"
SPOILED = st.sampled_from(["", "0", "-3", "1", "999999", "no number", None])


class Killed(BaseException):
    """The process ends here, as by SIGKILL: nothing of ours runs on."""


class FollowedLog(RuleBasedStateMachine):
    """A graph and whoever follows it; every message that can still be known is an event, once.

    `_may_be_missed` are messages that nobody can know of: gone with the file, or pruned before they were seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._root = Path(self._directory.name)
        self._graph, self._state = self._root / "graph.sqlite", self._root / "state"
        with MemoryCore.create(self._graph, [AGENT, "@b"]) as core:
            core.subscribe(AGENT)
        self._sent: dict[str, int] = {}
        self._may_be_missed: set[str] = set()
        self._backup: tuple[Path, dict[str, int]] | None = None
        self._epoch = Epoch(0)
        self._is_other_life = True
        self.the_tail_looks()

    def teardown(self) -> None:
        self._directory.cleanup()

    # -- what happens to the graph ---------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def messages_come(self, count: int) -> None:
        with MemoryCore(self._graph) as core:
            for number in range(count):
                self._sent[core.send("@b", AGENT, f"mail {number}")] = core.tip()

    @rule(rows=st.integers(1, 6))
    def others_work(self, rows: int) -> None:
        with MemoryCore(self._graph) as core:
            core.noise(rows)

    @rule(back=st.integers(-4, 6))
    def the_log_is_pruned(self, back: int) -> None:
        """By the published cursor, or a careless one's a little further."""
        upto = self._published() - back
        with MemoryCore(self._graph) as core:
            core.prune(upto)
        unseen = self._sent.keys() - self._known()
        lost = unseen if self._is_other_life else {one for one in unseen if self._sent[one] <= upto}
        self._may_be_missed |= lost

    @rule()
    def a_copy_is_made(self) -> None:
        copy = self._root / "backup.sqlite"
        copy.unlink(missing_ok=True)
        with closing(sqlite3.connect(self._graph)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        self._backup = copy, dict(self._sent)

    @rule()
    def the_copy_takes_its_place(self) -> None:
        if self._backup is None:
            return
        copy, sent = self._backup
        self._backup = None
        for ending in ("-wal", "-shm"):
            Path(f"{self._graph}{ending}").unlink(missing_ok=True)
        copy.replace(self._graph)
        self._may_be_missed |= self._sent.keys() - sent.keys()
        self._is_other_life = True
        event("replaced by an older copy")

    @rule()
    def the_log_counts_anew(self) -> None:
        with closing(sqlite3.connect(self._graph, isolation_level=None)) as graph:
            graph.execute("DELETE FROM GraphLog")
            graph.execute("DELETE FROM sqlite_sequence WHERE name = 'GraphLog'")
        self._is_other_life = True
        event("ids reset")

    @rule(content=SPOILED)
    def the_published_cursor_is_spoiled(self, content: str | None) -> None:
        path = self._state / "lastSyncId"
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(content)

    # -- what the tail does ----------------------------------------------------------------------------------------

    @rule()
    def the_tail_looks(self) -> None:
        asyncio.run(self._look())
        with closing(LedgerStore.open(self._state, read_only=True)) as ledger:
            place = ledger.position()
        assert place is not None
        assert place.cursor == self._tip()
        assert self._published() == place.cursor
        assert place.epoch >= self._epoch
        if not self._is_other_life:
            assert place.epoch == self._epoch, "a new epoch, and the log is the same"
        self._epoch, self._is_other_life = place.epoch, False
        self._nothing_is_lost_or_doubled()

    @rule(where=st.sampled_from(["before the commit", "after the commit", "before lastSyncId", "in lastSyncId"]))
    def the_tail_dies(self, where: str) -> None:
        event(f"dies {where}")
        try:
            asyncio.run(self._look(dies=where))
        except Killed:
            event("died")
        self._nothing_is_doubled()

    @rule()
    def the_ledger_refuses_once(self) -> None:
        """A commit that fails is made up for at the next start, whatever happens to the log until then."""
        try:
            asyncio.run(self._look(dies="at a refused commit"))
        except Killed:
            event("refused")
        self._nothing_is_doubled()

    async def _look(self, dies: str = "") -> None:
        rig = TailRig(self._graph, self._state, hints=False)
        if dies:
            _arm(rig, dies)
        try:
            await rig.tail.catch_up_once()
        finally:
            await rig.close()

    # -- what always holds -----------------------------------------------------------------------------------------

    def _nothing_is_lost_or_doubled(self) -> None:
        known = self._known()
        assert self._sent.keys() - self._may_be_missed <= known.keys()
        self._nothing_is_doubled()
        # what was looked for and not found by now is not looked for again; what was, is known
        self._may_be_missed -= known.keys()

    def _nothing_is_doubled(self) -> None:
        known = self._known()
        assert known.keys() <= self._sent.keys()
        assert set(known.values()) <= {1}

    def _known(self) -> dict[str, int]:
        with closing(LedgerStore.open(self._state, read_only=True)) as ledger:
            rows = ledger._db.rows(
                "SELECT subject_key, COUNT(*) AS events FROM wake_event WHERE identity = ? GROUP BY subject_key",
                (AGENT,),
            )
            return {row["subject_key"]: row["events"] for row in rows}

    def _tip(self) -> int:
        """The highest row ever given, be it pruned."""
        with closing(sqlite3.connect(self._graph)) as graph:
            rows = graph.execute("SELECT seq FROM sqlite_sequence WHERE name = 'GraphLog'").fetchall()
            return int(rows[0][0]) if rows else 0

    def _published(self) -> int:
        try:
            return int((self._state / "lastSyncId").read_text())
        except (FileNotFoundError, ValueError):
            return 0


def _arm(rig: TailRig, where: str) -> None:
    """Let a look die there; a look that stores nothing gets through."""
    ledger: Any = rig.ledger
    database = ledger._db
    if where in {"before the commit", "at a refused commit"}:

        def dying(statement: str, parameters: Any = ()) -> Any:
            if statement == "COMMIT":
                raise Killed(where)
            return run(statement, parameters)

        run = database._run
        database._run = dying
        return
    write = rig.cursor_file.write

    def torn(published: Published) -> None:
        if where == "in lastSyncId":
            draft = Path(rig.cursor_file._path).with_name(".lastSyncId.new")
            draft.write_bytes(str(int(published.cursor)).encode()[:1])
            os.chmod(draft, 0o600)  # noqa: PTH101 - the mode it has
        elif where == "after the commit":
            write(published)
        raise Killed(where)

    rig.cursor_file.write = torn  # type: ignore[method-assign]
