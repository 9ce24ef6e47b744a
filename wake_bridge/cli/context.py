"""What every command is given: its global options, the settings, and the files it asks for, opened when it does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from wake_bridge.cli.output import Console
from wake_bridge.domain.errors import UsageMistake
from wake_bridge.domain.names import is_identity
from wake_bridge.domain.text import WIDE_AT

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from wake_bridge.config.locations import Locations
    from wake_bridge.config.settings import Settings
    from wake_bridge.domain.delivery import Hold
    from wake_bridge.domain.names import Identity
    from wake_bridge.domain.ownership import Invoker
    from wake_bridge.storage.graph.file import GraphFile, GraphWriter


class CommandContext:
    """One run of the program: `--config`, `--json`, `-v`, and what follows from them."""

    def __init__(self) -> None:
        self.config_option: str | None = None
        self.needs_file = False
        """Whether the command ends where the configuration has a mistake; the table of commands says so."""
        self._told_of: Path | None = None
        self.verbosity = 0
        self.console = Console()
        self.invoker: Invoker | None = None
        """Who runs it, once somebody has asked (`wake_bridge.offline.owner`)."""

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
            self.console.warn(
                f"note: {mistake.what}: {mistake.where}: the daemon goes on by its last good settings, and so does this"
                " command (`wake-bridge config check`)"
            )
            return good

    @cached_property
    def places(self) -> Locations:
        """Where graph and state lie; the whole configuration is judged only where that is needed to tell.

        Raises:
            ConfigurationInvalid: with every mistake.
            OperationFailed: as for `settings`.
        """
        from wake_bridge.config.locations import Locations, find_locations

        known = find_locations(self.config_option, os.environ)
        if known is None:
            settings = self.settings
            return Locations(settings.graph_path, settings.state_dir, settings.own_screens)
        return known._replace(state_dir=self._state_dir_in_use(known.graph_path, known.state_dir))

    def where_the_daemon_is(self, settings: Settings) -> Settings:
        """The settings, with the state directory of the daemon that serves the graph. Raises `OperationFailed`."""
        state_dir = self._state_dir_in_use(settings.graph_path, settings.state_dir)
        return settings if state_dir == settings.state_dir else replace(settings, state_dir=state_dir)

    def _state_dir_in_use(self, graph: Path, configured: Path) -> Path:
        """See `control.serving`; said once where it is not the configured one."""
        from wake_bridge.control.serving import graph_served_instead, state_dir_in_use

        found = state_dir_in_use(graph, configured)
        if self._told_of is not None:
            return found
        self._told_of = found
        if found != configured:
            self.console.warn(
                f"note: the daemon of this graph keeps its state in {found}, not in {configured}: this command goes there"
            )
        elif (served := graph_served_instead(found, graph)) is not None:
            self.console.warn(
                f"note: the daemon that runs serves {served}, not {graph}, which this command goes to: what is written here"
                " wakes nobody until the daemon is started again"
            )
        return found

    def open_graph(self) -> GraphFile:
        """The graph, to look at; a context manager. Raises `SourceError`s."""
        from wake_bridge.storage.graph.file import GraphFile

        return GraphFile(self.settings.graph_path)

    def open_graph_to_write(self, *, foreign: bool) -> GraphWriter:
        """The graph, to write; a context manager. Raises `SourceError`s, and `RefusedForSafety` for a foreign one."""
        from wake_bridge.storage.graph.file import GraphWriter

        return GraphWriter(self.settings.graph_path, allow_foreign=foreign)

    def open_mail(self, *, foreign: bool, marking: bool) -> GraphFile:
        """The graph as `open_graph` and `open_graph_to_write` (when `marking`) open it, for who reads mail."""
        from wake_bridge.storage.graph.file import GraphFile, GraphWriter

        path = self.places.graph_path
        return GraphWriter(path, allow_foreign=foreign) if marking else GraphFile(path)

    def ask_a_person(self, question: str, *, hint: str) -> None:
        """Go on only if a person at the terminal says yes; else the command ends with 1, having done nothing.

        Raises:
            UsageMistake: there is no terminal to ask on; `hint` says what to do then.
        """
        if not has_terminal():
            raise UsageMistake("a person has to confirm it", hint=hint)
        self.console.flush()
        if not click.confirm(question, err=True):
            self.console.warn("nothing was written")
            raise click.exceptions.Exit(1)

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


def has_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()


pass_run = click.make_pass_decorator(CommandContext)
"""Hands the command its `CommandContext` as first argument."""


class IdentityType(click.ParamType[str]):
    """`@login`; also whatever other words are named."""

    name = "@id"

    def __init__(self, *also: str) -> None:
        self._also = also

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The identity as given, if it is one; `＠` is how a digest writes `@` where that would read a file."""
        text = str(value)
        if text.startswith(WIDE_AT):
            text = f"@{text.removeprefix(WIDE_AT)}"
        if is_identity(text) or text in self._also:
            return text
        others = "".join(f" or {word}" for word in self._also if word)
        return self.fail(f"{text!r} is not an identity such as @neo-gpt{others}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """The graph's identities; none where there is no graph to read."""
        from click.shell_completion import CompletionItem

        from wake_bridge.domain.errors import WakeBridgeError
        from wake_bridge.storage.graph.file import GraphFile
        from wake_bridge.storage.graph.nodes import IDENTITY_LABEL

        run = CommandContext()
        run.config_option = ctx.find_root().params.get("config_file")
        try:
            with GraphFile(run.places.graph_path) as graph:
                known = [node.id for node in graph.nodes(IDENTITY_LABEL)]
        except WakeBridgeError:
            known = []
        return [CompletionItem(one) for one in (*self._also, *known) if one and one.startswith(incomplete)]


IDENTITY: Final = IdentityType()

Word = TypeVar("Word", bound=StrEnum)


class WordType(click.Choice[Word]):
    """One of an enumeration's words, as the graph and the configuration spell it."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """The word itself, where click would take the member's name."""
        return str(choice)


def foreign_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--foreign`: allows writing a graph that wake-bridge did not make."""
    explained = "Write even though another program made this graph."
    return click.option("--foreign", is_flag=True, help=explained)(command)
