"""What a person does at each of the programs: which keys open, answer and leave things, and what shows that it is so.

Nothing here is known to wake-bridge: it is the other side of the comparison.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Manners:
    """One program's.

    Attributes:
        approval: shows that it asks whether it may run a command.
        approve: lets it.
        question: shows that it asks the person something else.
        leave_question: sends that away without an answer.
        menu: what is typed to open a menu, keys by name behind a `<`.
        menu_shows: shows that it is open.
        leave_menu: closes it.
        quit: what is typed to end the program.
        busy: rules that may say that a turn runs.
        asks: rules that may say that it waits for an answer.
        before_question: what is typed before a question can be asked at all.
        menu_is: what presence must say of the menu, and by which rule.
        fades: what a screen that rests loses by itself.
        suspends_by_key: Ctrl-Z suspends it; in Gemini CLI it brings the last message back as a draft.
        reads_back: keys that show earlier rows in a view of its own; where there is none, it is tmux that scrolls.
        reads_on: keys that go back to the end.
        scrolled_is: what holds a wake meanwhile, and by which rule that is known.
        adds: what the program itself puts behind a message before it goes to the model.
        heads: what it puts before one.
        approval_is: the kind of attention that an approval is.
        has_limits: shows a usage limit as one.
        tries_on: what it shows while it tries again at a limit, for longer than anybody waits here.
        leave_limit: leaves what it asks at a limit.
        shows_reset: its limit says when it resets.
        takes_keys_for_one: of keys that arrive together it takes the first alone.
    """

    approval: re.Pattern[str]
    approve: tuple[str, ...]
    question: re.Pattern[str]
    leave_question: tuple[str, ...]
    menu: str
    menu_shows: re.Pattern[str]
    leave_menu: tuple[str, ...]
    quit: str
    busy: frozenset[str]
    asks: frozenset[str]
    before_question: str = ""
    after_question: str = ""
    after_tool: re.Pattern[str] | None = None
    menu_is: tuple[str, str] = ("unknown", "no-composer")
    reads_back: tuple[str, ...] = ()
    reads_on: tuple[str, ...] = ()
    scrolled_is: tuple[str, str] = ("copy_mode", "copy-mode")
    adds: re.Pattern[str] = re.compile("")
    heads: re.Pattern[str] = re.compile("")
    fades: re.Pattern[str] | None = None
    suspends_by_key: bool = True
    approval_is: str = "approval"
    has_limits: bool = False
    tries_on: re.Pattern[str] | None = None
    leave_limit: tuple[str, ...] = ()
    shows_reset: bool = True
    takes_keys_for_one: bool = False


_COLOUR: Final = re.compile(r"Which colour")

MANNERS: Final = {
    "claude": Manners(
        approval=re.compile(r"Do you want to proceed\?"),
        approve=("Enter",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="/model",
        menu_shows=re.compile(r"Select model"),
        leave_menu=("Escape",),
        quit="/exit",
        busy=frozenset({"title-spinner"}),
        asks=frozenset({"approval", "question"}),
        reads_back=("PPage",),
        reads_on=("C-End",),
        scrolled_is=("unknown", "scrolled"),
        has_limits=True,
        leave_limit=("Escape",),
    ),
    "codex": Manners(
        approval=re.compile(r"Would you like to run"),
        approve=("y",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="/permissions",
        menu_shows=re.compile(r"enter select|Press enter to confirm"),
        leave_menu=("Escape",),
        quit="/quit",
        busy=frozenset({"title-spinner"}),
        asks=frozenset({"title-action-required"}),
        before_question="/plan",
        after_question="<BTab",
        reads_back=("PPage",),
        reads_on=("Escape",),
        scrolled_is=("unknown", "scrolled"),
        has_limits=True,
        leave_limit=("Escape",),
    ),
    "gemini": Manners(
        approval=re.compile(r"Allow execution"),
        approve=("Enter",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="/settings",
        menu_shows=re.compile(r"Settings"),
        leave_menu=("Escape",),
        quit="/quit",
        busy=frozenset({"title-working", "spinner-row"}),
        suspends_by_key=False,
        asks=frozenset({"title-action-required"}),
        has_limits=True,
        leave_limit=("2",),
        shows_reset=False,
    ),
    "opencode": Manners(
        approval=re.compile(r"Permission required"),
        approve=("Enter",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="<C-p",
        menu_shows=re.compile(r"Commands"),
        leave_menu=("Escape",),
        quit="/exit",
        busy=frozenset({"progress-bar"}),
        asks=frozenset({"approval", "question"}),
        adds=re.compile(" "),
        reads_back=("PPage",),
        reads_on=("C-M-g",),
        scrolled_is=("unknown", "end-of-transcript"),
    ),
    "copilot": Manners(
        approval=re.compile(r"Do you want to run this command\?"),
        approve=("Enter",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="/theme",
        menu_shows=re.compile(r"Theme|theme"),
        leave_menu=("Escape",),
        quit="/exit",
        busy=frozenset({"footer-working"}),
        asks=frozenset({"approval", "question"}),
        reads_back=("PPage",),
        reads_on=("End",),
        scrolled_is=("unknown", "scrolled"),
        heads=re.compile(r"(?:<current_datetime>[^<]*</current_datetime>\s*)?"),
        adds=re.compile(r"(?:\s*<.*)?", re.DOTALL),
    ),
    "qwen": Manners(
        approval=re.compile(r"Allow execution"),
        approve=("Enter",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="/theme",
        menu_shows=re.compile(r"Select Theme|Theme"),
        leave_menu=("Escape",),
        quit="/quit",
        busy=frozenset({"title-spinner", "working-row", "footer-steer", "messages-queued"}),
        asks=frozenset({"title-waiting", "approval"}),
        fades=re.compile(r"(?m) *[│█]$"),
        suspends_by_key=False,
        tries_on=re.compile(r"Retrying in \d+"),
    ),
    "cn": Manners(
        approval=re.compile(r"Would you like to continue\?"),
        approve=("Enter",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="/model",
        menu_shows=re.compile(r"Select Model|Select a model"),
        leave_menu=("Escape",),
        quit="/exit",
        busy=frozenset({"working-row"}),
        asks=frozenset({"approval", "question"}),
        takes_keys_for_one=True,
        suspends_by_key=False,
    ),
    "nanocoder": Manners(
        approval=re.compile(r"Do you want to execute tool"),
        approve=("Enter",),
        question=_COLOUR,
        leave_question=("Escape",),
        menu="/settings ",  # without the blank a list of commands takes Enter
        menu_shows=re.compile(r"Search settings"),
        leave_menu=("Escape",),
        quit="/exit ",
        busy=frozenset({"working-row"}),
        asks=frozenset({"approval", "question"}),
        takes_keys_for_one=True,
        suspends_by_key=False,
    ),
    "aider": Manners(
        approval=re.compile(r"Run shell command\? \(Y\)es"),
        approve=("y", "Enter"),
        question=re.compile(r"Add file to the chat\? \(Y\)es"),
        leave_question=("n", "Enter"),
        menu="</",
        menu_shows=re.compile(r"/add|> /"),
        leave_menu=("BSpace",),
        quit="/exit",
        busy=frozenset({"answering", "spinner", "running-command"}),
        asks=frozenset({"question"}),
        approval_is="question",
        after_tool=re.compile(r"Add command output to the chat\? \(Y\)es"),
        menu_is=("userTyping", "draft"),
        adds=re.compile(r"(?:\n\n# \*SEARCH/REPLACE block\* Rules:.*)?", re.DOTALL),
    ),
}
