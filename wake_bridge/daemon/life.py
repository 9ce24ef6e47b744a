"""The daemon's life: start, serve, reload, stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import structlog

from wake_bridge.answers.actions import Actions
from wake_bridge.answers.queries import Queries
from wake_bridge.answers.relay import RelayAnswers
from wake_bridge.answers.sessions import PATIENT, SessionAnswers
from wake_bridge.config.settings import (
    HTTP_NEEDS,
    Settings,
    engine_settings,
    listen_address,
    matching_rules,
    needs_restart,
    taken_over,
)
from wake_bridge.config.source_tokens import has_source_tokens
from wake_bridge.control.graph_lock import GraphLock
from wake_bridge.control.instance_lock import InstanceLock, show_end
from wake_bridge.control.server import ControlServer
from wake_bridge.control.settings_in_force import write_settings
from wake_bridge.daemon.chores import Chores, OtherDrivers
from wake_bridge.daemon.process import OwnTerminal, ServiceNotifier
from wake_bridge.daemon.supervise import Supervisor
from wake_bridge.daemon.web import Web
from wake_bridge.domain.delivery import DeliveryState
from wake_bridge.domain.errors import ConfigurationInvalid, OperationFailed, WakeBridgeError
from wake_bridge.domain.values import dataclass
from wake_bridge.integrations.adapters import reload_adapters
from wake_bridge.integrations.config_check_program import settings_for_daemon
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.logs import configure_logging, set_level
from wake_bridge.system.files import make_private_directory, require_own_place
from wake_bridge.system.garbage import collect_as_usual
from wake_bridge.wiring import wire

STOP_PATIENCE: Final = 3.5
"""Seconds an attempt under way may take to come to a safe end when the daemon stops (a clean stop takes at most 5)."""

STOP_LIMIT: Final = 4.8
"""Seconds after which the process ends whatever still hangs in it."""


def run_daemon(
    config_option: str | None,
    *,
    once: bool,
    dry_run: bool,
    early: InstanceLock | None = None,
    has_graph: bool = True,
) -> bool:
    """Run the daemon in the foreground, until a signal or, with `once`, until nothing is left to do.

    Args:
        config_option: the value of `--config`, to read the file again at a reload.
        once: to the tip, each delivery as far as it goes, then end.
        dry_run: decide and log on a copy of the ledger; type nothing.
        early: the lock of the state directory, where it is held already; given up in the end.
        has_graph: follow the graph; else signed wakes are taken in alone.

    Returns:
        False if a delivery failed in this run.

    Raises:
        WakeBridgeError: whatever keeps it from running, with its exit code.
    """
    with ExitStack() as held:
        if early is not None:
            held.enter_context(early)

        def read() -> Settings:
            return replace(settings_for_daemon(config_option), has_graph=has_graph)

        checked = read()
        require_listening(checked)
        configure_logging(checked, os.environ)
        locks: Locks | None = None
        if dry_run:
            directory = held.enter_context(_copied_state(checked.state_dir))
        else:
            make_private_directory(checked.state_dir)
            require_own_place(checked.state_dir)
            if early is not None and early.state_dir != checked.state_dir:
                early.release()
                early = None
            instance_lock = early or held.enter_context(InstanceLock(checked.state_dir))
            graph_lock = held.enter_context(GraphLock(checked.graph_place, checked.state_dir)) if has_graph else None
            locks = Locks(instance_lock, graph_lock)
            directory = checked.state_dir
        return asyncio.run(_live(checked, directory, read, locks, once=once))


async def _live(
    settings: Settings, directory: Path, reload: Callable[[], Settings], locks: Locks | None, *, once: bool
) -> bool:
    daemon = Daemon(settings, directory, reload, locks)
    try:
        if once:
            return await daemon.once()
        await daemon.serve()
    except* Exception as group:
        raise _first(group) from group
    finally:
        await daemon.parts.close()
        # an agent that begins from now on was not there while this daemon looked
        with suppress(OSError):
            show_end(directory)
    return True


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


@contextmanager
def _copied_state(state_dir: Path) -> Iterator[Path]:
    """A directory with a copy of the ledger to play on; the real one is only read."""
    with tempfile.TemporaryDirectory(prefix="wake-bridge-dry-run-") as directory:
        original = state_dir / "state.sqlite"
        if original.is_file():
            source = sqlite3.connect(f"{original.absolute().as_uri()}?mode=ro", uri=True)
            copy = sqlite3.connect(Path(directory) / "state.sqlite")
            source.backup(copy)
            copy.close()
            source.close()
        yield Path(directory)


def require_listening(settings: Settings) -> None:
    """Raise what keeps signed wakes and items from being taken in where they are to be; without effect elsewhere.

    Raises:
        ConfigurationInvalid: nobody may send any.
        OperationFailed: the extra is not installed.
    """
    where = listen_address(settings)
    if where is None:
        return
    if not settings.config.http.senders and not has_source_tokens(settings.state_dir):
        raise ConfigurationInvalid(
            "no sender is configured for signed wakes, and no source has a token",
            str(settings.config_file),
            hint="name a sender, its key and the identities that it may wake: [http.senders.NAME] (docs/serve.md);"
            " or run `wake-bridge sources token NAME` (docs/intake.md), or `wake-bridge hosts add` on another host (docs/many-hosts.md)",
        )
    missing = [one for one in HTTP_NEEDS if find_spec(one) is None]
    if missing:
        raise OperationFailed(
            f"signed wakes cannot be received: {', '.join(missing)} is not installed",
            str(where),
            hint="run `pip install 'wake-bridge[http]'`",
        )


def _give_up() -> None:
    os.write(
        2,
        b"error: something hung while the daemon was stopping: it was ended\nhint: see the log for what it waited for\n",
    )
    os._exit(1)


@dataclass(frozen=True, slots=True)
class Locks:
    """What a daemon that may type holds for life; no graph's lock where there is no graph."""

    instance: InstanceLock
    graph: GraphLock | None


