"""`panes`: every pane of the user's own servers, and a name for each that outlives the server."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from wake_bridge_adapters.tables import TmuxConfig

from wake_bridge.ports.adapter import PaneLister, Place, Sight, Sights

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene

LookAround = Callable[[], Sights]


@pytest.fixture(autouse=True)
def tmux_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of sockets of its own: what else runs on the machine must not be listed."""
    with tempfile.TemporaryDirectory(prefix="wbt-") as directory:
        monkeypatch.setenv("TMUX_TMPDIR", directory)
        yield Path(directory) / f"tmux-{os.getuid()}"


@pytest.fixture
def sights(tmux_directory: Path, scene: Scene) -> LookAround:  # noqa: ARG001 - asked for before the server starts
    def look() -> Sights:
        adapter = scene.new_adapter()
        assert isinstance(adapter, PaneLister)
        return asyncio.run(adapter.list_panes())

    return look


def by_id(found: Sights) -> dict[str, Sight]:
    return {one.pane_id: one for one in found.seen}


def quiet_pane(scene: Scene, session: str, *options: str) -> str:
    """A pane without an agent, in a new window; its id."""
    target = ("new-window", "-t", f"{session}:")
    if scene.tmux.server_pid == 0 or session not in scene.tmux.run("list-sessions", "-F", "#{session_name}").split():
        target = ("new-session", "-s", session)
    return str(scene.tmux.run(*target, "-d", "-P", "-F", "#{pane_id}", *options, "exec sleep 600").strip())


def test_an_agent_is_told_with_its_directory_and_a_name_the_resolver_reads_as_its_pane(
    scene: Scene, sights: LookAround
) -> None:
    """Harness recognised, cwd, and a name it could be bound by, not `%id`."""
    resident = scene.resident()
    other = quiet_pane(scene, "agents", "-n", "notes", "-c", "/")

    seen = by_id(sights())

    agent, notes = seen[resident.id], seen[other]
    assert (agent.harness, agent.directory) == ("fake", Path.cwd())
    assert (notes.harness, notes.who, notes.directory) == ("", "sleep has the terminal", Path("/"))
    assert (notes.name, notes.doubts) == ("agents:notes.0", ())
    for one in seen.values():
        place = scene.place(one.name)
        assert (place.key, place.label) == (one.place.key, one.place.label)


@pytest.mark.parametrize(
    ("windows", "names"),
    [
        (["api", "web"], ["work:api.0", "work:web.0"]),
        (["api", "api"], ["work:0.0", "work:1.0"]),
        (["1", "web"], ["work:0.0", "work:web.0"]),
        (["api", "api.0"], ["work:0.0", "work:api.0.0"]),
        ([" ", "c'est à moi"], ["work:0.0", "work:c'est à moi.0"]),
    ],
    ids=["a name each", "the same name", "another's index", "a name that hides another", "a blank one"],
)
def test_a_pane_has_one_name_wherever_it_is_told_of(
    scene: Scene, sights: LookAround, windows: list[str], names: list[str]
) -> None:
    """What `panes` calls a pane, `list`, `deliveries`, `status` and `presence` call it too."""
    for window in windows:
        quiet_pane(scene, "work", "-n", window)

    seen = sights().seen

    assert [one.name for one in seen] == names
    for one in seen:
        assert one.place.label == one.name
        assert [scene.place(target).label for target in (one.name, one.pane_id)] == [one.name, one.name]


def test_a_window_named_after_its_program_goes_by_its_index_and_that_is_said(scene: Scene, sights: LookAround) -> None:
    """Say when a name is unstable, e.g. automatic-rename or index only."""
    resident = scene.resident()

    one = by_id(sights())[resident.id]
    assert one.name == "agents:0.0"
    assert ["named after the program" in doubt for doubt in one.doubts] == [True]

    scene.tmux.run("rename-window", "-t", resident.id, "api")
    one = by_id(sights())[resident.id]
    assert (one.name, one.doubts) == ("agents:api.0", ())


