"""What all that was seen of a wake says of it: a table a person can read (DESIGN §3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from adapters.claude_code.process import Life
from adapters.claude_code.transcript import Echo


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt waits, in seconds; all of it together stays below a lease.

    Args:
        written: for what a hook said that the agent was given, to stand in the transcript as well. The hook speaks first, then
            the model is asked, then the row is written, all within 0.3 s: a program that is killed in between has told nobody.
        queued: for what the harness has in its queue, to reach the agent.
        rest: how long a harness must have been at rest without the wake before the wake counts as never come in; measured:
            it has a line in its queue 0.5 s after that was written, and the agent has it 0.3 s later.
        proof: for that rest to come about.
    """

    written: float = 1.5
    queued: float = 25.0
    rest: float = 10.0
    proof: float = 25.0


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of one wake at one moment; times are in seconds.

    Args:
        echo: how far the transcripts have it. They are read after it was asked whether the process lives.
        life: how the process stands.
        heard_for: how long ago its hook said that the agent was given it; None where none did.
        rested_for: how long the harness has been at rest without it, with nobody there who could still write it.
        waited_for: how long it has been looked for.
    """

    echo: Echo
    life: Life
    heard_for: float | None = None
    rested_for: float = 0.0
    waited_for: float = 0.0


class Verdict(Enum):
    """What became of the wake, and why."""

    TOLD = "the agent was given it: transcript"
    HEARD = "the agent was given it: hook"
    QUEUED = "the harness's own queue has it"
    ENDED = "its process has ended without it"
    RESTED = "it is at rest without it"
    UNSEEN = "it may have been given to the monitor, and nothing shows that it was not"

    @property
    def is_absence(self) -> bool:
        """The harness's own record proves that the wake never came in."""
        return self in {Verdict.ENDED, Verdict.RESTED}


def verdict_on(seen: Seen, patience: Patience) -> Verdict | None:
    """The first line that applies; None while it is to be looked for further."""
    if seen.echo is Echo.TOLD:
        return Verdict.TOLD
    if seen.life is Life.ENDED:
        return Verdict.ENDED
    if seen.heard_for is not None:
        return Verdict.HEARD if seen.heard_for > patience.written else None
    if seen.echo is Echo.QUEUED:
        return Verdict.QUEUED if seen.waited_for > patience.queued else None
    if seen.rested_for > patience.rest:
        return Verdict.RESTED
    return Verdict.UNSEEN if seen.waited_for > patience.proof else None
