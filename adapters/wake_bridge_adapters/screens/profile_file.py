"""The TOML files of screen profiles: the bundled ones, and a user's own, which replace them or add a harness.

A user's files are checked strictly, by pydantic. Bundled files are read without it, because the tests check them: pydantic would be
11 MB of a daemon that reads nothing else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin, get_type_hints

from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge_adapters.screens.profile import Profile, key_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import ErrorDetails

BUNDLED: Final = Path(__file__).parent

_HINT: Final = "correct the file, or remove it to have the bundled profile back"


def profile_files(directory: str = "") -> dict[str, Path]:
    """The file of each profile by the harness's name: the bundled ones, replaced and added to by those in `directory`.

    Raises:
        ConfigurationInvalid: there is no such directory.
    """
    files = {path.stem: path for path in sorted(BUNDLED.glob("*.toml"))}
    if directory:
        own = Path(directory).expanduser()
        if not own.is_dir():
            raise ConfigurationInvalid(
                "the directory of screen profiles does not exist",
                str(own),
                hint="create it, or leave `screens.directory` empty",
            )
        files |= {path.stem: path for path in sorted(own.glob("*.toml"))}
    return files


def load_profiles(directory: str = "") -> dict[str, Profile]:
    """The bundled profiles by name, replaced and added to by the `*.toml` files in `directory`.

    Raises:
        ConfigurationInvalid: naming file, rule and field of every mistake in any of them.
    """
    profiles: dict[str, Profile] = {}
    problems: list[str] = []
    for path in profile_files(directory).values():
        try:
            profile = load_profile(path)
        except ConfigurationInvalid as error:
            problems.extend(error.problems)
            continue
        if profile.name != path.stem:
            problems.append(f"{path}: name: is {profile.name!r}, but the file is called {path.name}")
        profiles[profile.name] = profile
    if problems:
        raise ConfigurationInvalid(
            "screen profiles cannot be used", "; ".join(problems), hint=_HINT, problems=tuple(problems)
        )
    return profiles


def load_profile(path: Path) -> Profile:
    """One profile file.

    Raises:
        ConfigurationInvalid: naming file, rule and field of every mistake in it.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _unusable((f"{path}: {error}",)) from error
    if path.parent == BUNDLED:
        return unchecked(table)
    from pydantic import ValidationError  # noqa: PLC0415 - bundled files need no pydantic

    try:
        return checked(table)
    except ValidationError as error:
        raise _unusable(tuple(f"{path}: {line}" for line in _complaints(error, table))) from error


def _unusable(problems: tuple[str, ...]) -> ConfigurationInvalid:
    return ConfigurationInvalid("a screen profile cannot be used", "; ".join(problems), hint=_HINT, problems=problems)


def checked(table: Mapping[str, Any]) -> Profile:
    """The profile in a table of TOML. Raises pydantic's `ValidationError`, with every mistake."""
    return profile_type().validate_python(table)


@cache
def profile_type() -> TypeAdapter[Profile]:
    """The `TypeAdapter` of pydantic for `Profile`: it checks a table, and writes a profile as one."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - bundled files need no pydantic

    return TypeAdapter(Profile)


def unchecked(table: Mapping[str, Any]) -> Profile:
    """The profile in a table that was checked before, as the bundled ones are; mistakes are not found."""
    found: Profile = _made(Profile, table)
    return found


def _made(kind: Any, table: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    keys = {name: key_of(name) for name in hints}
    return kind(**{name: _value(hints[name], table[key]) for name, key in keys.items() if key in table})


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    found = get_type_hints(kind, include_extras=True)
    return {one.name: found[one.name] for one in fields(kind)}


def _value(hint: Any, value: Any) -> Any:
    """A value of TOML, as a field of that type holds it."""
    if is_dataclass(hint):
        return _made(hint, value)
    if get_origin(hint) is Annotated:
        inner, check = get_args(hint)
        return _value(inner, check.before(value) if check.before else value)
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        return tuple(_value(inner, one) for one in value)
    for one in get_args(hint):
        if is_dataclass(one):
            return _made(one, value)
        if isinstance(one, Enum) and one.value == value:
            return one
    return value


def _complaints(error: ValidationError, table: dict[str, Any]) -> Iterator[str]:
    """Each mistake as `rules[2] "title-spinner".regex: what is wrong`."""
    for detail in error.errors():
        at: Any = table
        where = ""
        for step in detail["loc"]:
            if isinstance(step, int):
                at = at[step] if isinstance(at, list) and step < len(at) else None
                label = at.get("name") if isinstance(at, dict) else None
                where += f"[{step}]" + (f' "{label}"' if label else "")
            else:
                at = at.get(step) if isinstance(at, dict) else None
                where += f".{step}" if where else str(step)
        yield f"{where or 'profile'}: {_said(detail)}"


def _said(detail: ErrorDetails) -> str:
    """A complaint in the words that pydantic has for models: who writes a file knows tables, and no dataclasses."""
    match detail["type"]:
        case "unexpected_keyword_argument":
            return "Extra inputs are not permitted"
        case "dataclass_type":
            return f"Input should be a valid dictionary or instance of {detail['ctx']['class_name']}"
        case _:
            return detail["msg"].removeprefix("Value error, ")
