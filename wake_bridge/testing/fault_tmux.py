"""A tmux that fails when it is planned: first on PATH, it counts calls and becomes the real one for all but one of them.

Ways to fail: `fails` (exit 1, nothing done) · `killed` (nothing done) · `garbage` (exit 0 and noise, nothing done) ·
`hangs` (nothing done, no answer) · `unsaid` (done, then exit 1 without a word) · `mute` (done, then no answer).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from wake_bridge.testing import fault_plan

TMUX: Final = "tmux"
WAYS: Final = ("fails", "killed", "garbage", "hangs", "unsaid", "mute")
_EXECUTABLE: Final = 0o700
_STAND_IN: Final = """#!{python} -SE
import os, sys
sys.path.append({modules!r})
from fault_plan import FaultPlan
REAL = {real!r}
way = FaultPlan({directory!r}).meets("tmux", " ".join(sys.argv[1:]))
if not way:
    os.execv(REAL, ["tmux", *sys.argv[1:]])
import signal, subprocess, time
if way in ("unsaid", "mute"):
    subprocess.run([REAL, *sys.argv[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if way in ("hangs", "mute"):
    time.sleep(3600)
if way == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if way == "garbage":
    os.write(1, bytes(range(256)) * 4)
    sys.exit(0)
os.write(2, b"" if way == "unsaid" else b"an error that was planned\\n")
sys.exit(1)
"""


def stand_in_for_tmux(directory: Path, plan: Path, real: str) -> Path:
    """Write the stand-in into a directory of its own, to come first on PATH; answers that directory.

    Args:
        directory: an empty directory.
        plan: the directory of the `FaultPlan`.
        real: the path of the real tmux.
    """
    program = directory / TMUX
    modules = str(Path(fault_plan.__file__).parent)
    text = _STAND_IN.format(python=sys.executable, modules=modules, real=real, directory=str(plan))
    program.write_text(text, encoding="utf-8")
    program.chmod(_EXECUTABLE)
    return directory
