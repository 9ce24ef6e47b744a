"""The AppleScripts are files, bounded, fed by arguments, and all described (docs/macos.md)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "adapters/wake_bridge_adapters/osascript/scripts").glob("*.applescript"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_takes_arguments_and_asks_within_a_time_limit(script: Path) -> None:
    """Text only as argv, a time-out inside."""
    source = script.read_text(encoding="utf-8")

    assert "on run argv" in source
    assert "with timeout of 8 seconds" in source
    assert source.count("do shell script") == source.count('do shell script "/usr/sbin/ioreg -c IOHIDSystem')


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_is_described(script: Path) -> None:
    """docs/macos.md is what the stand-in is written from."""
    page = (ROOT / "docs" / "macos.md").read_text(encoding="utf-8")

    assert f"`{script.stem}`" in page


@pytest.mark.skipif(sys.platform != "darwin", reason="osacompile exists on macOS only")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_compiles(script: Path, tmp_path: Path) -> None:
    """The macOS job of the CI matrix."""
    if "iterm" in script.stem and not Path("/Applications/iTerm.app").exists() and not os.environ.get("CI"):
        pytest.skip("iTerm2 is not installed: its dictionary is needed")
    compiler = shutil.which("osacompile")
    assert compiler is not None

    subprocess.run([compiler, "-o", str(tmp_path / "out.scpt"), str(script)], check=True, timeout=60)
