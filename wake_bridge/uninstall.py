"""`uninstall`: stops what runs, and removes what wake-bridge wrote into others' files; on request its own data too."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from wake_bridge.config.file import read_block, remove_block
from wake_bridge.config.hosts import AGENTS_FILE, HOSTS_FILE
from wake_bridge.config.settings import Settings
from wake_bridge.config.source_tokens import TOKENS_FILE
from wake_bridge.control.instance_lock import InstanceLock, holder, liveness
from wake_bridge.control.last_look import LAST_LOOK_FILE
from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.errors import AlreadyRunning, OperationFailed, SourceError, WakeBridgeError
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl, graph_place
from wake_bridge.domain.names import Identity
from wake_bridge.integrations.agent_files import Removal, plan_removal, read_files_record, remove, take_traces
from wake_bridge.integrations.agent_files.hook_settings import PURPOSES
from wake_bridge.integrations.agent_files.text_file import Form
from wake_bridge.integrations.agent_files.tmux_keys import PURPOSE as TMUX_KEYS
from wake_bridge.integrations.service import ServiceManager, service_manager
from wake_bridge.integrations.setup_record import SetupRecord, read_record, write_record
from wake_bridge.offline.actions import take_marks_back, unbind
from wake_bridge.offline.inspection import Inspection
from wake_bridge.ports.adapter import PaneLister
from wake_bridge.storage.graph.nodes import unsubscribe
from wake_bridge.storage.graph.opened import graph_exists, open_graph, open_graph_to_write
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.files import APPLICATION, default_config_file
from wake_bridge.system.processes import processes


@dataclass(slots=True)
class Account:
    """What was done, or with `dry_run` would be; what stays; what could not be done; the deliveries nobody settles.

    `restart` names the agents that run with what was taken back, and know of it until they are started again.
    """

    dry_run: bool
    done: list[str] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    open: list[Delivery] = field(default_factory=list)
    restart: list[str] = field(default_factory=list)

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step: what goes wrong in it is told, and the others are still tried."""
        try:
            yield
        except WakeBridgeError as trouble:
            self.troubles.append(f"{trouble} ({trouble.hint})" if trouble.hint else str(trouble))


OURS: Final = (
    "state.sqlite*",
    "daemon.lock",
    "daemon.sock",
    "wake-bridge.log*",
    "service.stderr.log",
    "setup.json",
    "agent_files.json",
    "settings.json",
    LAST_LOOK_FILE,
    HOSTS_FILE,
    AGENTS_FILE,
    "hosts.lock",
    TOKENS_FILE,
    "sources.lock",
    "page.key",
    "page.listen",
    "mcp@*.token",
)
"""What only wake-bridge puts into a state directory."""

SHARED: Final = ("lastSyncId", "heartbeat.alive")
"""What the upstream daemon names alike: in a directory that holds files of others it may be theirs."""


def purge(settings: Settings, account: Account) -> None:
    """Remove what is ours; what is not, or may not be, stays and is named."""
    record = read_record(settings.state_dir)
    with account.step():
        _graph(settings.graph_place, account)
    with account.step():
        _configuration(settings, record, account)
    if settings.own_screens.is_dir():
        account.stays.append(f"your own screen profiles: {settings.own_screens}")
    # the record lies in it: it goes last
    with account.step():
        _state(settings.state_dir, account)
    if not account.dry_run:
        _leave_empty(map(Path, reversed(record.directories)))


def remaining(settings: Settings) -> list[str]:
    """What stays where nothing is purged."""
    places = {
        "state (deliveries, cursor, log)": settings.state_dir,
        "graph (identities, mail)": settings.graph_place,
        "configuration": settings.config_file,
    }
    return [f"{what}: {path}" for what, path in places.items() if not isinstance(path, Path) or path.exists()]


def _graph(path: GraphPlace, account: Account) -> None:
    if isinstance(path, GraphUrl):
        account.stays.append(
            f"the graph, which other hosts may use: {path}; its owner can `DROP SCHEMA wake_bridge CASCADE`"
        )
        return
    if not path.exists():
        return
    if not _is_ours(path):
        account.stays.append(f"the graph, which another program made: {path}")
        return
    _remove([path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))], account)
    account.done.append(f"{'remove' if account.dry_run else 'removed'} the graph with all mail: {path}")
    _leave_ours(path.parent, account)


def _is_ours(path: Path) -> bool:
    try:
        with open_graph(path) as graph:
            return bool(graph.is_embedded)
    except SourceError:
        return False