def test_doubts_about_numbers_shared_windows_and_renumbering_are_said(scene: Scene, sights: LookAround) -> None:
    """A name that may come to mean another pane is never given without a word."""
    resident = scene.resident()
    numbered = quiet_pane(scene, "7", "-n", "x")
    scene.tmux.run("split-window", "-d", "-t", resident.id, "exec sleep 600")
    scene.tmux.run("set-option", "-t", "agents", "renumber-windows", "on")

    seen = by_id(sights())

    told = " ".join(seen[resident.id].doubts)
    assert "indexes move up (renumber-windows)" in told
    assert "panes have only indexes" in told
    assert any("a number for a name" in doubt for doubt in seen[numbered].doubts)


def test_two_windows_of_one_name_are_told_apart_by_their_indexes(scene: Scene, sights: LookAround) -> None:
    """Say when a name is ambiguous."""
    first = quiet_pane(scene, "agents", "-n", "api")
    second = quiet_pane(scene, "agents", "-n", "api")

    seen = by_id(sights())

    assert [seen[one].name for one in (first, second)] == ["agents:0.0", "agents:1.0"]
    assert all("more than one window answers to 'api'" in seen[one].doubts[0] for one in (first, second))


@pytest.mark.parametrize("window", ["1", "a.0", "x:y.z", "%1", "api v2 ✓", '"q" \\ #{pid}', "0.0"])
def test_odd_window_names_get_a_name_that_means_their_pane_or_none(
    scene: Scene, sights: LookAround, window: str
) -> None:
    """Names are other people's text: whatever is answered is read back as exactly that pane."""
    panes = [quiet_pane(scene, "agents", "-n", name) for name in ("first", window, "last")]

    seen = by_id(sights())

    for pane in panes:
        found = scene.resolve(scene.address(seen[pane].name))
        assert isinstance(found, Place)
        assert found.key == seen[pane].place.key


def test_a_pane_that_no_name_can_mean_says_so(scene: Scene, sights: LookAround) -> None:
    """A session whose name reads as an id cannot be named exactly: better none than a wrong one."""
    pane = quiet_pane(scene, "%12")

    one = by_id(sights())[pane]

    assert one.name == ""
    assert "rename its session or window" in one.doubts[0]


def test_a_pane_that_several_sessions_show_is_listed_once_under_the_oldest(scene: Scene, sights: LookAround) -> None:
    """Grouped sessions and linked windows show one pane twice; it is one agent."""
    pane = quiet_pane(scene, "zeta", "-n", "api")
    scene.tmux.run("new-session", "-d", "-t", "zeta", "-s", "alpha")

    found = [one for one in sights().seen if one.pane_id == pane]

    assert [one.name for one in found] == ["zeta:api.0"]


def test_panes_of_other_servers_of_the_user_are_listed_with_their_socket(
    scene: Scene, sights: LookAround, tmux_directory: Path
) -> None:
    """Every pane of the user's servers; the configured one needs no socket, the others do."""
    here = quiet_pane(scene, "agents", "-n", "here")
    other = tmux_directory / "work"
    command = ["tmux", "-S", str(other), "-f", "/dev/null"]
    subprocess.run([*command, "new-session", "-d", "-s", "there", "-n", "w", "exec sleep 600"], check=True)
    try:
        seen = {(one.name, one.socket) for one in sights().seen}
        unconfigured = scene.new_adapter(TMUX=f"{other},1,0")
        unconfigured._config = TmuxConfig()
        from_inside = {(one.name, one.socket) for one in asyncio.run(unconfigured.list_panes()).seen}
    finally:
        subprocess.run([*command, "kill-server"], check=True)

    assert here
    assert seen == {("agents:here.0", ""), ("there:w.0", str(other))}
    # a daemon that is started elsewhere does not know which server this process was in
    assert from_inside == {("agents:here.0", str(scene.tmux.socket_path)), ("there:w.0", str(other))}


def test_sockets_that_servers_left_behind_and_files_that_are_none_are_passed_over(
    scene: Scene, sights: LookAround, tmux_directory: Path
) -> None:
    """Tmux leaves its socket when it is killed; nobody wants to read of it."""
    quiet_pane(scene, "agents")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(tmux_directory / "left"))
    (tmux_directory / "notes.txt").write_text("no socket")

    found = sights()

    assert len(found.seen) == 1
    assert found.silent == []


def test_a_server_that_does_not_answer_is_named_and_holds_up_no_other(scene: Scene, tmux_directory: Path) -> None:
    """Every external call is bounded; what could not be asked is said."""
    quiet_pane(scene, "agents")
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(str(tmux_directory / "stuck"))
        stuck.listen()
        adapter = scene.new_adapter(timeout=4.0)
        found = asyncio.run(adapter.list_panes())

    assert len(found.seen) == 1
    assert found.silent == [(str(tmux_directory / "stuck"), "tmux did not answer in time")]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a socket to somebody else")
