"""Logs: event names from a closed list, the delivery in every line, no bodies, no keys, 10 MB × 5."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from wake_bridge.config.settings import Settings, load_settings
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.storage.daemon_log import FILE_SIZE, FILES
from wake_bridge.storage.logs import (
    EVENTS,
    STRICT_VARIABLE,
    configure_logging,
    log_file_of,
    runs_as_service,
    set_level,
)

ROOT = Path(__file__).parents[2]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture(autouse=True)
def logging_is_put_back() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root = logging.getLogger()
    handlers, level, raises = root.handlers[:], root.level, logging.raiseExceptions
    root.handlers.clear()
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raises
    structlog.reset_defaults()


def settings_for(tmp_path: Path, **daemon: str) -> Settings:
    overrides = {f"WAKE_BRIDGE_DAEMON_{key.upper()}": value for key, value in daemon.items()}
    place = {"WAKE_BRIDGE_CONFIG": os.devnull, "WAKE_BRIDGE_DAEMON_STATE_DIR": str(tmp_path / "state")}
    return load_settings(None, place | overrides)


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_line_is_json_with_its_time_level_event_and_the_delivery_it_belongs_to(tmp_path: Path) -> None:
    """Delivery id in every line; times are ISO-8601 UTC milliseconds."""
    stream = io.StringIO()
    configure_logging(settings_for(tmp_path), {}, stream)
    with structlog.contextvars.bound_contextvars(delivery="01J"):
        structlog.get_logger("deliver").info("job_fell", job="tail", reason="\x1b[31m")
    (line,) = lines_of(stream)
    assert list(line) == ["timestamp", "level", "event", "logger", "delivery", "job", "reason"]
    assert line["timestamp"][10] == "T"
    assert line["timestamp"].endswith("Z")
    assert len(line["timestamp"]) == len("2026-11-27T21:53:52.502Z")
    assert line | {"timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "job_fell",
        "logger": "deliver",
        "delivery": "01J",
        "job": "tail",
        "reason": "\x1b[31m",
    }


def test_a_name_that_is_not_on_the_list_is_marked_and_in_tests_raises(tmp_path: Path) -> None:
    """Event names come from a closed list."""
    stream = io.StringIO()
    configure_logging(settings_for(tmp_path), {}, stream)
    structlog.get_logger("x").info("made_up")
    assert lines_of(stream)[0]["unlisted"] is True
    configure_logging(settings_for(tmp_path), {STRICT_VARIABLE: "1"}, stream)
    with pytest.raises(ValueError, match="made_up"):
        structlog.get_logger("x").info("made_up")


@pytest.mark.parametrize("name", ["body", "bodyText", "digest", "signing_key", "signingKey", "token", "password"])
def test_bodies_digests_and_keys_are_withheld(tmp_path: Path, name: str) -> None:
    """No bodies, no keys, whoever passes them."""
    stream = io.StringIO()
    configure_logging(settings_for(tmp_path), {}, stream)
    structlog.get_logger("x").info("job_fell", **{name: "hunter2", "pane_key": "%1", "subject_key": "MESSAGE:1"})
    (line,) = lines_of(stream)
    assert line[name] == "(withheld)"
    assert (line["pane_key"], line["subject_key"]) == ("%1", "MESSAGE:1")


def test_what_other_libraries_say_becomes_one_of_our_lines(tmp_path: Path) -> None:
    """One form for all; a talkative library is heard from warnings upward."""
    stream = io.StringIO()
    configure_logging(settings_for(tmp_path, log_level="debug"), {}, stream)
    logging.getLogger("apscheduler.executors").info("job ran")
    logging.getLogger("apscheduler").warning("missed %s", "it")
    (line,) = lines_of(stream)
    assert (line["event"], line["text"], line["logger"]) == ("library", "missed it", "apscheduler")


def test_an_exception_is_one_line_with_its_traceback(tmp_path: Path) -> None:
    """One event a line, also when something broke."""
    stream = io.StringIO()
    configure_logging(settings_for(tmp_path), {}, stream)
    try:
        int("boom")
    except ValueError:
        structlog.get_logger("x").exception("job_fell")
    (line,) = lines_of(stream)
    assert line["level"] == "error"
    assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'boom'")


def test_the_level_is_obeyed_and_can_change_while_running(tmp_path: Path) -> None:
    """`log_level` is what a reload may change."""
    stream = io.StringIO()
    configure_logging(settings_for(tmp_path, log_level="warning"), {}, stream)
    log = structlog.get_logger("x")
    log.info("job_fell")
    assert stream.getvalue() == ""
    set_level("debug")
    log.debug("job_fell")
    assert len(lines_of(stream)) == 1


def test_a_terminal_gets_readable_lines_that_cannot_steer_it(tmp_path: Path) -> None:
    """`auto` is the console form on a terminal; control characters of a title do not reach it."""
    stream = Terminal()
    configure_logging(settings_for(tmp_path), {}, stream)
    structlog.get_logger("x").info("job_fell", title="a\x1b]0;b\x07\x9b\udc80")
    assert "job_fell" in stream.getvalue()
    assert "a�]0;b���" in stream.getvalue()
    with pytest.raises(ValueError, match="Expecting value"):
        lines_of(stream)


@pytest.mark.parametrize(("said", "is_plain"), [("", False), ("1", True)])
def test_no_color_leaves_nothing_but_text_on_a_terminal(said: str, *, is_plain: bool, tmp_path: Path) -> None:
    """And no-color.org: any value but an empty one; bold is no plain text either."""
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    configure_logging(settings_for(tmp_path), {"NO_COLOR": said}, stream)
    structlog.get_logger("x").info("job_fell", agent="@codex")
    assert ("\x1b" not in stream.getvalue()) is is_plain


@pytest.mark.parametrize(
    ("environment", "on_terminal", "expected"),
    [
        ({}, False, False),
        ({"NOTIFY_SOCKET": "/run/x"}, False, True),
        ({"INVOCATION_ID": "abc"}, False, True),
        ({"INVOCATION_ID": "abc"}, True, False),
        ({"XPC_SERVICE_NAME": "io.wake-bridge"}, False, True),
        ({"XPC_SERVICE_NAME": "0"}, False, False),
        ({"XPC_SERVICE_NAME": "application.com.apple.Terminal.1"}, False, False),
    ],
)
def test_a_service_is_told_from_a_terminal_it_started(
    environment: Mapping[str, str], on_terminal: bool, expected: bool
) -> None:
    """Under a service a rotated file in the state directory as well; terminals inherit the variables."""
    assert runs_as_service(environment, on_terminal=on_terminal) is expected


def test_the_file_is_private_json_and_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 MB × 5; whoever may read the state may read the log, and nobody else."""
    assert (FILE_SIZE, FILES) == (10 * 1024 * 1024, 5)
    monkeypatch.setattr("wake_bridge.storage.logs.FILE_SIZE", 400)
    settings = settings_for(tmp_path)
    service = {"NOTIFY_SOCKET": "/run/x"}
    old = os.umask(0)
    try:
        configure_logging(settings, service, io.StringIO())
        for number in range(40):
            structlog.get_logger("x").info("job_fell", number=number)
    finally:
        os.umask(old)
    files = sorted((tmp_path / "state").iterdir())
    assert len(files) == FILES
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    file = log_file_of(settings, service, on_terminal=False)
    assert file == tmp_path / "state/wake-bridge.log"
    assert json.loads(file.read_text().splitlines()[-1])["number"] == 39


