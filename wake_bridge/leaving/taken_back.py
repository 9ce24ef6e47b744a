"""What was written into panes, agents' files, configuration and graph, taken back one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wake_bridge.domain.names import Identity
from wake_bridge.edges.agent_files import Removal, plan_removal, read_files_record, remove, take_traces
from wake_bridge.edges.agent_files.change import Form
from wake_bridge.edges.agent_files.hook_settings import PURPOSES
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.configuration.targets_block import read_block, remove_block
from wake_bridge.edges.graph.graph_file import GraphFile
from wake_bridge.edges.graph.graph_writer import GraphWriter
from wake_bridge.edges.graph.subscription_nodes import unsubscribe
from wake_bridge.edges.service.processes import processes
from wake_bridge.edges.service.setup_record import SetupRecord, read_record, write_record
from wake_bridge.leaving.account import Account
from wake_bridge.ports.adapter import PaneLister
from wake_bridge.viewpoint import Viewpoint, take_marks_back, unbind


def panes(settings: Settings, account: Account) -> None:
    """No pane says any more that it belongs to an identity that was bound here, or that a daemon drives it.

    Which identities of others it belongs to stays.

    Raises:
        OperationFailed: tmux refused.
    """
    if not account.dry_run and (marked := asyncio.run(take_marks_back(settings))):
        account.done.append(f"took the daemon's mark off {', '.join(marked)}")
    for identity in Viewpoint(settings).bound():
        if account.dry_run:
            account.done.append(f"unbind {identity}, and take its mark off its pane")
            continue
        _, said = asyncio.run(unbind(settings, Identity(identity)))
        account.done.append(f"unbound {identity}" + (f": {', '.join(said)} is no longer marked" if said else ""))


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
            account.done.append(f"{'take' if account.dry_run else 'took'} out {trace}")
    account.restart += asyncio.run(_who_knows(settings, [one for one in removals if one.changes]))


async def _who_knows(settings: Settings, removals: Sequence[Removal]) -> list[str]:
    """The agents that run now and have read at their start what was taken back: their harness's hooks, their directory's file."""
    said = {one.entry.what for one in removals}
    calling = {harness for harness, what in PURPOSES.items() if what in said}
    told = [one.path.parent for one in removals if one.entry.form is Form.BLOCK]
    rooms = {one.parent if one.name == ".claude" else one for one in told}
    if not (calling or rooms):
        return []
    view = Viewpoint(settings)
    found: dict[tuple[str, str], str] = {}
    for lister in (one for one in view.bench.adapters.values() if isinstance(one, PaneLister)):
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
        account.done.append(f"{'take' if account.dry_run else 'took'} the targets of {', '.join(block)} out of {file}")


def subscriptions(settings: Settings, account: Account) -> None:
    """The subscriptions that `setup` made go; identities stay, for mail names them.

    A graph that another program made is not written: what is left in it is said.

    Raises:
        SourceError: the graph cannot be written.
    """
    record = read_record(settings.state_dir)
    made = _still_there(record)
    graph = Path(record.graph)
    if made and not _is_embedded(graph):
        account.stays.append(
            f"{len(made)} subscriptions in {graph}: `wake-bridge unsubscribe ID --foreign` removes one"
        )
        return
    if made and not account.dry_run:
        with GraphWriter(graph) as writer:
            for subscription in made:
                unsubscribe(writer, subscription)
    if made:
        account.done.append(f"{'remove' if account.dry_run else 'removed'} {len(made)} subscriptions that setup made")
    if record.identities and not account.dry_run:
        # the rest of it says which files and directories are ours to purge
        write_record(settings.state_dir, replace(record, identities=()))


def _still_there(record: SetupRecord) -> list[str]:
    if not record.graph or not Path(record.graph).exists():
        return []
    with GraphFile(Path(record.graph)) as graph:
        made = [one for identity in record.identities for one in identity.subscriptions]
        return [one for one in made if graph.node(one) is not None]


def _is_embedded(path: Path) -> bool:
    with GraphFile(path) as graph:
        return bool(graph.is_embedded)
