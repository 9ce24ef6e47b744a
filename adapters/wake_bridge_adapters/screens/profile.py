"""A screen profile: what is known about one harness's screen, as data. `screens.profile_file` reads one from its TOML file.

`docs/decisions/0004` explains the language; the bundled files are its examples. Tables are plain values, declared without
pydantic, which `screens.profile_file` imports for a user's files alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from wake_bridge.domain.names import AttentionKind
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.programs import harness_of
from wake_bridge_adapters.screens.screen import Style

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

Region = Literal[
    "title",
    "glyph",
    "composer",
    "label",
    "above",
    "pill",
    "scrollbar",
    "below",
    "bottom",
    "last",
    "cursor-row",
    "cursor",
]
"""Where a sign is looked for, found from the composer outward.

`title` the pane's title · `glyph` the prompt's own cells · `composer` what stands in it · `label` the rows inside the
frame that are no text · `above`, `below` the rows next to it · `pill` labels that lie over the middle of the rows above, on a
background of their own · `scrollbar` the pane's last column beside them · `cursor` the word `visible` or `hidden` · `cursor-row` ·
`last` the last row with text · `bottom` the last rows of a screen **without** a composer. There is no region for the whole screen: transcripts quote
prompts and approval words.
"""


def one_or_more(value: Any) -> Any:
    """A single value where a list may stand."""
    return value if isinstance(value, (list, tuple)) else (value,)


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"is no regular expression: {error}"
        raise ValueError(message) from error
    return pattern


class Checked:
    """What pydantic checks of a value beyond its type. A class of ours, so that fields can be declared without pydantic.

    Args:
        before: converts what is written in the file, as `BeforeValidator` does. Bundled files, which are not checked, need it as well.
        after: raises `ValueError` for a wrong value of the right type, as `AfterValidator` does.
        limits: limits by name, such as `ge` and `max_length`, as `Field` takes them.
    """

    def __init__(
        self, before: Callable[[Any], Any] | None = None, after: Callable[[Any], Any] | None = None, **limits: Any
    ) -> None:
        self.before, self.after, self.limits = before, after, limits

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Asked by pydantic."""
        from pydantic_core import core_schema  # noqa: PLC0415 - see above: pydantic asked

        schema = handler(source)
        if self.limits:
            schema = cast("CoreSchema", {**schema, **self.limits})
        if self.before is not None:
            schema = core_schema.no_info_before_validator_function(self.before, schema)
        if self.after is not None:
            schema = core_schema.no_info_after_validator_function(self.after, schema)
        return schema


Pattern = Annotated[str, Checked(after=_compiles)]
Words = Annotated[tuple[str, ...], Checked(before=one_or_more)]
Count = Annotated[int, Checked(ge=0)]
Number = Annotated[int, Checked(ge=1)]


def key_of(field: str) -> str:
    """The key in the file that a field holds: Python does not allow `not` as a name."""
    return "not" if field == "unless" else field


class Strict:
    """A table that knows all its keys."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "extra": "forbid",
        "alias_generator": key_of,
    }


@dataclass(frozen=True, kw_only=True)
class StyleCondition(Strict):
    """How cells must look; what is not named does not matter. Colours: `default`, `0`–`255` or `#rrggbb`.

    `fg_not` is for text that has another colour in every theme, but never that of typed text.
    """

    bold: bool | None = None
    dim: bool | None = None
    reverse: bool | None = None
    fg: Words = ()
    fg_not: Words = ()
    bg: Words = ()

    def fits(self, style: Style) -> bool:
        """Whether a cell of that style satisfies every condition named."""
        return (
            self.bold in {None, style.bold}
            and self.dim in {None, style.dim}
            and self.reverse in {None, style.reverse}
            and (not self.fg or style.fg in self.fg)
            and style.fg not in self.fg_not
            and (not self.bg or style.bg in self.bg)
        )


@dataclass(frozen=True, kw_only=True)
class Sign(Strict):
    """Something to be seen in a region.

    `contains` (one of these strings; a blank stands for any white space, so that wrapped words are found) or `regex`
    (`^` and `$` are row ends), where every cell of the match must have `style`; nothing of `not` may stand in the
    region. `rows` is how far `above`, `pill`, `scrollbar`, `below` and `bottom` reach.
    """

    name: Annotated[str, Checked(min_length=1)]
    region: Region
    contains: Words = ()
    regex: Pattern = ""
    style: StyleCondition | None = None
    unless: Words = ()
    rows: Number = 16

    def __post_init__(self) -> None:
        if self.contains and self.regex:
            message = "has both `contains` and `regex`"
            raise ValueError(message)
        if not (self.contains or self.regex or self.style or self.unless):
            message = "needs one of `contains`, `regex`, `style`, `not`"
            raise ValueError(message)
        if self.region in {"title", "cursor"} and self.style:
            message = f"a {self.region} has no `style`"
            raise ValueError(message)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What must be found; everything in the region when only style or `not` counts."""
        if self.contains:
            return _any_of(self.contains)
        return re.compile(self.regex or r"(?s)\A.*\Z", re.MULTILINE)

    @cached_property
    def veto(self) -> re.Pattern[str] | None:
        """What must not be found."""
        return _any_of(self.unless) if self.unless else None


