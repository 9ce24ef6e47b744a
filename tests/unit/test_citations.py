"""Code and tests say their rules themselves; where they cite a page of ours, what they cite is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).resolve().relative_to(ROOT).as_posix()
READ = (".py", ".sql", ".md", ".toml", ".patch", ".template", "Makefile")
"""Ends of the names of files in which somebody could cite something."""

NOT_OURS = ("tests/screens/captures/", "CHANGELOG.md", HERE)
"""What others said, what was said once, and this page of patterns."""

NO_PAGE_OF_OURS = re.compile(
    r"\b(?:DESIGN|CONTRACT|STYLE)\b(?:[ ,:;)]|$)(?! = )|\b[Ii]ssue (?:\d|\")|\"\"\"Issue\b|\b[Ss]eed rules? [A-Z]\d"
)
CITED = re.compile(r"docs/(design|contract)\.md (?:§§?(\d+(?:\.\d+)?)|\"([^\"]+)\")")


def _texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split(
        "\n"
    )
    names = [one for one in listed if one.endswith(READ) and not one.startswith(NOT_OURS)]
    return {one: (ROOT / one).read_text(encoding="utf-8") for one in names if (ROOT / one).is_file()}


def _headings(page: str) -> list[str]:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_nobody_cites_a_page_that_is_not_in_the_repository() -> None:
    """A reader who has the repository alone can look up whatever is cited."""
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in _texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if NO_PAGE_OF_OURS.search(line)
    ]
    assert found == []


def test_every_cited_section_and_heading_exists() -> None:
    """`docs/design.md §6.4` and `docs/contract.md "Exit codes"`: the one form of citing, with something behind it."""
    headings = {page: _headings(page) for page in ("design", "contract")}
    cited = [(name, *found) for name, text in _texts().items() for found in CITED.findall(text)]
    missing = [
        f"{name}: docs/{page}.md {section or heading}"
        for name, page, section, heading in cited
        if not any(re.match(rf"{re.escape(section)}\.? ", one) if section else one == heading for one in headings[page])
    ]
    assert missing == []
    assert cited, "where nobody cites the design, this test and the form should go"
