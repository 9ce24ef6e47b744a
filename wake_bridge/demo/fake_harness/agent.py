"""What the fake harness does with each input: a state machine without any terminal, clock or process."""

from __future__ import annotations

from collections.abc import Callable

from wake_bridge.demo.fake_harness.screen import MENU, Input, Key, Pasted, Text, View
from wake_bridge.demo.fake_harness.settings import Knobs, Mode, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GHOST: str = "run the tests and fix what breaks"
DRAFT: str = "half a thought"


class Agent:
    """The harness's mind: the view it shows, and what becomes of keys, text and pastes.

    `begins_turn` is called with every submitted message; `leaves` when it is told to end (True: it crashed).
    """

    def __init__(
        self,
        name: str,
        knobs: Knobs,
        record: Record,
        begins_turn: Callable[[str], None],
        leaves: Callable[[bool], None],
    ) -> None:
        self.knobs = knobs
        self.view = View(name)
        self.submits = 0
        self._record = record
        self._begins_turn = begins_turn
        self._leaves = leaves
        self._after_dialog = Mode.IDLE
        self._is_dialog_undrawn = False

    def log(self, event: str, **details: Any) -> None:
        """Record an event with what it met."""
        self._record.write(event, self.view.mode.value, self.view.editor.text, **details)

    def was_drawn(self) -> None:
        """What it shows is in its terminal now: from then on others can know of a dialog."""
        if self._is_dialog_undrawn:
            self._is_dialog_undrawn = False
            self.log("drawn")

    def show(self, mode: Mode, text: str = "", *, keep: bool = False) -> None:
        """Go to a mode. The composer then holds `text`, or with `keep` what it held before."""
        view = self.view
        self.log("mode", to=mode.value)
        if mode in {Mode.CRASH, Mode.EXIT}:
            self._leaves(mode is Mode.CRASH)
            return
        if mode in {Mode.APPROVAL, Mode.MENU}:
            self._after_dialog = Mode.IDLE if view.mode in {Mode.APPROVAL, Mode.MENU} else view.mode
            self._is_dialog_undrawn = True
        if not keep:
            view.editor.replace(text or (DRAFT if mode is Mode.DRAFT else "") if mode is not Mode.GHOST else "")
            view.ghost = text or GHOST if mode is Mode.GHOST else ""
            view.is_vim_normal = mode is Mode.VIM_NORMAL
            view.is_shell = mode is Mode.SHELL
        view.elapsed = view.choice = 0
        view.mode = mode if mode in {Mode.BUSY, Mode.STREAMING, Mode.APPROVAL, Mode.MENU} else Mode.IDLE

    def say(self, text: str) -> None:
        """Add an answer to the transcript."""
        first, *more = text.splitlines() or [""]
        self.view.transcript += [f"● {first}", *(f"  {line}" for line in more), ""]

    def keep(self, message: str) -> None:
        """Add a submitted message to the transcript."""
        first, *more = message.split("\n")
        self.view.transcript += [f"➤ {first}", *(f"  {line}" for line in more), ""]

    def take(self, item: Input) -> None:
        """Handle one input."""
        if self.view.mode is Mode.APPROVAL:
            self._answer_approval(item)
        elif self.view.mode is Mode.MENU:
            self._choose(item)
        elif isinstance(item, Pasted):
            self._paste(item.text)
        elif isinstance(item, Text):
            self._type(item.text)
        elif item.name == "enter":
            self._enter()
        else:
            self._press(item.name)

    def _answer_approval(self, item: Input) -> None:
        """Enter approves; so do `y` and `1`, at once and without Enter, wherever they stand in what is typed."""
        if isinstance(item, Pasted):
            self.log("ignored-paste", text=item.text)
            return
        names = list(item.text) if isinstance(item, Text) else [item.name]
        for name in names:
            if name in {"enter", "y", "1", "2"}:
                self.log("approved", by=name)
                self.say("approved: rm -rf build")
            elif name in {"escape", "n", "3"}:
                self.log("rejected", by=name)
                self.say("rejected")
            else:
                continue
            self.view.mode = self._after_dialog
            return

    def _choose(self, item: Input) -> None:
        if not isinstance(item, Key):
            self.log("ignored-paste" if isinstance(item, Pasted) else "ignored-text", text=item.text)
            return
        match item.name:
            case "up" | "down":
                self.view.choice = (self.view.choice + (1 if item.name == "down" else -1)) % len(MENU)
            case "enter":
                self.log("chosen", option=MENU[self.view.choice])
                self.view.mode = self._after_dialog
            case "escape":
                self.view.mode = self._after_dialog

    def _paste(self, text: str) -> None:
        self.log("paste", text=text)
        if not self.view.editor.text and text.startswith("!"):
            self.view.is_shell = True
            text = text[1:]
        if self.knobs.chip_lines and text.count("\n") + 1 >= self.knobs.chip_lines:
            self.view.editor.fold(text)
        else:
            self.view.editor.insert(text)
        if self.knobs.dialog_after_paste:
            self.show(Mode.APPROVAL, keep=True)

    def _type(self, text: str) -> None:
        view = self.view
        if view.is_vim_normal:
            self.log("vim-command", text=text)
            if text[0] in "iaIAoO":
                view.is_vim_normal = False
            return
        if not view.editor.text and text.startswith("!") and not view.is_shell:
            view.is_shell = True
            text = text[1:]
        view.editor.insert(text)

    def _press(self, name: str) -> None:
        view = self.view
        if view.editor.press(name):
            return
        if name == "escape" and view.mode in {Mode.BUSY, Mode.STREAMING}:
            self.log("interrupted")
            view.mode = Mode.IDLE
            self.say("interrupted")
        elif name == "escape":
            view.is_shell = False
        elif name == "tab" and view.ghost and not view.editor.text:
            view.editor.replace(view.ghost)
        elif name == "interrupt":
            if view.editor.text:
                view.editor.replace("")
            else:
                self._leaves(False)  # noqa: FBT003
        elif name == "end-of-file" and not view.editor.text:
            self._leaves(False)  # noqa: FBT003

    def _enter(self) -> None:
        view = self.view
        text = view.editor.expanded
        if self.knobs.swallow_enter > 0:
            self.knobs.swallow_enter -= 1
            self.log("swallowed")
        elif view.is_shell:
            self.log("shell", text=text)
            view.transcript += [f"! {text}", ""]
            view.editor.replace("")
            view.is_shell = False
        elif not text.strip():
            self.log("empty-enter")
        else:
            self.log("submit", text=text)
            self.submits += 1
            if not self.knobs.transcript_delay:
                self.keep(text)
            view.editor.replace("")
            view.ghost = ""
            self._begins_turn(text)
            if self.knobs.dialog_after_submit:
                self.show(Mode.APPROVAL, keep=True)
