"""Reads and classifies captured screens, and makes an override profile of one that a person trusts.

An override (`screens trust`) learns only the prompt and what stands in an empty composer. Busy signs, dialogs, shell mode
and the signs that idle needs are kept: where one of them speaks against the screen, nothing is learnt.

A capture file is JSON with the fields `harness`, `version`, `state` (what was done), `width`, `height`, `text`
(`capture-pane -p`), `ansi` (`capture-pane -p -e`), `cursor` {x, y, visible}, `flags` (tmux formats by name), `process_tree`,
`note`, and `expect` (the presence states that are acceptable, the best first; empty when nobody has judged it). Others are
ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.domain.presence import Evidence, PresenceState
from wake_bridge.domain.programs import is_shell_or_veto
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.screens.classify import Reading, classify
from wake_bridge_adapters.screens.composer import Composer, find_composer, glyph_styles, text_styles
from wake_bridge_adapters.screens.profile import ComposerShape, Placeholder, Profile, StyleCondition, one_or_more
from wake_bridge_adapters.screens.profile_file import checked, profile_type
from wake_bridge_adapters.screens.screen import Screen, Style, text_width
from wake_bridge_adapters.screens.version import is_seen


def profile_text(profile: Profile) -> str:
    """The text of a profile file; what has its default value is left out."""
    table = profile_type().dump_python(profile, mode="json", by_alias=True, exclude_defaults=True)
    return "\n".join(_sections(table, "")).strip("\n") + "\n"


def _sections(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """A table's own lines, then its sub-tables, then its arrays of tables."""
    for key, value in table.items():
        if not _is_section(key, value):
            yield f"{key} = {_value(value)}"
    for key, value in table.items():
        if not _is_section(key, value):
            continue
        name = f"{path}{key}"
        for item in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            yield from _sections(item, f"{name}.")


def _is_section(key: str, value: Any) -> bool:
    """Whether a value gets a header of its own; styles are short and stay on their line."""
    if isinstance(value, dict):
        return not key.endswith("style")
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str) and "\\" in value and value.isprintable() and "'" not in value:
        return f"'{value}'"
    if isinstance(value, str):  # a JSON string is a TOML string, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


_MAKE_ONE: Final = "make one with `wake-bridge screens capture PANE`"


@dataclass(frozen=True, slots=True)
class Capture:
    """A screen and what is known about it."""

    screen: Screen
    harness: str = ""
    version: str = ""
    state: str = ""
    note: str = ""
    process_tree: tuple[str, ...] = ()
    expect: tuple[PresenceState, ...] = ()


