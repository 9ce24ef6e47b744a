"""Logs: structlog through the standard library, one event per line, names from a closed list.

A name is added here in the change that first logs it; whoever watches the logs can rely on this page.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import stat
import sys
from collections.abc import Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from wake_bridge.config.settings import Settings
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.storage.daemon_log import FILE_SIZE, FILES, LOG_FILE_NAME
from wake_bridge.system.clock import timestamp_now
from wake_bridge.system.files import make_private_directory, open_own_file

EVENTS: Final = frozenset(
    {
        # the daemon's own life
        "daemon_started",
        "daemon_stopping",
        "daemon_stopped",
        "job_fell",
        "chore_failed",
        "clock_set",
        "control_dropped",
        "control_refused",
        "config_reloaded",
        "config_refused",
        "config_needs_restart",
        "other_driver",
        "adapter_broken",
        "ledger_damaged",
        "pruned",
        # the tail
        "graph_opened",
        "graph_away",
        "graph_back",
        "graph_replaced",
        "ledger_away",
        "ledger_back",
        "ledger_put_back",
        "reader_healed",
        "no_hints",
        "epoch_began",
        "cursor_lost",
        "cursor_below_log",
        "cursor_unpublished",
        "caught_up",
        "row_quarantined",
        "subscriptions_read",
        "subscription_undeliverable",
        "subscription_defaults_taken",
        "no_active_routes",
        # signed wakes
        "http_failed",
        "http_listening",
        "http_refused",
        "item_taken_in",
        "wake_taken_in",
        # links to other hosts
        "host_linked",
        "host_away",
        # hosts that share a graph
        "lease_taken",
        "lease_gone",
        "lease_given_back",
        "leases_away",
        "leases_back",
        "deliveries_held",
        "deliveries_settled",
        # wake events and deliveries
        "event_matched",
        "event_refused",
        "looked",
        "delivery_held",
        "delivery_locked",
        "delivery_pushed",
        "delivery_staged",
        "delivery_settled",
        "delivery_acknowledged",
        "delivery_awaits_ack",
        "delivery_escalated",
        "delivery_seen_late",
        "delivery_told_again",
        "attempt_refused",
        "attempt_failed",
        "adapter_broke_promise",
        "lane_failed",
        "limit_reached",
        "stale_lease",
        "receiver_degraded",
        "receiver_failed",
        "receiver_restored",
        "receiver_suspended",
        "route_degraded",
        "route_restored",
        "would_deliver",
        # a word to the human
        "notice_given",
        "notice_failed",
        "message_settled",
        "reminder_fired",
        "reminder_missed",
        "attention_began",
        "attention_ended",
        # whom nothing else wakes
        "heartbeat_nudged",
        "heartbeat_skipped",
        # what other libraries say
        "library",
    }
)


STRICT_VARIABLE: Final = "WAKE_BRIDGE_TEST_STRICT_LOGS"
NO_COLOUR: Final = "NO_COLOR"
"""Whoever sets it wants a terminal to get plain text: no colours, nothing bold."""

_WITHHELD: Final = re.compile(r"body|bodytext|body_text|digest|.*(key|token|secret|password)", re.IGNORECASE)
_PLAIN_KEYS: Final = frozenset({"pane_key", "subject_key"})
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_TALKATIVE: Final = ("apscheduler", "asyncio", "libtmux", "watchfiles")


def runs_as_service(environment: Mapping[str, str], *, on_terminal: bool) -> bool:
    """Whether systemd or launchd started this process.

    Terminals started by a service manager hand its variables on, so a terminal on stdout says no.
    """
    if on_terminal:
        return False
    if environment.get("NOTIFY_SOCKET") or environment.get("INVOCATION_ID"):
        return True
    # launchd gives "0" or "application.…" to what a person started
    label = environment.get("XPC_SERVICE_NAME", "0")
    return label != "0" and not label.startswith("application.")


def log_file_of(settings: Settings, environment: Mapping[str, str], *, on_terminal: bool) -> Path | None:
    """The file the daemon logs to besides stdout, if any."""
    if settings.log_file is not None:
        return settings.log_file
    if runs_as_service(environment, on_terminal=on_terminal):
        return settings.state_dir / LOG_FILE_NAME
    return None


def configure_logging(settings: Settings, environment: Mapping[str, str], stream: TextIO | None = None) -> None:
    """Send all logs where the settings say: to stdout in the form they say, to a file as JSON.

    Args:
        settings: level, format and file.
        environment: tells whether a service manager started us; `WAKE_BRIDGE_TEST_STRICT_LOGS` makes a name that is
            not on the list, or a value that must not be logged, raise instead of being marked.
        stream: instead of stdout.

    Raises:
        OperationFailed: the log file cannot be written.
    """
    out = stream if stream is not None else sys.stdout
    on_terminal = out.isatty()
    strict = bool(environment.get(STRICT_VARIABLE))
    wanted = settings.config.daemon.log_format
    as_console = wanted == "console" or (wanted == "auto" and on_terminal)

    handlers: list[logging.Handler] = [logging.StreamHandler(out)]
    handlers[0].setFormatter(
        _formatter(_console(colours=on_terminal and not environment.get(NO_COLOUR)) if as_console else _JSON)
    )
    if (file := log_file_of(settings, environment, on_terminal=on_terminal)) is not None:
        handlers.append(_rotated(file))
        handlers[-1].setFormatter(_formatter(_JSON))

    # a full disk must not end the daemon
    logging.raiseExceptions = strict
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    set_level(settings.config.daemon.log_level)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            _stamp,
            _Listed(strict=strict),
            _Withheld(strict=strict),
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def where_logs_go() -> str:
    """The file that this process logs to, else its terminal or what its stdout is; empty where the system does not tell."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RotatingFileHandler):
            return handler.baseFilename
    try:
        return os.ttyname(1) if sys.stdout.isatty() else str(Path("/proc/self/fd/1").readlink())
    except OSError:
        return ""


