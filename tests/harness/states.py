"""The states of the table: how a person brings a program into each and out of it, and what wake-bridge must say of it."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import psutil

from tests.harness.house import PATIENCE, SESSION, SIZE, House
from tests.harness.manners import Manners
from tests.harness.model.scenes import LONG, PLAY
from wake_bridge.demo.tmux_server import Typist

DRAFT: Final = "half a thought, not yet"
NARROW: Final = (50, 20)
IDLE: Final = "idle"

_PAUSE: Final = 0.3


@dataclass(slots=True)
class Visit:
    """One program in one state, for as long as that takes."""

    house: House
    typing: threading.Event = field(default_factory=threading.Event)
    typists: list[threading.Thread] = field(default_factory=list)

    @property
    def manners(self) -> Manners:
        """What its program wants."""
        return self.house.manners


Act = Callable[[Visit], None]


@dataclass(frozen=True, slots=True)
class State:
    """One column of the table.

    Attributes:
        name: what a person calls it.
        presence: what must be said of it.
        why: the rules that may be named as the reason.
        hold: why a wake waits; empty where it comes at once.
        put: brings the program there, and returns once its screen or its processes show that it is there.
        lift: takes the obstacle away.
        tidy: puts the rest in order after the wake.
        is_still: nothing moves there by itself, so that nothing at all may change on the screen.
    """

    name: str
    presence: Callable[[Visit], str]
    why: Callable[[Visit], frozenset[str]]
    hold: str = ""
    put: Act = lambda _: None
    lift: Act = lambda _: None
    tidy: Act = lambda _: None
    is_still: bool = False


def _always(value: str) -> Callable[[Visit], str]:
    return lambda _: value


def _rules(*names: str) -> Callable[[Visit], frozenset[str]]:
    return lambda _: frozenset(names)


def _busy(visit: Visit) -> frozenset[str]:
    return frozenset(visit.manners.busy)


def _asks(visit: Visit) -> frozenset[str]:
    return frozenset(visit.manners.asks)


def _shows(visit: Visit, pattern: re.Pattern[str], what: str) -> None:
    visit.house.waits_until(lambda look: pattern.search(look.text) is not None, what=what)


# -- turns -------------------------------------------------------------------------------------------------------


def _takes_a_turn(visit: Visit) -> None:
    visit.house.says("hello there")
    _shows(visit, re.compile("Noted"), "the answer")


def _streams(visit: Visit) -> None:
    visit.house.model.stage.holds()
    visit.house.says(PLAY.format("streaming"))
    _shows(visit, re.compile(r"line \d+ of a long"), "the first line of the answer")


def _thinks(visit: Visit) -> None:
    visit.house.model.stage.holds()
    visit.house.says(PLAY.format("thinking"))
    deadline = time.monotonic() + PATIENCE
    while not visit.house.model.stage.waiting:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the model was not asked\n{visit.house.look().text}")
        time.sleep(0.05)


def _ends_the_answer(visit: Visit) -> None:
    visit.house.model.stage.goes_on()


# -- dialogs -----------------------------------------------------------------------------------------------------


def _asks_for_approval(visit: Visit) -> None:
    for sign in ("started", "go"):
        (visit.house.work / sign).unlink(missing_ok=True)
    visit.house.says(PLAY.format("tool"))
    _shows(visit, visit.manners.approval, "the approval")
    time.sleep(_PAUSE)  # some ignore keys that come with the dialog


def _is_approved(visit: Visit) -> None:
    visit.house.presses(*visit.manners.approve)
    deadline = time.monotonic() + PATIENCE
    while not (visit.house.work / "started").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the command never ran\n{visit.house.look().text}")
        time.sleep(0.05)


def _runs_a_tool(visit: Visit) -> None:
    _asks_for_approval(visit)
    _is_approved(visit)


def _lets_the_tool_end(visit: Visit) -> None:
    (visit.house.work / "go").touch()
    if visit.manners.after_tool:
        _shows(visit, visit.manners.after_tool, "the question about the output")
        visit.house.presses(*visit.manners.leave_question)


def _approves_what_ends_at_once(visit: Visit) -> None:
    (visit.house.work / "go").touch()
    _is_approved(visit)
    _lets_the_tool_end(visit)


def _asks_a_question(visit: Visit) -> None:
    if visit.manners.before_question:
        visit.house.says(visit.manners.before_question)
        visit.house.waits_for_presence(IDLE)
    visit.house.says(PLAY.format("question"))
    _shows(visit, visit.manners.question, "the question")
    time.sleep(_PAUSE)


def _leaves_the_question(visit: Visit) -> None:
    visit.house.presses(*visit.manners.leave_question)


def _after_the_question(visit: Visit) -> None:
    _types_or_presses(visit, visit.manners.after_question)


def _opens_a_menu(visit: Visit) -> None:
    _types_or_presses(visit, visit.manners.menu)
    _shows(visit, visit.manners.menu_shows, "the menu")


def _leaves_the_menu(visit: Visit) -> None:
    visit.house.presses(*visit.manners.leave_menu)


def _types_or_presses(visit: Visit, what: str) -> None:
    if what.startswith("<"):
        visit.house.presses(what[1:])
    elif what:
        visit.house.says(what)


# -- reading back ------------------------------------------------------------------------------------------------


def _reads_back(visit: Visit) -> None:
    house, end = visit.house, f"line {LONG} of"
    house.says(PLAY.format("long"))
    house.waits_until(lambda look: end in look.text, what="the end of the answer")
    house.waits_for_presence(IDLE)
    if visit.manners.reads_back:
        house.presses(*visit.manners.reads_back)
        house.waits_until(lambda look: end not in look.text, what="earlier rows")
    else:
        house.tmux.run("copy-mode", "-u", "-t", house.pane_id)


def _reads_on(visit: Visit) -> None:
    if visit.manners.reads_back:
        visit.house.presses(*visit.manners.reads_on)
    else:
        _leaves_copy_mode(visit)


# -- the composer ------------------------------------------------------------------------------------------------


def _leaves_a_draft(visit: Visit) -> None:
    visit.house.types(DRAFT)
    _shows(visit, re.compile(DRAFT), "the draft")


def _clears_the_draft(visit: Visit) -> None:
    _goes_back(visit, len(DRAFT))


def _leaves_blanks(visit: Visit) -> None:
    before = visit.house.look().cursor
    visit.house.types("   ")
    visit.house.waits_until(
        lambda look: look.cursor == (before[0] + 3, before[1]), what="the cursor behind three blanks"
    )


def _clears_the_blanks(visit: Visit) -> None:
    _goes_back(visit, 3)


def _goes_back(visit: Visit, count: int) -> None:
    if visit.manners.takes_keys_for_one:
        visit.house.presses(*["BSpace"] * count)
    else:
        visit.house.tmux.run("send-keys", "-t", visit.house.pane_id, "-N", str(count), "BSpace")


# -- tmux and the shell ------------------------------------------------------------------------------------------


def _opens_copy_mode(visit: Visit) -> None:
    visit.house.tmux.run("copy-mode", "-t", visit.house.pane_id)


def _leaves_copy_mode(visit: Visit) -> None:
    visit.house.tmux.run("send-keys", "-X", "-t", visit.house.pane_id, "cancel")


def _narrow_and_read(visit: Visit) -> None:
    visit.house.resize(*NARROW)
    visit.house.waits_for_presence(IDLE)
    _opens_copy_mode(visit)


def _wide_again(visit: Visit) -> None:
    visit.house.resize(*SIZE)


def _the_shell_has_it(visit: Visit) -> None:
    visit.house.waits_until(lambda look: look.flags["pane_current_command"] == "bash", what="the shell")


def _quits(visit: Visit) -> None:
    visit.house.says(visit.manners.quit)
    _the_shell_has_it(visit)


def _starts_again(visit: Visit) -> None:
    visit.house.starts()


def _is_suspended(visit: Visit) -> None:
    """By Ctrl-Z; where that is another key, as a person's `kill -STOP` does it."""
    if visit.manners.suspends_by_key:
        visit.house.presses("C-z")
    else:
        os.killpg(os.getpgid(_child_of_the_shell(visit.house).pid), signal.SIGSTOP)
    _the_shell_has_it(visit)


