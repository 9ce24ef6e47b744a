"""What agents are told and allowed: written into their own files, and taken back."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.integrations.agent_files import (
    apply,
    plan_excludes,
    plan_files,
    plan_removal,
    read_files_record,
    remove,
    untracked_files,
)
from wake_bridge.integrations.agent_files.allow_rules import MAIL_COMMANDS
from wake_bridge.integrations.agent_files.plan import instructions_for
from wake_bridge.integrations.agent_files.text_file import replace_content

CLAUDE_RULES = [f"Bash(wake-bridge {command} *)" for command in MAIL_COMMANDS]


class Room:
    """A HOME with one project, the agents in it, and where the record is kept."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.project = self.home / "api"
        self.project.mkdir(parents=True)
        self.state = tmp_path / "state"

    def agent(self, harness: str, identity: str = "", pane: str = "agents:1.0") -> SetupAgent:
        return SetupAgent(identity or f"@{harness}", harness, self.project, pane)

    def write(self, name: str, content: bytes) -> Path:
        file = self.project / name if not name.startswith("~") else self.home / name[2:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def apply(self, *harnesses: str) -> None:
        apply(plan_files([self.agent(one) for one in harnesses], self.home), self.state)

    def snapshot(self) -> dict[str, tuple[int, bytes | str]]:
        """Every file, link and directory below HOME, with content and mode."""
        seen: dict[str, tuple[int, bytes | str]] = {}
        for path in sorted(self.home.rglob("*")):
            mode = stat.S_IMODE(path.lstat().st_mode)
            what: bytes | str = "directory"
            if path.is_symlink():
                what = str(path.readlink())
            elif path.is_file():
                what = path.read_bytes()
            seen[str(path.relative_to(self.home))] = (mode, what)
        return seen


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A HOME of its own."""
    return Room(tmp_path)


def test_each_harness_is_told_in_the_file_that_it_reads(room: Room) -> None:
    """Instructions for AGENTS.md, CLAUDE.md and GEMINI.md; aider reads none by itself."""
    told = {
        harness: [change.path.name for change in plan_files([room.agent(harness)], room.home) if "instr" in change.what]
        for harness in ("claude", "codex", "gemini", "opencode", "qwen", "aider")
    }

    assert told == {
        "claude": ["CLAUDE.md"],
        "codex": ["AGENTS.md"],
        "gemini": ["GEMINI.md"],
        "opencode": ["AGENTS.md"],
        "qwen": ["QWEN.md"],
        "aider": [],
    }


def test_the_file_that_is_there_is_extended_where_a_new_one_would_hide_it(room: Room) -> None:
    """Codex prefers AGENTS.override.md; OpenCode stops reading CLAUDE.md once there is an AGENTS.md."""
    room.write("CLAUDE.md", b"rules\n")
    assert plan_files([room.agent("opencode")], room.home)[0].path.name == "CLAUDE.md"
    room.write("AGENTS.override.md", b"mine\n")

    assert plan_files([room.agent("codex")], room.home)[0].path.name == "AGENTS.override.md"


def test_the_text_says_what_an_agent_must_know_in_25_lines(room: Room) -> None:
    """How to send, what [WAKE] means, that it is no user's approval, to wait and not to poll."""
    text = instructions_for([room.agent("codex"), room.agent("claude")])

    assert len(text.splitlines()) <= 25
    for needed in ("[WAKE]", "not your user", "approves\nnothing", "inbox", "--consume", "send", "Do not poll"):
        assert needed in text


def test_no_identity_in_the_text_is_taken_for_a_file(room: Room) -> None:
    """Claude Code reads `@name` after a blank as a file, in code spans too; Gemini CLI outside of them; neither in a fence."""
    for agents in ([room.agent("claude")], [room.agent("claude", "@a"), room.agent("gemini", "@b")]):
        before, _, behind = instructions_for(agents).split("```")
        assert not re.search(r"(^|\s)@", before + behind)


def test_two_agents_in_one_directory_share_a_text_that_is_right_for_both(room: Room) -> None:
    """An identity table, for one file is read by both."""
    agents = [room.agent("codex", "@api", "agents:1.0"), room.agent("opencode", "@web", "agents:2.0")]

    (told,) = [change for change in plan_files(agents, room.home) if change.path.name == "AGENTS.md"]

    assert b"`@api`: codex in the tmux pane `agents:1.0`" in told.after
    assert b"`@web`: opencode in the tmux pane `agents:2.0`" in told.after
    assert b"--from @YOU" in told.after


def test_nothing_but_the_mail_commands_is_allowed(room: Room) -> None:
    """Allow rules for the mail commands only, nothing broader."""
    room.apply("claude", "codex", "gemini")

    claude = json.loads((room.project / ".claude/settings.local.json").read_text())
    gemini = tomllib.loads((room.home / ".gemini/policies/wake-bridge.toml").read_text())
    codex = (room.home / ".codex/rules/wake-bridge.rules").read_text()

    assert claude == {"permissions": {"allow": CLAUDE_RULES}}
    assert gemini["rule"] == [
        {
            "toolName": "run_shell_command",
            "commandPrefix": [f"wake-bridge {command}" for command in MAIL_COMMANDS],
            "decision": "allow",
            "priority": 100,
        }
    ]
    assert (
        'pattern = ["wake-bridge", ["inbox", "send", "ack", "read", "escalate", "seen"]], decision = "allow"' in codex
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("ask", {"*": "ask", "bash": {"*": "ask", "+": 1}}, id="one word for all tools"),
        pytest.param({"bash": "ask"}, {"bash": {"*": "ask", "+": 1}}, id="one word for commands"),
        pytest.param({"*": "ask"}, {"*": "ask", "bash": {"*": "ask", "+": 1}}, id="a rest that asks"),
        pytest.param({"bash": {"ls": "allow", "*": "ask"}}, {"bash": {"ls": "allow", "*": "ask", "+": 1}}, id="rules"),
        pytest.param("allow", None, id="all allowed"),
        pytest.param({"bash": "deny"}, None, id="forbidden"),
        pytest.param({"bash": {"wake-bridge *": "deny"}}, None, id="a rule of theirs about us"),
        pytest.param({"edit": "ask"}, None, id="only edits ask"),
    ],
)
def test_opencode_gets_rules_only_where_something_asks(room: Room, before: object, after: object) -> None:
    """The last rule that matches wins: ours come last, and what stood for all stays for all others."""
    file = room.write("opencode.json", json.dumps({"permission": before}, indent=2).encode())
    ours = {f"wake-bridge {command} *": "allow" for command in MAIL_COMMANDS}

    changes = [change for change in plan_files([room.agent("opencode")], room.home) if change.path == file]

    if after is None:
        assert not changes
        return
    (change,) = changes
    wanted = json.loads(json.dumps(after).replace('"+": 1', json.dumps(ours)[1:-1]))
    found = json.loads(change.after)["permission"]
    assert found == wanted
    assert list(found["bash"])[-len(ours) :] == list(ours)


