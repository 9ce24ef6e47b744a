"""Check and act as one step inside tmux, and read which of the two it was (DESIGN §6.4)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from adapters.bounded_call import Answer
from adapters.tmux.command import TmuxServer


class Verdict(StrEnum):
    """What tmux printed, the only thing that is believed; its exit status proves nothing."""

    DONE = "done"
    REFUSED = "refused"
    NOT_REACHED = "not_reached"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Guarded:
    """How a guarded command went.

    `NOT_REACHED` is certain: tmux failed before it came to the check, and said why. After `SILENT` it may have acted or
    not: a client that was killed, or whose words were lost, says as little when all is done.
    """

    verdict: Verdict
    answer: Answer


async def if_still(
    server: TmuxServer,
    pane_id: str,
    guard: str,
    *,
    then: str,
    otherwise: str = "",
    before: Sequence[Sequence[str]] = (),
    stdin: str = "",
) -> Guarded:
    """Run `then` if `guard` holds for the pane, else `otherwise`, without anything in between.

    `then` and `otherwise` are single tmux commands; `before` runs first and gets `stdin`.
    """
    word = secrets.token_hex(8)
    reached, done, refused = f"reached-{word}", f"done-{word}", f"refused-{word}"
    answer = await server.ask(
        *before,
        ["display-message", "-p", reached],
        ["if-shell", "-F", "-t", pane_id, guard, _and_say(then, done), _and_say(otherwise, refused)],
        stdin=stdin,
    )
    said = answer.stdout.splitlines()
    if done in said:
        return Guarded(Verdict.DONE, answer)
    if refused in said:
        return Guarded(Verdict.REFUSED, answer)
    if reached not in said and answer.returncode > 0 and answer.stderr.strip():
        return Guarded(Verdict.NOT_REACHED, answer)
    return Guarded(Verdict.SILENT, answer)


def _and_say(command: str, word: str) -> str:
    return f"{command} ; display-message -p {word}" if command else f"display-message -p {word}"
