"""What the documents say of commands, options, files and exit codes, held against the program's own tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from wake_bridge.cli.app import cli
from wake_bridge.domain import errors
from wake_bridge.testing.transcript import read_transcript


def _endings(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(len(parts)))


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
OUR_CODE = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("wake_bridge", "adapters")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".toml", ".sql", ".template"}
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
TREE = {
    f"/{part}"
    for folder in ("docs", "tests", "adapters", "wake_bridge", "systemd", "launchd", ".ci", "")
    for path in ((ROOT / folder).rglob("*") if folder else ROOT.glob("*"))
    if "__pycache__" not in path.parts
    for part in _endings(path.relative_to(ROOT).as_posix())
}
"""Every file of the tree, by its path and by each end of it: pages name files without what is plain from the place."""

IN_THE_TREE = ("docs/", "tests/", "adapters/", "wake_bridge/", "systemd/", "launchd/", ".ci/", "decisions/")
MADE_BY_OTHERS = {
    "ai/daemons/wake/daemon.mjs": "the upstream daemon's",
    "package.json": "npm's",
    ".mcp.json": "Claude Code's",
    "kilo.json": "Kilo's",
    "mine.toml": "an example of a profile",
    "wake.sql": "an example of a back-up",
    "busy.json": "an example of a capture",
    "@README.md": "any file that an agent completes",
    "~/.profile": "the shell's",
    "~/.bash_profile": "the shell's",
}
"""Files in the pages that the program neither has nor writes, and whose they are."""

FILE = re.compile(r"[@~$\w.{}/-]*[\w}-]\.(?:json|toml|sqlite|md|py|sock|rules|log|mjs|service|sql)(?!\w)|~/[\w./-]+")
EXIT_CODE = re.compile(r"exit(?:s|ed)?(?: with| code| status)?:? (\d+)\b|ends with (?:exit code )?(\d)\b")


def spans(text: str) -> Iterator[str]:
    """All code of a page: what stands between backticks, and the commands of its blocks."""
    for block in re.findall(r"^ *```(?:console|sh|text)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
        lines = textwrap.dedent(block).splitlines()
        yield from (line.removeprefix("$ ") for line in lines if line.startswith(("$ ", "wake-bridge")))
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (" ".join(one.split()) for one in re.findall(r"`([^`]+)`", prose))


def commands(text: str) -> Iterator[str]:
    """What is called of ours in a page, one command each; what leads up to it or follows it in a line is another's."""
    for span in spans(text):
        for part in re.split(r"&&|;|\||^\$ ", span):
            if found := re.search(r"^(?:.* )?wake-bridge (?=[a-z-])(.*)", part.partition(" #")[0]):
                yield found[1].rstrip()


def trouble_with(line: str) -> str:
    """Why the program does not know such a command; empty where it does."""
    words = line.replace("'", " ").replace('"', " ").split()
    here: click.Command = cli
    options = _options(here)
    while words:
        word, *words = words
        if word.startswith("--"):
            name, sign, _ = word.partition("=")
            if name not in options:
                return f"`{here.name}` has no {name}"
            if words and not sign and not options[name]:
                words.pop(0)
        elif isinstance(here, click.Group):
            below = here.get_command(click.Context(here), word)
            if below is None:
                return f"`{here.name}` has no command {word!r}"
            here = below
            options |= _options(here)
    return ""


def _options(command: click.Command) -> dict[str, bool]:
    """Its options, each with whether it is a flag."""
    own = [one for one in command.get_params(click.Context(command)) if isinstance(one, click.Option)]
    return {name: one.is_flag or one.count for one in own for name in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize("page", [*TEXTS])
def test_every_command_and_option_that_a_page_names_exists(page: str) -> None:
    """Also in the middle of a sentence, and where it cannot be run."""
    wrong = {line: trouble for line in commands(TEXTS[page]) if (trouble := trouble_with(line))}
    assert wrong == {}
    assert {
        target for line in re.findall(r"make ([a-z][a-z -]*)", "\n".join(spans(TEXTS[page]))) for target in line.split()
    } <= TARGETS


@pytest.mark.parametrize("page", [*TEXTS])
def test_every_file_that_a_page_names_exists_or_is_named_by_the_code(page: str) -> None:
    """A file of the tree is there; one in a person's home has the name that the code gives it."""
    named = {name for span in spans(TEXTS[page]) for name in FILE.findall(span) if not any(c in name for c in "…*")}
    missing = []
    for name in sorted(named - MADE_BY_OTHERS.keys()):
        is_there = f"/{name}" in TREE
        last = name.rpartition("/")[2]
        if not is_there and (name.startswith(IN_THE_TREE) or last not in OUR_CODE):
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize("page", [*TEXTS])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    """To a file, and to a heading where it names one."""
    broken = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", TEXTS[page]):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        headings = (
            re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            if file.suffix == ".md" and file.exists()
            else []
        )
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if not file.exists() or (anchor and anchor not in anchors):
            broken.append(target)
    assert broken == []


def test_the_exit_codes_of_the_readme_are_those_of_the_code() -> None:
    """One table in the code; `domain/errors.py`."""
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.WakeBridgeError)]
    (said,) = re.findall(r"[Ee]xit codes: (.*?)\. ", " ".join(TEXTS["README.md"].split()))
    assert [int(part.split()[0]) for part in said.split(", ")] == [0, *sorted({one.exit_code for one in kinds})]


@pytest.mark.parametrize("page", [*TEXTS])
def test_every_exit_code_that_a_page_names_is_one_of_ours(page: str) -> None:
    """A code that no error has is a false sentence."""
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.WakeBridgeError)]
    ours = {0, *(one.exit_code for one in kinds)}
    assert {int(one or other) for one, other in EXIT_CODE.findall(TEXTS[page])} <= ours


@pytest.mark.parametrize("page", [*TEXTS])
def test_every_command_to_type_stands_in_a_block_that_is_run(page: str) -> None:
    """`console` is the language of blocks that a test runs; an indented `$` would be run by nobody."""
    loose = [line for line in TEXTS[page].splitlines() if re.match(r"(?: {4,}|\t)(?:\$ |wake-bridge )", line)]
    assert loose == []
    assert all(
        not line.startswith("$ ") or line in TEXTS[page] for line in (one.line for one in read_transcript(TEXTS[page]))
    )
