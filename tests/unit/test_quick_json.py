"""The JSON of hooks is that of the standard library."""

from __future__ import annotations

import _json
import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wake_bridge.integrations.hook import quick_json
from wake_bridge.integrations.hook.quick_json import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_whatever_is_written_and_read_is_what_json_makes_of_it(value: Any) -> None:
    """Both ways, as bytes, with blanks around it, and escaped or not."""
    assert dumps(value) == json.dumps(value)
    for text in (json.dumps(value), json.dumps(value, indent=1)):
        assert loads(b" \r\n\t" + text.encode() + b"\n") == json.loads(text) == value


@given(st.binary(max_size=12) | st.text(max_size=12).map(lambda one: one.encode("utf-8", "surrogatepass")))
def test_what_json_refuses_is_refused(text: bytes) -> None:
    """Neither takes what the other does not, whatever a harness sends."""
    try:
        wanted = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - as the other one
            loads(text)
        return
    assert json.dumps(loads(text)) == json.dumps(wanted)


@pytest.mark.parametrize(
    "text", [b"NaN", b'{"a": 1, "a": 2}', b'"\\ud800"', b"-0", b"1e999", "﻿{}".encode(), "{}".encode("utf-16"), b"[1] "]
)
def test_odd_ones_are_read_alike(text: bytes) -> None:
    """Also what is no plain UTF-8."""
    assert json.dumps(loads(text)) == json.dumps(json.loads(text))


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":}', b"[1,]", b"{} {}", b"'a'", b'"\n"', b"\xff"])
def test_broken_ones_are_refused_alike(text: bytes) -> None:
    """With an error that whoever reads hooks' input expects."""
    for read in (json.loads, loads):
        with pytest.raises(ValueError):  # noqa: PT011 - as the other one
            read(text)


def imported_anew() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quick_json_anew", quick_json.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["make_scanner", "make_encoder"])
def test_where_cpython_has_other_functions_json_does_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """They are private: a release whose scanner asks for more, or that has none, must not silence the hooks."""
    assert imported_anew()._is_quick

    def asks_for_more(*_: object) -> object:
        raise AttributeError("array_hook")

    monkeypatch.setattr(_json, name, asks_for_more)
    module = imported_anew()
    assert not module._is_quick
    assert module.loads(b'{"a": [1]}') == {"a": [1]}
    assert module.dumps({"a": [1]}) == '{"a": [1]}'


def test_what_is_no_json_is_not_written() -> None:
    """As `json.dumps` does not."""
    with pytest.raises(TypeError, match="object is no JSON"):
        dumps({"a": object()})
