"""Checks what docs/macos.md says, on a Mac, and writes a report: `python -m tests.mac_check [--ask] [--report FILE]`.

Elsewhere it runs as far as it can: what needs a Mac is reported as not checked. It ends with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import plistlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wake_bridge_adapters.osascript.scripting import Kind, Records, Scripting, Trouble

ROOT: Final = Path(__file__).parents[1]
SCRIPTS: Final = sorted((ROOT / "adapters/wake_bridge_adapters/osascript/scripts").glob("*.applescript"))
AGENT: Final = ROOT / "launchd/io.wake-bridge.plist"
TIMEOUT: Final = 30.0
"""Seconds for one script: macOS may show a permission dialog first, which a person answers."""

APPLICATIONS: Final = ("Claude", "Codex", "Ghostty")
"""Those that are looked at where they run. Nothing is typed into them."""

HOLDS, FAILS, OPEN = "holds", "does not hold", "not checked"


@dataclass(frozen=True)
class Finding:
    """What became of one claim of the page; `about` is what the page calls it."""

    about: str
    claim: str
    verdict: str
    detail: str

    def __str__(self) -> str:
        return f"{self.verdict:13}  {self.about}: {self.claim}: {self.detail}"


QUESTIONS: Final = {
    "1": "bring the Claude application to the front and press Cmd-Tab at once: is another one in front a moment later?",
    "2": "does Activity Monitor show the process of the Claude application under the name `Claude`?",
    "3": "with Claude in the background: does this report have a `role` for it above?",
    "4": "open a sheet in Claude (such as its settings): does a second run of this report show `dialogs` above 0?",
    "6": "type two lines into Claude's composer: does a second run of this report show them as its `value`?",
    "7": "copy a picture, and run `osascript …/clipboard_kind.applescript`: does it print `other`?",
    "8": "did a permission dialog hold this report up until you answered it?",
    "9": "in iTerm2, with a dim placeholder in an agent's composer: does `wake-bridge presence @id --explain` say `draft`?",
    "10": 'in Terminal: `osascript -e \'tell application "Terminal" to do script "echo hi" in front window\'`: was Return pressed?',
}
"""For the numbered assumptions that only a person can see."""


class MacCheck:
    """All claims, one after another.

    Args:
        environment: whose `PATH` has the system's programs.
        ask: puts a question to the person; None where there is none to ask.
    """

    def __init__(self, environment: Mapping[str, str], ask: Callable[[str], bool | None] | None = None) -> None:
        self._environment = environment
        self._ask = ask
        self._scripting = Scripting(TIMEOUT, environment)
        self._why_not = "" if self._scripting.is_there else f"this is {platform.system()}"

    def findings(self) -> Iterator[Finding]:
        """What became of each claim."""
        yield from self._tmux()
        yield from self._scripts()
        yield from self._agent()
        yield from self._permissions()
        yield from self._terminals()
        yield from self._applications()
        for number, question in QUESTIONS.items():
            yield self._asked(number, question)

    def _tmux(self) -> Iterator[Finding]:
        """The main way."""
        said = self._run("tmux", "-V")
        yield self._of("tmux", "tmux is installed", said)
        if said is None or said.returncode:
            return
        woken = self._run(sys.executable, "-m", "wake_bridge", "--json", "demo", seconds=300)
        yield self._of("tmux", "a wake reaches an agent in a pane, once (`wake-bridge demo`)", woken)

    def _scripts(self) -> Iterator[Finding]:
        """Each compiles; iTerm2's need its dictionary."""
        with tempfile.TemporaryDirectory() as directory:
            for script in SCRIPTS:
                if "iterm" in script.stem and not self._why_not and not Path("/Applications/iTerm.app").exists():
                    yield Finding("scripts", script.stem, OPEN, "iTerm2 is not installed")
                    continue
                said = self._run("osacompile", "-o", f"{directory}/{script.stem}.scpt", str(script))
                yield self._of("scripts", f"{script.stem} compiles", said)

    def _agent(self) -> Iterator[Finding]:
        content = plistlib.loads(AGENT.read_bytes())
        lives = content.get("LimitLoadToSessionType") == "Aqua"
        yield Finding(
            "launchd", "the agent lives in the Aqua session", HOLDS if lives else FAILS, str(content["Label"])
        )
        yield self._of("launchd", "the agent is well-formed", self._run("plutil", "-lint", str(AGENT)))

    def _permissions(self) -> Iterator[Finding]:
        found = self._script("app_find", "Finder")
        yield self._answered("-1743", "Automation is allowed", found)
        pid = found[0][0] if isinstance(found, list) and found else "0"
        look = self._script("app_look", pid)
        yield self._answered("-25211", "Accessibility is allowed", look)
        idle = look[0][1] if isinstance(look, list) and look and len(look[0]) > 1 else ""
        is_number = idle.replace(".", "", 1).isdecimal()
        verdict = HOLDS if is_number else OPEN if self._why_not or isinstance(look, Trouble) else FAILS
        yield Finding("5", "idle seconds are told", verdict, self._why_not or idle or "the look failed")
        yield self._answered("7", "the kind of the clipboard is told", self._script("clipboard_kind"))

    def _terminals(self) -> Iterator[Finding]:
        for terminal, application in (("iterm", "iTerm2"), ("terminal", "Terminal")):
            running = self._script("app_find", application)
            if isinstance(running, list) and not running:
                yield Finding(application, "its sessions are listed", OPEN, f"{application} is not running")
                continue
            yield self._answered(application, "its sessions are listed", self._script(f"{terminal}_list"))

    def _applications(self) -> Iterator[Finding]:
        for name in APPLICATIONS:
            found = self._script("app_find", name)
            if isinstance(found, list) and not found:
                yield Finding(name, "its composer can be read", OPEN, f"{name} is not running")
                continue
            look = found if isinstance(found, Trouble) else self._script("app_look", found[0][0])
            yield self._answered(name, "its composer can be read", look)

    def _asked(self, number: str, question: str) -> Finding:
        answer = None if self._why_not or self._ask is None else self._ask(f"{number}. {question}")
        if answer is None:
            return Finding(number, question, OPEN, self._why_not or "needs a person: --ask")
        return Finding(number, question, HOLDS if answer else FAILS, "a person says so")

    def _script(self, script: str, *arguments: str) -> Records | Trouble:
        return asyncio.run(self._scripting.run(script, *arguments))

    def _answered(self, about: str, claim: str, answer: Records | Trouble) -> Finding:
        if self._why_not:
            return Finding(about, claim, OPEN, self._why_not)
        if isinstance(answer, Trouble):
            waits = self._ask is None and answer.kind in {Kind.PERMISSION, Kind.TIME}
            return Finding(about, claim, OPEN if waits else FAILS, str(answer))
        # what is longer may be personal
        shown = "; ".join(
            ", ".join(f"{len(one)} characters" if len(one) > 40 else one for one in row) for row in answer
        )
        return Finding(about, claim, HOLDS, shown or "nothing there")

    def _run(self, *command: str, seconds: float = TIMEOUT) -> subprocess.CompletedProcess[str] | None:
        """What a program said; None where the system has none of that name."""
        found = shutil.which(command[0], path=self._environment.get("PATH"))
        if found is None:
            return None
        try:
            return subprocess.run(
                [found, *command[1:]],
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no answer within {seconds:g} s")

    def _of(self, about: str, claim: str, said: subprocess.CompletedProcess[str] | None) -> Finding:
        if said is None:
            why = self._why_not or "there is no such program here"
            return Finding(about, claim, OPEN if self._why_not else FAILS, why)
        words = (said.stdout if said.returncode == 0 else said.stderr or said.stdout).strip().splitlines()
        return Finding(
            about, claim, FAILS if said.returncode else HOLDS, words[0][:120] if words else "it said nothing"
        )


def asked_of_a_person(question: str) -> bool | None:
    """Their answer; None for anything but y and n."""
    return {"y": True, "n": False}.get(input(f"{question} [y/n/Return: skip] ").strip().lower())


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, print, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mac_check", description=__doc__)
    parser.add_argument("--ask", action="store_true", help="ask you what only a person can see")
    parser.add_argument("--report", type=Path, default=Path("mac-report.txt"), help="where the report goes")
    options = parser.parse_args(arguments)
    lines = [f"macOS {platform.mac_ver()[0] or '-'}, {platform.machine()}, Python {platform.python_version()}"]
    findings = []
    for finding in MacCheck(os.environ, asked_of_a_person if options.ask else None).findings():
        print(finding, flush=True)
        findings.append(finding)
    count = {verdict: sum(one.verdict == verdict for one in findings) for verdict in (HOLDS, FAILS, OPEN)}
    lines += [*map(str, findings), ", ".join(f"{number} {verdict}" for verdict, number in count.items())]
    options.report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{lines[-1]}; the report is {options.report}: read it before you send it")
    return 1 if count[FAILS] else 0


if __name__ == "__main__":
    raise SystemExit(main())