ODD = {
    "CLAUDE.md": b"# Rules\r\n\r\nNo tabs.\r\n",
    "AGENTS.md": "# Größe ohne Zeilenende".encode(),
    "GEMINI.md": b"\n\n  \n",
    ".claude/settings.local.json": b'{ "permissions" : {"allow":[ "Bash(ls:*)" ],\r\n\t"deny":[]} ,"env":{"A":"1"}}',
    "~/.gemini/policies/mine.toml": b"# mine\n",
    "~/.codex/config.toml": b"model='x'\n",
    ".qwen/settings.json": b'{\n    // asks a lot\n    "permissions": {\n        "allow": [],\n    },\n}\n',
    "opencode.jsonc": b'{\n\t"permission": {\n\t\t"bash": "ask", // careful\n\t}\n}',
}
EVERYONE = ("claude", "codex", "gemini", "opencode", "qwen", "aider")


@pytest.mark.parametrize("present", [True, False], ids=["odd files", "no files"])
def test_apply_then_remove_leaves_home_as_it_was(room: Room, present: bool) -> None:
    """Must show: `setup` then `uninstall`: a diff of HOME is empty."""
    for name, content in ODD.items() if present else ():
        room.write(name, content).chmod(0o600 if name.endswith("json") else 0o640)
    before = room.snapshot()

    room.apply(*EVERYONE)
    during = room.snapshot()
    remove(room.state)

    assert room.snapshot() == before
    assert all(during[name][0] == mode for name, (mode, _) in before.items())
    assert not read_files_record(room.state)


def test_qwen_code_is_given_no_rule_for_its_shell(room: Room) -> None:
    """It would let `"$(…)"` behind a mail command run without a question."""
    room.apply("qwen")
    assert (room.project / "QWEN.md").exists()
    assert not (room.project / ".qwen").exists()


