"""Changes one spot of a JSON text; everything else stays as the person wrote it.

Comments and trailing commas are understood, as by the harnesses' own readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from wake_bridge.domain.values import dataclass

_BLANK: Final = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_ATOM: Final = re.compile(r"true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_CLOSING: Final = {"{": "}", "[": "]"}


class NotJson(ValueError):
    """The text is not JSON; says where that shows."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        super().__init__(f"{expected} expected in line {text.count(chr(10), 0, position) + 1}")


@dataclass(frozen=True, slots=True)
class Part:
    """An item of an array, or a member of an object with its name; `start` is where its text begins."""

    name: str
    start: int
    piece: Piece

    @property
    def end(self) -> int:
        """Where its text ends."""
        return self.piece.end

    @property
    def says(self) -> str:
        """The member's name, or the item itself where it is a string."""
        return self.name or self.piece.value


@dataclass(frozen=True, slots=True)
class Piece:
    """One value and the place of its text.

    `kind` is `{`, `[`, `"`, or empty for anything else; `value` is what a string says.
    """

    kind: str
    start: int
    end: int
    value: str = ""
    parts: tuple[Part, ...] = ()

    def member(self, name: str) -> Piece | None:
        """The value of that name, in an object that has it."""
        return next((part.piece for part in self.parts if self.kind == "{" and part.name == name), None)


def parse(text: str) -> Piece:
    """The whole text as one value.

    Raises:
        NotJson: it is not.
    """
    piece = _value(text, _blank(text, 0))
    position = _blank(text, piece.end)
    if position != len(text):
        raise NotJson(text, position, "the end")
    return piece


