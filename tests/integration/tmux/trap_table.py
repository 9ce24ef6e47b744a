"""The traps: how each is laid, when, and the one answer it must get in whatever room and size, whoever looks on."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from wake_bridge_adapters.pane_lock import pane_lock

from tests.integration.tmux.conftest import DIGEST
from tests.integration.tmux.house import Cell, House, Start
from wake_bridge.domain.delivery import HoldReason, Step


class Come(Enum):
    """What must come of a wake."""

    ONCE = "submitted once, byte for byte"
    REFUSED = "refused, 0 keys"
    NOWHERE = "no pane is found, 0 keys"
    UNFIT = "failed for good, 0 keys"
    STAGED = "the text stands there, 0 Enter"
    UNKNOWN = "reported as unknown"


@dataclass(frozen=True)
class Answer:
    """What comes of it; and of a refusal, why."""

    come: Come
    reason: HoldReason | None = None


ONCE: Final = Answer(Come.ONCE)
UNFIT: Final = Answer(Come.UNFIT)
STAGED: Final = Answer(Come.STAGED, HoldReason.STAGED)
UNKNOWN: Final = Answer(Come.UNKNOWN)

UP_FRONT: Final = None
AFTER_THE_LOOK: Final = Step.INTENT_STAGE
BEFORE_ENTER: Final = Step.INTENT_SUBMIT
IN_THE_GAP: Final = Step.STAGED

Act = Callable[[Cell], object]


@dataclass(frozen=True)
class Trap:
    """One row. `text` is what is to be pasted, `start` what started the agent."""

    name: str
    laid: Act
    when: Step | None
    answer: Answer
    text: str = DIGEST
    start: Start = Start.ALONE
    needs_client: bool = False
    slow: bool = False


def refused(reason: HoldReason | None = None) -> Answer:
    """Refused for that reason; without one for whatever the next look shows of a program that draws itself anew."""
    return Answer(Come.REFUSED, reason)


def nowhere(reason: HoldReason) -> Answer:
    return Answer(Come.NOWHERE, reason)


def _nothing(_cell: Cell) -> None:
    """The room is the trap."""


def _tmux(*arguments: str) -> Act:
    return lambda cell: cell.tmux(*arguments)


def _shows(mode: str, text: str = "", *, keep: bool = False) -> Act:
    """The agent is in that mode, and its screen shows it; with `keep` its composer holds what it held."""

    def act(cell: Cell) -> None:
        before = cell.agent.look()
        cell.agent.fake.shows(mode, text, keep=keep)
        cell.agent.tmux.waits_until(
            cell.agent.pane, lambda look: (look.text, look.title) != (before.text, before.title)
        )

    return act


def _crashes(cell: Cell) -> None:
    """Its picture stays, and its shell has the pane."""
    cell.agent.fake.shows("crash")
    cell.agent.tmux.waits_until(
        cell.agent.pane, lambda look: not look.flags["pane_current_command"].startswith("python")
    )


def _turns(**knobs: int | bool | str) -> Act:
    return lambda cell: cell.agent.fake.turn(**knobs)


def _aims_at(target: str) -> Act:
    """The configured target reads so; `{short}` is the session's name without its last letter, `{window}` its index."""

    def act(cell: Cell) -> None:
        cell.target = (
            target.replace("{short}", cell.session[:-1])
            .replace("{session}", cell.session)
            .replace("{pane}", cell.agent.id)
            .replace("{window}", cell.format("#{window_index}.#{pane_index}"))
        )

    return act


def _aims_by_name(cell: Cell) -> None:
    """`=session:window.pane`, as tmux tells it."""
    panes = cell.tmux("list-panes", "-s", "-t", "={session}:", "-F", "#{pane_id} #{window_index}.#{pane_index}")
    cell.target = f"={cell.session}:{dict(line.split() for line in panes.splitlines())[cell.agent.id]}"


def _aims_at_a_program_that_is_none(cell: Cell) -> None:
    """`pane_current_command` of a pane says nothing of what was started in it; here a shell started `cat`."""
    cell.target = cell.has_a_neighbour()


