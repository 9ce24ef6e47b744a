"""The version of a running agent, read off its files: said in every look, and a veto for a strict profile alone."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from wake_bridge_adapters.screens import load_profiles, profile_text
from wake_bridge_adapters.tmux import occupants

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.ports.adapter import Check, Delivered, Refused

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene

KNOWN = ("1.2.0", "1.3.4")


@pytest.fixture
def profiles(scene: Scene) -> Path:
    """A directory with a profile of the fake harness, of whose screens two versions are known."""
    directory = scene.directory / "screens"
    directory.mkdir()
    _write(directory)
    scene.adapter = scene.new_adapter(screens_directory=str(directory))
    return directory


def _write(directory: Path, *, strict: bool = False) -> None:
    fake = load_profiles()["fake"]
    recognise = replace(fake.recognise, commands=("fakeagent",))
    known = replace(fake, versions=KNOWN, strict_version=strict, recognise=recognise)
    (directory / "fake.toml").write_text(profile_text(known), encoding="utf-8")


def _program(scene: Scene, version: str) -> tuple[FakeHarness, list[str]]:
    """The fake harness as a script below a versioned path, and what starts it."""
    fake = FakeHarness(scene.directory, f"agent-{version}")
    python, _, _, *options = fake.command()
    script = scene.directory / "fakeagent" / "versions" / version
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(
        f"#!{python}\nimport runpy; runpy.run_module('wake_bridge.demo.fake_harness', run_name='__main__')\n"
    )
    script.chmod(0o755)
    return fake, [str(script), *options]


def _start(scene: Scene, version: str) -> str:
    """Start that version in a new pane; answers its id."""
    fake, command = _program(scene, version)
    pane = scene.tmux.new_pane(command)
    fake.control()
    return str(pane.pane_id)


def _check(scene: Scene, pane: str) -> Check:
    (check,) = asyncio.run(scene.adapter.checks_in(scene.place(pane), scene.address(pane)))
    return check


@pytest.mark.parametrize(
    ("version", "ok", "said"),
    [
        ("1.3.4", True, "fake 1.3.4: its screens are known"),
        ("1.3.9", True, "a patch of a version whose screens are known (1.2.0, 1.3.4)"),
        ("1.4.0", None, "fake 1.4.0 is newer than the versions whose screens are known (1.2.0, 1.3.4)"),
        ("1.1.0", None, "fake 1.1.0 is none of the versions whose screens are known"),
    ],
)
@pytest.mark.usefixtures("profiles")
def test_doctor_says_how_the_running_version_stands_to_those_that_are_known(
    scene: Scene, version: str, ok: bool | None, said: str
) -> None:
    """Version drift: a patch of a seen minor counts as seen; newer or unknown is a warning that names the way out."""
    pane = _start(scene, version)

    name, is_well, detail, hint = _check(scene, pane)

    assert (name, is_well) == ("version", ok)
    assert said in detail
    assert ("`wake-bridge screens trust agents:" in hint) is (ok is None)


@pytest.mark.usefixtures("profiles")
def test_a_version_nobody_has_seen_is_said_and_a_wake_comes_through(scene: Scene) -> None:
    """Version drift: it never vetoes; idle still needs every positive sign."""
    pane = _start(scene, "2.0.0")

    evidence = {one.rule: one for one in scene.observe(pane).evidence}
    assert scene.verdict(pane).vote is PresenceState.IDLE
    outcome = scene.deliver(pane, scene.wake())

    assert evidence["version"].saw == "fake 2.0.0; the rules were read off 1.2.0, 1.3.4"
    assert not evidence["version"].weighs
    assert isinstance(outcome, Delivered)


def test_a_strict_profile_vetoes_a_version_it_does_not_know(scene: Scene, profiles: Path) -> None:
    """Version drift: a profile may say `strict_version`; then nothing is typed, and doctor says NOT OK."""
    pane = _start(scene, "2.0.0")
    _write(profiles, strict=True)
    scene.adapter = scene.new_adapter(screens_directory=str(profiles))

    outcome = scene.deliver(pane, scene.wake())

    assert single_vote(scene.observe(pane).evidence).rule == "version"
    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.UNKNOWN
    assert _check(scene, pane)[1] is False


@pytest.mark.usefixtures("profiles")
def test_the_version_is_read_once_for_a_process(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version drift: files are read when an agent is met, not at every look."""
    read: list[str] = []

    def noted(*arguments: object) -> str:
        read.append(str(arguments[0]))
        return "1.3.4"

    monkeypatch.setattr(occupants, "installed_version", noted)
    pane = _start(scene, "1.3.4")
    for _ in range(4):
        scene.observe(pane)
    scene.deliver(pane, scene.wake())

    assert len(read) == 1


@pytest.mark.usefixtures("profiles")
def test_an_agent_that_was_replaced_by_a_newer_one_in_its_pane_is_asked_again(scene: Scene) -> None:
    """Version drift: an update takes effect when the program is started anew, in the same pane."""
    pane = _start(scene, "1.3.4")
    assert _check(scene, pane)[1] is True
    fake, newer = _program(scene, "2.0.0")

    scene.tmux.run("respawn-pane", "-k", "-t", pane, shlex.join(newer))
    fake.control()

    assert _check(scene, pane)[1] is None
