"""The daemon: its life, the jobs that it keeps running, its regular chores, and its own process."""

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    # structlog takes rich along where it is installed, for tracebacks that no log of ours shows: 4 MB for as long as a daemon lives
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]
