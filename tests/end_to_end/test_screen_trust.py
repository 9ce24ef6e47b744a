from __future__ import annotations

import re
import shlex
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wake_bridge_adapters.screens import load_profile, load_profiles, profile_text

from wake_bridge.config.own_profiles import write_profile
from wake_bridge.testing.playground import AgentPane, Impostors, Playground


@pytest.fixture
def stranger(playground: Playground) -> AgentPane:
    """An enlisted agent whose profile, trusted once for an older version, does not know its placeholder."""
    fake = load_profiles()["fake"]
    placeholder = replace(fake.composer.placeholder, strings=("Older words",), ghost=False)
    composer = replace(fake.composer, placeholder=placeholder)
    older = replace(fake, composer=composer, versions=("1.0.0",))
    write_profile(_screens(playground), "fake", profile_text(older))
    playground.sandbox.run("init")
    return playground.enlisted("agent")


def _screens(world: Playground) -> Path:
    return world.sandbox.config_file.parent / "screens"


def test_a_trusted_screen_is_known_to_the_running_daemon_at_once(playground: Playground, stranger: AgentPane) -> None:
    """`screens trust`: the observed placeholder is written as an override profile, and a waiting wake goes on."""
    sandbox = playground.sandbox
    sandbox.daemon()
    sandbox.send("@agent", "mail")
    held = sandbox.waits_for_delivery(hold_reason="userTyping")

    said = sandbox.ask("screens", "trust", stranger.id, "--yes")
    done = sandbox.waits_for_delivery(state="DELIVERED")

    assert said["learnt"] == ["placeholder 'Ask the fake agent'"]
    assert (said["harness"], said["pane"], said["reloaded"]) == ("fake", stranger.label, True)
    assert said["file"] == str(_screens(playground) / "fake.toml")
    assert load_profile(Path(said["file"])).composer.placeholder.strings == ("Older words", "Ask the fake agent")
    assert stat.S_IMODE(Path(said["file"]).stat().st_mode) == 0o600
    assert done["id"] == held["id"]
    assert [done["id"] in text for text in stranger.fake.submits()] == [True]


def test_what_is_trusted_is_shown_and_a_person_on_the_terminal_is_asked(
    playground: Playground, stranger: AgentPane
) -> None:
    """`screens trust`: it shows what it trusts and writes; anything but yes writes nothing."""
    file = _screens(playground) / "fake.toml"
    before = file.read_text()
    command = [*playground.sandbox.command, "screens", "trust", stranger.id]
    line = f"{shlex.join(command)}; echo ended $?; cat"
    pane = playground.tmux.new_pane(line, session="person", environment=playground.sandbox.environment, width=100)

    look = playground.tmux.waits_until(pane, lambda seen: "composer empty? [y/N]" in seen.text, 30, "the question")
    assert "| ➤ Ask the fake agent" in look.text
    assert "+ placeholder 'Ask the fake agent'" in look.text
    assert str(file) in look.text.replace("\n", "")
    playground.tmux.run("send-keys", "-t", str(pane.pane_id), "n", "Enter")
    look = playground.tmux.waits_until(pane, lambda seen: "ended" in seen.text, 30, "the end")

    assert "nothing was written" in look.text
    assert "ended 1" in look.text
    assert file.read_text() == before
    nobody = playground.sandbox.run("screens", "trust", stranger.id, expect=2)
    assert "use --yes" in nobody.stderr
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("mode", "text", "why"),
    [
        ("draft", "half a thought", "draft"),
        ("busy", "", "footer-interrupt"),
        ("approval", "", "no composer"),
        ("vim-normal", "", "vim-normal"),
    ],
)
def test_a_screen_that_is_not_idle_cannot_be_trusted(
    playground: Playground, stranger: AgentPane, mode: str, text: str, why: str
) -> None:
    """`screens trust` is no way past a dialog, a draft or a turn: exit 7, and nothing is written."""
    before = (_screens(playground) / "fake.toml").read_text()
    stranger.fake.shows(mode, text)

    refused = playground.sandbox.run("screens", "trust", stranger.id, "--yes", expect=7)

    assert "error: the screen cannot be trusted" in refused.stderr
    assert why in refused.stderr
    assert "hint: " in refused.stderr
    assert (_screens(playground) / "fake.toml").read_text() == before


def test_a_profile_that_a_person_wrote_is_never_replaced(playground: Playground, stranger: AgentPane) -> None:
    """`screens trust` refuses to overwrite a file it has not written, and shows what is to be added by hand."""
    file = _screens(playground) / "fake.toml"
    edited = file.read_text().replace("Older words", "My own words")
    file.write_text(edited)

    refused = playground.sandbox.run("screens", "trust", stranger.id, "--yes", expect=7)
    shown = playground.sandbox.run("screens", "trust", stranger.id, "--print").stdout

    assert "a profile that a person wrote is not replaced" in refused.stderr
    assert "--print" in refused.stderr
    assert file.read_text() == edited
    assert 'strings = ["My own words", "Ask the fake agent"]' in shown


