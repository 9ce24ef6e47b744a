"""The marked block in the configuration: written, kept, and taken out without a trace."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wake_bridge.config.file import BlockTarget, read_block, remove_block, write_block
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety

TARGETS = {"@claude-api": BlockTarget("agents:api.0"), "@codex": BlockTarget("work:1.0", "/tmp/tmux-1/work")}

FILES = {
    "empty": b"",
    "comment": b"# mine\n",
    "tables": b'[graph]\n# path\npath = "g.sqlite"   # here\n\n[targets."@neo"]\npane = "a:0.0"\n',
    "no newline at the end": b"[policy]\ndefault = 'immediate'",
    "windows": b'[graph]\r\npath = "x"\r\n',
    "windows without an end": b'[graph]\r\npath = "x"',
    "dotted": b'daemon.log_level = "debug"\ntargets."@neo".pane = "a:0.0"\n',
    "only a newline": b"\n",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
def test_the_file_is_the_same_byte_for_byte_after_the_block_came_and_went(file: Path, content: bytes) -> None:
    """User files byte-identical to before."""
    file.write_bytes(content)

    assert write_block(file, TARGETS)
    assert file.read_bytes().startswith(content)
    assert read_block(file) == TARGETS
    assert tomllib.loads(file.read_text())["targets"]["@codex"] == {"pane": "work:1.0", "socket": "/tmp/tmux-1/work"}
    assert remove_block(file)

    assert file.read_bytes() == content


def test_the_same_targets_again_write_nothing(file: Path) -> None:
    """Safe to repeat, second run changes nothing."""
    file.write_bytes(b"# mine\n")
    write_block(file, TARGETS)
    before = file.stat()

    assert not write_block(file, TARGETS)
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert file.stat().st_ino == before.st_ino


def test_a_block_in_the_middle_is_replaced_where_it_stands(file: Path) -> None:
    """What somebody appended behind the block stays behind it, and stays when the block goes."""
    file.write_bytes(b"# above\n")
    write_block(file, TARGETS)
    with file.open("ab") as stream:
        stream.write(b'\n[policy]\ndefault = "silent"\n')

    write_block(file, {"@codex": BlockTarget("agents:9.0")})

    assert read_block(file) == {"@codex": BlockTarget("agents:9.0")}
    assert file.read_bytes().endswith(b'# <<< wake-bridge setup\n\n[policy]\ndefault = "silent"\n')
    remove_block(file)
    assert file.read_bytes() == b'# above\n\n[policy]\ndefault = "silent"\n'


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b'[targets."@codex"]\npane = "mine:0.0"\n', RefusedForSafety, "@codex is configured by hand already"),
        (b'targets = {"@neo" = {pane = "a:0.0"}}\n', OperationFailed, "the targets cannot be written into this file"),
        (b"# <<< wake-bridge setup\n", OperationFailed, "is damaged"),
        (b"# >>> wake-bridge setup\n[targets]\n", OperationFailed, "is damaged"),
        (b"not toml at all\n", OperationFailed, "cannot be written into this file"),
        (b"\xff\xfe\n", OperationFailed, "cannot be written into this file"),
    ],
    ids=["by hand", "inline", "end only", "begin only", "no toml", "no utf-8"],
)
def test_a_file_that_cannot_take_the_block_is_refused_and_not_touched(
    file: Path, content: bytes, error: type[Exception], words: str
) -> None:
    """Refuse with a clear error; nothing is half written."""
    file.write_bytes(content)

    with pytest.raises(error, match=words):
        write_block(file, TARGETS)

    assert file.read_bytes() == content
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_keys_that_would_change_their_table_are_refused(file: Path) -> None:
    """A key behind the block belongs to the block's last table; without the block it would belong to another one."""
    file.write_bytes(b'[policy]\ndefault = "silent"\n')
    write_block(file, TARGETS)
    with file.open("ab") as stream:
        stream.write(b"window = 60\n")
    before = file.read_bytes()

    with pytest.raises(RefusedForSafety, match="would come to mean something else"):
        remove_block(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('pane = "work:1.0"', 'pane = "work:1.0"\nwindow = 5'),
        lambda text: text.replace('pane = "work:1.0"', 'pane = "work:1.0"  # moved'),
        lambda text: text.replace('[targets."@codex"]', '[policy]\ndefault = "silent"\n[targets."@codex"]'),
        lambda text: text.replace('pane = "work:1.0"\n', ""),
    ],
    ids=["a key", "a comment", "a table", "a key less"],
)
def test_a_block_that_somebody_changed_is_not_overwritten(file: Path, edit: object) -> None:
    """What a person wrote is never lost, not even in our block."""
    assert callable(edit)
    write_to = file
    write_to.write_bytes(b"")
    write_block(file, TARGETS)
    file.write_text(edit(file.read_text()))
    before = file.read_bytes()

    for act in (read_block, remove_block):
        with pytest.raises(RefusedForSafety, match="was changed by hand"):
            act(file)
    assert file.read_bytes() == before


def test_a_target_moved_out_of_the_block_is_the_persons_from_then_on(file: Path) -> None:
    """The hint of that refusal works."""
    file.write_bytes(b"")
    write_block(file, TARGETS)
    text = file.read_text()
    moved = '[targets."@codex"]\npane = "work:1.0"\nsocket = "/tmp/tmux-1/work"\n'
    file.write_text(moved + "window = 5\n" + text.replace(moved, ""))

    assert read_block(file) == {"@claude-api": TARGETS["@claude-api"]}
    assert not write_block(file, {"@claude-api": TARGETS["@claude-api"]})


def test_a_link_stays_a_link_and_rights_stay_as_they_are(file: Path, tmp_path: Path) -> None:
    """Configurations live in dotfile repositories: the file behind the link is written, with its own rights."""
    real = tmp_path / "dotfiles" / "wake.toml"
    real.parent.mkdir()
    real.write_bytes(b"# mine\n")
    real.chmod(0o640)
    file.symlink_to(real)

    write_block(file, TARGETS)

    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert read_block(real) == TARGETS


def test_a_file_with_pane_ids_keeps_its_time(file: Path) -> None:
    """Ids restart with the server, and the file's time dates them: an old `%5` must not look fresh."""
    long_ago = 1_600_000_000
    for content, is_kept in ((b'[targets."@neo"]\npane = "%5"\n', True), (b"# mine\n", False)):
        file.write_bytes(content)
        os.utime(file, (long_ago, long_ago))
        write_block(file, TARGETS)
        assert (file.stat().st_mtime == long_ago) is is_kept


def test_a_file_that_is_not_there_has_no_block(file: Path) -> None:
    """`uninstall` after the file was removed by hand."""
    assert read_block(file) == {}
    assert not remove_block(file)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pane=NAMES, content=st.sampled_from(sorted(FILES.values())))
def test_any_name_comes_back_as_it_was_written(file: Path, pane: str, content: bytes) -> None:
    """Session and window names are other people's text: quotes, backslashes, `#` and controls included."""
    file.write_bytes(content)
    targets = {"@a": BlockTarget(pane), "@b": BlockTarget("x:0.0", f"/tmp/{pane}")}

    write_block(file, targets)

    assert read_block(file) == targets
    remove_block(file)
    assert file.read_bytes() == content
