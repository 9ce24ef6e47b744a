"""`status --watch`: every agent in one live table, those that need a person first; one of them is opened by Enter."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import textwrap
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.cli.output import harmless, screen, time_of_day
from wake_bridge.domain.errors import LedgerError, NotRunning, OperationFailed, UsageMistake
from wake_bridge.domain.explanation import span
from wake_bridge.domain.names import SECOND, Identity, Instant, parse_instant

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wake_bridge.cli.output import Console
    from wake_bridge.config.settings import Settings

TICK: Final = 1.0
"""Seconds between two looks."""

HEADINGS: Final = ("identity", "presence", "since", "held for", "next look", "last wake", "budget")
ROOMY: Final = 120
"""Columns from which every heading has one of its own; below, an agent has two lines, and what belongs together shares a column."""

NARROW: Final = 60
"""Columns below which only who it is, how it stands and what holds its wake have room."""

MOST_OF_NAME: Final = 18
"""Columns of a name where an agent has two lines."""

URGENT: Final = ("attention ", "needs you ", "paused ", "set aside ", "host ", "you ", "unreadable ")
"""How lines begin that are shown also where few lines above the table have room, the first first."""

COLOURS: Final = {"idle": "green", "active": "cyan", "waitingOnApproval": "yellow", "userTyping": "yellow"}

Look = Callable[[], Mapping[str, Any]]
Words = Callable[[Mapping[str, Any]], str]
Story = Callable[[str], Sequence[str]]


def agents_now(settings: Settings) -> list[Mapping[str, Any]]:
    """A record for each identity: from the daemon, which watches the panes, else from the ledger alone."""
    from wake_bridge.control.client import ask

    try:
        return list(ask(settings.state_dir, "overview", timeout=3)["agents"])
    except (NotRunning, OperationFailed):
        # it is starting, stopping or stuck, or there is none: the ledger still tells the rest
        from wake_bridge.offline.history import overview_without_daemon
        from wake_bridge.records import overview_record

        try:
            return [overview_record(row) for row in overview_without_daemon(settings)]
        except LedgerError:
            # the lines above the table say so
            return []


def watch(console: Console, look: Look, words: Words, story: Story) -> None:
    """Show what `look` answers, anew each second, until q, Ctrl-C or SIGTERM; the terminal is as it was afterwards.

    `words` are those above the table, `story` the lines about one agent. With `--json` a line each second instead. Raises `UsageMistake` where there is no terminal to draw on.
    """
    with _ended_politely():
        if console.as_json:
            _print_lines(console, look)
            return
        if not sys.stdout.isatty():
            raise UsageMistake(
                "--watch needs a terminal",
                "status",
                hint="`wake-bridge status --watch --json` prints a line each second",
            )
        _draw(look, words, story)


def _print_lines(console: Console, look: Look) -> None:
    while True:
        console.line(look())
        console.flush()
        time.sleep(TICK)


def _draw(look: Look, words: Words, story: Story) -> None:
    from rich.live import Live

    terminal = screen()
    shown = WatchScreen(look(), words, story)
    with _keys() as keys, Live(shown.drawn(*terminal.size), console=terminal, screen=True, auto_refresh=False) as live:
        while not shown.has_ended:
            if pressed := keys(TICK):
                for key in pressed:
                    shown.takes(key)
            else:
                shown.record = look()
            live.update(shown.drawn(*terminal.size), refresh=True)


@contextmanager
def _keys() -> Iterator[Callable[[float], list[str]]]:
    """Waits at most so many seconds for keys, and answers them as they are named here; of none where nobody can press any."""
    if not sys.stdin.isatty():

        def rest(seconds: float) -> list[str]:
            time.sleep(seconds)
            return []

        yield rest
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def wait(seconds: float) -> list[str]:
        if not select.select([terminal], [], [], seconds)[0]:
            return []
        return keys_of(os.read(terminal, 1024).decode(errors="ignore"))

    try:
        tty.setcbreak(terminal)
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


SEQUENCES: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}
NAMES: Final = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape"}


def keys_of(text: str) -> list[str]:
    """The keys that a terminal has sent, each by a name of its own or as what it types."""
    keys = []
    while text:
        known = next((one for one in SEQUENCES if text.startswith(one)), "")
        if not known and text.startswith("\x1b["):
            # another key of that kind: nothing of it is meant
            end = next((at for at, one in enumerate(text[2:], 3) if one.isalpha() or one == "~"), len(text))
            text = text[end:]
            continue
        first = known or text[0]
        keys.append(SEQUENCES.get(first) or NAMES.get(first, first))
        text = text[len(first) :]
    return keys


ORDERS: Final = ("who needs you", "name", "last wake", "what waits")

MOST_OF_STORY: Final = 200
"""Entries of the feed that are read for the story of one agent."""


@dataclass
class WatchScreen:
    """What is shown, and what the keys do to it. `record` is what was looked at last."""

    record: Mapping[str, Any]
    words: Words
    story: Story
    order: int = 0
    filter: str = ""
    is_filtering: bool = False
    chosen: str = ""
    is_open: bool = False
    has_ended: bool = False

    def takes(self, key: str) -> None:
        """Do what a key means here."""
        if self.is_filtering:
            self._takes_filter(key)
        elif key == "q":
            self.has_ended = not self.is_open
            self.is_open = False
        elif key == "escape":
            self.is_open, self.filter = False, self.filter if self.is_open else ""
        elif key in {"j", "down", "k", "up"}:
            self._move(1 if key in {"j", "down"} else -1)
        elif key == "enter":
            self.is_open = bool(self.shown)
        elif key == "s":
            self.order = (self.order + 1) % len(ORDERS)
        elif key == "/":
            self.is_filtering, self.is_open = True, False

    def _takes_filter(self, key: str) -> None:
        if key == "enter":
            self.is_filtering = False
        elif key == "escape":
            self.is_filtering, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    @property
    def shown(self) -> list[Mapping[str, Any]]:
        """The agents that pass the filter, in the order that was asked for."""
        wanted = self.filter.lower().split()

        def passes(agent: Mapping[str, Any]) -> bool:
            needs = " ".join(one["what"] for one in agent["needs"])
            text = f"{agent['agentIdentity']} {agent.get('host') or ''} {agent['presence']} {agent['looksLike']} {agent['heldFor']} {needs}".lower()
            return all(one in text for one in wanted)

        found = [one for one in self.record["agents"] if passes(one)]
        if self.order == 1:
            found.sort(key=lambda one: str(one["agentIdentity"]))
        elif self.order == 2:  # noqa: PLR2004 - the place in ORDERS
            found.sort(key=lambda one: str(one["lastWake"] or ""), reverse=True)
        elif self.order:
            found.sort(key=lambda one: -int(one["waiting"]))
        return found

    def _at(self, agents: Sequence[Mapping[str, Any]]) -> int:
        """Which of them is chosen: the first where that one is not among them."""
        return next((at for at, one in enumerate(agents) if one["agentIdentity"] == self.chosen), 0)

    def _move(self, by: int) -> None:
        agents = self.shown
        if agents:
            at = min(max(self._at(agents) + by, 0), len(agents) - 1) if self.chosen else 0
            self.chosen = str(agents[at]["agentIdentity"])

    def drawn(self, width: int, height: int) -> RenderableType:
        """All of it, for a terminal of that size."""
        from rich.console import Group
        from rich.text import Text

        agents = self.shown
        at = self._at(agents)
        if self.is_open and agents:
            lines = self.story(str(agents[at]["agentIdentity"]))
            agent = _story_head(agents[at], Instant(int(time.time() * 1000)))
            keys = textwrap.wrap("j k  another agent   Esc  back to all   Ctrl-C  end", width)
            told = [harmless(one) for one in [*agent, *lines]][: height - len(keys) - 1]
            body = Text("\n".join(told), overflow="ellipsis", no_wrap=True)
            return Group(body, Text("\n".join(keys), style="dim"))
        keys = textwrap.wrap(self._keys_shown(), width)
        lines_each, headings = (1, 1) if width >= ROOMY else (2, 2)
        # a blank line and a rule are the table's own
        left = height - len(keys) - headings - 2
        head = _head(harmless(self.words(self.record)).splitlines(), max(height // 5, left - len(agents) * lines_each))
        fit = max(1, (left - len(head)) // lines_each)
        first = min(max(0, at - fit + 1), max(0, len(agents) - fit))
        table = _table(agents[first : first + fit], width, at - first if self.chosen else -1)
        above = Text("\n".join(head), overflow="ellipsis", no_wrap=True)
        return Group(above, Text("\n".join(keys), style="dim"), table)

    def _keys_shown(self) -> str:
        if self.is_filtering:
            return f"filter: {harmless(self.filter)}_   Enter  keep it   Esc  show all"
        found = f" ({harmless(self.filter)})" if self.filter else ""
        return f"j k  choose   Enter  open   s  sort: {ORDERS[self.order]}   /  filter{found}   q  Ctrl-C  end"


def _head(lines: Sequence[str], room: int) -> Sequence[str]:
    """As many lines of the status as there is room for above the table; what is urgent before what only is."""
    if len(lines) <= room:
        return lines
    urgent = [one for mark in URGENT for one in lines[1:] if one.startswith(mark)]
    return [*lines[:1], *urgent][: max(1, room)]


def _story_head(agent: Mapping[str, Any], now: Instant) -> list[str]:
    """How one agent stands."""
    host = f" on {agent['host']}" if agent.get("host") else ""
    lines = [f"{agent['agentIdentity']}{host}  {_presence(agent)}  {agent['where'] or ''}".rstrip(), ""]
    for one in agent["needs"]:
        lines += [f"needs you: {one['what']}, for {ago_of(one['since'], now)}", f"           {one['remedy']}"]
    if agent["isPaused"]:
        lines.append("paused" + (f", {_ahead(agent['pausedUntil'], now)} it goes on" if agent["pausedUntil"] else ""))
    waits = f"waiting    {agent['waiting']}"
    lines.append(f"{waits}: {agent['heldFor']}, for {ago_of(agent['heldSince'], now)}" if agent["heldFor"] else waits)
    if items := for_next_turn(agent):
        lines.append(f"           {items}")
    if agent["nextLook"]:
        lines.append(f"           next look {_ahead(agent['nextLook'], now)}")
    if agent["deliveryId"]:
        lines.append(f"           wake-bridge deliveries show {agent['deliveryId']}")
    return [*lines, "", "what happened"]


def story_of(settings: Settings, identity: str) -> list[str]:
    """The latest entries of the feed about one agent, newest first, a line each."""
    from wake_bridge.cli.activity import told_line
    from wake_bridge.storage.ledger import LedgerStore

    ledger = LedgerStore.open(settings.state_dir, read_only=True)
    try:
        return [told_line(one) for one in ledger.latest_activity(MOST_OF_STORY, identity=Identity(identity))]
    finally:
        ledger.close()


def _table(agents: Sequence[Mapping[str, Any]], width: int, chosen: int = -1) -> Table:
    """Each agent has one line, or two; what is too long for its column ends with an ellipsis."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    now = Instant(int(time.time() * 1000))
    rows = [[harmless(one) for one in cells_of(agent, now)] for agent in agents]
    if width < ROOMY:
        # by which route that is proven stands in the agent's story
        rows = [[one.partition(" (")[0] if at == _PRESENCE else one for at, one in enumerate(cells)] for cells in rows]
    columns = _columns(rows, width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    for heading, size, _ in columns:
        table.add_column(heading, width=size, ratio=None if size else 1, no_wrap=True, overflow="ellipsis")
    for at, (agent, cells) in enumerate(zip(agents, rows, strict=True)):
        colour = COLOURS.get(str(agent["looksLike"]), "")
        needing = "yellow" if agent["needs"] or agent["holdReason"] else ""
        styles = {HEADINGS.index("identity"): "bold", _PRESENCE: colour, _HELD: needing}
        table.add_row(
            *(
                Text("\n").join(Text(text, style=styles.get(number, "")) for number, text in lines(cells))
                for _, _, lines in columns
            ),
            style="reverse" if at == chosen else "",
        )
    return table


_PRESENCE: Final = HEADINGS.index("presence")
_HELD: Final = HEADINGS.index("held for")
_BETWEEN: Final = 3
_EDGES: Final = 2
"""Columns of the terminal between two columns of the table, and beside all of them."""

Lines = Callable[[Sequence[str]], Sequence[tuple[int, str]]]
"""What stands in a column, line by line, out of the cells of an agent; each with its place in `HEADINGS`."""


def _columns(rows: Sequence[Sequence[str]], width: int) -> Sequence[tuple[str, int | None, Lines]]:
    """The heading, the width and the lines of each column; one has no width: it takes what is left."""

    def only(*numbers: int) -> Lines:
        return lambda cells: [(number, cells[number]) for number in numbers]

    def widest(*numbers: int) -> int:
        return max((len(row[number]) for row in rows for number in numbers), default=0)

    identity, presence, since, _, _, last_wake, budget = range(len(HEADINGS))
    if width >= ROOMY:
        return [
            (
                name,
                None if at == _HELD else max(len(name), min(widest(at), width // 4)),
                only(at),
            )
            for at, name in enumerate(HEADINGS)
        ]
    names = min(max(widest(identity), len("last wake")), MOST_OF_NAME)

    def folded(size: int) -> Lines:
        def lines(cells: Sequence[str]) -> Sequence[tuple[int, str]]:
            return [(_HELD, one) for one in textwrap.wrap(cells[_HELD], max(size, 1), max_lines=2, placeholder="…")]

        return lines

    if width < NARROW:
        first = max(names, min(widest(presence), width // 2))
        return [
            ("identity\npresence", first, only(identity, presence)),
            ("held for", None, folded(width - first - _BETWEEN - _EDGES)),
        ]
    shown = max(len("presence"), min(widest(presence), MOST_OF_NAME))
    used = max((len(one) for row in rows for one in row[budget].split("  ")), default=0)
    used = max(used, len("budget"))
    return [
        ("identity\nlast wake", names, only(identity, last_wake)),
        ("presence\nsince", shown, only(presence, since)),
        ("held for", None, folded(width - names - shown - used - 3 * _BETWEEN - _EDGES)),
        ("budget", used, lambda cells: [(budget, one) for one in cells[budget].split("  ")]),
    ]


def cells_of(agent: Mapping[str, Any], now: Instant) -> tuple[str, ...]:
    """One row, in the order of `HEADINGS`."""
    last_wake, budget = parse_instant(agent["lastWake"]), agent["budget"]
    return (
        f"{agent['agentIdentity']} ({agent['host']})" if agent.get("host") else str(agent["agentIdentity"]),
        _presence(agent),
        ago_of(agent["since"], now),
        _held(agent, now),
        _ahead(agent["nextLook"], now),
        time_of_day(last_wake) if last_wake else "-",
        # 0 is a host that did not say it: its link is down, or its release is older
        f"{budget['this_hour']}/{budget['of_hour']} h  {budget['today']}/{budget['of_day']} d"
        if budget["of_hour"]
        else "-",
    )


def _presence(agent: Mapping[str, Any]) -> str:
    """What is proven, and by which route; with a question mark what one look alone speaks for."""
    state = str(agent["presence"] or "-")
    if agent["presence"] == "unknown" and agent["looksLike"] != "unknown":
        state = f"{agent['looksLike']}?"
    return f"{state} ({agent['route']})" if agent.get("route") else state


def _held(agent: Mapping[str, Any], now: Instant) -> str:
    """What a person is needed for, else why its wake waits."""
    for one in agent["needs"]:
        return f"{ago_of(one['since'], now)}: needs you: {one['what']}"
    if agent["heldFor"]:
        return f"{ago_of(agent['heldSince'], now)}: {agent['heldFor']}"
    if agent["waiting"]:
        return f"{agent['waiting']} waiting"
    return for_next_turn(agent) or "-"


def for_next_turn(agent: Mapping[str, Any]) -> str:
    """`2 items for its next turn`; empty where there are none."""
    items = agent.get("items") or 0
    return f"{items} item{'s' if items > 1 else ''} for its next turn" if items else ""


def ago_of(moment: str | None, now: Instant) -> str:
    """How long ago that was, in its largest unit."""
    instant = parse_instant(moment)
    return span(max(0, now - instant)) if instant else "-"


def _ahead(moment: str | None, now: Instant) -> str:
    instant = parse_instant(moment)
    if instant is None:
        return "-"
    return f"in {span(instant - now)}" if instant - now >= SECOND else "now"


@contextmanager
def _ended_politely() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal end it alike, and whatever was drawn is taken back."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        # the person has seen enough: the usual end of a watch
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
