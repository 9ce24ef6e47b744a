"""`[http]`: where signed wakes are taken in, from whom, and what is refused before anything listens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wake_bridge.config.settings import (
    Settings,
    listen_address,
    load_settings,
    matching_rules,
    needs_restart,
    senders_of,
)
from wake_bridge.control.serving import has_no_graph
from wake_bridge.control.settings_in_force import write_settings
from wake_bridge.daemon.life import require_listening
from wake_bridge.doctor.disk import signed_wakes
from wake_bridge.domain.errors import ConfigurationInvalid, OperationFailed
from wake_bridge.domain.signed_wakes import ListenAddress

KEY = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
SENDER = f'[http.senders.up]\nkey = "{KEY}"\nidentities = ["@far"]\n'


def loaded(directory: Path, text: str, mode: int = 0o600) -> Settings:
    file = directory / "config.toml"
    file.write_text(text)
    file.chmod(mode)
    return load_settings(str(file), {"HOME": str(directory)})


def mistakes(directory: Path, text: str, mode: int = 0o600) -> str:
    with pytest.raises(ConfigurationInvalid) as refused:
        loaded(directory, text, mode)
    return "\n".join(refused.value.problems)


@pytest.mark.parametrize(
    ("text", "shown", "is_local"),
    [
        ("127.0.0.1:8787", "127.0.0.1:8787", True),
        ("localhost:0", "127.0.0.1:0", True),
        ("[::1]:8787", "[::1]:8787", True),
        ("unix:/run/wake.sock", "unix:/run/wake.sock", True),
        ("0.0.0.0:8787", "0.0.0.0:8787", False),
        ("192.0.2.7:1", "192.0.2.7:1", False),
        ("[::]:1", "[::]:1", False),
    ],
)
def test_an_address_is_read_once_and_says_who_can_reach_it(text: str, shown: str, is_local: bool) -> None:
    address = ListenAddress.parse(text)
    assert (str(address), address.is_local) == (shown, is_local)


@pytest.mark.parametrize("text", ["8787", "example.org:1", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "unix:here"])
def test_what_is_no_address_is_a_mistake(tmp_path: Path, text: str) -> None:
    assert "http.listen" in mistakes(tmp_path, f"[http]\nlisten = {json.dumps(text)}\n{SENDER}")


def test_an_address_for_other_hosts_needs_tls_or_a_proxy_and_somebody_who_may_send(tmp_path: Path) -> None:
    """Loopback or a Unix socket by default."""
    listen = '[http]\nlisten = "0.0.0.0:1"\n'
    assert "is open to other hosts" in mistakes(tmp_path, listen + SENDER)
    settings = loaded(tmp_path, f"{listen}behind_proxy = true\n{SENDER}")
    assert str(listen_address(settings)) == "0.0.0.0:1"
    assert "go together" in mistakes(tmp_path, f'{listen}tls_key_file = "k"\n{SENDER}')
    told = mistakes(tmp_path, f'{listen}tls_key_file = "k"\ntls_certificate_file = "c"\n{SENDER}')
    assert "c cannot be read (No such file or directory)" in told


def test_a_key_that_others_may_read_is_a_mistake(tmp_path: Path) -> None:
    """In the configuration or in a file of its own; the key itself is not repeated."""
    assert "others may read this file" in mistakes(tmp_path, SENDER, 0o644)
    in_a_file = SENDER.replace(f'key = "{KEY}"', 'key_file = "keys"')
    assert "keys cannot be read (No such file" in mistakes(tmp_path, in_a_file, 0o644)
    keys = tmp_path / "keys"
    keys.write_text(f"{KEY}\n")
    keys.chmod(0o640)
    assert f"others may read {keys}" in mistakes(tmp_path, in_a_file, 0o644)
    keys.chmod(0o600)
    (sender,) = senders_of(loaded(tmp_path, in_a_file, 0o644))
    assert (sender.read_keys(), [*sender.identities], sender.legacy) == ((KEY,), ["@far"], False)
    keys.write_text("short")
    assert "holds no key of at least 24" in mistakes(tmp_path, in_a_file, 0o644)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SENDER + SENDER.replace("up]", "down]"), "is the key of up as well"),
        (f'{SENDER}key_file = "x"\n', "needs either key or key_file"),
        (SENDER.replace('["@far"]', "[]"), "needs identities"),
        (SENDER.replace("@far", "far"), "must be an identity"),
        (SENDER.replace("senders.up", 'senders."a b"'), "must be letters, digits"),
    ],
)
def test_a_sender_is_one_key_and_whom_it_may_wake(tmp_path: Path, text: str, told: str) -> None:
    said = mistakes(tmp_path, text)
    assert told in said
    assert KEY not in said


def test_what_a_daemon_writes_down_of_its_settings_has_no_key_and_is_compared_all_the_same(tmp_path: Path) -> None:
    """A changed key waits for a restart; the file that commands compare with holds its SHA-256 alone."""
    before = loaded(tmp_path, SENDER)
    write_settings(tmp_path, before)
    written = (tmp_path / "settings.json").read_text()
    assert KEY not in written
    assert "sha256:" in written
    again = type(before.config).model_validate_json(json.dumps(json.loads(written)["config"]))
    assert again == before.config
    assert needs_restart(before, loaded(tmp_path, SENDER.replace("MDE", "MDI"))) == ["http.senders"]
    assert KEY not in repr(before)
    assert not has_no_graph(tmp_path, before.graph_place)


def test_serve_needs_a_sender_and_the_extra_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed, where, and what to do."""
    from dataclasses import replace

    alone = replace(loaded(tmp_path, ""), has_graph=False)
    with pytest.raises(ConfigurationInvalid, match="no sender is configured for signed wakes"):
        require_listening(alone)
    with_sender = replace(loaded(tmp_path, SENDER), has_graph=False)
    assert str(listen_address(with_sender)) == "127.0.0.1:8787"
    assert [one.identity for one in matching_rules(with_sender).signed] == ["@far"]
    require_listening(with_sender)
    require_listening(loaded(tmp_path, SENDER))
    assert matching_rules(loaded(tmp_path, SENDER)).signed == ()
    monkeypatch.setattr("wake_bridge.daemon.life.find_spec", lambda _: None)
    with pytest.raises(OperationFailed, match="is not installed") as refused:
        require_listening(with_sender)
    assert refused.value.hint == "run `pip install 'wake-bridge[http]'`"


def test_the_doctor_tells_of_an_entrance_that_nobody_may_use(tmp_path: Path) -> None:
    """As after the last sender was taken out of the configuration of a host without a graph."""
    from dataclasses import replace

    found, *_ = signed_wakes(replace(loaded(tmp_path, ""), has_graph=False))
    assert (found.ok, found.detail) == (False, "nobody may send any")
    assert "[http.senders.NAME]" in found.hint
    assert signed_wakes(loaded(tmp_path, "")) == []