def test_setup_again_with_other_agents_is_still_taken_back_to_the_byte(room: Room) -> None:
    """Safe to repeat, removable."""
    for name, content in ODD.items():
        room.write(name, content)
    before = room.snapshot()

    room.apply("claude", "codex")
    room.apply("claude", "codex")
    once = room.snapshot()
    room.apply("claude", "codex", "opencode", "gemini", "qwen")
    remove(room.state)

    assert str(once["api/AGENTS.md"]).count("wake-bridge: begin") == 1
    assert room.snapshot() == before


def test_the_block_has_its_files_line_ends_and_is_replaced_in_its_place(room: Room) -> None:
    """What stands before and after it stays as it is, whoever joins the directory."""
    file = room.write("AGENTS.md", b"# Mine\r\n")
    room.apply("codex")
    file.write_bytes(file.read_bytes() + b"\r\n# After\r\n")

    room.apply("codex", "opencode")

    written = file.read_bytes()
    assert written.count(b"\n") == written.count(b"\r\n")
    assert written.startswith(b"# Mine\r\n\r\n<!-- wake-bridge: begin -->\r\n")
    assert written.endswith(b"<!-- wake-bridge: end -->\r\n\r\n# After\r\n")
    assert b"`@opencode`: opencode in" in written


def test_a_file_edited_afterwards_keeps_the_edits_and_loses_our_part_alone(room: Room) -> None:
    """A file edited by the person after us keeps the edits and loses only our block and rules."""
    agents = room.write("AGENTS.md", b"# Mine\n")
    settings = room.write(".claude/settings.local.json", b'{"permissions": {"allow": ["Bash(ls:*)"]}}\n')
    room.apply("claude", "codex")
    agents.write_bytes(b"# Mine, longer\n" + agents.read_bytes().removeprefix(b"# Mine\n") + b"\nand a last word\n")
    settings.write_bytes(settings.read_bytes().replace(b'*)"]', b'*)", "Bash(make:*)"]'))

    remove(room.state)

    assert agents.read_bytes() == b"# Mine, longer\n\nand a last word\n"
    assert json.loads(settings.read_bytes()) == {"permissions": {"allow": ["Bash(ls:*)", "Bash(make:*)"]}}


def test_what_our_rules_replaced_comes_back_word_for_word_after_edits_elsewhere(room: Room) -> None:
    """OpenCode itself adds a line to its configuration; the word that stood for all commands is back all the same."""
    settings = room.write("opencode.json", b'{"permission": {"bash": "ask"}}\n')
    room.apply("opencode")
    settings.write_bytes(settings.read_bytes().replace(b"{", b'{\n  "$schema": "x",', 1))

    remove(room.state)

    assert settings.read_bytes() == b'{\n  "$schema": "x","permission": {"bash": "ask"}}\n'


def test_a_file_of_ours_that_a_person_wrote_into_stays_with_what_they_wrote(room: Room) -> None:
    """Only a file that we created and that still is only ours is deleted."""
    room.apply("claude", "codex")
    claude, agents = room.project / "CLAUDE.md", room.project / "AGENTS.md"
    claude.write_bytes(claude.read_bytes() + b"Be kind.\n")
    agents.write_bytes(agents.read_bytes() + b"\n")
    rules = room.home / ".codex/rules"
    (rules / "mine.rules").write_bytes(b"# mine\n")

    remove(room.state)

    assert claude.read_bytes() == b"Be kind.\n"
    assert not agents.exists()
    assert [path.name for path in rules.iterdir()] == ["mine.rules"]


def test_a_rule_that_was_there_before_us_is_not_ours_to_remove(room: Room) -> None:
    """What the person allowed themselves stays allowed, edited or not."""
    settings = room.write(
        ".claude/settings.local.json", json.dumps({"permissions": {"allow": CLAUDE_RULES[:1]}}).encode()
    )
    room.apply("claude")
    settings.write_bytes(settings.read_bytes() + b"\n")

    remove(room.state)

    assert json.loads(settings.read_bytes()) == {"permissions": {"allow": CLAUDE_RULES[:1]}}


def test_the_record_keeps_no_content_of_the_persons_files(room: Room) -> None:
    """Settings may hold keys: what is kept is our own spot alone, and for the owner alone."""
    room.write(".claude/settings.local.json", b'{\n  "env": {"TOKEN": "hunter2"},\n  "permissions": {"allow": []}\n}\n')
    room.apply("claude")
    record = room.state / "agent_files.json"

    assert "hunter2" not in record.read_text()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


