"""Our hooks in a harness's settings: in its own form, beside what stands there, and taken back to the byte."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.integrations.agent_files import (
    apply,
    hook_settings,
    plan_removal,
    read_files_record,
    remove,
    take_traces,
)
from wake_bridge.integrations.agent_files.claude_plugin import plan_plugin
from wake_bridge.integrations.agent_files.hook_settings import INTO, hooks_file, plan_hooks, purpose
from wake_bridge.integrations.hook.caller import EVENTS
from wake_bridge.system.own_program import for_a_shell

PROGRAM = ("/opt/wake bridge/bin/wake-bridge",)
THEIRS = {"hooks": [{"type": "command", "command": "theirs"}]}


class Room:
    """A HOME, and where the record is kept."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.home.mkdir()
        self.state = tmp_path / "state"

    def file(self, harness: str) -> Path:
        return hooks_file(harness, {"HOME": str(self.home)})

    def write(self, harness: str, text: str) -> None:
        self.file(harness).parent.mkdir(parents=True, exist_ok=True)
        self.file(harness).write_text(text)

    def install(self, harness: str, program: Sequence[str] = PROGRAM) -> Any:
        apply([plan_hooks(harness, program, {"HOME": str(self.home)}, self.state)], self.state)
        return json.loads(self.file(harness).read_text())

    def uninstall(self, harness: str) -> list[str]:
        return [one.trouble for one in remove(self.state, lambda one: one.what == purpose(harness))]

    def everything(self) -> dict[str, bytes | None]:
        return {
            str(path.relative_to(self.home)): path.read_bytes() if path.is_file() else None
            for path in self.home.rglob("*")
        }


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def commands(settings: Any, harness: str, event: str) -> list[dict[str, Any]]:
    """Our entries at one event."""
    groups = settings["hooks"][event]
    entries = groups if harness == "copilot" else [entry for group in groups for entry in group["hooks"]]
    return [entry for entry in entries if "wake-bridge" in entry.get("command", entry.get("bash", ""))]


@pytest.mark.parametrize("harness", INTO)
def test_every_event_that_is_heard_gets_one_hook_in_the_harnesss_own_form(room: Room, harness: str) -> None:
    """Codex hooks.json in seconds, Gemini and Qwen settings.json in milliseconds, Copilot version 1 with the event."""
    settings = room.install(harness)
    assert settings["hooks"].keys() == EVENTS[harness].keys()
    for event in EVENTS[harness]:
        (entry,) = commands(settings, harness, event)
        command = entry["bash" if harness == "copilot" else "command"]
        expected = [*PROGRAM, "hook", harness, *([event] if harness == "copilot" else [])]
        assert shlex.split(command)[-len(expected) :] == expected
        limits = {"codex": ("timeout", 3), "copilot": ("timeoutSec", 3)}.get(harness, ("timeout", 3000))
        assert entry[limits[0]] == limits[1]
    assert settings.get("version") == (1 if harness == "copilot" else None)


@pytest.mark.parametrize(
    "content",
    [
        '{"version": 1, "hooks": {"sessionStart": [{"type": "command", "bash": "mine", "timeoutSec": 3}]}}',
        '{"version": 1, "hooks": {"agentStop": [{"type": "command", "bash": "wake-bridge hook copilot agentStop", "timeoutSec": 9}]}}',
        "not JSON",
        "",
    ],
)
def test_a_file_with_our_name_that_is_not_ours_stays_as_it_is(room: Room, content: str) -> None:
    """Copilot's file is ours as a whole: a hand-made one of that name is refused, as a plugin of our name is."""
    room.write("copilot", content)
    with pytest.raises(RefusedForSafety, match="which wake-bridge did not write"):
        room.install("copilot")
    assert room.file("copilot").read_text() == content


def test_a_file_of_ours_is_written_again_also_where_its_record_is_lost(room: Room) -> None:
    """What it holds says whose it is; another program is put in its place."""
    room.install("copilot")
    shutil.rmtree(room.state)
    assert "/elsewhere/wake-bridge" in str(room.install("copilot", ("/elsewhere/wake-bridge",)))


