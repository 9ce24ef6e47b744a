"""Values are made in a quarter of the time, and are what the standard library makes of the same lines."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from dataclasses import dataclass as standard_dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import wake_bridge
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class Ours:
    """A value with everything that ours have."""

    name: str
    size: int = 3
    parts: list[str] = field(default_factory=list, repr=False)
    aside: str = field(default="", compare=False)


@standard_dataclass(frozen=True, slots=True)
class Theirs:
    """The same lines."""

    name: str
    size: int = 3
    parts: list[str] = field(default_factory=list, repr=False)
    aside: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Nothing:
    """A value without any field."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A value that looks at itself, and says itself how it is shown."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("too small")

    def __repr__(self) -> str:
        return f"<{self.size}>"


@dataclass(frozen=True, slots=True)
class Extended(Judged):
    """A value that extends another."""

    more: str = ""


class Plain(Ours):
    """A class that is no dataclass itself."""


BOTH = pytest.mark.parametrize("kind", [Ours, Theirs])


@BOTH
def test_it_is_made_compared_and_shown_like_any_dataclass(kind: Any) -> None:
    """Defaults, equality, hash and repr are those of the standard library."""
    one, other = kind("a", aside="x"), kind(name="a", size=3)
    assert one == other
    assert one != kind("a", 4)
    assert one.__eq__(("a", 3, [], "")) is NotImplemented
    assert one.parts is not other.parts
    assert repr(one) == f"{kind.__name__}(name='a', size=3, aside='x')"
    assert hash(replace(one, parts=())) == hash(kind("a", parts=(), aside="y"))
    assert asdict(one) == {"name": "a", "size": 3, "parts": [], "aside": "x"}
    assert kind.__match_args__ == ("name", "size", "parts", "aside")
    assert [str(one) for one in inspect.signature(kind).parameters.values()][:2] == ["name: 'str'", "size: 'int' = 3"]
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind("a", 1, [], "", "one too many")


@BOTH
def test_it_cannot_be_changed_and_can_be_copied(kind: Any) -> None:
    """No field can be set or deleted; copies and pickles are equal."""
    one = kind("a", parts=["b"])
    with pytest.raises(FrozenInstanceError):
        one.name = "b"
    with pytest.raises(FrozenInstanceError):
        del one.name
    assert not hasattr(one, "__dict__")
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one).parts is not one.parts


def test_a_value_that_extends_judges_or_has_nothing_is_a_value_too() -> None:
    """What is written into the class stays; `__post_init__` is called; a plain subclass may have more."""
    with pytest.raises(ValueError, match="too small"):
        replace(Judged(1), size=-1)
    assert repr(Judged(1)) == "<1>"
    assert [one.name for one in fields(Extended)] == ["size", "more"]
    assert Extended(1, "x") == Extended(1, more="x") != Extended(1)
    with pytest.raises(ValueError, match="too small"):
        Extended(-1)
    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"
    plain = Plain("a")
    plain.other = 1  # type: ignore[attr-defined]
    assert plain.other == 1  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        plain.name = "b"  # type: ignore[misc]


def test_what_makes_a_value_is_compiled_when_the_first_one_is_made() -> None:
    """Most values of what a command imports are never made; whoever looks at the initializer is shown the real one."""

    @dataclass(frozen=True, slots=True)
    class Late:
        size: int = 1

    class Plainer(Late):
        pass

    assert not inspect.isfunction(vars(Late)["__init__"])
    assert Plainer(2) == Plainer(size=2)
    assert inspect.isfunction(vars(Late)["__init__"])
    assert Late.__init__.__qualname__.endswith("Late.__init__")
    assert Late.__doc__ == "Late"


def test_annotations_are_kept_as_written_and_what_is_no_field_is_none() -> None:
    """Though the standard library, which finds the fields, need not read them."""

    @dataclass(frozen=True, slots=True)
    class Known:
        how_many: ClassVar[int] = 2
        size: int = 1

    assert Known.how_many == 2
    assert [one.name for one in fields(Known)] == ["size"]
    assert Ours.__annotations__ == Theirs.__annotations__
    assert [one.type for one in fields(Ours)] == [one.type for one in fields(Theirs)]
    assert inspect.get_annotations(Ours.__init__) == inspect.get_annotations(Theirs.__init__)


def test_values_share_what_need_not_be_compiled_for_each() -> None:
    """Comparing, showing and keeping are the same code in all of them; only the initializer is compiled."""
    for name in ("__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__"):
        assert getattr(Ours, name).__code__ is getattr(Nothing, name).__code__
    assert Ours.__init__.__code__ is not Nothing.__init__.__code__


def test_every_value_of_the_program_is_made_so() -> None:
    """A module that takes the standard library's decorator for values costs every command that imports it.

    Not so the hook's program and what tests play, which import nothing of the domain.
    """
    root = Path(wake_bridge.__file__).parent
    apart = [root / "integrations" / "hook", root / "testing", root / "demo", root / "domain" / "values.py"]
    slow = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if not any(path.is_relative_to(one) for one in apart) and _takes_the_standard_one(path)
    ]
    assert slow == []


def _takes_the_standard_one(path: Path) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    imported = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(name.name == "dataclass" for name in node.names)
        for node in ast.walk(tree)
    )
    return imported and "@dataclass(frozen=True, slots=True)" in path.read_text("utf-8")
