"""A configuration that the daemon has checked is read back without the models, and is the same to whoever asks it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from wake_bridge.config.checked import is_table, read_back, written_down
from wake_bridge.config.recipients import recipient_of
from wake_bridge.config.settings import Settings, changed_keys, engine_settings, load_settings, matching_rules
from wake_bridge.control.settings_in_force import settings_of_daemon, write_settings
from wake_bridge.domain.errors import ConfigurationInvalid

URL = "ntfys://ntfy.sh/SECRET-TOPIC"
EVERYTHING = f"""
[graph]
serve = ["claude"]
[attention]
tell = ["approval", "gone"]
[escalation]
steps = [{{ channel = "phone", after = 5.0 }}]
sources = {{ "@lead" = 30.0 }}
[channels.phone]
kind = "apprise"
recipient = "{URL}"
[channels.pager]
kind = "command"
command = ["my-pager", "{{title}}"]
[http.senders.up]
key = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
identities = ["@far"]
[sources.ci]
mode = "active"
tiers = ["now"]
[adapters.tmux]
sockets = ["/tmp/a"]
[targets."@neo"]
pane = "work:api"
policy = "immediate"
attention = ["gone"]
"""


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for the models fails."""
    monkeypatch.setitem(sys.modules, "wake_bridge.config.fields", None)


def configured(directory: Path, text: str) -> Settings:
    file = directory / "config.toml"
    file.write_text(f'[daemon]\nstate_dir = "{directory}"\n{text}')
    file.chmod(0o600)
    return load_settings(str(file), {})


def read_again(directory: Path, environment: dict[str, str] | None = None) -> Settings:
    return load_settings(str(directory / "config.toml"), environment or {})


@pytest.mark.parametrize("text", ["", EVERYTHING])
def test_what_a_daemon_checked_is_read_back_without_the_models(
    tmp_path: Path, text: str, request: pytest.FixtureRequest
) -> None:
    """Values, words and secrets are those that the models made; the engine's settings are equal."""
    checked = configured(tmp_path, text)
    write_settings(tmp_path, checked)
    assert "SECRET-TOPIC" not in (tmp_path / "settings.json").read_text()
    request.getfixturevalue("no_models")

    again = read_again(tmp_path)

    assert written_down(again.config) == written_down(checked.config)
    assert engine_settings(again, embedded=True) == engine_settings(checked, embedded=True)
    assert matching_rules(again) == matching_rules(checked)
    assert changed_keys(checked, again) == changed_keys(again, checked) == []
    assert (again.graph_place, again.origins, again.fingerprint) == (
        checked.graph_place,
        checked.origins,
        checked.fingerprint,
    )
    if text:
        assert recipient_of(again.config.channels["phone"], again.config_file) == URL
        pager = again.config.channels["pager"].command
        assert pager is not None
        assert pager.reveal() == ("my-pager", "{title}")


def test_whatever_differs_is_checked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed file, an override, a packages directory that changed, and a record that is none."""
    write_settings(tmp_path, configured(tmp_path, EVERYTHING))
    changed = configured(tmp_path, EVERYTHING.replace("work:api", "work:db"))
    assert changed.config.targets["@neo"].pane == "work:db"
    with pytest.raises(ConfigurationInvalid, match="1 mistake"):
        configured(tmp_path, EVERYTHING.replace('"active"', '"loud"'))
    configured(tmp_path, EVERYTHING)
    assert read_again(tmp_path, {"WAKE_BRIDGE_LIMITS_STORM": "3"}).config.limits.storm == 3
    record = json.loads((tmp_path / "settings.json").read_text())
    for broken in ([], ["table", 1], ["word", "os", "abort", ""], ["table", {"graph": {}}]):
        (tmp_path / "settings.json").write_text(json.dumps(record | {"judged": broken}))
        assert type(read_again(tmp_path).config).__name__ == "Configuration"
    (tmp_path / "settings.json").write_text(json.dumps(record))
    assert is_table(read_again(tmp_path).config)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert type(read_again(tmp_path).config).__name__ == "Configuration"


def test_what_another_could_have_written_is_refused_though_it_was_checked(tmp_path: Path) -> None:
    """The file itself is looked at each time; only what it says was checked before."""
    write_settings(tmp_path, configured(tmp_path, ""))
    (tmp_path / "config.toml").chmod(0o666)
    with pytest.raises(ConfigurationInvalid):
        read_again(tmp_path)


def test_a_date_in_the_table_of_an_adapter_is_not_written_down_and_all_else_goes_on(tmp_path: Path) -> None:
    """What JSON cannot tell apart is checked each time."""
    checked = configured(tmp_path, "[adapters.tmux]\nsince = 2026-01-01\n")
    with pytest.raises(ValueError, match="date"):
        written_down(checked.config)
    write_settings(tmp_path, checked)
    assert type(read_again(tmp_path).config).__name__ == "Configuration"
    assert settings_of_daemon(tmp_path) is None


def test_without_the_tree_secrets_are_their_fingerprints(tmp_path: Path) -> None:
    """So the settings of a daemon are compared with a file, and nobody reads a key there."""
    checked = configured(tmp_path, EVERYTHING)
    told = read_back(json.loads(json.dumps(written_down(checked.config))))
    assert told.channels["phone"].recipient == checked.config.channels["phone"].recipient
    assert written_down(told) == written_down(checked.config)