def _has_a_twin(cell: Cell) -> None:
    """Two agents under one window's name."""
    twin = cell.scene.resident("twin", session=cell.session)
    cell.tmux("rename-window", "-t", "{pane}", "twins")
    cell.tmux("rename-window", "-t", twin.id, "twins")
    cell.target = f"{cell.session}:twins"
    cell.undo.append(lambda: cell.tmux("kill-pane", "-t", twin.id))


def _both_say_so(cell: Cell) -> None:
    """Two panes bear the identity's mark."""
    other = cell.has_a_neighbour()
    for pane in (cell.agent.id, other):
        cell.tmux("set-option", "-p", "-t", pane, "@wake_identity", "@agent")
    cell.target = "by its mark"


def _dies_in_its_pane(cell: Cell) -> None:
    cell.tmux("set-option", "-p", "-t", "{pane}", "remain-on-exit", "on")
    cell.agent.fake.shows("exit")
    cell.agent.tmux.waits_until(cell.agent.pane, lambda look: look.flags["pane_dead"] == "1")


def _is_stopped(cell: Cell) -> None:
    pid = cell.agent.pid
    cell.agent.stops()
    cell.undo.append(lambda: os.kill(pid, signal.SIGCONT))


def _aims_at_a_pane_that_shows_tmux(cell: Cell) -> None:
    """A pane of another server, in which a client of this one draws the agents."""
    cell.socket = str(cell.house.outer.socket_path)
    cell.target = House.session("a nested client", cell.size)


def _is_taken(cell: Cell) -> None:
    lock = pane_lock(str(cell.scene.tmux.socket_path), cell.scene.tmux.server_pid, cell.agent.id)
    lock.__enter__()
    cell.undo.append(lambda: lock.__exit__(None, None, None))


def _is_respawned(cell: Cell) -> None:
    """Another agent in the same pane."""
    starts = len(cell.agent.fake.events("started"))
    cell.tmux("respawn-pane", "-k", "-t", "{pane}", "exec " + shlex.join(cell.agent.fake.command()))
    cell.agent.fake.waits_for("started", starts + 1)
    cell.agent.fake.control()


def _moves_out(cell: Cell) -> None:
    """Into a session of its own: its old one has it no longer."""
    cell.tmux("new-session", "-d", "-s", "elsewhere", "-x", "80", "-y", "24", "cat")
    cell.tmux("join-pane", "-d", "-s", "{pane}", "-t", "=elsewhere:")
    cell.undo.append(lambda: cell.tmux("kill-session", "-t", "=elsewhere"))


def _is_resized(cell: Cell) -> None:
    cell.tmux("set-option", "-w", "-t", "{pane}", "window-size", "manual")
    cell.tmux("resize-window", "-t", "{pane}", "-x", "97", "-y", "31")


def _presses_a_key(cell: Cell) -> None:
    """A key that the agent has and does not show yet: the cursor stands where it stood."""
    assert cell.client is not None
    cell.agent.fake.turn(echo_delay=1500)
    cell.client.types("x")
    cell.persons = b"x"
    cell.agent.fake.waits_for("bytes")


def _types_and_erases(cell: Cell) -> None:
    """A moment ago: nothing of it is to be seen any more."""
    assert cell.client is not None
    cell.client.types("x\x7f")
    cell.persons = b"x\x7f"
    cell.agent.tmux.waits_until(cell.agent.pane, lambda _look: cell.agent.fake.bytes_received() == b"x\x7f")
    cell.agent.tmux.waits_until(cell.agent.pane, lambda look: "Ask the fake agent" in look.text)


def _comes_to_look(cell: Cell) -> None:
    """One more client, before whose eyes the pane is."""
    cell.comes_into_view()
    typist = cell.scene.tmux.attach(cell.session, *(int(one) for one in cell.size.split("x")))
    typist.waits_until_shown()
    cell.undo.append(typist.close)


HOLD = HoldReason
_TEN_LINES = "[WAKE] " + "\n".join(f"- line {number} with some words in it" for number in range(9)) + "\nWake: {mark}"