class Daemon:
    """Everything `run` does.

    Args:
        directory: where ledger, published cursor, socket and sign of life lie; not the state directory in a dry run.
        reload: reads the configuration anew; raises `ConfigurationInvalid`.
        locks: say that no other daemon serves directory or graph; None in a dry run, which types nothing.
    """

    def __init__(
        self, settings: Settings, directory: Path, reload: Callable[[], Settings], locks: Locks | None
    ) -> None:
        self._is_dry_run = locks is None
        self._refused = ""
        self._others = OtherDrivers(settings.state_dir, locks.graph if locks is not None else None)
        ledger = LedgerStore.open(directory, whole=True)
        try:
            self.parts = wire(settings, ledger, directory, other_driver=self._others.now, dry_run=self._is_dry_run)
        except WakeBridgeError:
            ledger.close()
            raise
        self._settings = self._in_force = settings
        self._directory = directory
        self._reload = reload
        self._one_reload = asyncio.Lock()
        self._next_reload: asyncio.Task[ConfigurationInvalid | None] | None = None
        self._reloads_by_signal: set[asyncio.Task[ConfigurationInvalid | None]] = set()
        self._stop = asyncio.Event()
        self._notifier = ServiceNotifier(os.environ)
        self._terminal = OwnTerminal()
        self._chores = Chores(
            self.parts,
            settings,
            directory,
            locks.instance if locks is not None else None,
            self._others,
            self._notifier,
            self._begin_files_anew,
        )
        self._since = self.parts.clock.wall()
        self._log = structlog.get_logger("daemon")

    async def serve(self) -> None:
        """Run until SIGTERM, SIGINT or the end of its terminal; raises what a job raised once too often."""
        parts = self.parts
        queries = Queries(parts, self._since, self._others.now, lambda: self._refused, lambda: self._in_force)
        actions = Actions(parts, self._take_over_configuration)
        web = Web(parts, self._settings, self._directory, {**queries.handlers(), **actions.of_page()})
        handlers = {
            **queries.handlers(),
            **actions.handlers(),
            **SessionAnswers(parts).handlers(),
            **RelayAnswers(parts, self._directory, queries.handlers()["panes"]).handlers(),
            **({} if self._is_dry_run else web.command_handlers()),
        }
        if not self._is_dry_run:
            # before anybody is told that the daemon is ready: the address may be taken
            web.start()
        control = ControlServer(self._directory, handlers, PATIENT)
        try:
            await control.start()
        except BaseException:
            web.close()
            raise
        self._take_signals()
        self._prepare()
        self._write_settings()
        self._chores.start(control)
        self._log.info(
            "daemon_started",
            pid=os.getpid(),
            graph=str(self._settings.graph_place) if self._settings.has_graph else None,
            state_dir=str(self._settings.state_dir),
            adapters=sorted(parts.loaded.adapters),
        )
        self._notifier.ready("tailing")
        # what the start has made lives as long as the daemon: going through it again would stop a wake for 30 ms
        gc.freeze()
        collect_as_usual()
        jobs: dict[str, Callable[[], Awaitable[None]]] = {
            "tail": parts.tail.run,
            "deliver": parts.deliverer.run,
            "watch": self._watch,
            "way back": self._recovery,
            "acknowledge": parts.acknowledge.run,
            "unknowns": self._unknowns,
        }
        if not self._is_dry_run:
            jobs["http"] = web.run
            jobs["hosts"] = parts.links.run
            jobs["answers"] = parts.answers_of_hosts.run
        if parts.leases.are_shared:
            jobs["leases"] = self._leases
        try:
            await Supervisor(jobs, parts.clock).run(self._stop)
        finally:
            web.close()
            self._notifier.stopping()
            self._log.info("daemon_stopping")
            await parts.deliverer.drain(STOP_PATIENCE)
            await parts.leases.leave()
            await self._chores.stop()
            await control.stop()
            self._log.info("daemon_stopped", cursor=parts.tail.cursor)

    async def _watch(self) -> None:
        """Look at the panes as soon as it is known whose they are."""
        await self.parts.tail.begun.wait()
        await self.parts.watch.run()

    async def _recovery(self) -> None:
        """Ask the routes that failed, those of an earlier daemon too, as soon as it is known whose they are."""
        await self.parts.tail.begun.wait()
        await self.parts.recovery.run()

    async def _leases(self) -> None:
        """Keep the leases, as soon as it is known who could live here."""
        await self.parts.tail.begun.wait()
        await self.parts.leases.run()

    async def _unknowns(self) -> None:
        """Look for what nobody knows of, as soon as it is known where everybody lives."""
        await self.parts.tail.begun.wait()
        await self.parts.unknowns.run()

    async def once(self) -> bool:
        """To the tip, then each delivery as far as it goes; True unless one failed in this run."""
        parts = self.parts
        self._take_signals()
        self._prepare()
        began = parts.clock.now()
        work = asyncio.create_task(self._work_off())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await asyncio.wait({work}, timeout=STOP_PATIENCE)
        for task in (work, stop):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await work
        failed = parts.ledger.deliveries(state=DeliveryState.FAILED, identity=None, limit=1000)
        return not any((one.settled_at or 0) >= began for one in failed)

    async def _work_off(self) -> None:
        await self.parts.tail.catch_up_once()
        await self.parts.unknowns.look()
        await self.parts.deliverer.run_once()
        await self.parts.acknowledge.look()
        await self.parts.leases.leave()
        await self._chores.prune()

    def _prepare(self) -> None:
        parts = self.parts
        if parts.ledger.set_aside is not None:
            self._log.warning("ledger_damaged", set_aside=str(parts.ledger.set_aside))
        for entry in parts.loaded.catalogue:
            if entry.trouble:
                self._log.warning("adapter_broken", adapter=entry.name, reason=entry.trouble)
        parts.ledger.rebase(parts.clock.now())
        parts.deliverer.take_over_locked()
        self._others.look()

    # -- signals and settings --------------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def _hang_up(self) -> None:
        """A terminal that was closed ends what was started in it; else the configuration is to be read again."""
        if self._terminal.was_closed():
            self._begin_stop()
        else:
            # the loop itself keeps no reference to a task
            self._reloads_by_signal.add(reload := asyncio.create_task(self._take_over_configuration()))
            reload.add_done_callback(self._reloads_by_signal.discard)

    def _begin_stop(self) -> None:
        self._stop.set()
        # a graph or a disk that hangs must not outlive the stop; what is on disk is whole at every moment
        last_word = threading.Timer(STOP_LIMIT, _give_up)
        last_word.daemon = True
        last_word.start()

    async def _take_over_configuration(self) -> ConfigurationInvalid | None:
        """Read configuration and screen profiles again; what is bad keeps the old in force, and is told.

        Whoever asks while one waits for its turn gets its answer: it reads what is there by then.
        """
        if self._next_reload is None:
            self._next_reload = asyncio.create_task(self._reload_in_turn())
        # who no longer waits must not keep the others from their answer
        return await asyncio.shield(self._next_reload)

    async def _reload_in_turn(self) -> ConfigurationInvalid | None:
        async with self._one_reload:
            self._next_reload = None
            return await self._take_over()

    async def _take_over(self) -> ConfigurationInvalid | None:
        self._notify_unless_stopping(self._notifier.reloading)
        try:
            # wakes go on while another process checks
            read = await asyncio.to_thread(self._reload)
            settings = taken_over(self._settings, read)
            reload_adapters(self.parts.loaded, self._in_force, settings, self.parts.clock)
        except ConfigurationInvalid as error:
            self._refused = "; ".join(error.problems) or str(error)
            self._log.error("config_refused", reason=str(error), problems=list(error.problems))
            return error
        else:
            self._refused = ""
            self._adopt(settings, needs_restart(self._settings, read))
            return None
        finally:
            self._notify_unless_stopping(partial(self._notifier.ready, "tailing"))

    def _notify_unless_stopping(self, tell: Callable[[], None]) -> None:
        """A reload may end while the daemon stops, of which the service manager has the last word."""
        if not self._stop.is_set():
            tell()

    def _adopt(self, settings: Settings, waiting: Sequence[str]) -> None:
        parts = self.parts
        self._in_force = settings
        parts.rules.value = matching_rules(settings, parts.loaded.adapters)
        parts.current.settings = engine_settings(settings, embedded=parts.is_embedded)
        parts.human.adopt(settings.config, settings.config_file)
        set_level(settings.config.daemon.log_level)
        self._log.info("config_reloaded")
        if waiting:
            self._log.warning("config_needs_restart", keys=list(waiting))
        self._write_settings()
        parts.tail.poke()
        parts.deliverer.look_at(None)

    def _write_settings(self) -> None:
        """Let commands know what this daemon goes by."""
        if not self._is_dry_run:
            # a directory that refuses is told of by whoever writes the ledger
            with suppress(OSError):
                write_settings(self._directory, self._in_force)

    def _begin_files_anew(self) -> None:
        """The state directory was deleted and is there again: log and settings are written to it again."""
        configure_logging(self._in_force, os.environ)
        self._write_settings()