def _configuration(settings: Settings, record: SetupRecord, account: Account) -> None:
    file = settings.config_file
    if not file.exists():
        return
    if file != default_config_file() and not (record.config_made and str(file) == record.config):
        account.stays.append(f"the configuration, whose place you chose: {file}")
        return
    _remove([file], account)
    account.done.append(f"{'remove' if account.dry_run else 'removed'} the configuration: {file}")
    _leave_ours(file.parent, account)


def _state(directory: Path, account: Account) -> None:
    if not directory.is_dir():
        return
    there = sorted(directory.iterdir())
    ours = [file for file in there if any(fnmatch(file.name, pattern) for pattern in OURS)]
    shared = [file for file in there if file.name in SHARED]
    foreign = [file.name for file in there if file not in ours and file not in shared]
    _remove([*ours, *([] if foreign else shared)], account)
    account.done.append(f"{'remove' if account.dry_run else 'removed'} the state: {directory}")
    if foreign:
        left = ", ".join([*foreign[:3], *(["…"] if len(foreign) > 3 else [])])  # noqa: PLR2004 - enough to recognise it
        account.stays.append(f"the state directory, which holds files that are not ours ({left}): {directory}")
    elif not account.dry_run:
        _leave_empty([directory])


def _remove(files: Iterable[Path], account: Account) -> None:
    if account.dry_run:
        return
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as refusal:
            raise OperationFailed(f"the file cannot be removed ({refusal.strerror})", str(file)) from refusal


def _leave_ours(directory: Path, account: Account) -> None:
    """A directory called after us goes when nothing is left in it."""
    if directory.name == APPLICATION and not account.dry_run:
        _leave_empty([directory])


def _leave_empty(directories: Iterable[Path]) -> None:
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()


def panes(settings: Settings, account: Account) -> None:
    """No pane says any more that it belongs to an identity that was bound here, or that a daemon drives it.

    Which identities of others it belongs to stays.

    Raises:
        OperationFailed: tmux refused.
    """
    if not account.dry_run and (marked := asyncio.run(take_marks_back(settings))):
        account.done.append(f"removed the daemon's mark from {', '.join(marked)}")
    for identity in Inspection(settings).bound():
        if account.dry_run:
            account.done.append(f"unpin {identity} and remove its mark from its pane")
            continue
        _, said = asyncio.run(unbind(settings, Identity(identity)))
        account.done.append(f"unpinned {identity}" + (f": {', '.join(said)} is no longer marked" if said else ""))


def files(settings: Settings, account: Account) -> None:
    """The agents' instructions and rules go; what the person wrote stays, to the byte.

    Raises:
        OperationFailed: the record of them cannot be read.
    """
    recorded = read_files_record(settings.state_dir)
    removals = plan_removal(recorded) if account.dry_run else remove(settings.state_dir)
    for removal in removals:
        if removal.trouble:
            account.troubles.append(f"{removal.path}: {removal.trouble}")
        elif removal.changes:
            account.done.append(f"{_verb(removal, dry_run=account.dry_run)} {removal.path} ({removal.entry.what})")
    for trace in take_traces(removals, dry_run=account.dry_run):
        if trace.stays:
            account.stays.append(str(trace))
        else:
            account.done.append(f"{'remove' if account.dry_run else 'removed'} {trace}")
    account.restart += asyncio.run(_who_knows(settings, [one for one in removals if one.changes]))


async def _who_knows(settings: Settings, removals: Sequence[Removal]) -> list[str]:
    """The agents that run now and have read at their start what was taken back: their harness's hooks, their directory's file."""
    said = {one.entry.what for one in removals}
    calling = {harness for harness, what in PURPOSES.items() if what in said}
    told = [one.path.parent for one in removals if one.entry.form is Form.BLOCK and one.entry.what != TMUX_KEYS]
    rooms = {one.parent if one.name == ".claude" else one for one in told}
    if not (calling or rooms):
        return []
    view = Inspection(settings)
    found: dict[tuple[str, str], str] = {}
    for lister in (one for one in view.loaded.adapters.values() if isinstance(one, PaneLister)):
        for sight in (await lister.list_panes()).seen:
            if sight.harness and (sight.harness in calling or sight.directory in rooms):
                found[sight.server, sight.pane_id] = f"{sight.harness} in {sight.place.label}, {sight.directory}"
    # those that called in from elsewhere, and still run
    for one in view.sessions():
        runs = one.started and processes().started_at(one.pid) == one.started
        if runs and one.harness in calling and (one.socket, one.pane) not in found:
            found[one.session_id, ""] = f"{one.harness} (process {one.pid}), {one.directory}"
    return sorted(found.values())


def _verb(removal: Removal, *, dry_run: bool) -> str:
    if removal.after is None:
        return "remove" if dry_run else "removed"
    return "take our part out of" if dry_run else "took our part out of"