def _blank(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


def _value(text: str, start: int) -> Piece:
    opening = text[start : start + 1]
    if opening and opening in _CLOSING:
        return _container(text, start)
    if opening == '"':
        said, end = _string(text, start)
        return Piece('"', start, end, said)
    found = _ATOM.match(text, start)
    if not found:
        raise NotJson(text, start, "a value")
    return Piece("", start, found.end())


def _string(text: str, start: int) -> tuple[str, int]:
    found = _STRING.match(text, start)
    if not found:
        raise NotJson(text, start, "a string")
    try:
        return str(json.loads(found.group())), found.end()
    except ValueError as broken:
        raise NotJson(text, start, "a string") from broken


def _container(text: str, start: int) -> Piece:
    kind = text[start]
    parts: list[Part] = []
    position, separated = _blank(text, start + 1), True
    while text[position : position + 1] != _CLOSING[kind]:
        if not separated:
            raise NotJson(text, position, "a comma")
        part = _member(text, position) if kind == "{" else Part("", position, _value(text, position))
        if part.name and any(part.name == other.name for other in parts):
            raise NotJson(text, position, f"{part.name!r} only once")
        parts.append(part)
        position = _blank(text, part.end)
        separated = text[position : position + 1] == ","
        if separated:
            position = _blank(text, position + 1)
    return Piece(kind, start, position + 1, "", tuple(parts))


def _member(text: str, start: int) -> Part:
    name, position = _string(text, start)
    position = _blank(text, position)
    if text[position : position + 1] != ":":
        raise NotJson(text, position, "a colon")
    return Part(name, start, _value(text, _blank(text, position + 1)))


_INDENTED: Final = re.compile(r"\n([ \t]+)[^ \t\r\n]")
_LAST_INDENT: Final = re.compile(r"\n([ \t]*)\Z")


class WrongShape(ValueError):
    """A value on the way is not what it must be; the message names it."""


def value_at(text: str, path: Sequence[str]) -> Any:
    """The value at `path`; None where there is none, or the text is empty.

    Raises:
        NotJson: the text is not JSON.
        WrongShape: something else stands on the path.
    """
    if not text.strip():
        return None
    piece, missing = _walk(parse(text), path)
    return None if missing else _plain(piece)


def with_added(text: str, path: Sequence[str], wanted: Sequence[str] | Mapping[str, Any]) -> str:
    """`text` with `wanted` at the end of the array (strings) or object (a mapping) at `path`.

    What is there already stays where and as it is; what is missing on the path is made.

    Raises:
        NotJson: the text is not JSON.
        WrongShape: something else stands on the path.
    """
    value = dict(wanted) if isinstance(wanted, Mapping) else list(wanted)
    if not text.strip():
        return text + json.dumps(_nested(path, value), ensure_ascii=False, indent=2) + "\n"
    holder, missing = _walk(parse(text), path)
    depth = len(path) - len(missing)
    if missing:
        member = _written(_nested(missing[1:], value), text, depth + 1)
        return _append(text, holder, [f"{json.dumps(missing[0])}: {member}"], depth)
    if holder.kind != ("{" if isinstance(value, dict) else "["):
        raise WrongShape(f"`{'.'.join(path)}` is not {'an object' if isinstance(value, dict) else 'a list'}")
    have = {part.says for part in holder.parts}
    if isinstance(value, dict):
        added = [f"{json.dumps(name)}: {json.dumps(said)}" for name, said in value.items() if name not in have]
    else:
        added = [json.dumps(one) for one in value if one not in have]
    return _append(text, holder, added, depth)


def with_item(text: str, path: Sequence[str], item: Any) -> str:
    """`text` with one more item, of any kind, at the end of the array at `path`; what is missing on the path is made.

    Raises:
        NotJson: the text is not JSON.
        WrongShape: something else stands on the path.
    """
    if not text.strip():
        return text + json.dumps(_nested(path, [item]), ensure_ascii=False, indent=2) + "\n"
    holder, missing = _walk(parse(text), path)
    depth = len(path) - len(missing)
    if missing:
        member = _written(_nested(missing[1:], [item]), text, depth + 1)
        return _append(text, holder, [f"{json.dumps(missing[0])}: {member}"], depth)
    if holder.kind != "[":
        raise WrongShape(f"`{'.'.join(path)}` is not a list")
    return _append(text, holder, [_written(item, text, depth + 1)], depth)


def without_items(text: str, path: Sequence[str], is_unwanted: Callable[[Any], bool], *, inner: str, keep: int) -> str:
    """`text` without those items of the lists in the object at `path` that are unwanted, by what they say.

    An item that has a list of its own, called `inner`, loses what is unwanted there, and goes when nothing is left of that.
    A list, and then the object, that is left empty goes as well; of the path itself the first `keep` values stay.

    Raises:
        NotJson: the text is not JSON.
        WrongShape: something else stands on the path.
    """
    lists, missing = _walk(parse(text), path)
    for name in [] if missing else [part.name for part in lists.parts if part.piece.kind == "["]:
        text = _without_item(text, (*path, name), is_unwanted, inner)
    return without(text, path, (), keep=keep)


def _without_item(text: str, path: Sequence[str], is_unwanted: Callable[[Any], bool], inner: str) -> str:
    had_ours = False
    while True:
        holder, _ = _walk(parse(text), path)
        place = next(_unwanted_in(holder, is_unwanted, inner), None)
        if place is None:
            break
        text, had_ours = _cut_at(text, *place), True
    if had_ours and not holder.parts:
        above, _ = _walk(parse(text), path[:-1])
        return _cut(text, above, path[-1])
    return text


def _unwanted_in(holder: Piece, is_unwanted: Callable[[Any], bool], inner: str) -> Iterator[tuple[Piece, int]]:
    """The lists that have something unwanted in them, each with its place there."""
    for number, part in enumerate(holder.parts):
        if is_unwanted(_plain(part.piece)):
            yield holder, number
        within = part.piece.member(inner)
        for place, one in enumerate(within.parts if within is not None and within.kind == "[" else ()):
            if within is not None and is_unwanted(_plain(one.piece)):
                yield (within, place) if len(within.parts) > 1 else (holder, number)


def with_value(text: str, path: Sequence[str], value: Any) -> str:
    """`text` with another value at `path`, which must be there."""
    piece, missing = _walk(parse(text), path)
    if missing:
        raise WrongShape(f"`{'.'.join(path)}` is not there")
    return text[: piece.start] + _written(value, text, len(path)) + text[piece.end :]


def without(text: str, path: Sequence[str], unwanted: Sequence[str], *, keep: int) -> str:
    """`text` without these strings of the array, or members of the object, at `path`.

    Args:
        text: JSON.
        path: the names down to the array or object.
        unwanted: what goes; what is not there is no matter.
        keep: how many of the path's values stay even when they are left empty.

    Raises:
        NotJson: the text is not JSON.
        WrongShape: something else stands on the path.
    """
    for one in unwanted:
        holder, missing = _walk(parse(text), path)
        if not missing:
            text = _cut(text, holder, one)
    for depth in range(len(path), keep, -1):
        piece, missing = _walk(parse(text), path[:depth])
        if missing or piece.parts or piece.kind not in {"[", "{"}:
            break
        holder, _ = _walk(parse(text), path[: depth - 1])
        text = _cut(text, holder, path[depth - 1])
    return text


def depth_of(text: str, path: Sequence[str]) -> int:
    """How many of the path's names are there."""
    return len(path) - len(_walk(parse(text), path)[1]) if text.strip() else 0


def _walk(root: Piece, path: Sequence[str]) -> tuple[Piece, tuple[str, ...]]:
    """The deepest value on the path that is there, and the names that are not."""
    here = root
    for depth, name in enumerate(path):
        if here.kind != "{":
            raise WrongShape(f"`{'.'.join(path[:depth])}` is not an object" if depth else "the file is not an object")
        inner = here.member(name)
        if inner is None:
            return here, tuple(path[depth:])
        here = inner
    return here, ()


def _append(text: str, holder: Piece, added: Sequence[str], depth: int) -> str:
    """`added` behind the last part of `holder`, laid out as its other parts are."""
    if not added:
        return text
    if holder.parts:
        first, last = holder.parts[0], holder.parts[-1]
        before_first = text[holder.start + 1 : first.start]
        line = _LAST_INDENT.search(before_first)
        between = f",{_line_end(text)}{line.group(1)}" if line else ", "
        return text[: last.end] + "".join(between + one for one in added) + text[last.end :]
    if "\n" not in text.strip():
        inside = ", ".join(added)
    else:
        inner, outer = (_line_end(text) + _step(text) * steps for steps in (depth + 1, depth))
        inside = inner + f",{inner}".join(added) + outer
    return text[: holder.start + 1] + inside + text[holder.end - 1 :]


def _cut(text: str, holder: Piece, unwanted: str) -> str:
    place = next((number for number, part in enumerate(holder.parts) if part.says == unwanted), None)
    return text if place is None else _cut_at(text, holder, place)


def _cut_at(text: str, holder: Piece, place: int) -> str:
    part = holder.parts[place]
    if len(holder.parts) == 1:
        return text[: holder.start + 1] + text[holder.end - 1 :]
    if place:
        return text[: holder.parts[place - 1].end] + text[part.end :]
    following: Part = holder.parts[1]
    return text[: part.start] + text[following.start :]


def _written(value: Any, text: str, depth: int) -> str:
    """`value` as it looks `depth` steps in, in the file's own layout; on one line where the file is."""
    if "\n" not in text.strip():
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_step(text)).split("\n")
    return (_line_end(text) + _step(text) * depth).join(lines)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _step(text: str) -> str:
    found = _INDENTED.search(text)
    return found.group(1) if found else "  "


def _nested(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _plain(piece: Piece) -> Any:
    """The value itself: strings, objects and lists; of anything else only that it is there."""
    if piece.kind == '"':
        return piece.value
    if piece.kind == "{":
        return {part.name: _plain(part.piece) for part in piece.parts}
    return [_plain(part.piece) for part in piece.parts] if piece.kind == "[" else ...
