"""What others rely on stays: the names in `tests/golden.json`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from tests.golden import broken, collected, frozen, joined
from wake_bridge.former_names import MOVED


def test_nothing_that_others_rely_on_is_gone_or_says_something_else() -> None:
    """Config keys with defaults, commands with options, exit codes, hold reasons, log events, journal steps, ports, tables."""
    was = {name: value for name, value in frozen().items() if name != "json"}
    assert list(broken(was, collected())) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"a": {"b": 1}, "c": ["x", "y"], "d": 2}, []),
        ({"a": {}, "c": ["x"]}, ["/a/b is gone"]),
        ({"a": {"b": 2}, "c": ["x"]}, ["/a/b: 1 is now 2"]),
        ({"a": {"b": 1}, "c": ["y"]}, ["/c: 'x' is gone"]),
    ],
)
def test_what_is_new_breaks_nothing_and_what_is_gone_or_changed_does(now: object, said: list[str]) -> None:
    """A name that is taken away or changed is told with its place; one that is added is not."""
    was = {"a": {"b": 1}, "c": ["x"]}
    assert list(broken(was, now)) == said
    assert joined(was, now)["a"] == {"b": 1}


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("adapters.tmux", "TmuxAdapter"),
        ("adapters.claude_code", "ClaudeCodeAdapter"),
        ("wake_bridge.domain.instants", "parse_instant"),
        ("wake_bridge.domain.refusals", "Refusal"),
        ("wake_bridge.edges.steady_clock", "SteadyClock"),
        ("wake_bridge.testing.sandbox", "Sandbox"),
        ("wake_bridge.testing.fake_harness", "FakeHarness"),
    ],
)
def test_a_module_that_others_import_answers_to_its_former_name(
    former: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What moved is found by its old name for a release, and is the same thing."""
    for one in ("adapters", "wake_bridge.edges", former):
        monkeypatch.delitem(sys.modules, one, raising=False)
    with pytest.deprecated_call():
        found = getattr(importlib.import_module(former), name)
    for one in ("adapters", "wake_bridge.edges", former):
        sys.modules.pop(one, None)
    assert found is getattr(importlib.import_module(found.__module__), name)
    assert found.__module__.partition(".")[0] in {"wake_bridge", "wake_bridge_adapters"}


def test_every_former_name_leads_to_a_module_that_is_there() -> None:
    """A module that moves again takes its former names along."""
    assert [old for old, new in MOVED.items() if importlib.util.find_spec(new) is None] == []


def test_a_name_that_is_a_module_again_is_no_former_one() -> None:
    """What is there is imported as itself, and warns nobody."""
    root = Path(__file__).parents[2]
    places = [root / old.replace(".", "/") for old in MOVED]
    assert [one.name for one in places if one.with_suffix(".py").exists() or one.exists()] == []


def test_a_module_that_never_was_is_not_found() -> None:
    """Old names are a list, no guess."""
    for one in ("wake_bridge.nothing", "wake_bridge.engine.nothing", "adapters_of_others"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(one)
