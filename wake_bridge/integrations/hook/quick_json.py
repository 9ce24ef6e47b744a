"""JSON for who cannot wait: what `json` does, by the C functions below it, for importing `json` takes as long as the interpreter's own start.

Where they are not as CPython has them, and for what is not plain UTF-8, `json` does it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would take its time
if TYPE_CHECKING:
    from typing import Any

_BLANKS = " \t\n\r"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


_RULES = type(
    "Rules",
    (),
    {
        "strict": True,
        "object_hook": None,
        "object_pairs_hook": None,
        "parse_float": float,
        "parse_int": int,
        "parse_constant": _CONSTANTS.__getitem__,
    },
)
"""What the scanner asks for: the defaults of `json.loads`."""


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is no JSON")


try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    _scan = make_scanner(_RULES)  # type: ignore[arg-type]
    _encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True)  # noqa: FBT003
    _is_quick = _scan('{"a": [1]}', 0)[0] == {"a": [1]} and "".join(_encode({"a": [1]}, 0)) == '{"a": [1]}'
except Exception:  # noqa: BLE001 - they are CPython's own affair: another release may take or give other things
    _is_quick = False


def loads(text: bytes) -> Any:
    """As `json.loads`.

    Raises:
        ValueError: it is no JSON.
    """
    if not _is_quick or text[:3] == b"\xef\xbb\xbf" or b"\0" in text[:4]:
        import json

        return json.loads(text)
    told = text.decode("utf-8", "surrogatepass").strip(_BLANKS)
    try:
        value, end = _scan(told, 0)
    except StopIteration:
        raise ValueError("no JSON") from None
    if end != len(told):
        raise ValueError("more than one value")
    return value


def dumps(value: object) -> str:
    """As `json.dumps`."""
    if not _is_quick:
        import json

        return json.dumps(value)
    return "".join(_encode(value, 0))
