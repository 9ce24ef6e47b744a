"""A version that the rules do not know is said once; profiles are listed and updated, and a fault is reported, by a person."""

from __future__ import annotations

import json
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import load_profile, profile_text
from wake_bridge_adapters.screens.profile_file import BUNDLED

from wake_bridge.testing.playground import Impostors, Playground


@pytest.fixture
def pigeon(playground: Playground, tmp_path: Path) -> Path:
    """A program 2.0.0 whose profile, the user's own, was tested with 1.0.0, and knows another placeholder; its directory."""
    impostors = Impostors(tmp_path / "programs")
    impostors.node_program("pigeon", "@loft/pigeon", "2.0.0", "--log", str(tmp_path / "pigeon.jsonl"))
    known = load_profile(impostors.profiles / "pigeon.toml")
    placeholder = replace(known.composer.placeholder, strings=("Older words",), ghost=False)
    older = replace(known, versions=("1.0.0",), composer=replace(known.composer, placeholder=placeholder))
    screens = playground.sandbox.config_file.parent / "screens"
    screens.mkdir()
    (screens / "pigeon.toml").write_text(profile_text(older))
    pane = playground.tmux.new_pane([f"{impostors.search_path[0]}/pigeon"], session="agent")
    playground.tmux.waits_until(pane, lambda look: "Ask the fake agent" in look.text, what="its screen")
    (tmp_path / "newer.toml").write_text(profile_text(replace(known, versions=("1.0.0", "2.0.0"))), encoding="utf-8")
    return screens


def test_a_version_nobody_tested_is_said_by_status_and_a_newer_profile_ends_what_it_holds(
    playground: Playground, tmp_path: Path, pigeon: Path
) -> None:
    """`status` names it once with its holds; `screens update` shows the difference, asks, and the held wake goes on."""
    sandbox, newer = playground.sandbox, str(tmp_path / "newer.toml")
    sandbox.run("init")
    for who in ("@agent", "@other"):
        sandbox.enlist(who, "agent")
    sandbox.daemon()
    sandbox.send("@agent", "mail")
    held = sandbox.waits_for_delivery(hold_reason="userTyping")

    (said,) = sandbox.ask("status")["versions"]
    words = sandbox.run("status").stdout
    listed = {one["harness"]: one for one in sandbox.lines("screens", "list")}
    mine = sandbox.run("screens", "update", newer, "--yes").stdout
    kept = (pigeon / "pigeon.toml").read_text()
    (pigeon / "pigeon.toml").unlink()
    sandbox.run("screens", "update", newer, expect=2)
    (done,) = sandbox.lines("screens", "update", newer, "--yes")

    assert (said["harness"], said["version"], said["tested"], said["holds"]) == ("pigeon", "2.0.0", ["1.0.0"], 1)
    assert said["agentIdentities"] == ["@agent", "@other"]
    assert words.count("pigeon 2.0.0 seen, rules tested to 1.0.0, 1 hold since") == 1
    assert (listed["pigeon"]["origin"], listed["claude"]["origin"]) == ("user", "shipped")
    assert "left as it is" in mine
    assert "Older words" in kept
    assert '+versions = ["1.0.0", "2.0.0"]' in done["difference"]
    assert done["reloaded"]
    assert sandbox.waits_for_delivery(state="DELIVERED")["id"] == held["id"]
    assert sandbox.ask("status")["versions"] == []
    assert {one["harness"]: one["origin"] for one in sandbox.lines("screens", "list")}["pigeon"] == "updated"


def test_a_report_is_a_capture_that_holds_nothing_personal(playground: Playground, tmp_path: Path) -> None:
    """`screens report`: shown, then written; it reads as the screen did, with versions, evidence and the expectation.

    In copy mode both it and `screens capture` say so.
    """
    sandbox, file = playground.sandbox, tmp_path / "report.json"
    agent = playground.agent("agent")
    agent.fake.shows("draft", "see ~/acme/plan.md of ada@acme.example for Umbrella")

    nobody = sandbox.run("screens", "report", agent.id, "--expect", "idle", "--output", str(file), expect=2)
    assert not file.exists()
    shown = sandbox.run(
        *("screens", "report", agent.id, "--expect", "idle", "--replace", "umbrella"),
        *("--output", str(file), "--yes"),
    ).stdout
    judged = sandbox.ask("screens", "classify", str(file))
    report = json.loads(file.read_text())
    playground.tmux.run("copy-mode", "-t", agent.id)
    sandbox.run("screens", "report", agent.id, "--expect", "idle", "--output", str(tmp_path / "in-mode.json"), "--yes")
    sandbox.run("screens", "capture", agent.id, "--output", str(tmp_path / "captured.json"))
    in_mode = sandbox.lines("screens", "classify", str(tmp_path / "in-mode.json"), str(tmp_path / "captured.json"))

    assert "a person must confirm this" in nobody.stderr
    assert "see ~/xxxx/xxxx.xx of xxx@xxxx.xxxxxxx for xxxxxxxx" in shown
    for text in ("acme", "Umbrella", "ada@"):
        assert text not in shown
        assert text not in file.read_text()
    assert (judged["state"], judged["composer"], report["expect"]) == ("userTyping", "draft", ["idle"])
    assert {"wake-bridge", "tmux", "fake"} <= set(report["report"]["versions"])
    assert "draft" in {one["rule"] for one in report["report"]["evidence"]}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [(one["state"], one["rule"]) for one in in_mode] == [("unknown", "copy-mode")] * 2


def test_the_newest_release_is_fetched_by_pip_and_only_shown(playground: Playground, tmp_path: Path) -> None:
    """Without a file: a wheel from where pip takes packages; `--print` writes nothing, and without one the way out is said."""
    sandbox, found = playground.sandbox, tmp_path / "wheels"
    found.mkdir()
    codex = load_profile(BUNDLED / "codex.toml")
    text = profile_text(replace(codex, versions=("99.0.0",)))
    with zipfile.ZipFile(found / "wake_bridge-99.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("wake_bridge_adapters/screens/codex.toml", text)
        wheel.writestr(
            "wake_bridge-99.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: wake-bridge\nVersion: 99.0\n"
        )
        wheel.writestr(
            "wake_bridge-99.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("wake_bridge-99.0.dist-info/RECORD", "")
    sandbox.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(found)}

    (shown,) = sandbox.lines("screens", "update", "--print")
    sandbox.environment["PIP_FIND_LINKS"] = str(tmp_path)
    missing = sandbox.run("screens", "update", expect=1)

    assert shown["harness"] == "codex"
    assert '+versions = ["99.0.0"]' in shown["difference"]
    assert not (sandbox.config_file.parent / "screens").exists()
    assert "pip could not fetch the newest release" in missing.stderr
    assert "screens update FILE" in missing.stderr
