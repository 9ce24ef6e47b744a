"""`screens`: capture, classify and learn agent screens; list, update and report the profiles that they are judged by."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import CommandContext, WordType, pass_run
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.presence import PresenceState
from wake_bridge.system.files import PRIVATE_FILE

if TYPE_CHECKING:
    from wake_bridge.offline.screen_profiles import ListedProfile, Update
    from wake_bridge.ports.adapter import Lesson
    from wake_bridge.ports.screens import ScreenReport


@click.group()
def screens() -> None:
    """Capture, classify and learn agent screens; list, update and report profiles."""


@screens.command("classify", short_help="Classify capture files.")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--harness", help="Use this harness's profile instead of the one that the capture names.")
@pass_run
def classify(run: CommandContext, files: tuple[Path, ...], harness: str | None) -> None:
    """Classify capture files: the state that each screen shows, taken alone."""
    from wake_bridge.offline.inspection import workshop

    judge = workshop(run.settings)
    for file in files:
        record = {"file": str(file), **judge.classify_capture(file, harness or "")}
        run.console.line(record, f"{record['state']:<18} {record['composer']:<12} {record['rule']:<28} {file}")


@screens.command("capture")
@click.argument("pane")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@pass_run
def capture(run: CommandContext, pane: str, output: Path | None) -> None:
    """Record a pane's screen as a capture file."""
    import asyncio

    from wake_bridge.offline.inspection import workshop

    text = asyncio.run(workshop(run.settings).capture(pane))
    if output is None:
        click.echo(text)
    else:
        _write(output, text + "\n")
        run.console.object({"file": str(output)}, f"written to {output}")


def _write(output: Path, text: str) -> None:
    """A screen may show anything: a new file is for its owner alone."""
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    except OSError as refusal:
        raise OperationFailed(
            f"the file cannot be written ({refusal.strerror})", str(output), hint="choose another place"
        ) from refusal
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


@screens.command("trust", short_help="Learn the idle screen of an agent.")
@click.argument("pane")
@click.option(
    "--yes", is_flag=True, help="Skip the question: you looked, and the agent is idle with an empty composer."
)
@click.option("--print", "only_print", is_flag=True, help="Print the profile instead of writing it.")
@pass_run
def trust(run: CommandContext, pane: str, yes: bool, only_print: bool) -> None:
    """Tell wake-bridge that the agent in a pane is idle now, so that it learns prompt and placeholder.

    The composer must be empty. What is learnt becomes a file among your own screen profiles. Busy signs and dialogs keep
    their rules: a screen that shows one cannot be trusted. A profile that you wrote yourself is never replaced.
    """
    import asyncio

    from wake_bridge.config.own_profiles import file_of_profile, write_profile
    from wake_bridge.offline.inspection import workshop

    lesson = asyncio.run(workshop(run.settings).lesson_of(pane))
    record: dict[str, Any] = {
        "pane": lesson.where,
        "harness": lesson.harness,
        "version": lesson.version or None,
        "learnt": list(lesson.learnt),
        "file": None,
        "reloaded": False,
    }
    if only_print:
        run.console.object({**record, "profile": lesson.profile}, lesson.profile)
        return
    if not lesson.learnt:
        run.console.object(record, f"{lesson.where} looks idle to wake-bridge as it is: there is nothing to change")
        return
    directory = run.settings.own_screens
    path = file_of_profile(directory, lesson.harness)
    say = run.console.warn if run.console.as_json else run.console.say
    say(_what_is_trusted(lesson, path))
    if not yes:
        run.ask_a_person("Is the agent idle and its composer empty?", hint="look at the pane, then use --yes")
    write_profile(directory, lesson.harness, lesson.profile)
    reloaded, note = _reload_daemon(run)
    run.console.object({**record, "file": str(path), "reloaded": reloaded}, f"written to {path}; {note}")


def _what_is_trusted(lesson: Lesson, path: Path) -> str:
    name = f"{lesson.harness} {lesson.version}".strip()
    return "\n".join(
        (
            f"{name} in {lesson.where} shows:",
            "",
            *(f"  | {row}" for row in lesson.screen.splitlines()),
            "",
            "From now on this counts as an empty composer of an agent at rest, into which a wake is typed:",
            *(f"  + {one}" for one in lesson.learnt),
            f"It is written to {path}; remove that file to forget it.",
        )
    )


def _reload_daemon(run: CommandContext) -> tuple[bool, str]:
    """Have the daemon read its profiles again; whether it did, and how to say it."""
    from wake_bridge.control.client import ask
    from wake_bridge.domain.errors import NotRunning

    try:
        ask(run.settings.state_dir, "reload")
    except NotRunning:
        return False, "the daemon reads it when it starts"
    except OperationFailed as refused:
        return False, f"but the daemon did not take it over: {refused}"
    return True, "the daemon uses it from now on"


@screens.command("list")
@pass_run
def list_profiles(run: CommandContext) -> None:
    """List the screen profiles in use, each with its origin and the versions that its rules were tested with.

    The origin is `shipped` (with the package), `user` (yours), `learnt` (by `screens trust`) or `updated` (by `screens update`).
    """
    from wake_bridge.offline.screen_profiles import listed_profiles

    for one in listed_profiles(run.settings):
        record = {
            "harness": one.profile.harness,
            "origin": one.origin,
            "versions": list(one.profile.versions),
            "file": str(one.profile.path),
            "hiddenVersions": None if one.hidden is None else list(one.hidden),
        }
        run.console.line(record, _listed(one))