TRAPS: Final = (
    # ---- which pane ----------------------------------------------------------------------------------------------------
    Trap("an id is exact", _nothing, UP_FRONT, ONCE),
    Trap("a name with = is exact", _aims_by_name, UP_FRONT, ONCE),
    Trap("a name is taken for its prefix", _aims_at("{short}"), UP_FRONT, nowhere(HOLD.UNREACHABLE)),
    Trap("a name is a pattern", _aims_at("{short}*:{window}"), UP_FRONT, nowhere(HOLD.UNREACHABLE)),
    Trap("an id behind a session's name", _aims_at("{session}:{pane}"), UP_FRONT, nowhere(HOLD.UNREACHABLE)),
    Trap("a window without its session", _aims_at(":{window}"), UP_FRONT, nowhere(HOLD.UNREACHABLE)),
    Trap("an id that no pane has", _aims_at("%99999"), UP_FRONT, nowhere(HOLD.UNREACHABLE)),
    Trap("two agents under one name", _has_a_twin, UP_FRONT, nowhere(HOLD.AMBIGUOUS)),
    Trap("two panes with one mark", _both_say_so, UP_FRONT, nowhere(HOLD.AMBIGUOUS)),
    Trap("another agent in the pane", _is_respawned, AFTER_THE_LOOK, refused(HOLD.ACTIVE)),
    # ---- who is there --------------------------------------------------------------------------------------------------
    Trap("a program that is no agent", _aims_at_a_program_that_is_none, UP_FRONT, refused(HOLD.NO_AGENT)),
    Trap("a pane that shows another tmux", _aims_at_a_pane_that_shows_tmux, UP_FRONT, refused(HOLD.NO_AGENT)),
    Trap("behind a script", _nothing, UP_FRONT, ONCE, start=Start.SCRIPT),
    Trap("stopped", _is_stopped, UP_FRONT, refused(HOLD.NO_AGENT), start=Start.SCRIPT),
    Trap("quit to its shell", _crashes, UP_FRONT, refused(HOLD.NO_AGENT), start=Start.SHELL),
    Trap("dead, and the pane remains", _dies_in_its_pane, UP_FRONT, refused(HOLD.PANE_DEAD)),
    # ---- what forbids a key --------------------------------------------------------------------------------------------
    Trap("copy mode", _tmux("copy-mode", "-t", "{pane}"), UP_FRONT, refused(HOLD.COPY_MODE)),
    Trap("the tree of sessions", _tmux("choose-tree", "-t", "{pane}"), UP_FRONT, refused(HOLD.COPY_MODE)),
    Trap("the clock", _tmux("clock-mode", "-t", "{pane}"), UP_FRONT, refused(HOLD.COPY_MODE)),
    Trap("output of run-shell", _tmux("run-shell", "-t", "{pane}", "echo x"), UP_FRONT, refused(HOLD.COPY_MODE)),
    Trap("input off", _tmux("select-pane", "-d", "-t", "{pane}"), UP_FRONT, refused(HOLD.INPUT_OFF)),
    Trap(
        "synchronize-panes",
        _tmux("set-option", "-w", "-t", "{pane}", "synchronize-panes", "on"),
        UP_FRONT,
        refused(HOLD.UNKNOWN),
    ),
    Trap("a dialog", _shows("approval"), UP_FRONT, refused(HOLD.WAITING_ON_APPROVAL)),
    Trap("a menu", _shows("menu"), UP_FRONT, refused(HOLD.UNKNOWN)),
    Trap("a draft", _shows("draft", "half a thought"), UP_FRONT, refused(HOLD.USER_TYPING)),
    Trap("a draft of blanks", _shows("draft", "   "), UP_FRONT, refused(HOLD.USER_TYPING)),
    Trap("a ghost is no draft", _shows("ghost", "run the tests"), UP_FRONT, ONCE),
    Trap("a turn runs", _shows("busy"), UP_FRONT, refused(HOLD.ACTIVE)),
    Trap("only the title tells", _shows("streaming"), UP_FRONT, refused(HOLD.ACTIVE)),
    Trap("vim's normal mode", _shows("vim-normal"), UP_FRONT, refused(HOLD.UNKNOWN)),
    Trap("shell mode", _shows("shell"), UP_FRONT, refused(HOLD.USER_TYPING)),
    Trap("a key a moment ago", _types_and_erases, UP_FRONT, refused(HOLD.USER_TYPING), needs_client=True),
    Trap("another writer", _is_taken, UP_FRONT, refused(HOLD.BUSY_PANE)),
    # ---- between the look and the paste --------------------------------------------------------------------------------
    Trap("then copy mode", _tmux("copy-mode", "-t", "{pane}"), AFTER_THE_LOOK, refused(HOLD.COPY_MODE)),
    Trap("then input off", _tmux("select-pane", "-d", "-t", "{pane}"), AFTER_THE_LOOK, refused(HOLD.INPUT_OFF)),
    Trap("then a dialog", _shows("approval"), AFTER_THE_LOOK, refused(HOLD.WAITING_ON_APPROVAL)),
    Trap("then a draft", _shows("draft", "half a thought"), AFTER_THE_LOOK, refused(HOLD.USER_TYPING)),
    Trap("then its shell", _crashes, AFTER_THE_LOOK, refused(HOLD.NO_AGENT), start=Start.SHELL),
    Trap("then another size", _is_resized, AFTER_THE_LOOK, refused()),
    Trap("then another session", _moves_out, AFTER_THE_LOOK, refused()),
    Trap("then it is gone", _tmux("kill-pane", "-t", "{pane}"), AFTER_THE_LOOK, refused(HOLD.UNREACHABLE)),
    Trap("then a key without echo", _presses_a_key, AFTER_THE_LOOK, refused(HOLD.USER_TYPING), needs_client=True),
    Trap("then one more client", _comes_to_look, AFTER_THE_LOOK, refused()),
    Trap("then another name", _tmux("rename-window", "-t", "{pane}", "new"), AFTER_THE_LOOK, ONCE),
    Trap("then another title", _tmux("select-pane", "-t", "{pane}", "-T", "▪ #{pid} ; }"), AFTER_THE_LOOK, ONCE),
    # ---- between paste and Enter ---------------------------------------------------------------------------------------
    Trap("a dialog in the gap", _shows("approval", keep=True), IN_THE_GAP, STAGED),
    Trap("copy mode before Enter", _tmux("copy-mode", "-t", "{pane}"), BEFORE_ENTER, STAGED),
    Trap("a dialog before Enter", _shows("approval", keep=True), BEFORE_ENTER, STAGED),
    Trap("its shell before Enter", _crashes, BEFORE_ENTER, STAGED, start=Start.SHELL),
    Trap("a key before Enter", _presses_a_key, BEFORE_ENTER, STAGED, needs_client=True),
    Trap(
        "synchronised before Enter",
        _tmux("set-option", "-w", "-t", "{pane}", "synchronize-panes", "on"),
        BEFORE_ENTER,
        STAGED,
    ),
    Trap("gone before Enter", _tmux("kill-pane", "-t", "{pane}"), IN_THE_GAP, UNKNOWN),
    Trap("a dialog right after the paste", _turns(dialog_after_paste=True), UP_FRONT, STAGED, slow=True),
    # ---- the text itself -----------------------------------------------------------------------------------------------
    Trap("a paste that comes slowly", _turns(paste_delay=400), UP_FRONT, ONCE),
    Trap("a paste that folds", _turns(chip_lines=2), UP_FRONT, ONCE),
    Trap("a leading hyphen", _nothing, UP_FRONT, ONCE, text="-t %0 {mark} is text"),
    Trap("a trailing semicolon", _nothing, UP_FRONT, ONCE, text="go on {mark};"),
    Trap("formats, quotes, a comment", _nothing, UP_FRONT, ONCE, text="#{pid} '%%' \"$(id)\" `x` # {mark} }"),
    Trap("wide and joined signs", _nothing, UP_FRONT, ONCE, text="漢字 é ＠opus 👩👧 ⇒ {mark} ok"),
    Trap("ten lines", _nothing, UP_FRONT, ONCE, text=_TEN_LINES),
    Trap("an end of paste inside", _nothing, UP_FRONT, UNFIT, text="{mark} \x1b[201~\rrm -rf"),
    Trap("a one-byte CSI inside", _nothing, UP_FRONT, UNFIT, text="{mark} \x9b201~ x"),
    Trap("a line end that submits", _nothing, UP_FRONT, UNFIT, text="{mark} one\rtwo"),
)