def test_a_socket_of_another_user_is_never_asked(scene: Scene, sights: LookAround, tmux_directory: Path) -> None:
    """Own uid's sockets only."""
    quiet_pane(scene, "agents")
    with socket.socket(socket.AF_UNIX) as theirs:
        path = tmux_directory / "theirs"
        theirs.bind(str(path))
        theirs.listen()
        theirs.setblocking(False)
        os.chown(path, 12345, 12345)
        found = sights()
        with pytest.raises(BlockingIOError):
            theirs.accept()

    assert len(found.seen) == 1
    assert found.silent == []


def test_the_version_is_read_from_the_programs_files_and_the_program_is_not_run(
    scene: Scene, sights: LookAround, tmp_path: Path
) -> None:
    """Version; read from path and package.json, never by running the program."""
    package = tmp_path / "node_modules/@anthropic-ai/claude-code"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@anthropic-ai/claude-code", "version": "2.1.332"}')
    runs = tmp_path / "runs"
    program = package / "claude"
    program.write_text(
        f"#!{sys.executable}\nimport time\nwith open({str(runs)!r}, 'a') as out: out.write('run ')\ntime.sleep(600)\n"
    )
    program.chmod(0o755)
    pane = scene.tmux.new_pane([str(program)], session="agents")
    scene.tmux.waits_until(pane, lambda _: runs.exists() and runs.read_text() != "")

    one = by_id(sights())[str(pane.pane_id)]

    assert (one.harness, one.version) == ("claude", "2.1.332")
    assert runs.read_text() == "run "


def test_a_dead_pane_has_no_agent(scene: Scene, sights: LookAround) -> None:
    """The program ended and the pane remains: nobody is there."""
    scene.resident("keeper")
    scene.tmux.run("set-option", "-g", "remain-on-exit", "on")
    resident = scene.resident()
    resident.fake.shows("exit")
    scene.tmux.waits_until(resident.pane, lambda look: look.flags["pane_dead"] == "1")

    one = by_id(sights())[resident.id]

    assert (one.harness, one.who) == ("", "the program has ended")


@pytest.mark.parametrize(
    "cause",
    [
        "named after its program",
        "one name for two",
        "beside an agent",
        "beside a shell",
        "a numbered session",
        "a name for none",
    ],
)
def test_the_commands_for_a_name_that_lasts_help_when_they_are_taken_literally(
    scene: Scene, sights: LookAround, cause: str
) -> None:
    """Socket and ids stand in them, quoted; afterwards no doubt is left, and every name means its own agent."""
    first = scene.resident()
    panes = {first.id}
    elsewhere = quiet_pane(scene, "somewhere else", "-n", "it's quiet")
    match cause:
        case "one name for two":
            second = scene.resident()
            for one in (first, second):
                scene.tmux.run("rename-window", "-t", one.id, "a'; $(b)")
            panes.add(second.id)
        case "beside an agent":
            second = scene.resident()
            scene.tmux.run("rename-window", "-t", first.id, "api")
            scene.tmux.run("join-pane", "-d", "-s", second.id, "-t", first.id)
            panes.add(second.id)
        case "beside a shell":
            scene.tmux.run("split-window", "-d", "-b", "-t", first.id, "exec sleep 600")
        case "a numbered session":
            scene.tmux.run("rename-session", "-t", "agents", "7")
        case "a name for none":
            scene.tmux.run("rename-session", "-t", "agents", "%12")
    before = by_id(sights())
    assert all(before[one].doubts and before[one].lasting for one in panes)

    for command in dict.fromkeys(command for one in panes for command in before[one].lasting):
        assert f"-S {before[first.id].server} " in command
        subprocess.run(["sh", "-c", command], check=True, env={"PATH": os.environ["PATH"]})

    after = by_id(sights())
    for pane in panes:
        assert (after[pane].doubts, after[pane].lasting) == ((), ())
        assert after[pane].place.key == before[pane].place.key
        assert scene.place(after[pane].name).key == after[pane].place.key
    assert after[elsewhere].name == before[elsewhere].name