def targets(settings: Settings, account: Account) -> None:
    """The block of targets goes out of the configuration.

    Raises:
        OperationFailed: the file cannot be read or written.
        RefusedForSafety: somebody changed the block.
    """
    recorded = read_record(settings.state_dir).config
    for file in dict.fromkeys((settings.config_file, *([Path(recorded)] if recorded else []))):
        block = read_block(file) if file.exists() else {}
        if not block:
            continue
        if not account.dry_run:
            remove_block(file)
        account.done.append(
            f"{'remove' if account.dry_run else 'removed'} the targets of {', '.join(block)} from {file}"
        )


def subscriptions(settings: Settings, account: Account) -> None:
    """The subscriptions that `setup` made go; identities stay, for mail names them.

    A graph that another program made is not written: what is left in it is said.

    Raises:
        SourceError: the graph cannot be written.
    """
    record = read_record(settings.state_dir)
    made = _still_there(record)
    graph = graph_place(record.graph)
    if made and not _is_embedded(graph):
        account.stays.append(
            f"{len(made)} subscriptions in {graph}: `wake-bridge unsubscribe ID --foreign` removes one"
        )
        return
    if made and not account.dry_run:
        with open_graph_to_write(graph) as writer:
            for subscription in made:
                unsubscribe(writer, subscription)
    if made:
        account.done.append(f"{'remove' if account.dry_run else 'removed'} {len(made)} subscriptions that setup made")
    if record.identities and not account.dry_run:
        # the rest of it says which files and directories are ours to purge
        write_record(settings.state_dir, replace(record, identities=()))


def _still_there(record: SetupRecord) -> list[str]:
    if not record.graph or not graph_exists(place := graph_place(record.graph)):
        return []
    with open_graph(place) as graph:
        made = [one for identity in record.identities for one in identity.subscriptions]
        return [one for one in made if graph.node(one) is not None]


def _is_embedded(path: GraphPlace) -> bool:
    with open_graph(path) as graph:
        return bool(graph.is_embedded)


GONE_WITHIN: Final = 10.0
"""Seconds that a daemon has to end once its service was stopped; it promises five."""


def leave(settings: Settings, environment: Mapping[str, str], *, dry_run: bool, with_state: bool) -> Account:
    """Take back what `service install`, `bind` and `setup` wrote.

    Safe to repeat: what is gone already is no matter. What cannot be taken back is named, and stays on record.

    Args:
        settings: those in force.
        environment: of the person who asks; says where the service manager is.
        dry_run: write nothing; the answer says what would be done.
        with_state: remove state directory, embedded graph and configuration too, so far as they are ours.

    Raises:
        AlreadyRunning: a daemon runs that no service started, or that does not end; a dry run only names it.
    """
    account = Account(dry_run=dry_run)
    manager = _manager(environment)
    if other := _other_daemon(settings, manager):
        if not dry_run:
            raise other
        account.stays.append(f"{other.what}: stop it first ({other.hint})")
    account.open = _unsettled(settings)
    with account.step():
        if manager is not None:
            account.done += manager.uninstall(force=False, dry_run=dry_run)
    with _alone(settings, account):
        for step in (panes, files, targets, subscriptions):
            with account.step():
                step(settings, account)
        if with_state and not account.troubles:
            purge(settings, account)
    if not with_state:
        account.stays += remaining(settings)
    return account


def _manager(environment: Mapping[str, str]) -> ServiceManager | None:
    try:
        return service_manager(environment)
    except OperationFailed:
        # a platform without one has no service to remove
        return None


def _other_daemon(settings: Settings, manager: ServiceManager | None) -> AlreadyRunning | None:
    """A daemon that the service manager did not start: it is not stopped here."""
    if liveness(settings.state_dir) != "yes":
        return None
    running = holder(settings.state_dir)
    service = manager.standing() if manager is not None else None
    if running is not None and (service is None or running.pid != service.pid):
        return AlreadyRunning(
            f"a daemon runs that no service started: {running}",
            str(settings.state_dir),
            hint=f"stop it with Ctrl-C in its terminal or `kill {running.pid}`, then run this again",
        )
    return None


@contextmanager
def _alone(settings: Settings, account: Account) -> Iterator[None]:
    """No daemon runs, and none starts, until it is done."""
    if account.dry_run or not settings.state_dir.is_dir():
        yield
        return
    give_up = time.monotonic() + GONE_WITHIN
    while liveness(settings.state_dir) == "yes" and time.monotonic() < give_up:
        time.sleep(0.1)
    with InstanceLock(settings.state_dir):
        yield


def _unsettled(settings: Settings) -> list[Delivery]:
    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    try:
        return ledger.unsettled()
    finally:
        ledger.close()
