"""Whatever a person's file looks like, what we write into it can be taken back to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as some

from wake_bridge.domain.setup import SetupAgent
from wake_bridge.integrations.agent_files import apply, plan_files, remove
from wake_bridge.integrations.agent_files.json_file import value_at, with_added, without

LINES = some.lists(some.text(some.characters(exclude_categories=["Cs"]), max_size=20), max_size=6)
ENDS = some.sampled_from(["\n", "\r\n", "\n\n", ""])
PLAIN = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SETTINGS = some.fixed_dictionaries(
    {},
    optional={
        "model": PLAIN,
        "permissions": some.fixed_dictionaries(
            {}, optional={"allow": some.lists(some.text(max_size=12), max_size=3), "deny": some.just([])}
        ),
        "hooks": PLAIN,
    },
)
INDENTS = some.sampled_from([None, 1, 2, 4, "\t"])
RULES = ("Bash(wake-bridge inbox *)", "Bash(wake-bridge send *)")
PATH = ("permissions", "allow")


@given(lines=LINES, joint=some.sampled_from(["\n", "\r\n"]), end=ENDS)
def test_a_text_file_of_any_kind_is_given_back_to_the_byte(lines: list[str], joint: str, end: str) -> None:
    """User files byte-identical to before, with CRLF and without a final newline."""
    with TemporaryDirectory() as place:
        room = Path(place, "project")
        room.mkdir()
        file = room / "AGENTS.md"
        before = (joint.join(lines) + end).encode()
        file.write_bytes(before)
        changes = plan_files([SetupAgent("@pi", "pi", room, "a:0.0")], Path(place))

        apply(changes, Path(place, "state"))
        written = file.read_bytes()
        remove(Path(place, "state"))

        assert before in written
        assert written.count(b"wake-bridge: begin") == 1
        assert file.read_bytes() == before


@given(settings=SETTINGS, indent=INDENTS, crlf=some.booleans(), ascii_only=some.booleans())
def test_settings_in_any_layout_gain_the_rules_alone_and_give_them_back(
    settings: dict[str, object], indent: int | str | None, crlf: bool, ascii_only: bool
) -> None:
    """JSON keeps the person's formatting; the edit is one spot of the text."""
    text = json.dumps(settings, indent=indent, ensure_ascii=ascii_only)
    text = text.replace("\n", "\r\n") if crlf else text

    added = with_added(text, PATH, RULES)

    expected = dict(settings)
    permissions = dict(expected.get("permissions", {}))  # type: ignore[call-overload]
    permissions["allow"] = [*permissions.get("allow", []), *RULES]
    expected["permissions"] = permissions
    assert json.loads(added) == expected
    assert with_added(added, PATH, RULES) == added
    kept = len([name for depth, name in enumerate(PATH) if _has(settings, PATH[: depth + 1])])
    assert json.loads(without(added, PATH, RULES, keep=kept)) == settings


@given(settings=SETTINGS, indent=INDENTS)
def test_what_the_scanner_reads_is_what_json_reads(settings: dict[str, object], indent: int | str | None) -> None:
    """The scanner of places agrees with the library's reader on every value it is asked for."""
    text = json.dumps(settings, indent=indent)
    allowed = settings.get("permissions", {}).get("allow")  # type: ignore[attr-defined]

    assert value_at(text, PATH) == allowed


def _has(settings: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(settings, dict) or name not in settings:
            return False
        settings = settings[name]
    return True