def test_a_link_is_written_through_and_named(room: Room) -> None:
    """Follows no symlink out of the tree without saying; CLAUDE.md is often a link to AGENTS.md."""
    agents = room.write("AGENTS.md", b"shared\n")
    link = room.project / "CLAUDE.md"
    link.symlink_to("AGENTS.md")
    before = room.snapshot()

    told = [
        change
        for change in plan_files([room.agent("claude"), room.agent("codex")], room.home)
        if "instr" in change.what
    ]
    assert [(change.path, change.link) for change in told] == [(agents, link)]
    room.apply("claude", "codex")

    assert link.is_symlink()
    assert agents.read_bytes().count(b"wake-bridge: begin") == 1
    remove(room.state)
    assert room.snapshot() == before


def test_a_link_that_leaves_the_directory_is_said(room: Room, tmp_path: Path) -> None:
    """Follows no symlink out of the tree without saying."""
    elsewhere = tmp_path / "dotfiles.md"
    elsewhere.write_bytes(b"everywhere\n")
    (room.project / "CLAUDE.md").symlink_to(elsewhere)

    (told, _) = plan_files([room.agent("claude")], room.home)

    assert told.path == elsewhere
    assert told.link == room.project / "CLAUDE.md"
    assert f"{room.project / 'CLAUDE.md'} leads there" in told.what


@pytest.mark.parametrize(
    ("harness", "name"), [("claude", ".claude/settings.local.json"), ("opencode", "opencode.json")]
)
@pytest.mark.parametrize(
    "broken",
    [
        b'{"permissions": {"allow": ["a"',
        b"[]",
        b'{"permissions": {}, "permissions": {}}',
        b"\xff\xfe{}",
    ],
)
def test_settings_that_cannot_be_read_are_refused_and_nothing_is_changed(
    room: Room, broken: bytes, harness: str, name: str
) -> None:
    """Refuses unreadable or invalid JSON with a clear error and changes nothing."""
    file = room.write(name, broken)
    before = room.snapshot()

    with pytest.raises(OperationFailed) as refusal:
        room.apply(harness)

    assert refusal.value.where == str(file)
    assert refusal.value.hint
    assert room.snapshot() == before


@pytest.mark.parametrize("odd", [b'{"permissions": {"allow": "all"}}', b'{"permissions": []}'])
def test_settings_of_another_shape_are_refused(room: Room, odd: bytes) -> None:
    """What is not understood is not written."""
    file = room.write(".claude/settings.local.json", odd)

    with pytest.raises(OperationFailed, match="permissions"):
        room.apply("claude")

    assert file.read_bytes() == odd


def test_a_link_to_nothing_and_a_link_in_a_circle_are_refused(room: Room) -> None:
    """A file is never made where somebody's broken link points."""
    link = room.project / "CLAUDE.md"
    for target in ("nowhere.md", "CLAUDE.md"):
        link.symlink_to(target)
        with pytest.raises(OperationFailed):
            plan_files([room.agent("claude")], room.home)
        link.unlink()


def test_a_file_that_changed_since_the_plan_is_not_written(room: Room) -> None:
    """Nobody's edit between plan and writing is lost."""
    file = room.write("AGENTS.md", b"one\n")
    changes = plan_files([room.agent("codex")], room.home)
    file.write_bytes(b"two\n")

    with pytest.raises(OperationFailed, match="meanwhile"):
        apply(changes, room.state)

    assert file.read_bytes() == b"two\n"
    assert not (room.home / ".codex").exists()


