"""An application's composer, reached through accessibility, clipboard and keys (docs/macos.md)."""

from __future__ import annotations

from typing import Final

from adapters.osascript.plan import Act, Report
from adapters.osascript.scripting import Scripting, private_file
from adapters.osascript.sight import Sight
from adapters.osascript.trouble import Kind, Trouble

_COMPOSERS: Final = frozenset({"AXTextArea", "AXTextField", "AXComboBox"})
_NOT_ASKED: Final = "-"
_LOOK_FIELDS: Final = 6


class ApplicationHands:
    """One attempt, or one look, at a running application.

    Args:
        scripting: the system's programs.
        pid: the process.
        tab: the key that Cmd is pressed with to bring the right tab forward; empty for none.
    """

    def __init__(self, scripting: Scripting, pid: int, tab: str = "") -> None:
        self._scripting = scripting
        self._pid = pid
        self._tab = tab
        self._front_before = 0
        self._clipboard_before = ""
        self._has_pressed = False

    async def look(self, mark: str = "") -> Sight | Trouble:
        """Read the focused element. A composer that holds its own placeholder is empty."""
        del mark  # there is no transcript to be read
        answer = await self._scripting.run("app_look", str(self._pid))
        if isinstance(answer, Trouble):
            return answer
        if not answer or len(answer[0]) < _LOOK_FIELDS:
            return Trouble(Kind.OTHER, "the script answered nothing", "see `wake-bridge doctor`")
        front, idle, dialogs, role, placeholder, value = answer[0]
        is_empty = not value.strip() or value.strip() == placeholder.strip()
        held = "" if is_empty else value
        return Sight(
            composer=held if role in _COMPOSERS else None,
            raw=value,
            is_front=int(front) == self._pid,
            front_pid=int(front),
            # our own keys may count as a person's (docs/macos.md, assumption 5)
            quiet_for=None if self._has_pressed else float(idle),
            has_dialog=dialogs != "0",
        )

    async def carry_out(self, act: Act, text: str, seen: Sight) -> Report:
        """One act; keys go out only while this process is in front and its composer holds what was seen."""
        match act:
            case Act.KEEP_CLIPBOARD:
                return await self._keep_clipboard()
            case Act.LOAD_CLIPBOARD:
                return Report(act, trouble=await self._scripting.set_clipboard(text))
            case Act.RESTORE_CLIPBOARD:
                return Report(act, trouble=await self._scripting.set_clipboard(self._clipboard_before))
            case Act.TO_FRONT:
                self._front_before = self._front_before or seen.front_pid
                return await self._to_front(seen.front_pid)
            case Act.RESTORE_FRONT:
                return await self._give_back_front()
            case Act.TAB:
                return await self._key(act, "tab", _NOT_ASKED)
            case Act.PASTE:
                return await self._key_over(act, "paste", seen)
            case _:
                return await self._key_over(act, "return", seen)

    async def _keep_clipboard(self) -> Report:
        kind = await self._scripting.run("clipboard_kind")
        if isinstance(kind, Trouble):
            return Report(Act.KEEP_CLIPBOARD, trouble=kind)
        if kind == [["other"]]:
            return Report(Act.KEEP_CLIPBOARD, refusal="clipboard")
        text = await self._scripting.clipboard()
        if isinstance(text, Trouble):
            return Report(Act.KEEP_CLIPBOARD, trouble=text)
        self._clipboard_before = text
        return Report(Act.KEEP_CLIPBOARD)

    async def _to_front(self, front_as_seen: int) -> Report:
        """Refused where another application came forward since the look: a person has begun something."""
        answer = await self._scripting.run("app_front", str(self._pid), str(front_as_seen))
        if isinstance(answer, Trouble):
            return Report(Act.TO_FRONT, trouble=answer)
        return Report(Act.TO_FRONT, refusal="" if answer == [[str(self._pid)]] else "focus")

    async def _give_back_front(self) -> Report:
        """Only where this process is still in front: whoever else is there now, a person put there."""
        if self._front_before in {0, self._pid}:
            return Report(Act.RESTORE_FRONT)
        answer = await self._scripting.run("app_front", str(self._front_before), str(self._pid))
        return Report(Act.RESTORE_FRONT, trouble=answer if isinstance(answer, Trouble) else None)

    async def _key_over(self, act: Act, key: str, seen: Sight) -> Report:
        with private_file(seen.raw) as path:
            return await self._key(act, key, path)

    async def _key(self, act: Act, key: str, expected: str) -> Report:
        self._has_pressed = True
        answer = await self._scripting.run("app_key", str(self._pid), key, self._tab, expected)
        return report_of(act, answer)


def report_of(act: Act, answer: list[list[str]] | Trouble) -> Report:
    """What a script that checks and then acts has answered: `done`, or `refused` and why."""
    if isinstance(answer, Trouble):
        return Report(act, trouble=answer)
    match answer:
        case [["done"]]:
            return Report(act)
        case [["refused", why]]:
            return Report(act, refusal=why)
        case _:
            return Report(act, trouble=Trouble(Kind.OTHER, "the script answered nothing", "see `wake-bridge doctor`"))
