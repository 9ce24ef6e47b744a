"""What others rely on stays: the names in `tests/golden.json`."""

from __future__ import annotations

import pytest

from tests.golden import broken, collected, frozen, joined


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
