"""The places of graph and state, told quickly only where checking the whole configuration would tell the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from wake_bridge.config.fields import DaemonTable, GraphTable, ScreensTable
from wake_bridge.config.locations import DAEMON_KEYS, GRAPH_KEYS, SCREENS_KEYS, Locations, find_locations
from wake_bridge.config.settings import load_settings

FINE = {
    "nothing": "",
    "other tables": "[coalesce]\nwindow = 5\n[targets.'@a']\npane = 'x:1'\n",
    "absolute": "[graph]\npath = '/srv/graph.sqlite'\nwatch = false\n",
    "beside the file": "graph.path = 'graph.sqlite'\ndaemon.state_dir = '../state'\n",
    "home": "[daemon]\nstate_dir = '~/state'\nlog_level = 'debug'\n",
    "empty": "[graph]\npath = ''\n[daemon]\nstate_dir = ''\n",
}
IN_DOUBT = {
    "misspelled": "[graph]\npth = 'graph.sqlite'\n",
    "misspelled state": "[daemon]\nstatedir = 'state'\n",
    "a number": "[graph]\npath = 3\n",
    "no table": "graph = 'graph.sqlite'\n",
    "no TOML": "[graph\n",
    "no UTF-8": "[graph]\npath = '\udce4'\n",
    "nested without end": "a = " + "[" * 3000,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where the configuration lies; nobody else may write there."""
    (tmp_path / "config").mkdir(mode=0o700)
    return tmp_path / "config/config.toml"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def checked(option: str | None, environment: Mapping[str, str]) -> Locations:
    settings = load_settings(option, environment)
    return Locations(settings.graph_place, settings.state_dir, settings.own_screens)


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_the_places_are_those_of_the_whole_configuration(config: Path, text: str) -> None:
    """A quick answer is the answer, however the file was named."""
    config.write_text(text, encoding="utf-8")
    by_variable = {"WAKE_BRIDGE_CONFIG": str(config)}

    assert find_locations(str(config), {}) == checked(str(config), {})
    assert find_locations(None, by_variable) == checked(None, by_variable)


def test_without_a_file_the_places_are_the_platform_s() -> None:
    """No file means defaults."""
    assert find_locations(None, {}) == checked(None, {})


@pytest.mark.parametrize("text", IN_DOUBT.values(), ids=IN_DOUBT)
def test_what_may_be_a_mistaken_place_is_left_to_who_checks_all(config: Path, text: str) -> None:
    """Unknown keys are refused; mail must not be looked for in a graph that nobody meant."""
    config.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert find_locations(str(config), {}) is None


@pytest.mark.parametrize(
    "variable", ["WAKE_BRIDGE_GRAPH_PATH", "WAKE_BRIDGE_DAEMON_STATE_DIR", "NEO_MEMORY_DB_PATH", "NEO_AI_DAEMON_DIR"]
)
def test_an_override_of_a_place_is_left_to_who_checks_all(variable: str) -> None:
    """Overrides beat the file."""
    assert find_locations(None, {variable: "/elsewhere"}) is None


def test_a_file_that_is_missing_or_that_others_could_write_is_left_to_who_checks_all(config: Path) -> None:
    """SECURITY: whoever can write the configuration chooses where keys are typed; only the long way says so."""
    assert find_locations(str(config), {}) is None
    config.write_text("", encoding="utf-8")
    config.chmod(0o666)
    assert find_locations(str(config), {}) is None


def test_every_key_of_the_two_tables_is_known() -> None:
    """Meta: a new key must not make every command check the whole configuration."""
    assert set(GraphTable.model_fields) == GRAPH_KEYS
    assert set(DaemonTable.model_fields) == DAEMON_KEYS
    assert set(ScreensTable.model_fields) == SCREENS_KEYS