def _any_of(strings: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(r"\s+".join(re.escape(word) for word in text.split(" ")) for text in strings))


@dataclass(frozen=True, kw_only=True)
class Rule(Sign):
    """A sign that speaks for a state. Idle is no such state: it needs every `idle` sign and an empty composer."""

    state: Literal[
        PresenceState.UNKNOWN, PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL, PresenceState.USER_TYPING
    ]
    priority: int = 0


@dataclass(frozen=True, kw_only=True)
class AttentionSign(Sign):
    """A sign of what a person may want to know while the agent rests. It speaks neither for idle nor against it."""

    kind: Literal[AttentionKind.FAILED, AttentionKind.LIMITED]


@dataclass(frozen=True, kw_only=True)
class Placeholder(Strict):
    """How text that nobody typed looks: exact strings, in `style` but for a reversed first cell, cursor at the start.

    Blanks at a string's start count: a program that draws its cursor on a blank puts the placeholder behind it.
    `patterns` must match the whole text, for placeholders that rotate. With `ghost` any text in that style counts (a
    suggestion). `required`: an empty composer always shows one, so a bare prompt is a draft of blanks.
    """

    strings: Words = ()
    patterns: tuple[Pattern, ...] = ()
    style: StyleCondition = StyleCondition()
    ghost: bool = False
    required: bool = False

    def __post_init__(self) -> None:
        if self.ghost and self.style == StyleCondition():
            message = "a ghost can be told from a draft by its style alone: `style` is missing"
            raise ValueError(message)

    def knows(self, text: str) -> bool:
        """Whether this text, white space behind its first character collapsed, is one of the placeholders."""
        flat = _flat(text)
        return flat in map(_flat, self.strings) or any(re.fullmatch(pattern, flat) for pattern in self.patterns)


def _flat(text: str) -> str:
    indent = text[: len(text) - len(text.lstrip())]
    return indent + " ".join(text.split())


@dataclass(frozen=True, kw_only=True)
class ComposerShape(Strict):
    """Where text goes in, and how to know it.

    Attributes:
        glyph: the prompt, exactly, blanks behind it included; several when it changes; "" when there is none.
        glyph_style: what its cells must look like for idle.
        column: where the glyph's first cell stands; several, or none for wherever the row's text begins.
        frame: `rules` a line above and below, `box` a border at the left of every row, `none`.
        border: the character the frame is made of.
        foot: how the row that closes it begins. A box has it on the row below, which shows how wide it is and tells it
            from other boxes; without a frame text ends before it.
        every_row: the glyph stands before every row of the text, wrapped ones too.
        padding: blank rows inside the frame above the text.
        label_rows: rows inside the frame, at its foot, that are no text.
        anchor: what the search starts from: the terminal's `cursor`, a software cursor (`reversed`), or the `bottom`
            of the screen where the cursor may be anywhere.
        footer: all that may stand below a composer found from the bottom; anything else is a dialog that took its place
            and left a prompt in the transcript.
        cursor_visible: whether the terminal's cursor shows while idle; none: either.
        hidden_cursor_counts: whether a cursor that does not show is where text goes, all the same.
        shell_glyphs: prompts that mean that text would go to a shell.
        scrolled: what shows that the text's first rows are out of sight, in the rule above it or at the end of its first
            row; a group `rows` counts them.
        scrolls_from: with this many rows of text on, earlier ones may be out of sight and nothing shows it; 0: never.
        above_may_move: rows above move while idle (a banner), so they do not count as movement.
        placeholder: text that nobody typed.
    """

    glyph: Words
    glyph_style: StyleCondition = StyleCondition()
    column: Annotated[tuple[int, ...], Checked(before=one_or_more)] = ()
    frame: Literal["rules", "box", "none"]
    border: Annotated[str, Checked(min_length=1, max_length=1)] = "─"
    foot: str = ""
    every_row: bool = False
    padding: Count = 0
    label_rows: Count = 0
    anchor: Literal["cursor", "reversed", "bottom"] = "cursor"
    footer: Pattern = ""
    cursor_visible: bool | None = None
    hidden_cursor_counts: bool = True
    shell_glyphs: Words = ()
    scrolled: Pattern = ""
    scrolls_from: Count = 0
    above_may_move: bool = False
    placeholder: Placeholder = Placeholder()

    def __post_init__(self) -> None:
        for is_wrong, message in (
            (
                self.anchor == "bottom" and self.frame == "box" and not self.foot,
                '`anchor = "bottom"` finds a box by its `foot` alone',
            ),
            (bool(self.footer) != (self.anchor == "bottom"), '`anchor = "bottom"` needs a `footer`, and only it'),
            (self.foot and self.frame == "rules", "a composer between rules has no `foot`"),
            (self.every_row and self.frame != "none", "`every_row` needs a composer without a frame"),
        ):
            if is_wrong:
                raise ValueError(message)