PLAIN = '#!/bin/sh\necho called by "$1" with "$(cat)"\n'
SHELLS = [shell for shell in ("sh", "bash", "zsh", "fish", "csh", "tcsh") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("content", "mode", "expected"),
    [
        pytest.param(PLAIN, 0o755, (0, "called by hook with {}\n", ""), id="it is there"),
        pytest.param(None, 0, (0, "", ""), id="it is gone"),
        pytest.param(PLAIN, 0o644, (0, "", ""), id="it may not be run"),
        pytest.param("#!/gone/python\n", 0o755, (0, "", ""), id="its interpreter is gone"),
        pytest.param("#!/bin/sh\nexec '/gone/py thon' \"$0\"\n", 0o755, (0, "", ""), id="behind a long path"),
        pytest.param(
            "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'wake_bridge'\" >&2; exit 1\n",
            0o755,
            (0, "", ""),
            id="its package is gone",
        ),
        pytest.param("#!/bin/sh\necho o; echo no! >&2; exit 2\n", 0o755, (2, "o\n", "no!"), id="it says no"),
        pytest.param("#!/bin/sh\necho broken >&2; exit 1\n", 0o755, (1, "", "broken"), id="it is broken"),
    ],
)
def test_a_hook_is_silent_once_its_program_or_interpreter_is_gone(
    room: Room, tmp_path: Path, shell: str, content: str | None, mode: int, expected: tuple[int, str, str]
) -> None:
    """With exit 0, whatever shell the harness takes; a deliberate exit code and its output stay."""
    program = tmp_path / "it's my bin" / "wake-bridge"
    program.parent.mkdir()
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    settings = room.install("codex", ("WAKE_BRIDGE_CONFIG=/a b/config.toml", str(program)))
    (entry,) = commands(settings, "codex", "Stop")
    ran = subprocess.run([shell, "-c", entry["command"]], input="{}", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == expected


@pytest.mark.parametrize("harness", ["codex", "gemini", "qwen"])
@pytest.mark.parametrize("was_edited", [False, True])
def test_hooks_in_the_form_of_an_earlier_version_are_replaced_and_removed(
    room: Room, monkeypatch: pytest.MonkeyPatch, harness: str, *, was_edited: bool
) -> None:
    """What an earlier version wrote is known by its record, also in a file that was edited since."""
    room.write(harness, json.dumps({"hooks": {"Other": [THEIRS]}}))
    monkeypatch.setattr(hook_settings, "silent_when_gone", for_a_shell)
    settings = room.install(harness)
    monkeypatch.undo()
    if was_edited:
        settings["theme"] = "dark"
        room.write(harness, json.dumps(settings, indent=3))
    settings = room.install(harness)
    for event in EVENTS[harness]:
        (entry,) = commands(settings, harness, event)
        assert entry["command"].startswith("/bin/sh -c ")
    assert room.uninstall(harness) == [""]
    kept = {"hooks": {"Other": [THEIRS]}, **({"theme": "dark"} if was_edited else {})}
    assert json.loads(room.file(harness).read_text()) == kept


TRUST = """
[hooks.state]

[hooks.state."{file}:post_tool_use:0:0"]
trusted_hash = "sha256:52f8"

[hooks.state."{file}:stop:{stop}:0"]
trusted_hash = "sha256:c6d2"
"""


@pytest.mark.parametrize("is_alone", [True, False])
def test_what_codex_recorded_of_our_hooks_goes_with_them(room: Room, is_alone: bool) -> None:
    """As Codex 0.171 writes it, to the byte; what it recorded of a person's own hook stays."""
    file, config = room.file("codex"), room.file("codex").with_name("config.toml")
    if not is_alone:
        room.write("codex", json.dumps({"hooks": {"Stop": [THEIRS]}}))
    room.install("codex")
    theirs = 'model = "m"\n\n[projects."/x"]\ntrust_level = "trusted"\n'
    config.write_text(theirs + TRUST.format(file=file, stop=0))
    removals = plan_removal(read_files_record(room.state))
    if is_alone:
        (planned,) = take_traces(removals, dry_run=True)
        assert (planned.path, planned.stays) == (config, "")
        assert config.read_text() != theirs
    take_traces(removals, dry_run=False)
    rest = (
        TRUST.format(file=file, stop=0).partition("[hooks.state.")[0]
        + "[hooks.state."
        + TRUST.format(file=file, stop=0).rpartition("[hooks.state.")[2]
    )
    assert config.read_text() == theirs + ("" if is_alone else rest)


@pytest.mark.parametrize(
    "text", ['[hooks]\nstate = {{ "/a:stop:0:0" = {{}}, "{file}:stop:0:0" = {{ a = 1 }} }}\n', "[broken\n"]
)
def test_what_codex_recorded_in_another_form_is_named(room: Room, text: str) -> None:
    """Removed, or it says what stays."""
    room.install("codex")
    config = room.file("codex").with_name("config.toml")
    config.write_text(text.format(file=room.file("codex")))
    before = config.read_text()
    (trace,) = take_traces(plan_removal(read_files_record(room.state)), dry_run=False)
    assert trace.path == config
    assert trace.stays
    assert config.read_text() == before


def test_the_plugins_data_directory_goes_when_nothing_is_in_it(room: Room) -> None:
    """Claude Code makes it at the first start; what somebody put there stays, and is named."""
    claude = room.home / ".claude"
    for is_empty in (True, False):
        apply(plan_plugin(claude, PROGRAM), room.state)
        data = claude / "plugins/data/wake-bridge-skills-dir"
        data.mkdir(parents=True)
        if not is_empty:
            (data / "note").touch()
        (trace,) = take_traces(remove(room.state), dry_run=False)
        assert (trace.path, bool(trace.stays), data.exists()) == (data, not is_empty, not is_empty)


@pytest.mark.parametrize("harness", INTO)
def test_what_was_made_goes_with_its_directories(room: Room, harness: str) -> None:
    """`uninstall` leaves nothing where nothing was."""
    room.install(harness)
    assert room.uninstall(harness) == [""]
    assert room.everything() == {}
    assert read_files_record(room.state) == ()


@pytest.mark.parametrize("harness", [one for one in INTO if one != "copilot"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"theme": "dark"}\n',
        '{\n\t"theme": "dark", // mine\n\t"hooks": {},\n}\n',
        json.dumps({"hooks": {"SessionStart": [THEIRS], "Other": [THEIRS]}, "a": [1]}, indent=4),
        json.dumps({"hooks": {"AfterTool": [], "PostToolUse": [THEIRS]}}),
    ],
)
def test_the_persons_own_settings_stay_and_come_back_to_the_byte(room: Room, harness: str, text: str) -> None:
    """Uninstall leaves the user's files byte-identical."""
    room.write(harness, text)
    before = room.everything()
    apply([plan_hooks(harness, PROGRAM, {"HOME": str(room.home)}, room.state)], room.state)
    now = room.file(harness).read_text()
    for piece in ('"theirs"', '"theme": "dark"'):
        assert now.count(piece) == text.count(piece)
    room.uninstall(harness)
    assert room.everything() == before