def test_if_one_file_cannot_be_written_none_is(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or none: what was written before the failure gets its content back, and what was made goes."""
    room.write("AGENTS.md", b"one\n")
    room.apply("claude")
    before, record = room.snapshot(), read_files_record(room.state)
    changes = plan_files([room.agent("codex"), room.agent("gemini")], room.home)
    full = room.home / ".gemini/policies/wake-bridge.toml"

    def replace(path: Path, content: bytes) -> None:
        if path == full:
            raise OperationFailed("no space is left", str(path))
        replace_content(path, content)

    monkeypatch.setattr("wake_bridge.integrations.agent_files.plan.replace_content", replace)

    with pytest.raises(OperationFailed, match="no space"):
        apply(changes, room.state)

    assert room.snapshot() == before
    assert read_files_record(room.state) == record


def test_taking_back_leaves_alone_what_cannot_be_told_apart(room: Room) -> None:
    """A broken file is named, stays as it is, and stays on record."""
    settings = room.write(".claude/settings.local.json", b'{"model": "x"}')
    room.apply("claude")
    settings.write_bytes(b"{ broken")

    removals = remove(room.state)

    (left,) = [one for one in removals if one.trouble]
    assert left.path == settings
    assert "by hand" in left.trouble
    assert settings.read_bytes() == b"{ broken"
    assert [entry.path for entry in read_files_record(room.state)] == [str(settings)]
    assert not (room.project / "CLAUDE.md").exists()


@pytest.mark.parametrize("lost", [b"<!-- wake-bridge: begin -->\n", b"<!-- wake-bridge: end -->\n"])
def test_a_block_that_lost_a_mark_is_named_and_nobodys_words_go_with_it(room: Room, lost: bytes) -> None:
    """A block is taken back by both its marks; with one of them nobody can say where it ends, so it is said and left."""
    file = room.write("AGENTS.md", b"# Mine\n")
    room.apply("codex")
    damaged = file.read_bytes().replace(lost, b"") + b"and what I wrote below\n"
    file.write_bytes(damaged)

    with pytest.raises(OperationFailed, match="cannot be identified"):
        room.apply("codex")
    (left,) = [one for one in remove(room.state) if one.trouble]

    assert left.path == file
    assert "by hand" in left.trouble
    assert file.read_bytes() == damaged
    assert [entry.path for entry in read_files_record(room.state)] == [str(file)]


def test_a_block_edited_inside_goes_and_the_last_line_is_without_its_end_again(room: Room) -> None:
    """User files byte-identical to before, also where the person changed a word of ours."""
    file = room.write("AGENTS.md", b"# Mine\nno end")
    room.apply("codex")
    file.write_bytes(file.read_bytes().replace(b"To read the mail", b"To READ the mail"))

    remove(room.state)

    assert file.read_bytes() == b"# Mine\nno end"


def test_a_block_behind_a_link_of_another_name_is_found_after_edits(room: Room) -> None:
    """The marks are those of the name that the harness reads, wherever its link leads."""
    notes = room.write("notes.md", b"notes\n")
    (room.project / "AGENTS.md").symlink_to(notes)
    room.apply("codex")
    notes.write_bytes(b"more " + notes.read_bytes())

    remove(room.state)

    assert notes.read_bytes() == b"more notes\n"


def test_files_that_are_gone_are_no_trouble(room: Room) -> None:
    """Somebody removed a file themselves: there is nothing left to take back."""
    room.apply("claude", "codex")
    (room.project / "CLAUDE.md").unlink()

    assert not [one for one in plan_removal(read_files_record(room.state)) if one.trouble]
    remove(room.state)

    assert not read_files_record(room.state)


def git(directory: Path, *arguments: str) -> str:
    """Git answers, with a person of its own."""
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=directory, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("is_work_tree", [False, True])
def test_what_is_new_in_a_repository_is_known_and_hidden_and_shown_again(tmp_path: Path, *, is_work_tree: bool) -> None:
    """An untracked CLAUDE.md is said first; .git/info/exclude hides it, also of a second agent, and comes back."""
    home, repository = tmp_path, tmp_path / "re [po]*"
    repository.mkdir()
    git(repository, "init", "-q")
    (repository / "GEMINI.md").write_text("theirs\n")
    (repository / ".gitignore").write_text("AGENTS.md\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "start")
    work = repository
    if is_work_tree:
        work = tmp_path / "tree"
        git(repository, "worktree", "add", "-q", str(work))
    exclude = repository / ".git/info/exclude"
    before = exclude.read_bytes()
    (work / "a b").mkdir()
    state = tmp_path / "state"

    def write(*agents: SetupAgent) -> list[Path]:
        changes = plan_files(agents, home)
        found = untracked_files(changes, read_files_record(state))
        apply([*changes, *plan_excludes(found)], state)
        return [one.path.relative_to(work) for one in found]

    claude = [SetupAgent("@claude", "claude", place, "a:0.0") for place in (work, work / "a b")]
    assert write(SetupAgent("@g", "gemini", work, "a:0.1"), SetupAgent("@x", "codex", work, "a:0.2")) == []
    files = [Path("CLAUDE.md"), Path(".claude/settings.local.json")]
    assert sorted(write(claude[0])) == sorted(files)
    assert sorted(write(claude[1])) == sorted(Path("a b") / one for one in files)
    assert git(work, "status", "--porcelain").split() == ["M", "GEMINI.md"]
    assert git(work, "status", "--porcelain", "--ignored", "--untracked-files=all").count("CLAUDE.md") == 2
    assert {one.trouble for one in remove(state)} == {""}
    assert exclude.read_bytes() == before
    assert git(work, "status", "--porcelain") == ""


def test_outside_a_repository_nothing_is_untracked(room: Room) -> None:
    """There is nothing to say, and nothing to write."""
    changes = plan_files([room.agent("claude")], room.home)
    assert untracked_files(changes, ()) == []
    assert plan_excludes([]) == []
