"""The words a profile's rules are written in: regions, style conditions, signs."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from adapters.screens.style import Style
from wake_bridge.domain.presence import PresenceState

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


Pattern = Annotated[str, AfterValidator(_compiles)]
Words = Annotated[tuple[str, ...], BeforeValidator(one_or_more)]


class Strict(BaseModel):
    """A table that knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


class Sign(Strict):
    """Something to be seen in a region.

    `contains` (one of these strings; a blank stands for any white space, so that wrapped words are found) or `regex`
    (`^` and `$` are row ends), where every cell of the match must have `style`; nothing of `not` may stand in the
    region. `rows` is how far `above`, `pill`, `scrollbar`, `below` and `bottom` reach.
    """

    name: str = Field(min_length=1)
    region: Region
    contains: Words = ()
    regex: Pattern = ""
    style: StyleCondition | None = None
    unless: Words = Field(default=(), alias="not")
    rows: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.contains and self.regex:
            message = "has both `contains` and `regex`"
            raise ValueError(message)
        if not (self.contains or self.regex or self.style or self.unless):
            message = "needs one of `contains`, `regex`, `style`, `not`"
            raise ValueError(message)
        if self.region in {"title", "cursor"} and self.style:
            message = f"a {self.region} has no `style`"
            raise ValueError(message)
        return self

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


class Rule(Sign):
    """A sign that speaks for a state. Idle is no such state: it needs every `idle` sign and an empty composer."""

    state: Literal[
        PresenceState.UNKNOWN, PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL, PresenceState.USER_TYPING
    ]
    priority: int = 0