def _is_resumed(visit: Visit) -> None:
    visit.house.types("fg")
    visit.house.presses("Enter")
    visit.house.waits_until(lambda look: look.flags["pane_current_command"] != "bash", what="the program in front")
    if not visit.manners.suspends_by_key:
        _is_no_longer_trusted(visit)


def _is_no_longer_trusted(visit: Visit) -> None:
    """One that was stopped from outside takes pastes for keys: nothing goes in until the person starts it anew."""
    house = visit.house
    house.bridge.waits_for(lambda: "was stopped" in str(house.presence()["why"]), PATIENCE, "the reason")
    os.killpg(os.getpgid(_child_of_the_shell(house).pid), signal.SIGTERM)
    _the_shell_has_it(visit)
    _starts_again(visit)


def _child_of_the_shell(house: House) -> psutil.Process:
    return psutil.Process(int(house.look().flags["pane_pid"])).children()[0]


# -- somebody at the keys ----------------------------------------------------------------------------------------


def _types_on(visit: Visit, typist: Typist, keys: tuple[str, ...]) -> None:
    """Let a typist press those keys over and over until the visit's `typing` is set."""

    def work() -> None:
        while not visit.typing.wait(_PAUSE):
            for key in keys:
                typist.types(key)
                time.sleep(0.05)

    thread = threading.Thread(target=work, name="typist", daemon=True)
    visit.typists.append(thread)
    thread.start()