def test_where_there_is_nothing_to_learn_nothing_is_written(playground: Playground) -> None:
    """`screens trust` of a screen that looks idle as it is says so."""
    playground.sandbox.run("init")
    agent = playground.enlisted("agent")

    said = playground.sandbox.ask("screens", "trust", agent.id, "--yes")

    assert (said["learnt"], said["file"]) == ([], None)
    assert not _screens(playground).exists()


def test_a_reload_takes_over_screen_profiles_and_a_bad_one_keeps_the_old(
    playground: Playground, stranger: AgentPane
) -> None:
    """A reload takes effect from the next decision; a bad file keeps the old one, and is named."""
    sandbox = playground.sandbox
    daemon = sandbox.daemon()
    sandbox.send("@agent", "mail")
    sandbox.waits_for_delivery(hold_reason="userTyping")
    file = _screens(playground) / "fake.toml"

    file.write_text(file.read_text().replace("[composer]", "[composer]\ncolour = 1"))
    daemon.reload()
    (refused,) = daemon.waits_for_log("config_refused")
    assert f"{file}: composer.colour" in refused["problems"][0]
    checked = sandbox.run("config", "check", expect=3)
    assert f"{file}: composer.colour" in checked.stderr
    (broken,) = [one for one in sandbox.lines("doctor", expect=1) if one["check"] == "profiles"]
    assert broken["ok"] is False
    assert sandbox.deliveries()[0]["hold_reason"] == "userTyping"

    file.unlink()
    daemon.reload()
    daemon.waits_for_log("config_reloaded")
    sandbox.waits_for_delivery(state="DELIVERED")
    assert len(stranger.fake.submits()) == 1


def test_a_version_nobody_has_seen_is_a_warning_in_doctor_and_explain(
    playground: Playground, stranger: AgentPane
) -> None:
    """Version drift: a warning in `doctor` and `--explain`, which neither proves nor vetoes."""
    sandbox = playground.sandbox
    sandbox.run("screens", "trust", stranger.id, "--yes")

    (check,) = [one for one in sandbox.lines("doctor", expect=None) if one["check"] == "version @agent"]
    told = sandbox.ask("presence", "@agent", "--explain")
    words = sandbox.run("presence", "@agent", "--explain").stdout

    assert check["ok"] is None
    assert "the version of fake cannot be told" in check["detail"]
    assert f"`wake-bridge screens trust {stranger.label}`" in check["hint"]
    (note,) = [one for one in told["evidence"] if one["rule"] == "version"]
    assert (told["state"], note["weighs"], note["region"]) == ("idle", False, "process")
    assert "cannot be told; the rules were read off 1.0.0" in words


@pytest.mark.parametrize("cause", ["version", "glyph-style"])
def test_what_is_told_of_a_version_or_a_prompt_that_is_not_known_helps_when_it_is_taken_literally(
    playground: Playground, tmp_path: Path, cause: str
) -> None:
    """A strict profile and a newer version, or a prompt in another style: the command that is named ends the hold."""
    impostors = Impostors(tmp_path / "programs")
    impostors.node_program("pigeon", "@loft/pigeon", "2.0.0", "--log", str(tmp_path / "pigeon.jsonl"))
    known = load_profile(impostors.profiles / "pigeon.toml")
    plain = replace(known.composer.glyph_style, bold=False)
    changed: dict[str, dict[str, Any]] = {
        "version": {"versions": ("1.0.0",), "strict_version": True},
        "glyph-style": {"composer": replace(known.composer, glyph_style=plain)},
    }
    write_profile(_screens(playground), "pigeon", profile_text(replace(known, **changed[cause])))
    sandbox = playground.sandbox
    pane = playground.tmux.new_pane([f"{impostors.search_path[0]}/pigeon"], session="agent")
    playground.tmux.waits_until(pane, lambda look: "Ask the fake agent" in look.text, what="its screen")
    sandbox.run("init")
    sandbox.enlist("@agent", "agent")
    sandbox.daemon()
    sandbox.send("@agent", "mail")
    held = sandbox.waits_for_delivery(cause=cause)

    (command,) = re.findall(r"`wake-bridge ([^`]+)`", held["remedy"])
    sandbox.run(*shlex.split(command), "--yes")

    assert sandbox.waits_for_delivery(state="DELIVERED")["id"] == held["id"]


def test_a_version_that_cannot_be_told_is_not_to_be_trusted_past_a_strict_profile(
    playground: Playground, stranger: AgentPane
) -> None:
    """There is no version to write down: what can be done is said, and nothing is written."""
    file = _screens(playground) / "fake.toml"
    strict = replace(load_profile(file), strict_version=True)
    write_profile(_screens(playground), "fake", profile_text(strict))
    before = file.read_text()

    refused = playground.sandbox.run("screens", "trust", stranger.id, "--yes", expect=7)

    assert "its version cannot be read, and its profile is strict" in refused.stderr
    assert "hint: take strict_version out of its profile" in refused.stderr
    assert file.read_text() == before
