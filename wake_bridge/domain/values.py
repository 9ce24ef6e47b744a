"""Values: frozen dataclasses with slots that are made in a fraction of the time, because every command waits for hundreds.

The standard library compiles six functions for each such class. Here it only finds the fields and makes the slots. All classes
share five of the functions; the sixth, `__init__`, is compiled when the first value is made, and a command makes values of few
classes. All that `dataclasses` promises holds.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from dataclasses import dataclass as standard_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False) -> Any:
        """As `dataclasses.dataclass`, which does it where a class is not frozen, has no slots, or extends another dataclass."""
        if cls is None:
            return lambda one: dataclass(one, frozen=frozen, slots=slots)
        if not (frozen and slots) or any(is_dataclass(one) for one in cls.__mro__):
            return standard_dataclass(cls, frozen=frozen, slots=slots)
        return _made_quickly(cls)


__all__ = ["dataclass"]

_NOT_PLAIN: Final = ("ClassVar", "InitVar", "KW_ONLY")
"""Words in an annotation that make of it something other than a plain field."""

_set: Final[Callable[[Any, str, Any], None]] = object.__setattr__


def _made_quickly(cls: type) -> Any:
    said = frozenset(vars(cls))
    # a class without a docstring would get its signature as one, which takes as long to work out as ten classes to make
    cls.__doc__ = cls.__doc__ or cls.__name__
    made: Any = _with_fields(cls)
    made.__dataclass_params__.frozen = True  # what extends it is asked for the same
    its = fields(made)
    for method in (*_told(its), *_fixed(made, its)):
        if method.__name__ not in said:
            method.__qualname__ = f"{made.__qualname__}.{method.__name__}"
            setattr(made, method.__name__, method)
    if "__init__" not in said:
        made.__init__ = _InitOnDemand(made, its)
    return made


def _with_fields(cls: type) -> Any:
    """The class with its fields found and its slots made."""
    written = cls.__annotations__
    if any(not isinstance(one, str) or any(word in one for word in _NOT_PLAIN) for one in written.values()):
        return standard_dataclass(cls, init=False, repr=False, eq=False, slots=True)
    # the standard library searches each text for the words above again, which is half of its time: it is shown plain types
    cls.__annotations__ = dict.fromkeys(written, object)
    made: Any = standard_dataclass(cls, init=False, repr=False, eq=False, slots=True)
    made.__annotations__ = written
    for one in fields(made):
        one.type = written[one.name]
    return made


class _InitOnDemand:
    """Stands in for the `__init__` of a class until somebody asks for it; then compiles it and puts it in its own place."""

    __slots__ = ("_cls", "_its")

    def __init__(self, cls: Any, its: Sequence[Field[Any]]) -> None:
        self._cls = cls
        self._its = its

    def __get__(self, value: Any, cls: Any = None) -> Any:
        init = _initializer(self._cls, self._its)
        init.__qualname__ = f"{self._cls.__qualname__}.__init__"
        self._cls.__init__ = init
        return init if value is None else init.__get__(value, cls)


def _initializer(cls: type, its: Sequence[Field[Any]]) -> Any:
    """The one function that is compiled: it is called most, and its parameters have names."""
    space: dict[str, Any] = {"_set": _set, "_missing": MISSING}
    parameters, lines = ["self"], []
    for number, one in enumerate(its):
        default, value = f"_default{number}", one.name
        if one.default_factory is not MISSING:
            space[default] = one.default_factory
            parameters.append(f"{one.name}=_missing")
            value = f"{default}() if {one.name} is _missing else {one.name}"
        elif one.default is not MISSING:
            space[default] = one.default
            parameters.append(f"{one.name}={default}")
        else:
            parameters.append(one.name)
        lines.append(f" _set(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass"), space)  # noqa: S102 - names of fields
    init: Callable[..., Any] = space["__init__"]
    init.__annotations__.update({one.name: one.type for one in its} | {"return": None})
    return init


def _told(its: Sequence[Field[Any]]) -> Sequence[Callable[..., Any]]:
    """How a value is compared and shown."""
    shown = tuple(one.name for one in its if one.repr)
    compared = tuple(one.name for one in its if one.compare)
    key: Callable[[Any], Any] = attrgetter(*compared) if compared else lambda _: ()

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807 - set into the class under this name
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(key(self))

    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{one}={getattr(self, one)!r}' for one in shown)})"

    return __eq__, __hash__, __repr__


def _fixed(cls: Any, its: Sequence[Field[Any]]) -> Sequence[Callable[..., Any]]:
    """That a value cannot be changed, and how it is copied all the same."""
    names = tuple(one.name for one in its)

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def __getstate__(self: Any) -> list[Any]:  # noqa: N807
        return [getattr(self, one) for one in names]

    def __setstate__(self: Any, state: Sequence[Any]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            _set(self, name, value)

    return __setattr__, __delattr__, __getstate__, __setstate__
