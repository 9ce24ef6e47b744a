"""Where `wake-bridge` begins: answers what needs no command line before importing its library.

Most of a short command's time is imports. What a shell or a harness asks for at every turn must not wait for them:
what stands here, in `streams` and in `integrations/hook` imports not even `typing`, which alone costs as much as the
interpreter's own start.
"""

from __future__ import annotations

import gc
import os
import sys

from wake_bridge.cli.streams import NO_ROOM, NOBODY_READS, arguments_given, prepare_streams, stop_writing

_COLLECT_AFTER = 50_000
"""New objects between two looks for garbage. A command makes about as many, and most of them are modules, which are none.

`system/garbage.py` takes this back in what serves for hours.
"""


def main() -> None:
    """The console script."""
    _speak_utf8()
    arguments = sys.argv[1:]
    if arguments[:1] == ["hook"] and not any(one.startswith("-") for one in arguments):
        _serve_hook(arguments[1:])
    if arguments == ["claude", "monitor"]:
        _wait_for_wakes()
    prepare_streams()
    if arguments == ["--version"]:
        from wake_bridge.program_version import PROGRAM, program_version

        sys.exit(_say(f"{PROGRAM} {program_version()}"))
    gc.set_threshold(_COLLECT_AFTER)
    from wake_bridge.cli.app import cli

    try:
        cli.main()
    finally:
        # at its end the interpreter looks for garbage in all that was imported, a sixth of a short command; frozen objects are left out
        gc.freeze()


def _speak_utf8() -> None:
    """Begin again in Python's UTF-8 mode where the locale is none of UTF-8.

    Names of files and arguments of programs could not hold what mail, tmux and people write: a notice, or the whole
    command, would be lost. Children are started in the person's own locale, as before.
    """
    if sys.getfilesystemencoding() == "utf-8" or not sys.executable:
        sys.argv[1:] = arguments_given()
        return
    try:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - ourselves
    except OSError:
        return  # as well as it goes


def _serve_hook(arguments: list[str]) -> None:
    """Serve a harness's hook and exit, if that is what is asked for: every tool that its agent uses waits for it."""
    from wake_bridge.integrations.hook.caller import HARNESSES

    if arguments and arguments[0] in HARNESSES:
        from wake_bridge.integrations.hook.program import run

        run(arguments)


def _wait_for_wakes() -> None:
    """Be a harness's monitor: one stays in every session for hours, and has nothing of what commands need."""
    from wake_bridge.integrations.hook.monitor import run

    run()


def _say(line: str) -> int:
    """Print one line; answers the exit code."""
    try:
        print(line, flush=True)  # noqa: T201 - click is not imported yet
    except BrokenPipeError:
        stop_writing()
        return NOBODY_READS
    except OSError:
        stop_writing()
        sys.stderr.write(f"error: {NO_ROOM}\n")
        return 1
    return 0