def read_capture(path: Path) -> Capture:
    """The capture in that file.

    Raises:
        OperationFailed: the file cannot be read or is no capture.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - a daemon reads no captures

    from wake_bridge_adapters.screens.capture_file import CaptureFile  # noqa: PLC0415 - as above

    try:
        found = CaptureFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise OperationFailed(f"the capture cannot be read ({error.strerror})", str(path), hint=_MAKE_ONE) from error
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg'][:80]}"
        raise OperationFailed(f"not a screen capture ({why})", str(path), hint=_MAKE_ONE) from error
    screen = Screen.parse(
        found.ansi,
        width=found.width,
        height=found.height,
        cursor_x=found.cursor.x,
        cursor_y=found.cursor.y,
        cursor_visible=found.cursor.visible,
        title=found.flags.get("pane_title", ""),
        command=found.flags.get("pane_current_command", ""),
        flags=found.flags,
    )
    return Capture(
        screen, found.harness, found.version, found.state, found.note, found.process_tree, tuple(found.expect)
    )


def load_capture(path: Path) -> Screen:
    """The screen in that file alone.

    Raises:
        OperationFailed: the file cannot be read or is no capture.
    """
    return read_capture(path).screen


def classify_capture(capture: Capture, profile: Profile) -> Reading:
    """Read a captured screen as its pane would be read: a shell in the foreground outranks whatever is still to be seen."""
    return classify(capture.screen, profile, tuple(_no_agent(capture)))


def _no_agent(capture: Capture) -> Iterator[Evidence]:
    """A shell, editor or pager as `pane_current_command`, unless a process in the foreground is another program.

    A script that starts the agent leaves its shell's name there.
    """
    command = capture.screen.command
    if not command or not is_shell_or_veto([command]):
        return
    in_front = [line.split() for line in capture.process_tree if " fg " in f"{line} "]
    if not all(is_shell_or_veto(words[:1]) for words in in_front):
        return
    stopped = [words[0] for line in capture.process_tree if (words := line.split())[1:2] and words[1].startswith("T")]
    rule = "suspended" if stopped else "no-agent"
    saw = f"{stopped[0]} is stopped, and {command} has the terminal" if stopped else f"{command} has the terminal"
    yield Evidence(rule, PresenceState.UNKNOWN, saw=saw, region="process", hold=HoldReason.NO_AGENT)


def dump_capture(capture: Capture, ansi: str) -> str:
    """The text of a capture file; `ansi` is what `capture-pane -p -e` printed for `capture.screen`."""
    screen = capture.screen
    flags = {"pane_title": screen.title, "pane_current_command": screen.command, **screen.flags}
    content: dict[str, Any] = {
        "harness": capture.harness,
        "version": capture.version,
        "state": capture.state,
        "width": screen.width,
        "height": screen.height,
        "cursor": {"x": screen.cursor_x, "y": screen.cursor_y, "visible": screen.cursor_visible},
        "flags": flags,
        "process_tree": list(capture.process_tree),
        "note": capture.note,
        "text": "\n".join(row.text for row in screen.rows),
        "ansi": ansi,
        "expect": [state.value for state in capture.expect],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


_LONGEST_GLYPH: Final = 12
"""Characters of the longest prompt that is believed to be one."""

_HINT: Final = "empty the composer and wait for the turn to end; docs/profiles.md says how to write a rule by hand"


def override_for(screen: Screen, profile: Profile, version: str = "") -> str:
    """The text of the profile that `learnt_from` answers; the same arguments and errors."""
    return profile_text(learnt_from(screen, profile, version))


def learnt_from(screen: Screen, profile: Profile, version: str = "") -> Profile:
    """A profile that reads `screen` as idle: `profile`, with what the screen shows added.

    Args:
        screen: a look at the pane of which a person says that its agent is idle and its composer empty.
        profile: the harness's profile as it is now.
        version: the version that is running; added to those whose screens are known, unless it counts as seen.

    Raises:
        RefusedForSafety: no composer is to be found, or something else than prompt and placeholder speaks against idle.
    """
    shape = _with_glyph(screen, profile.composer)
    composer = find_composer(screen, shape)
    if composer is None:
        raise _refused("no composer is visible at the cursor")
    learnt = replace(
        profile,
        composer=_with_looks(screen, shape, composer),
        versions=profile.versions if is_seen(profile, version) else (*profile.versions, *filter(None, [version])),
    )
    learnt = checked(profile_type().dump_python(learnt, by_alias=True))
    reading = classify(screen, learnt)
    against = [one for one in reading.evidence if one.vote is not PresenceState.IDLE]
    if against:
        raise _refused("; ".join(f"{one.rule} saw {one.saw!r} in {one.region}" for one in against))
    return learnt


def what_is_new(before: Profile, after: Profile) -> Iterator[str]:
    """What a learnt profile takes for idle that `before` did not, a line each, for the person who says so."""
    old, new = before.composer, after.composer
    for glyph in new.glyph[len(old.glyph) :]:
        yield f"prompt {glyph!r}"
    if new.column != old.column:
        yield f"a prompt in column {new.column[-1]}"
    if new.glyph_style != old.glyph_style:
        yield f"a prompt that is {_look(new.glyph_style)}"
    for text in new.placeholder.strings[len(old.placeholder.strings) :]:
        yield f"placeholder {text!r}"
    if new.placeholder.style != old.placeholder.style:
        yield f"a placeholder that is {_look(new.placeholder.style)}"
    if new.placeholder.ghost != old.placeholder.ghost:
        yield "no suggestion any more: in this look only the exact words count"
    if new.placeholder.required != old.placeholder.required:
        yield "a composer without a placeholder"
    for version in after.versions[len(before.versions) :]:
        yield f"version {version}"


def _look(style: StyleCondition) -> str:
    """A style in words."""
    on = [name for name in ("bold", "dim", "reverse") if getattr(style, name)]
    colours = [f"{name} {' or '.join(value)}" for name in ("fg", "bg") if (value := getattr(style, name))]
    return ", ".join((*on, *colours)) or "plain"


def _with_glyph(screen: Screen, shape: ComposerShape) -> ComposerShape:
    """The shape, with what stands before the cursor as one more prompt where none of the known ones is there."""
    if find_composer(screen, shape) is not None or shape.anchor != "cursor":
        return shape
    row = screen.row(screen.cursor_y)
    before = row.text[: row.index_at(screen.cursor_x)]
    glyph = before.lstrip(" ") + " " * (screen.cursor_x - text_width(before))  # blanks at a row's end are not captured
    if not glyph.strip() or len(glyph) > _LONGEST_GLYPH:
        return shape
    column = len(before) - len(before.lstrip(" "))
    columns = tuple(dict.fromkeys((*shape.column, column))) if shape.column else ()
    return replace(shape, glyph=(*shape.glyph, glyph), column=columns)


def _with_looks(screen: Screen, shape: ComposerShape, composer: Composer) -> ComposerShape:
    """The shape, with the prompt's look and what stands in the composer admitted."""
    styles = glyph_styles(screen, composer)
    glyph_style = shape.glyph_style
    if not all(map(glyph_style.fits, styles)):
        glyph_style = _style_of(styles)
    placeholder = _with_text(shape.placeholder, composer, [style for _, style in text_styles(screen, composer)])
    return replace(shape, glyph_style=glyph_style, placeholder=placeholder)


def _with_text(known: Placeholder, composer: Composer, styles: list[Style]) -> Placeholder:
    """The placeholder, with the composer's text as one more exact string, in the style that it has."""
    if composer.is_blank:
        return replace(known, required=False)
    if styles and styles[0].reverse:  # a cursor drawn over the first cell
        styles = styles[1:]
    strings = known.strings if known.knows(composer.text) else (*known.strings, composer.text)
    if all(map(known.style.fits, styles)):
        return replace(known, strings=strings)
    style = _style_of(styles)
    return replace(known, strings=strings, style=style, ghost=known.ghost and style != StyleCondition())


def _style_of(styles: list[Style]) -> StyleCondition:
    """What all these cells have in common and a plain cell has not."""
    first, *others = styles
    same: Any = {
        name: one_or_more(value) if name in {"fg", "bg"} else value
        for name in ("bold", "dim", "reverse", "fg", "bg")
        if (value := getattr(first, name)) not in {False, "default"}
        and all(getattr(other, name) == value for other in others)
    }
    return StyleCondition(**same)


def _refused(why: str) -> RefusedForSafety:
    return RefusedForSafety("the screen cannot be trusted", why, hint=_HINT)
