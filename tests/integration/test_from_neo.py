"""docs/from-neo.md: what it says of names is what the code does with them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.config.layers import ALIASES, SESSION_VARIABLE
from wake_bridge.config.settings import Settings, load_settings
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.names import Identity
from wake_bridge.domain.subscriptions import (
    APP_METADATA,
    IGNORED_METADATA,
    RECEIVER_METADATA,
    Subscription,
    parse_subscription,
    with_known_adapters,
)
from wake_bridge.storage.graph.upstream import read_upstream_state
from wake_bridge.testing.transcript import play, read_transcript

DOCUMENT = (Path(__file__).parents[2] / "docs/from-neo.md").read_text(encoding="utf-8")
REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"


def table(heading: str) -> dict[str, str]:
    """The rows of the table with that first heading: the name in the first column, the text of the second."""
    found = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", DOCUMENT, re.MULTILINE)
    assert found, heading
    rows = [line.strip("|").split("|", 1) for line in found[1].splitlines()]
    return {name.strip().strip("`"): text.strip() for name, text in rows}


ALIASED = table("variable")
METADATA = table("`harnessTargetMetadata`")
MEANINGLESS = {
    name: why
    for name, why in (
        (found[1], found[2]) for found in re.finditer(r"^\| `([A-Z_]+)` \| (.*) \|$", DOCUMENT, re.MULTILINE)
    )
    if name not in ALIASED
}
VALUES = {
    "NEO_MEMORY_DB_PATH": "/srv/neo.sqlite",
    "NEO_AI_DAEMON_DIR": "/srv/wake",
    "WAKE_MAX_DELIVERY_RETRIES": "3",
    "TMUX_SESSION": "neo-agent",
}


def settings_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> Settings:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return load_settings(None, environment)


def test_the_table_of_variables_names_every_alias_there_is() -> None:
    """The aliases, no more and no fewer."""
    assert {name: text.strip("`") for name, text in ALIASED.items() if name != SESSION_VARIABLE} == {
        name: ".".join(key) for name, key in ALIASES.items()
    }
    assert SESSION_VARIABLE in ALIASED


@pytest.mark.parametrize("name", VALUES)
def test_an_alias_sets_what_the_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each row of the table, set in the environment."""
    settings = settings_with(tmp_path, monkeypatch, {name: VALUES[name]})

    became: dict[str, Any] = {
        "NEO_MEMORY_DB_PATH": str(settings.graph_place),
        "NEO_AI_DAEMON_DIR": str(settings.state_dir),
        "WAKE_MAX_DELIVERY_RETRIES": str(settings.config.delivery.max_attempts),
        "TMUX_SESSION": settings.fallback_pane,
    }
    assert became[name] == VALUES[name]
    assert set(VALUES) == set(ALIASED)


def test_the_variables_without_a_meaning_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change nothing, and are no mistake either."""
    assert len(MEANINGLESS) == 6
    plain = settings_with(tmp_path, monkeypatch, {})
    assert settings_with(tmp_path, monkeypatch, dict.fromkeys(MEANINGLESS, "/elsewhere/7")) == plain


def subscription(**metadata: object) -> Subscription:
    return parse_subscription(
        "WAKE_SUB:1",
        {
            "agentIdentity": "@neo-gpt",
            "trigger": "SENT_TO_ME",
            "harnessTarget": "bridge-daemon",
            "harnessTargetMetadata": metadata,
        },
    )


def test_the_table_of_metadata_names_all_that_is_ignored() -> None:
    """The metadata map; every ignored name is in it, and none that is read."""
    ignored = {name for name, text in METADATA.items() if text.startswith("ignored")}

    assert ignored == set(IGNORED_METADATA)
    for name in ignored:
        read = subscription(**{name: "x"})
        assert read.ignored == (name,)
        assert (read.pane, read.adapter, read.window, read.problems) == ("", "", None, ())


def test_the_metadata_that_is_read_means_what_the_table_says() -> None:
    """The metadata map, row by row."""
    meant = {
        "tmuxSession": subscription(tmuxSession="work:api.0").pane == "work:api.0",
        "instanceAddress": subscription(instanceAddress="work:web.0", addressType="tmuxSession", tmuxSession="old").pane
        == "work:web.0",
        "addressType": subscription(instanceAddress="4711", addressType="pid").pane == "",
        "coalesceWindow": [subscription(coalesceWindow=one).window for one in (0, 300)] == [0, 300],
        "adapter": subscription(adapter="osascript").adapter == "osascript",
    }
    for name in APP_METADATA:
        app = subscription(**{"adapter": "osascript", name: "x"})
        elsewhere = subscription(**{name: "x"})
        meant[name] = (app.details, app.ignored, elsewhere.ignored) == (((name, "x"),), (), (name,))

    for name in RECEIVER_METADATA:
        posted = parse_subscription(
            "WAKE_SUB:1", {"harnessTarget": "a2a-webhook", "harnessTargetMetadata": {"url": "x", name: "x"}}
        )
        elsewhere = subscription(**{name: "x"})
        meant[name] = posted.receiver is not None and (posted.ignored, elsewhere.ignored) == ((), (name,))

    assert meant == dict.fromkeys(meant, True)
    assert set(meant) == {name for name, text in METADATA.items() if not text.startswith("ignored")}
    assert subscription(coalesceWindow=301).remarks


def test_a_subscription_with_an_adapter_that_is_not_installed_is_kept_and_named() -> None:
    """Said below the table: `list` names the installed ones."""
    (problem,) = with_known_adapters(subscription(adapter="no-such-adapter"), ["tmux"]).problems

    assert problem == "adapter 'no-such-adapter' is not installed (there are: tmux)"


def test_the_files_of_the_table_are_those_that_are_read(tmp_path: Path) -> None:
    """`init --from-neo` reads these two files, by these names."""
    assert set(table("file")) == {"lastSyncId", "woken-watermark.json"}
    (tmp_path / "lastSyncId").write_text("60")
    (tmp_path / "woken-watermark.json").write_text('{"WAKE_SUB:1": 7, "__messageIdsByIdentity": {"@a": ["MESSAGE:1"]}}')

    inheritance, problems = read_upstream_state(tmp_path)

    assert problems == ()
    assert (inheritance.cursor, inheritance.woken_upto) == (60, {"WAKE_SUB:1": 7})
    assert inheritance.messages == {Identity("@a"): ("MESSAGE:1",)}


def test_changing_over_goes_as_the_page_says(tmp_path: Path, program: tuple[str, ...]) -> None:
    """The page's own commands on a graph that the real services wrote; the graph stays as it is."""
    sandbox = Sandbox(tmp_path, "", program)
    upstream = sandbox.home / "neo/wake-daemon"
    upstream.mkdir(parents=True)
    (upstream / "lastSyncId").write_text("60")
    shutil.copy(REAL, sandbox.home / "neo/memory.sqlite")
    path = f"{Path(program[0]).parent}:{sandbox.environment['PATH']}"
    environment = {
        **sandbox.environment,
        "PATH": path,
        "TMUX_TMPDIR": str(tmp_path),
        "NEO_AI_DAEMON_DIR": str(upstream),
    }

    for command in read_transcript(DOCUMENT):
        play(command, environment, sandbox.home)

    assert (sandbox.home / "neo/memory.sqlite").read_bytes() == REAL.read_bytes()
    assert (upstream / "state.sqlite").exists()
