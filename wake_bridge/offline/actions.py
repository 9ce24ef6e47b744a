"""What a command changes without the daemon: binds and unbinds panes, takes marks back, replays rows."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace

from wake_bridge.config.file import changed_lines
from wake_bridge.config.settings import Settings, installed_adapters, matching_rules
from wake_bridge.control.instance_lock import reload_command
from wake_bridge.domain.errors import NotFound, OperationFailed, RefusedForSafety
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.domain.pane_identity import who_lives_in
from wake_bridge.domain.routing import Address, RememberedPane
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.tail.resync import ResyncResult, resync
from wake_bridge.integrations.adapters import make_adapters
from wake_bridge.offline.inspection import Inspection
from wake_bridge.ports.adapter import (
    LeavesMarks,
    PaneBinder,
    PaneLister,
    Place,
)
from wake_bridge.storage.graph.absent import open_log
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ancestry import own_session
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid


@dataclass(frozen=True, slots=True)
class Bound:
    """Where an identity was bound: a pane, a conversation of a harness, or both; never neither.

    `beside` are the other identities that were found in that pane last, or with the agent that is in it.
    """

    place: Place | None
    session: Session | None
    beside: tuple[Identity, ...] = ()


async def bind(settings: Settings, identity: Identity, pane: str | None) -> Bound:
    """Tie an identity to a pane, in the place itself and in the ledger, and to the conversation this is run in.

    Raises:
        NotFound: there is no such pane, or this process runs in none and in no conversation.
        RefusedForSafety: the identity's `[targets]` entry names another pane, and would win.
        OperationFailed: no adapter can be bound to, or tmux refused.
    """
    clock = SteadyClock()
    session = None if pane else own_session(identity, os.environ, clock.now())
    try:
        place, beside = await _bind_to_pane(settings, identity, pane, clock)
    except (NotFound, OperationFailed):
        if session is None:
            raise
        place, beside = None, ()
    if session is not None:
        with closing(LedgerStore.open(settings.state_dir)) as ledger:
            ledger.meet_session(session)
    return Bound(place, session, beside)


async def _bind_to_pane(
    settings: Settings, identity: Identity, pane: str | None, clock: SteadyClock
) -> tuple[Place, tuple[Identity, ...]]:
    view = Inspection(settings)
    for adapter in view.loaded.adapters.values():
        if isinstance(adapter, PaneBinder):
            place = await adapter.binding_for(pane, os.environ)
            if place.fence is None:
                break
            await _require_no_other_target(view, settings, identity, adapter, place)
            address = view.routes.address(identity)
            await adapter.mark_identity(place, identity)
            with closing(LedgerStore.open(settings.state_dir)) as ledger:
                ledger.bind(identity, place.fence, clock.now())
            remember(settings, address, place, clock.now())
            return place, tuple(sorted(who_lives_in(place.fence, address.claims()) - {identity}))
    raise OperationFailed("no adapter can bind a pane", hint="`wake-bridge adapters` lists them")


async def _require_no_other_target(
    view: Inspection, settings: Settings, identity: Identity, binder: PaneBinder, place: Place
) -> None:
    """A binding that `[targets]` overrules would help nobody. What its name led to before may be said anew."""
    target = settings.config.targets.get(identity)
    if target is None or not target.pane:
        return
    route = view.routes.by(identity, target.adapter)
    if route is not None:
        # a target that means nothing any more, as an id of a server that is gone, overrules no binding
        bound = replace(route.address, remembered=None, binding=place.fence)
        found = [await view.loaded.adapters[target.adapter].resolve(one) for one in (route.address, bound)]
        if any(isinstance(one, Place) and one.key == place.key for one in found):
            return
    sights = (await binder.list_panes()).seen if isinstance(binder, PaneLister) else ()
    sight = next((one for one in sights if one.place.key == place.key and one.name), None)
    wanted = {"pane": sight.name if sight is not None else place.label}
    if sight is not None:
        now = {"socket": sight.socket, "agent": sight.harness, "directory": str(sight.directory)}
        said = {"socket": target.socket, "agent": target.agent, "directory": target.directory}
        # an agent and a directory that nobody asked for need not be said
        wanted |= {key: value for key, value in now.items() if key == "socket" or said[key]}
    file = settings.config_file
    changes = changed_lines(file, identity, wanted)
    told = "; ".join(f"line {number}: `{was.strip()}` becomes `{becomes.strip()}`" for number, was, becomes in changes)
    reload = reload_command(settings.state_dir)
    raise RefusedForSafety(
        f"[targets] puts {identity} into {target.pane!r} and takes precedence: the binding would have no effect",
        f"{file}:{changes[0][0]}" if changes else str(file),
        hint=f"{told or 'change `pane` there'}{f'; then `{reload}` has the daemon read it' if reload else ''}",
    )


def remember(settings: Settings, address: Address, place: Place, now: Instant) -> None:
    """From now on that place is the identity's, whatever the name that is said for it leads to.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    if place.fence is None:
        return
    with closing(LedgerStore.open(settings.state_dir)) as ledger:
        was = ledger.remembered(address.identity)
        ledger.remember(address.identity, RememberedPane(address.name, address.socket, place.fence, now, now), was)


async def unbind(settings: Settings, identity: Identity) -> tuple[bool, list[str]]:
    """Forget where an identity was bound, in the ledger and in the places themselves.

    Returns:
        Whether the ledger knew of a pane or of a conversation, and the places that said they were the identity's.

    Raises:
        OperationFailed: tmux refused.
    """
    ledger = LedgerStore.open(settings.state_dir)
    try:
        binding = ledger.binding(identity)
        is_known = binding is not None or ledger.remembered(identity) is not None
        said: list[str] = []
        for adapter in make_adapters(settings, SteadyClock()).adapters.values():
            if isinstance(adapter, PaneBinder):
                said += await adapter.unmark_identity(identity, binding)
        ledger.unbind(identity)
        theirs = ledger.sessions_of(identity)
        for session in theirs:
            ledger.part_from_session(session.session_id)
    finally:
        ledger.close()
    return is_known or bool(theirs), said


async def take_marks_back(settings: Settings) -> list[str]:
    """Leave nothing of the daemon's own in the places it drove; answers where there was something.

    Raises:
        OperationFailed: tmux refused.
    """
    with closing(LedgerStore.open(settings.state_dir, read_only=True)) as ledger:
        bound = [binding.socket for binding in ledger.bindings().values()]
    named = [one.socket for one in settings.config.targets.values()]
    sockets = {socket for socket in (*bound, *named) if socket}
    marked: list[str] = []
    for adapter in make_adapters(settings, SteadyClock()).adapters.values():
        if isinstance(adapter, LeavesMarks):
            marked += await adapter.take_marks_back(sockets)
    return marked


def replay(settings: Settings, subscription_id: str, since: LogId) -> ResyncResult:
    """Match the log after `since` again for one subscription, and put what matched into the ledger.

    Raises:
        UsageMistake: the log ends before `since`.
        NotFound: there is no such subscription.
        SourceError: the graph cannot be read.
        LedgerError: the ledger cannot be written.
    """
    clock = SteadyClock()
    log = open_log(settings)
    ledger = LedgerStore.open(settings.state_dir)
    try:
        position = ledger.position()
        again = resync(
            log,
            subscription_id,
            since,
            rules=matching_rules(settings, installed_adapters()),
            epoch=position.epoch if position else Epoch(1),
            now=clock.now(),
            wall=clock.wall(),
            new_id=new_ulid,
        )
        ledger.replay(again.events, clock.now())
        return again
    finally:
        ledger.close()
        log.close()