@dataclass(frozen=True, kw_only=True)
class Paste(Strict):
    """How the harness takes a bracketed paste.

    Attributes:
        gap_ms: milliseconds to wait between paste and Enter.
        swallows_enter: it may ignore an Enter, and was never seen to act late on one (1,000 trials under load): then a
            second one may follow. Anywhere else the first may only be late, and a second would answer what it began.
        max_lines: longer pastes arrive mangled or wrapped.
        max_characters: the same.
        chip: what a folded paste looks like, as a whole; groups `more` (lines beyond the first), `lines`, `characters`
            and `start` (how it begins) are compared with what was pasted.
        blank_behind_chip: the harness puts a blank behind it, and the cursor behind that.
        wraps: beyond the limits the harness wraps the paste in a tag of its own before the model sees it.
        lost_when_stopped: after `kill -STOP` and `fg` a paste arrives as keys, since its shell has switched bracketed
            paste off and the harness does not switch it on again.
        at_reads_files: `@name` in a message reads a file of that name, or one like it, into the turn.
    """

    gap_ms: Annotated[int, Checked(ge=0, le=5000)] = 400
    max_lines: Number = 10
    max_characters: Number = 1024
    chip: Pattern = ""
    blank_behind_chip: bool = False
    wraps: bool = False
    at_reads_files: bool = False
    lost_when_stopped: bool = False
    swallows_enter: bool = False


@dataclass(frozen=True, kw_only=True)
class Recognise(Strict):
    """Which process it is: names of executables or scripts, npm packages, Python modules.

    `distributions` are Python packages as an index names them; they tell the version alone.
    """

    commands: Words = ()
    packages: Words = ()
    modules: Words = ()
    distributions: Words = ()

    def __post_init__(self) -> None:
        if not (self.commands or self.packages or self.modules):
            message = "needs one of `commands`, `packages`, `modules`"
            raise ValueError(message)


@dataclass(frozen=True, kw_only=True)
class Profile(Strict):
    """All of one TOML file.

    `versions` are those whose screens the rules were read off; with `strict_version` any other is never idle.
    """

    name: Annotated[str, Checked(pattern=r"^[a-z][a-z0-9_-]*$")]
    versions: Words = ()
    strict_version: bool = False
    recognise: Recognise
    composer: ComposerShape
    paste: Paste = Paste()
    idle: tuple[Sign, ...] = ()
    rules: tuple[Rule, ...] = ()
    attention: tuple[AttentionSign, ...] = ()

    @cached_property
    def ordered_rules(self) -> tuple[Rule, ...]:
        """The rules, most important first; file order among equals."""
        return tuple(sorted(self.rules, key=lambda rule: -rule.priority))


def recognise(argv: Sequence[str], profiles: Mapping[str, Profile]) -> str | None:
    """The name of the harness this process is, or None."""
    return harness_of(argv, {name: profile.recognise for name, profile in profiles.items()})
