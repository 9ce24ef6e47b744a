"""What an act on graph and ledger needs: settings, places and the caller, each found when first used."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wake_bridge.config.locations import Locations
    from wake_bridge.config.settings import Settings
    from wake_bridge.domain.delivery import Hold
    from wake_bridge.domain.graph_places import GraphPlace
    from wake_bridge.domain.names import Identity
    from wake_bridge.domain.ownership import Invoker
    from wake_bridge.storage.graph.access import Graph, WritableGraph


class Unsaid:
    """A log that keeps nothing: the answer of an act says what became of it, and nothing else may stand beside that."""

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Workplace(ABC):
    """What one act of a command or of a tool is given. Remarks beside its answer go to `warn`.

    Args:
        config_option: the value of `--config`, if given.
    """

    def __init__(self, config_option: str | None = None) -> None:
        self.config_option = config_option
        self.needs_file = False
        """Whether the act ends where the configuration has a mistake; for commands the table of commands says so."""
        self.invoker: Invoker | None = None
        """Who acts, once somebody has asked (`wake_bridge.offline.owner`)."""
        self._told_of: Path | None = None

    @abstractmethod
    def warn(self, text: str) -> None:
        """Say something beside the answer."""

    @cached_property
    def settings(self) -> Settings:
        """The settings in force, with the state directory of the daemon that serves the graph.

        Raises:
            ConfigurationInvalid: with every mistake.
            OperationFailed: a daemon serves the graph, and does not say where it keeps its state.
        """
        return self.where_the_daemon_is(self.configured)

    @cached_property
    def configured(self) -> Settings:
        """What the configuration says; by what the daemon goes on where it cannot be used, unless the file is needed.

        Raises:
            ConfigurationInvalid: with every mistake.
        """
        from wake_bridge.config.settings import load_settings
        from wake_bridge.domain.errors import ConfigurationInvalid

        try:
            return load_settings(self.config_option, os.environ)
        except ConfigurationInvalid as mistake:
            from wake_bridge.control.settings_in_force import last_good_settings

            good = None if self.needs_file else last_good_settings(self.config_option, os.environ)
            if good is None:
                raise
            self.warn(
                f"note: {mistake.what}: {mistake.where}: the daemon keeps its last good settings, and this command uses"
                " them too (`wake-bridge config check`)"
            )
            return good

    @cached_property
    def places(self) -> Locations:
        """Where graph and state lie; the whole configuration is checked only where that is needed to tell.

        Raises:
            ConfigurationInvalid: with every mistake.
            OperationFailed: as for `settings`.
        """
        from wake_bridge.config.locations import Locations, find_locations

        known = find_locations(self.config_option, os.environ)
        if known is None:
            settings = self.settings
            return Locations(settings.graph_place, settings.state_dir, settings.own_screens)
        return known._replace(state_dir=self._state_dir_in_use(known.graph_place, known.state_dir))

    def where_the_daemon_is(self, settings: Settings) -> Settings:
        """The settings, with the state directory of the daemon that serves the graph. Raises `OperationFailed`."""
        from wake_bridge.control.serving import has_no_graph

        state_dir = self._state_dir_in_use(settings.graph_place, settings.state_dir)
        return replace(settings, state_dir=state_dir, has_graph=not has_no_graph(state_dir, settings.graph_place))

    def _state_dir_in_use(self, graph: GraphPlace, configured: Path) -> Path:
        """See `control.serving`; said once where it is not the configured one."""
        from wake_bridge.control.serving import graph_served_instead, state_dir_in_use

        found = state_dir_in_use(graph, configured)
        if self._told_of is not None:
            return found
        self._told_of = found
        if found != configured:
            self.warn(
                f"note: the daemon of this graph keeps its state in {found}, not in {configured}; this command uses {found}"
            )
        elif (served := graph_served_instead(found, graph)) is not None:
            self.warn(
                f"note: the daemon that runs serves {served}, not {graph}, which this command goes to: what is written here"
                " wakes nobody until the daemon is started again"
            )
        return found

    def open_graph(self) -> Graph:
        """The graph, to look at; a context manager. Raises `SourceError`s."""
        from wake_bridge.storage.graph.opened import open_graph

        self._require_graph()
        return open_graph(self.settings.graph_place)

    def open_graph_to_write(self, *, foreign: bool) -> WritableGraph:
        """The graph, to write; a context manager. Raises `SourceError`s, and `RefusedForSafety` for a foreign one."""
        from wake_bridge.storage.graph.opened import open_graph_to_write

        self._require_graph()
        return open_graph_to_write(self.settings.graph_place, allow_foreign=foreign)

    def open_mail(self, *, foreign: bool, marking: bool) -> Graph:
        """The graph as `open_graph` and `open_graph_to_write` (when `marking`) open it, for who reads mail."""
        from wake_bridge.storage.graph.opened import open_graph, open_graph_to_write

        self._require_graph()
        path = self.places.graph_place
        return open_graph_to_write(path, allow_foreign=foreign) if marking else open_graph(path)

    def has_no_graph(self) -> bool:
        """Whether the daemon here takes in what comes from outside, without a graph."""
        from wake_bridge.control.serving import has_no_graph

        return has_no_graph(self.places.state_dir, self.places.graph_place)

    def _require_graph(self) -> None:
        """Raise `SourceMissing` where the daemon takes signed wakes alone."""
        if self.has_no_graph():
            from wake_bridge.domain.errors import SourceMissing
            from wake_bridge.domain.signed_wakes import NO_GRAPH, NO_GRAPH_HINT

            raise SourceMissing(NO_GRAPH, str(self.places.state_dir), hint=NO_GRAPH_HINT)

    def unreached(self, identities: Sequence[Identity]) -> Mapping[Identity, Hold]:
        """Why those of them who cannot be reached now cannot; never fails: whom nobody can tell of is not among them."""
        from wake_bridge.control.serving import PATIENCE, hold_told, reach_by_daemon

        told = reach_by_daemon(self.settings.state_dir, identities, timeout=PATIENCE)
        holds = {one: hold_told(told[one]["hold"]) for one in identities if one in told and told[one]["hold"]}
        rest = [one for one in identities if one not in told]
        if not rest:
            return holds
        # without the daemon a look of our own is needed, which takes longer than all the rest of a command
        from wake_bridge.domain.errors import WakeBridgeError
        from wake_bridge.offline.inspection import unreachable

        try:
            return holds | unreachable(self.settings, rest)
        except WakeBridgeError:
            return holds

    def poke_daemon(self, moved: str = "") -> None:
        """Tell the daemon, if one runs, that something changed, and which identity has moved; never fails."""
        from wake_bridge.control.instance_lock import daemon_is_running

        if daemon_is_running(self.places.state_dir):
            from wake_bridge.control.client import poke

            poke(self.places.state_dir, moved)
