"""The layers that settings come from: overrides beat aliases beat the file."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, get_args

from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import AGENT_VARIABLE, CONFIG_VARIABLE, ConfigPlace, why_another_could_change

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Key = tuple[str, ...]
"""A key's path through the tables, such as `("presence", "relook", "min")`."""

# in a string of JSON, where a password may hold spaces, and quotes behind a backslash
_CREDENTIALS: Final = re.compile(
    r'(://[^/@:\s]*:)(?:(?:[^"\\]|\\.)*(?=@)|[^@\s"]*)|(password=)(?:[^&"\\]|\\.)*', re.IGNORECASE
)
_SECRET: Final = re.compile(r"(key|token|secret|password|recipient)$", re.IGNORECASE)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_VALUE: Final = 80

_REASONS: Final = {
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "tuple_type": 'must be an array such as ["a", "b"]',
    "list_type": 'must be an array such as ["a", "b"]',
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "missing": "is required",
}
_LIMITS: Final = {
    "greater_than_equal": ("ge", "must be at least"),
    "greater_than": ("gt", "must be more than"),
    "less_than_equal": ("le", "must be at most"),
    "less_than": ("lt", "must be less than"),
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong, and where it was said: `source` is a file or `$VARIABLE`, `key` the path as TOML spells it."""

    source: str
    key: str
    reason: str
    value: str = ""
    meant: str = ""

    def __str__(self) -> str:
        said = " = ".join(part for part in (self.key, self.value) if part)
        suggestion = f"; did you mean {self.meant}?" if self.meant else ""
        return ": ".join(part for part in (self.source, said, self.reason) if part) + suggestion


def spelled(key: Key) -> str:
    """A key path as TOML spells it: `targets."@neo-gpt".window`."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False) for part in key)


def shown(value: object, key: str) -> str:
    """A value as a person typed it, shortened; whatever is named like a secret is withheld."""
    if _SECRET.search(key):
        return "(withheld)"
    if isinstance(value, dict):
        return ""
    text = _CREDENTIALS.sub(r"\1\2…", json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def closest(word: str, words: Iterable[str]) -> str:
    """The one of `words` that was most likely meant; empty when none is near."""
    import difflib

    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.7)
    return near[0] if near else ""


def mistakes_in(
    error: ValidationError, root: type[BaseModel], origins: Mapping[Key, str], unset: str, prefix: Key = ()
) -> list[Mistake]:
    """Every mistake pydantic found.

    Args:
        error: what pydantic raised.
        root: the model that raised it; it knows the names that were possible.
        origins: where each key was set; a key inherits from its nearest table.
        unset: the source to name for a key that nobody set.
        prefix: the key path of `root` itself.
    """
    found = []
    for one in error.errors(include_url=False):
        inner = tuple(str(part) for part in one["loc"] if part != "[key]")
        key = prefix + inner
        value = one["input"] if "[key]" not in one["loc"] else {}
        reason, meant = _reason(dict(one), inner, root, prefix)
        found.append(
            Mistake(
                source=_origin(key, origins, unset),
                key=spelled(key),
                reason=reason,
                # also behind a name that was mistyped
                value=shown(value, "secret" if key[:1] == ("channels",) else key[-1] if key else ""),
                meant=meant,
            )
        )
    return found


def _reason(one: Mapping[str, Any], inner: Key, root: type[BaseModel], prefix: Key) -> tuple[str, str]:
    kind: str = one["type"]
    facts: Mapping[str, Any] = one.get("ctx", {})
    if kind == "extra_forbidden":
        what = "unknown table" if isinstance(one["input"], dict) else "unknown key"
        return what, _name_meant(inner, root, prefix)
    if kind in {"literal_error", "enum"}:
        choices = re.findall(r"'([^']*)'", str(facts["expected"]))
        return f"must be one of {', '.join(choices)}", closest(str(one["input"]), choices)
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return f"{words} {facts[name]:g}", ""
    if kind == "value_error":
        return str(facts["error"]), ""
    return _REASONS.get(kind, str(one["msg"])), ""


def _name_meant(inner: Key, root: type[BaseModel], prefix: Key) -> str:
    """A sibling that is spelled alike, else a name like it in the table where it belongs."""
    siblings = _model_at(root, inner[:-1])
    if siblings is not None and (near := closest(inner[-1], siblings.model_fields)):
        return near
    elsewhere = {key[-1]: spelled(prefix + key) for key in keys_of(root)}
    return elsewhere.get(closest(inner[-1], elsewhere), "")


def keys_of(model: type[BaseModel], prefix: Key = ()) -> Iterator[Key]:
    """Every key of a model that has a fixed path, in the order written; open tables (dicts) are left out."""
    for name, known in model.model_fields.items():
        inner = _model_in(known.annotation)
        if inner is not None:
            yield from keys_of(inner, (*prefix, name))
        elif not isinstance(known.get_default(call_default_factory=True), dict):
            yield (*prefix, name)


def _model_at(root: type[BaseModel], inner: Key) -> type[BaseModel] | None:
    """The model that `inner` leads to; an open table's second name stands for any entry."""
    here: type[BaseModel] | None = root
    rest = list(inner)
    while rest and here is not None:
        field = here.model_fields.get(rest.pop(0))
        if field is None:
            return None
        here = _model_in(field.annotation)
        if here is None:
            open_table = [_model_in(argument) for argument in get_args(field.annotation)]
            here = next((model for model in open_table if model is not None), None)
            del rest[:1]
    return here


def _model_in(annotation: Any) -> type[BaseModel] | None:
    from pydantic import BaseModel

    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _origin(key: Key, origins: Mapping[Key, str], unset: str) -> str:
    for length in range(len(key), 0, -1):
        if key[:length] in origins:
            return origins[key[:length]]
    return unset


PREFIX: Final = "WAKE_BRIDGE_"
SESSION_VARIABLE: Final = "TMUX_SESSION"
ALIASES: Final[Mapping[str, Key]] = {
    "NEO_MEMORY_DB_PATH": ("graph", "path"),
    "NEO_AI_DAEMON_DIR": ("daemon", "state_dir"),
    "WAKE_MAX_DELIVERY_RETRIES": ("delivery", "max_attempts"),
}
_ADAPTERS: Final = PREFIX + "ADAPTERS_"
_TEST: Final = PREFIX + "TEST_"
_NO_SETTINGS: Final = frozenset({CONFIG_VARIABLE, AGENT_VARIABLE, "WAKE_BRIDGE_URL", "WAKE_BRIDGE_TOKEN"})
"""The last two are what CI is told by: address and token of a source (docs/intake.md)."""

_HANDED_OVER: Final = ("/dev/", "/proc/")
"""Where a shell puts the pipes of `<(…)`: those have a writer."""

_WORDS_FOR_TRUTH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(slots=True)
class Gathered:
    """The settings as written, not yet checked: a tree, where each key was set, and what was wrong already."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Key, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    was_read: bool = False

    def put(self, key: Key, value: object, origin: str) -> None:
        """Set one key, making its tables; a value of the file that stands in a table's place is left for the check."""
        table = self.tree
        for name in key[:-1]:
            inner = table.setdefault(name, {})
            if not isinstance(inner, dict):
                return
            table = inner
        table[key[-1]] = value
        self.origins[key] = origin


def gather(
    place: ConfigPlace, environment: Mapping[str, str], adapter_names: Callable[[], Collection[str]]
) -> Gathered:
    """Read the file, then lay aliases and overrides over it.

    Args:
        place: the file to read.
        environment: the process's environment.
        adapter_names: the installed adapters; asked only when an override speaks of one.
    """
    gathered = Gathered()
    _read_file(place, gathered)
    for variable, key in ALIASES.items():
        if text := environment.get(variable):
            gathered.put(key, from_text(text, _default(key)), f"${variable}")
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in _NO_SETTINGS and not variable.startswith(_TEST):
            _override(variable, environment[variable], gathered, adapter_names)
    return gathered


def _read_file(place: ConfigPlace, gathered: Gathered) -> None:
    source = str(place.path)
    try:
        if stat.S_ISFIFO(place.path.stat().st_mode) and not source.startswith(_HANDED_OVER):
            gathered.mistakes.append(Mistake(source, "", "is a pipe, no file"))
            return
        with place.path.open("rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            if is_file and (reason := why_another_could_change(place.path)):
                gathered.mistakes.append(Mistake(source, "", reason))
            gathered.tree = tomllib.loads(file.read().decode("utf-8-sig"))
        gathered.was_read = True
    except (FileNotFoundError, NotADirectoryError):
        if place.named_by:
            gathered.mistakes.append(Mistake(source, "", f"there is no such file ({place.named_by} names it)"))
    except OSError as refusal:
        gathered.mistakes.append(Mistake(source, "", f"cannot be read ({refusal.strerror})"))
    except UnicodeDecodeError as broken:
        gathered.mistakes.append(Mistake(source, "", f"is not UTF-8 text (byte {broken.start})"))
    except tomllib.TOMLDecodeError as broken:
        place_in_file = re.search(r"line (\d+), column (\d+)", str(broken))
        where = f"{source}:{place_in_file[1]}:{place_in_file[2]}" if place_in_file else source
        gathered.mistakes.append(Mistake(where, "", f"is not TOML: {str(broken).split(' (at')[0]}"))
    except (ValueError, RecursionError) as broken:
        # a number of thousands of digits, or thousands of brackets
        gathered.mistakes.append(Mistake(source, "", f"cannot be read as TOML ({type(broken).__name__})"))
    _note_origins(gathered, source)


def _note_origins(gathered: Gathered, source: str) -> None:
    for key, value in _values_in(gathered.tree):
        gathered.origins[key] = source
        if not isinstance(value, dict) and _holds_nul(value):
            # no path and no argument of a program can have one
            gathered.mistakes.append(Mistake(source, spelled(key), "may not hold a NUL character"))


def _values_in(tree: Mapping[str, Any], prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in tree.items():
        yield (*prefix, name), value
        if isinstance(value, dict):
            yield from _values_in(value, (*prefix, name))


def _holds_nul(value: object) -> bool:
    match value:
        case str():
            return "\0" in value
        case list():
            return any(map(_holds_nul, value))
        case dict():
            return any(map(_holds_nul, value.values()))
    return False


def _override(variable: str, text: str, gathered: Gathered, adapter_names: Callable[[], Collection[str]]) -> None:
    from wake_bridge.config.fields import Configuration

    known = {PREFIX + "_".join(key).upper(): key for key in keys_of(Configuration)}
    if key := known.get(variable):
        gathered.put(key, from_text(text, _default(key)), f"${variable}")
        return
    if variable.startswith(_ADAPTERS):
        # the longest name first: an adapter `a-b` must win over `a`
        for name in sorted(adapter_names(), key=len, reverse=True):
            stem = _ADAPTERS + re.sub(r"\W", "_", name).upper() + "_"
            if variable.startswith(stem) and len(variable) > len(stem):
                inner = variable.removeprefix(stem).lower()
                value = from_text(text, default=True) if inner == "enabled" else text
                gathered.put(("adapters", name, inner), value, f"${variable}")
                return
    gathered.mistakes.append(
        Mistake(
            source=f"${variable}",
            key="",
            value=shown(text, variable),
            reason="no setting has this name",
            meant=closest(variable, [*known, CONFIG_VARIABLE]),
        )
    )


def _default(key: Key) -> object:
    from wake_bridge.config.fields import Configuration

    return default_of(Configuration, key)


def default_of(model: type[BaseModel], key: Key) -> object:
    """The default of a key; its type says how text is read."""
    here: Any = model()
    for name in key:
        here = getattr(here, name)
    return here


def from_text(text: str, default: object) -> object:
    """An environment variable's text as the type of `default`; unchanged where it cannot be read, for the check."""
    try:
        match default:
            case bool():
                return _WORDS_FOR_TRUTH.get(text.strip().lower(), text)
            case int():
                return int(text)
            case float():
                return float(text)
            case tuple() | list():
                return [part.strip() for part in text.split(",") if part.strip()]
            case _:
                return text
    except ValueError:
        return text
