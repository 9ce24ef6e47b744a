"""Every error that a person can meet, in one tree.

WakeBridgeError                      what failed: where + what to do
├── UsageMistake            exit 2   the command line cannot mean anything
├── ConfigurationInvalid    exit 3   the configuration file or an override
├── SourceError             exit 4   the graph
│   ├── SourceMissing                  no file there
│   ├── SourceNotAGraph                a file, but not a graph
│   └── SourceUnavailable              locked or unreadable for now; looked at again
├── AlreadyRunning          exit 5   another instance holds the lock
├── NotRunning              exit 6   a command needs the daemon
├── RefusedForSafety        exit 7   possible, but it would harm
├── NotFound                exit 8   identity, subscription, message or delivery
├── OperationFailed         exit 1   tried, and it did not work
└── LedgerError             exit 1   our own state file
    ├── LedgerTooNew                   written by a later version
    ├── LedgerUnwritable               directory or disk refuses
    │   ├── DiskFull                   no space is left there
    │   └── LedgerDisplaced            it was deleted or replaced while it was open
    ├── IllegalTransition              a delivery may not go there
    └── StaleLease                     somebody else owns the delivery now
"""

from __future__ import annotations

from typing import ClassVar


class WakeBridgeError(Exception):
    """Something a person can act on.

    Args:
        what: what failed, a short clause without a trailing stop.
        where: the file, key, pane or id concerned.
        hint: what to do now, one sentence.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, where: str = "", *, hint: str = "") -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(f"{what}: {where}" if where else what)


class UsageMistake(WakeBridgeError):
    """The command line cannot mean anything."""

    exit_code = 2


class ConfigurationInvalid(WakeBridgeError):
    """The configuration cannot be used; every mistake found is listed in `problems`."""

    exit_code = 3

    def __init__(self, what: str, where: str = "", *, hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(what, where, hint=hint)
        self.problems = problems


class SourceError(WakeBridgeError):
    """The graph cannot be read."""

    exit_code = 4


class SourceMissing(SourceError):
    """There is no graph file at the configured path."""


class SourceNotAGraph(SourceError):
    """The file is there, but it is not a graph."""


class SourceUnavailable(SourceError):
    """The graph is locked, vanished or unreadable for now; the tail looks again."""


class AlreadyRunning(WakeBridgeError):
    """Another instance holds the lock of this state directory, or of this graph."""

    exit_code = 5


class NotRunning(WakeBridgeError):
    """The command needs the daemon, and it is not running."""

    exit_code = 6


class RefusedForSafety(WakeBridgeError):
    """It could be done, but it would break a promise."""

    exit_code = 7


class NotFound(WakeBridgeError):
    """No such identity, subscription, message or delivery."""

    exit_code = 8


class OperationFailed(WakeBridgeError):
    """It was tried and did not work."""


class LedgerError(WakeBridgeError):
    """Our own state file cannot do what was asked."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a later version of wake-bridge."""


class LedgerUnwritable(LedgerError):
    """The state directory or its disk refuses to be written."""


class DiskFull(LedgerUnwritable):
    """No space is left on the disk of the state directory."""


class LedgerDisplaced(LedgerUnwritable):
    """The open ledger no longer lies at its place: it was deleted, moved or replaced."""


class IllegalTransition(LedgerError):
    """A delivery may not go from that state to the other."""


class StaleLease(LedgerError):
    """The lease has risen: somebody else owns the delivery now."""


class LateAnswer(StaleLease):
    """An answer came under a lease that is no longer in force: it was dropped."""

    exit_code = 7