def _listed(one: ListedProfile) -> str:
    profile = one.profile
    hidden = ""
    if one.hidden is not None:
        tested = f", tested with {', '.join(one.hidden)}" if one.hidden else ""
        hidden = f"  (in place of the shipped one{tested})"
    return f"{profile.harness:<10} {one.origin:<8} {', '.join(profile.versions) or '-':<20} {profile.path}{hidden}"


@screens.command("update", short_help="Take newer screen profiles over.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Skip the question: you read the difference.")
@click.option("--print", "only_print", is_flag=True, help="Print the difference and write nothing.")
@pass_run
def update(run: CommandContext, file: Path | None, yes: bool, only_print: bool) -> None:
    """Show how a newer screen profile differs from the one in use, and take it over if you say so.

    FILE is a profile (.toml) or a wheel of wake-bridge. Without FILE, pip downloads the newest release from where your system
    takes its packages. wake-bridge never does this by itself. A profile that you wrote yourself is never replaced.
    """
    from wake_bridge.config.own_profiles import ProfileOrigin, write_profile
    from wake_bridge.offline.screen_profiles import newest_release, updates_in

    with TemporaryDirectory(prefix="wake-bridge-") as scratch:
        found = updates_in(run.settings, file or newest_release(Path(scratch)), Path(scratch))
    if only_print or not found:
        for one in found:
            run.console.line(_update_record(one), one.difference)
        if not found:
            run.console.say("the profiles in use say the same: there is nothing to change")
        return
    say = run.console.warn if run.console.as_json else run.console.say
    for one in found:
        say(one.difference)
    wanted = [one for one in found if not one.refusal]
    if wanted and not yes:
        names = ", ".join(one.harness for one in wanted)
        run.ask_a_person(f"Judge screens by this from now on ({names})?", hint="read the difference, then use --yes")
    written = {
        one.harness: write_profile(run.settings.own_screens, one.harness, one.text, ProfileOrigin.UPDATED)
        for one in wanted
    }
    reloaded, note = _reload_daemon(run) if written else (False, "")
    for one in found:
        path = written.get(one.harness)
        record = {**_update_record(one), "file": str(path) if path else None, "reloaded": reloaded}
        run.console.line(
            record, f"written to {path}; {note}" if path else f"{one.harness}: left as it is: {one.refusal}"
        )


def _update_record(one: Update) -> dict[str, Any]:
    return {"harness": one.harness, "difference": one.difference, "refusal": one.refusal or None}


@screens.command("report", short_help="Make a bug report about a screen.")
@click.argument("pane")
@click.option(
    "--expect",
    "expected",
    type=WordType(PresenceState),
    required=True,
    help="What the agent really does: the state that wake-bridge should find.",
)
@click.option("--replace", "words", multiple=True, metavar="WORD", help="Replace this word, too. May be repeated.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of screen-report.json.")
@click.option("--yes", is_flag=True, help="Skip the question: you read what will be written.")
@pass_run
def report(
    run: CommandContext, pane: str, expected: PresenceState, words: tuple[str, ...], output: Path | None, yes: bool
) -> None:
    """Write a bug report about a screen that wake-bridge judges wrongly.

    It is a capture file with versions, evidence and your expectation. Paths, names, mail addresses, URLs and tokens are replaced
    by text of the same width. You see all of it before it is written. Nothing is sent anywhere.
    """
    import asyncio
    import json

    from wake_bridge.offline.screen_profiles import library, personal_words, report_content

    seen = asyncio.run(library(run.settings).report_on(pane, [*personal_words(), *words]))
    content = report_content(seen, expected)
    path = output or Path("screen-report.json")
    say = run.console.warn if run.console.as_json else run.console.say
    say(_what_is_reported(seen, content, path))
    if not yes:
        run.ask_a_person("Does it hold nothing personal? Write it?", hint="read what is shown, then use --yes")
    _write(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    record = {"file": str(path), "replaced": dict(seen.replaced), "trouble": seen.trouble or None}
    run.console.object(record, f"written to {path}: attach it to your bug report")


def _what_is_reported(seen: ScreenReport, content: dict[str, Any], path: Path) -> str:
    about = content["report"]
    counts = ", ".join(f"{kind} ({count})" for kind, count in seen.replaced.items() if count)
    return "\n".join(
        (
            f"{path} will hold this screen:",
            "",
            *(f"  | {row}" for row in content["text"].rstrip().splitlines()),
            "",
            f"title: {content['flags']['pane_title']}",
            *(f"process: {one}" for one in content["process_tree"]),
            f"replaced: {counts or 'nothing'}",
            *([f"note: {seen.trouble}"] if seen.trouble else []),
            f"versions: {', '.join(f'{name} {version}' for name, version in about['versions'].items())}",
            f"you expect {content['expect'][0]}; what was seen:",
            *(f"  {one['vote']:<18} {one['rule']}  saw {one['saw']!r}" for one in about["evidence"]),
        )
    )
