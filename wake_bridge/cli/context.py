"""What every command is given: its global options, its output, and its workplace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from wake_bridge.cli.output import Console
from wake_bridge.domain.errors import UsageMistake
from wake_bridge.domain.names import is_identity
from wake_bridge.domain.text import WIDE_AT
from wake_bridge.offline.workplace import Workplace

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandContext(Workplace):
    """One run of the program: `--config`, `--json`, `-v`, and what follows from them."""

    def __init__(self) -> None:
        super().__init__()
        self.verbosity = 0
        self.console = Console()

    def warn(self, text: str) -> None:
        """See `Workplace.warn`."""
        self.console.warn(text)

    def ask_a_person(self, question: str, *, hint: str) -> None:
        """Go on only if a person at the terminal says yes; else the command ends with 1, having done nothing.

        Raises:
            UsageMistake: there is no terminal for the question; `hint` says what to do then.
        """
        if not has_terminal():
            raise UsageMistake("a person must confirm this", hint=hint)
        self.console.flush()
        if not click.confirm(question, err=True):
            self.console.warn("nothing was written")
            raise click.exceptions.Exit(1)


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
        from wake_bridge.storage.graph.nodes import IDENTITY_LABEL
        from wake_bridge.storage.graph.opened import open_graph

        run = CommandContext()
        run.config_option = ctx.find_root().params.get("config_file")
        try:
            with open_graph(run.places.graph_place) as graph:
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
        return str(choice) if self.case_sensitive else str(choice).casefold()


def limit_option(most: int, default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--limit N` of a command that lists: at most `most` entries, `default` without it."""
    return click.option(
        "--limit",
        metavar="N",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        help="Show at most N entries.",
    )


def foreign_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--foreign`: allows writing a graph that wake-bridge did not make."""
    explained = "Write even though another program made this graph."
    return click.option("--foreign", is_flag=True, help=explained)(command)