def set_level(level: str) -> None:
    """Change what is logged, also while running: `debug`, `info`, `warning` or `error`."""
    logging.getLogger().setLevel(level.upper())


class _PrivateRotatingFile(RotatingFileHandler):
    """A rotated file that only its owner can read; one that was moved away or deleted is begun anew, with the next line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line into the file that lies at the path now."""
        written = self.stream
        if written is not None and self._was_moved_away(written):
            # where it cannot be begun anew the old one goes on
            with contextlib.suppress(OSError):
                self.stream = self._open()
                written.close()
        super().emit(record)

    def _was_moved_away(self, written: io.TextIOWrapper) -> bool:
        try:
            there = os.stat(self.baseFilename)  # noqa: PTH116 - asked before every line
            return not os.path.samestat(there, os.fstat(written.fileno()))
        except OSError as refusal:
            return isinstance(refusal, FileNotFoundError)

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            descriptor = open_own_file(Path(self.baseFilename), flags)
        except OSError:
            # /dev/null is nobody's file and takes everything
            if not stat.S_ISCHR(os.lstat(self.baseFilename).st_mode):
                raise
            descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        return io.TextIOWrapper(io.FileIO(descriptor, "a"), encoding=self.encoding, errors="backslashreplace")


def _rotated(file: Path) -> RotatingFileHandler:
    make_private_directory(file.parent)
    try:
        return _PrivateRotatingFile(file, maxBytes=FILE_SIZE, backupCount=FILES - 1, encoding="utf-8")
    except OSError as refusal:
        raise OperationFailed(
            f"the log file cannot be written ({refusal.strerror})",
            str(file),
            hint="set daemon.log_file to another place",
        ) from refusal


class _Listed:
    """Lets only names of the closed list through unmarked."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        if event.get("event") not in EVENTS:
            if self._strict:
                raise ValueError(f"log event {event.get('event')!r} is not in wake_bridge/storage/logs.py")
            event["unlisted"] = True
        return event


class _Withheld:
    """Keeps bodies, digests and keys out of the logs, whoever passes them."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        for name in [name for name in event if _WITHHELD.fullmatch(name) and name not in _PLAIN_KEYS]:
            if self._strict:
                raise ValueError(f"{name} must not be logged")
            event[name] = "(withheld)"
        return event


def _stamp(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event["timestamp"] = timestamp_now()
    return event


def _name_library(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """What another library says is the text of an event of ours."""
    event["text"] = event["event"]
    event["event"] = "library"
    return event


def _order(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    first = {
        name: event[name] for name in ("timestamp", "level", "event", "logger", "delivery", "agent") if name in event
    }
    return {**first, **event}


def _harmless(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A title or subject must not steer the terminal that shows the log."""
    return {name: _CONTROL.sub("�", value) if isinstance(value, str) else value for name, value in event.items()}


def _console(*, colours: bool) -> list[Processor]:
    plain = structlog.dev.plain_traceback
    return [
        _harmless,
        structlog.dev.ConsoleRenderer(colors=colours, timestamp_key="timestamp", exception_formatter=plain),
    ]


_JSON: Final[list[Processor]] = [
    structlog.processors.format_exc_info,
    _order,
    structlog.processors.JSONRenderer(separators=(",", ":"), default=str),
]


def _formatter(rendering: list[Processor]) -> ProcessorFormatter:
    return ProcessorFormatter(
        processors=[ProcessorFormatter.remove_processors_meta, *rendering],
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            _stamp,
            _name_library,
        ],
    )
