"""What the commands print: JSON for programs, words for people, errors to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.streams import stop_writing
from wake_bridge.domain.errors import ConfigurationInvalid, WakeBridgeError
from wake_bridge.domain.names import Instant, is_identity
from wake_bridge.domain.text import without_controls

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


IDENTITY: Final = "agentIdentity"
OLD_IDENTITY: Final = frozenset({"agent", "identity", "paused", "resumed", "target"})
"""Deprecated: what an identity was called besides. A name is old only where it holds an identity, or `*` for all."""

RUNNING: Final = "isRunning"
_RUNS: Final = {"yes": True, "no": False, "cannot_tell": None}

TEXTS: Final = frozenset({"body", "displayName", "subject"})
"""What people wrote: an empty one is what they wrote."""

NOT_OURS: Final = frozenset({"currentState", "detail", "evidence", "filters", "holds", "task", "harnessTargetMetadata"})
"""What holds words of the graph, of a journal or of an adapter, or counts by reason: nothing in it is renamed."""


def as_printed(value: Any) -> Any:
    """The same with null for what is absent, and each old name's new one beside it, at every depth.

    An old name keeps its old value: there an empty text goes on saying that something is absent.
    """
    if isinstance(value, Mapping):
        named: dict[str, Any] = {}
        for name, one in value.items():
            is_absent = one == "" and not _is_old(name) and name not in TEXTS
            named[name] = None if is_absent else one if name in NOT_OURS else as_printed(one)
        for name, one in value.items():
            for new, said in _new_names(name, one):
                named.setdefault(new, named[name] if said is one else said)
        return named
    if isinstance(value, list | tuple):
        return [as_printed(one) for one in value]
    return value


def _is_old(name: str) -> bool:
    return "_" in name.strip("_")


def _new_names(name: str, value: Any) -> list[tuple[str, Any]]:
    if name in OLD_IDENTITY and isinstance(value, str) and (is_identity(value) or value == "*"):
        return [(IDENTITY, value)]
    if name == "running" and value in _RUNS:
        return [(RUNNING, _RUNS[value])]
    return [(camel(name), None if value == "" else value)] if _is_old(name) else []


def camel(name: str) -> str:
    """`hold_reason` as `holdReason`."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def time_of_day(instant: Instant) -> str:
    """`01:12`; with the day in front where it was not today: `Nov 27 01:12`."""
    local = datetime.fromtimestamp(instant / 1000).astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M}" if is_today else f"{local:%b %d %H:%M}"


harmless: Final = without_controls
"""What every text goes through that a command prints."""


def complaint(what: str, where: str, hint: str, problems: Sequence[str] = ()) -> str:
    """What a person is told of an error: what failed and where, everything that is wrong, what to do."""
    lines = [f"error: {what}: {where}" if where else f"error: {what}", *(f"  {problem}" for problem in problems)]
    return "\n".join([*lines, f"hint: {hint}"] if hint else lines)


def problems_of(error: WakeBridgeError) -> tuple[str, ...]:
    """The mistakes an error lists, if it is one that does."""
    return error.problems if isinstance(error, ConfigurationInvalid) else ()


_GAP: Final = 2
"""Cells between two columns of a table on a terminal."""

_FOLDED: Final = 9
"""Cells that a folded column is left at least."""


class Console:
    """One command's output. With `as_json`, stdout holds only JSON, one compact object a line."""

    def __init__(self) -> None:
        self.as_json = False

    def object(self, value: Mapping[str, Any], text: str = "") -> None:
        """The command's one answer: `value` for programs, `text` (else the values) for people."""
        self.line(value, text)

    def line(self, value: Mapping[str, Any], text: str = "") -> None:
        """One of the command's answers."""
        if self.as_json:
            click.echo(json.dumps(as_printed(value), separators=(",", ":"), default=str))
        else:
            click.echo(harmless(text or "  ".join(f"{name}: {_plain(one)}" for name, one in value.items())))

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows for people: fitted to a terminal, else in plain columns; nothing with `--json`."""
        if self.as_json:
            return
        clean = [[harmless(cell).replace("\n", " ") for cell in row] for row in rows]
        if sys.stdout.isatty():
            _fitted(headings, clean)
            return
        widths = [max(len(cell) for cell in column) for column in zip(headings, *clean, strict=True)]
        for row in (headings, *clean):
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            click.echo("  ".join(padded).rstrip())

    def say(self, text: str) -> None:
        """Words for people; nothing with `--json`."""
        if not self.as_json:
            click.echo(harmless(text))

    def warn(self, text: str) -> None:
        """A remark beside the answer, on stderr in either form."""
        click.echo(harmless(text), err=True)

    @contextmanager
    def outliving_its_reader(self) -> Iterator[None]:
        """Say something before work that is done whether anybody reads it or not, as behind `| head`."""
        try:
            yield
            self.flush()
        except BrokenPipeError:
            stop_writing()

    def flush(self) -> None:
        """Return only when everything printed has left this process.

        Raises:
            BrokenPipeError: nobody reads it.
        """
        # click.echo flushes, and knows what to do where there is no stdout at all
        click.echo(nl=False)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def screen() -> RichConsole:
    """The terminal that stdout leads to; with `NO_COLOR` it gets plain text (rich by itself leaves what is bold)."""
    from rich.console import Console as RichConsole

    return RichConsole(color_system=None if os.environ.get("NO_COLOR") else "auto")


def _fitted(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Names and ids stay in one piece, to be copied, as long as that leaves room for the sentences beside them."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    console = screen()
    columns = list(zip(headings, *rows, strict=True))
    widths = [max(cell_len(cell) for cell in column) for column in columns]
    whole = _kept_whole(columns, widths, console.width - _GAP * (len(columns) - 1))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for heading, is_whole in zip(headings, whole, strict=True):
        table.add_column(heading, overflow="fold", no_wrap=is_whole)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _kept_whole(columns: Sequence[Sequence[str]], widths: Sequence[int], room: int) -> list[bool]:
    """Which columns of names are not folded: from the left, as many as leave the others something."""
    taken = sum(min(width, _FOLDED) for width in widths)
    whole = []
    for (_, *cells), width in zip(columns, widths, strict=True):
        more = width - min(width, _FOLDED)
        is_whole = all(" " not in cell for cell in cells) and taken + more <= room
        taken += more if is_whole else 0
        whole.append(is_whole)
    return whole