def _stops_typing(visit: Visit) -> None:
    visit.typing.set()
    for thread in visit.typists:
        thread.join()


def _types_here(visit: Visit) -> None:
    typist = visit.house.attach(*SIZE)
    _types_on(visit, typist, ("x", "\x7f"))


def _types_elsewhere(visit: Visit) -> None:
    typist = lose_focus(visit.house)
    _types_on(visit, typist, ("word ", "and\n"))


def lose_focus(house: House) -> Typist:
    """Attach somebody who looks at a pane below: this one has lost the focus, and is told so."""
    house.tmux.run("set-option", "-s", "focus-events", "on")
    typist = house.attach(SIZE[0], 2 * SIZE[1] + 2)
    house.tmux.run("split-window", "-v", "-t", house.pane_id, "-l", str(SIZE[1]), "cat")
    house.waits_until(lambda look: look.height <= SIZE[1] + 1, what="half the window")
    return typist


def _alone_again(visit: Visit) -> None:
    _stops_typing(visit)
    be_alone(visit.house)


def be_alone(house: House) -> None:
    """Without clients and other panes, in the size it began with."""
    house.tmux.run("detach-client", "-s", f"={SESSION}")
    house.tmux.run("kill-pane", "-a", "-t", house.pane_id)
    house.resize(*SIZE)


# -- the table ---------------------------------------------------------------------------------------------------

STATES: Final = (
    State("fresh idle", _always(IDLE), _rules("idle")),
    State("idle after a turn", _always(IDLE), _rules("idle"), put=_takes_a_turn),
    State("streaming", _always("active"), _busy, "active", _streams, _ends_the_answer),
    State("thinking", _always("active"), _busy, "active", _thinks, _ends_the_answer),
    State("tool running", _always("active"), _busy, "active", _runs_a_tool, _lets_the_tool_end),
    State(
        "approval",
        _always("waitingOnApproval"),
        _asks,
        "waitingOnApproval",
        _asks_for_approval,
        _approves_what_ends_at_once,
    ),
    State(
        "question",
        _always("waitingOnApproval"),
        _asks,
        "waitingOnApproval",
        _asks_a_question,
        _leaves_the_question,
        _after_the_question,
    ),
    State(
        "draft", _always("userTyping"), _rules("draft"), "userTyping", _leaves_a_draft, _clears_the_draft, is_still=True
    ),
    State(
        "spaces-only draft",
        _always("userTyping"),
        _rules("draft"),
        "userTyping",
        _leaves_blanks,
        _clears_the_blanks,
        is_still=True,
    ),
    State(
        "menu",
        lambda visit: str(visit.manners.menu_is[0]),
        lambda visit: frozenset({visit.manners.menu_is[1]}),
        "by presence",
        _opens_a_menu,
        _leaves_the_menu,
        is_still=True,
    ),
    State(
        "scrolled",
        _always("unknown"),
        lambda visit: frozenset({visit.manners.scrolled_is[1]}),
        "by view",
        _reads_back,
        _reads_on,
        is_still=True,
    ),
    State(
        "copy mode",
        _always("unknown"),
        _rules("copy-mode"),
        "copy_mode",
        _opens_copy_mode,
        _leaves_copy_mode,
        is_still=True,
    ),
    State("exited to shell", _always("unknown"), _rules("no-agent"), "no_agent", _quits, _starts_again, is_still=True),
    State("suspended", _always("unknown"), _rules("suspended"), "no_agent", _is_suspended, _is_resumed, is_still=True),
    State(
        "50 columns",
        _always("unknown"),
        _rules("copy-mode"),
        "copy_mode",
        _narrow_and_read,
        _leaves_copy_mode,
        _wide_again,
        is_still=True,
    ),
    State(
        "keys in this pane",
        _always("userTyping"),
        _rules("client-key", "draft"),
        "userTyping",
        _types_here,
        _stops_typing,
        _alone_again,
    ),
    State("keys in another", _always(IDLE), _rules("idle"), put=_types_elsewhere, tidy=_alone_again),
)