@pytest.mark.parametrize("harness", INTO)
def test_installing_again_replaces_what_was_installed(room: Room, harness: str) -> None:
    """Safe to repeat, as after an update; the program may have moved."""
    room.install(harness, ("/old/wake-bridge",))
    settings = room.install(harness)
    assert "/old/" not in json.dumps(settings)
    for event in EVENTS[harness]:
        assert len(commands(settings, harness, event)) == 1
    change = plan_hooks(harness, PROGRAM, {"HOME": str(room.home)}, room.state)
    assert not change.changes
    room.uninstall(harness)
    assert room.everything() == {}


@pytest.mark.parametrize("harness", ["codex", "gemini", "qwen"])
def test_what_a_person_added_since_stays(room: Room, harness: str) -> None:
    """Only our part goes out of a file that was edited."""
    room.write(harness, json.dumps({"hooks": {"Other": [THEIRS]}}, indent=2))
    settings = room.install(harness)
    first = next(iter(EVENTS[harness]))
    settings["hooks"][first].insert(0, THEIRS)
    settings["hooks"]["Other"].append(THEIRS)
    settings["theme"] = "light"
    room.write(harness, json.dumps(settings, indent=3))
    assert room.uninstall(harness) == [""]
    rest = json.loads(room.file(harness).read_text())
    assert rest == {"hooks": {"Other": [THEIRS, THEIRS], first: [THEIRS]}, "theme": "light"}