def test_a_configured_file_is_written_wherever_it_lies(tmp_path: Path) -> None:
    """`daemon.log_file`."""
    settings = settings_for(tmp_path, log_file=str(tmp_path / "logs/mine.log"))
    configure_logging(settings, {}, io.StringIO())
    structlog.get_logger("x").info("job_fell")
    assert json.loads((tmp_path / "logs/mine.log").read_text())["event"] == "job_fell"


def test_a_file_that_was_moved_away_is_begun_anew_with_the_next_line(tmp_path: Path) -> None:
    """As logrotate does it, without a word to the daemon; where nothing can be begun, the old file goes on."""
    file, logger = tmp_path / "logs/mine.log", structlog.get_logger("x")
    configure_logging(settings_for(tmp_path, log_file=str(file)), {STRICT_VARIABLE: "1"}, io.StringIO())

    def numbers(of: Path) -> list[int]:
        return [json.loads(line)["number"] for line in of.read_text().splitlines()]

    def log(number: int) -> None:
        logger.info("job_fell", number=number)

    log(1)
    file.rename(moved := tmp_path / "logs/mine.log.old")
    log(2)
    assert (numbers(moved), numbers(file)) == ([1], [2])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    log(3)
    assert numbers(file) == [3]
    # a directory in its place
    file.rename(other := tmp_path / "logs/other")
    file.mkdir()
    log(4)
    assert numbers(other) == [3, 4]


def test_a_file_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """A log file in an impossible place is told when it is opened, not lost line by line."""
    for place in (tmp_path, tmp_path / "file" / "wb.log"):
        (tmp_path / "file").write_text("")
        with pytest.raises(OperationFailed, match="cannot be"):
            configure_logging(settings_for(tmp_path, log_file=str(place)), {}, io.StringIO())


def test_every_name_in_the_code_is_on_the_list_and_the_list_has_no_other() -> None:
    """Meta: whoever watches the logs can rely on the list in `storage/logs.py`."""
    sources = [file for package in ("wake_bridge", "adapters") for file in (ROOT / package).rglob("*.py")]
    logged = {name for file in sources for name in _names_logged_in(file)}
    assert logged <= EVENTS
    text = "".join(file.read_text(encoding="utf-8") for file in sources if file.name != "log_events.py")
    assert {name for name in EVENTS if f'"{name}"' not in text} == set()


def _names_logged_in(file: Path) -> Iterator[str]:
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS):
            continue
        owner = call.func.value
        owner_name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
        if (
            owner_name.lstrip("_") in {"log", "logger", "report"}
            and call.args
            and isinstance(call.args[0], ast.Constant)
        ):
            yield str(call.args[0].value)
