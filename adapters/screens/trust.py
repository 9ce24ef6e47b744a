"""An override profile from one screen of which a person says: this agent is idle now (`screens trust`).

Only the prompt and what stands in an empty composer are learnt. Busy signs, dialogs, shell mode and the signs that idle
needs are kept: where one of them speaks against the screen, nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from adapters.screens.classify import classify
from adapters.screens.composer import Composer, find_composer, glyph_styles, text_styles
from adapters.screens.profile import ComposerShape, Placeholder, Profile
from adapters.screens.rules import StyleCondition
from adapters.screens.screen import Screen, text_width
from adapters.screens.style import Style
from adapters.screens.version import is_seen
from adapters.screens.written import profile_text
from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.presence import PresenceState

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
        raise _refused("no composer is to be seen where the cursor stands")
    learnt = profile.model_copy(
        update={
            "composer": _with_looks(screen, shape, composer),
            "versions": profile.versions
            if is_seen(profile, version)
            else (*profile.versions, *filter(None, [version])),
        }
    )
    learnt = Profile.model_validate(learnt.model_dump(by_alias=True))
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
    return shape.model_copy(update={"glyph": (*shape.glyph, glyph), "column": columns})


def _with_looks(screen: Screen, shape: ComposerShape, composer: Composer) -> ComposerShape:
    """The shape, with the prompt's look and what stands in the composer admitted."""
    styles = glyph_styles(screen, composer)
    glyph_style = shape.glyph_style
    if not all(map(glyph_style.fits, styles)):
        glyph_style = _style_of(styles)
    placeholder = _with_text(shape.placeholder, composer, [style for _, style in text_styles(screen, composer)])
    return shape.model_copy(update={"glyph_style": glyph_style, "placeholder": placeholder})


def _with_text(known: Placeholder, composer: Composer, styles: list[Style]) -> Placeholder:
    """The placeholder, with the composer's text as one more exact string, in the style that it has."""
    if composer.is_blank:
        return known.model_copy(update={"required": False})
    if styles and styles[0].reverse:  # a cursor drawn over the first cell
        styles = styles[1:]
    strings = known.strings if known.knows(composer.text) else (*known.strings, composer.text)
    if all(map(known.style.fits, styles)):
        return known.model_copy(update={"strings": strings})
    style = _style_of(styles)
    return known.model_copy(
        update={"strings": strings, "style": style, "ghost": known.ghost and style != StyleCondition()}
    )


def _style_of(styles: list[Style]) -> StyleCondition:
    """What all these cells have in common and a plain cell has not."""
    first, *others = styles
    same = {
        name: value
        for name in ("bold", "dim", "reverse", "fg", "bg")
        if (value := getattr(first, name)) not in {False, "default"}
        and all(getattr(other, name) == value for other in others)
    }
    return StyleCondition.model_validate(same)


def _refused(why: str) -> RefusedForSafety:
    return RefusedForSafety("the screen cannot be trusted", why, hint=_HINT)