@pytest.mark.parametrize("harness", ["codex", "gemini", "qwen"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_hooks_are_taken_out_however_the_file_was_spelled_since(room: Room, harness: str, *, is_ascii: bool) -> None:
    """Whoever writes the file anew may escape letters and slashes: left behind, our hooks would go on being called."""
    room.write(harness, json.dumps({"theme": "dark"}))
    settings = room.install(harness, ("WAKE_BRIDGE_CONFIG=/tmp/ä b/config.toml", "/opt/ö/wake-bridge"))
    text = json.dumps(settings, indent=2, ensure_ascii=is_ascii)
    room.write(harness, text.replace("/", "\\/") if is_ascii else text)
    assert room.uninstall(harness) == [""]
    assert json.loads(room.file(harness).read_text()) == {"theme": "dark"}


@pytest.mark.parametrize("harness", ["codex", "gemini", "qwen"])
def test_what_a_person_put_beside_our_hook_stays(room: Room, harness: str) -> None:
    """A group may have several hooks: only ours goes out of it."""
    settings = room.install(harness)
    first, second = list(EVENTS[harness])[:2]
    settings["hooks"][first][0]["hooks"].append(*THEIRS["hooks"])
    settings["hooks"][second][0]["hooks"].insert(0, *THEIRS["hooks"])
    room.write(harness, json.dumps(settings, indent=2))
    assert room.uninstall(harness) == [""]
    assert json.loads(room.file(harness).read_text()) == {"hooks": {first: [THEIRS], second: [THEIRS]}}


def test_settings_that_are_nested_without_end_are_left_alone(room: Room) -> None:
    """What no reader can take in is told to the person, not an error of ours."""
    room.write("codex", '{"a":' + "[" * 5000 + "]" * 5000 + "}")
    with pytest.raises(OperationFailed, match="cannot be changed"):
        room.install("codex")


def test_a_variable_that_names_the_configuration_survives_the_shell(room: Room) -> None:
    """A daemon with a configuration of its own is the one that is meant."""
    settings = room.install("codex", ("WAKE_BRIDGE_CONFIG=/a b/config.toml", "/bin/wake-bridge"))
    (entry,) = commands(settings, "codex", "Stop")
    assert entry["command"].endswith(" env 'WAKE_BRIDGE_CONFIG=/a b/config.toml' /bin/wake-bridge hook codex")


@pytest.mark.parametrize(
    "text", ["[]", '{"hooks": []}', '{"hooks": {"Stop": {}, "AfterAgent": {}}}', "no json", '{"a": 1']
)
def test_settings_that_are_not_what_the_harness_expects_are_left_alone(room: Room, text: str) -> None:
    """Nothing is written into what is not understood."""
    for harness in ("codex", "gemini"):
        room.write(harness, text)
        with pytest.raises(OperationFailed, match="cannot be changed"):
            plan_hooks(harness, PROGRAM, {"HOME": str(room.home)}, room.state)
        assert room.file(harness).read_text() == text


def test_the_variables_that_move_a_harnesss_home_are_heeded(tmp_path: Path) -> None:
    """Codex and Copilot let a variable say where their files are."""
    assert hooks_file("codex", {"CODEX_HOME": str(tmp_path), "HOME": "/h"}) == tmp_path / "hooks.json"
    assert hooks_file("copilot", {"COPILOT_HOME": str(tmp_path), "HOME": "/h"}) == tmp_path / "hooks/wake-bridge.json"
    assert hooks_file("gemini", {"HOME": "/h"}) == Path("/h/.gemini/settings.json")
