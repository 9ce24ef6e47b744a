"""kill -9 right before and right after every journalled step of a wake that is posted, and while its receiver has it.

A trial sends a message, runs a daemon that dies at its point, then a plain one until the delivery has ended. Judged is
what the receiver was sent: each message is taken, and whatever it may have is the same under one eventId.
"""

from __future__ import annotations

import base64
import json
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from standardwebhooks import Webhook, WebhookVerificationError

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import POLL, SENDER, Rig
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Proof
from wake_bridge.testing.crash_points import WHENS, Point
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.webhook_receiver import WebhookReceiver

LEASE: Final = 30
"""Seconds that one attempt may take: on a machine that is busy with much else, a POST takes seconds."""

LANES: Final = 8
LONGEST: Final = 90.0
"""Seconds that a trial may take on a machine that is busy with much else."""

WHO: Final = "@ci"
KEY: Final = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
SETTINGS: Final = '[adapters.webhook]\nallow = ["127.0.0.1"]\nper_minute = 0\n'

REFUSED: Final = "404"
"""Nothing of it was taken: the next emission may be another one."""

ONCE: Final = "taken once"
AGAIN: Final = "again, same eventId"
RESULTS: Final = (ONCE, AGAIN, "another eventId", "still held", "lost")

ABOUT: Final = (
    "A message is sent to an identity whose wakes are posted, the daemon is killed right before or right after the step is on"
    " disk, or while the receiver has the wake and does not answer; the next daemon goes on until the delivery has ended."
    " *again*: the receiver was sent the same bytes under the same eventId more than once. *another eventId*: it was sent the"
    " message twice without a way to know. *lost*: it never took it. No command is typed. (These daemons are forked from a"
    " process that has imported the program.)"
)


class PostRig(Rig):
    """An identity without a pane, and the receiver of its wakes."""

    def __init__(self, directory: Path, tmux: PrivateTmux) -> None:
        super().__init__(directory, tmux, [], lease=LEASE, settings=SETTINGS, is_born=True)
        self.receiver = WebhookReceiver(directory / "receiver")
        metadata = {"url": self.receiver.url, "signingKey": KEY, "coalesceWindow": 0}
        with MemoryCore(self.plain.graph) as core:
            core.identity(WHO)
            core.subscribe(WHO, harnessTarget="a2a-webhook", harnessTargetMetadata=metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()
        self.receiver.close()

    def mail(self, subject: str) -> str:
        """Commit a message to the graph; answers its id."""
        with MemoryCore(self.plain.graph) as core:
            return core.send(SENDER, WHO, subject)


Scene = Callable[[PostRig, Point], list[str]]
"""Brings a daemon to its death; answers the messages that were sent."""


@dataclass(frozen=True, slots=True)
class PostKill:
    """One kind of death: at which point, and in which scene."""

    scene: Scene
    point: Point | None = None

    def __str__(self) -> str:
        return f"{self.point.step} · {self.point.when}" if self.point else "while the receiver has it"


def every_kill() -> list[PostKill]:
    """Each step of a posted wake, before and after; and in the middle of the POST."""
    steps: dict[str, Scene] = {
        "matched": plainly,
        "opened": plainly,
        "joined": joining,
        "dispatched": plainly,
        "locked": plainly,
        "intent_submit": plainly,
        "refused": turned_away,
        "released": turned_away,
        "held": failing,
        "submitted": plainly,
        "settled": plainly,
        "acked": acknowledging,
    }
    return [
        *(PostKill(scene, Point(step, when)) for step, scene in steps.items() for when in WHENS),
        PostKill(in_flight),
    ]


def kill_while_posting(directory: Path, tmux: PrivateTmux, *, times: int, seed: int, lanes: int = LANES) -> Table:
    """Every kill so many times, in any order."""
    table = Table("kill -9 at each step of a posted wake", ABOUT, "step", RESULTS, map(str, every_kill()))
    kills = every_kill() * times
    random.Random(seed).shuffle(kills)
    with ExitStack() as stack:
        rigs = [stack.enter_context(PostRig(directory / f"post{at}", tmux)) for at in range(lanes)]
        run_in_lanes(table, rigs, kills, _run)
    return table


def _run(rig: PostRig, kill: PostKill) -> tuple[str, Verdict]:
    """One trial."""
    start = len(rig.receiver.received())
    try:
        messages = kill.scene(rig, kill.point or Point("intent_submit", "after"))
        rig.receiver.says("204")
        daemon = rig.daemon()
        wants = Proof.ACKNOWLEDGED if kill.point and kill.point.step == "acked" else Proof.NONE
        for message in messages:
            rig.waits_for(message, lambda one: one.is_settled and one.proof >= wants, LONGEST)
        exit_code = daemon.stop(LONGEST)
        verdict = judged(rig, messages, rig.receiver.received()[start:])
        if exit_code:
            verdict = Verdict(verdict.result, (*verdict.violations, f"the next daemon ended with {exit_code}"))
        return str(kill), verdict
    finally:
        rig.rest()


def judged(rig: PostRig, messages: Sequence[str], posts: Sequence[dict[str, Any]]) -> Verdict:
    """What came of some messages, by what the receiver was sent meanwhile."""
    results = {message: _result(rig, message, [one for one in posts if message in one["body"]]) for message in messages}
    worst = max(results.values(), key=RESULTS.index)
    wrong = [
        f"{result}:\n{rig.story(one)}\n{_told(posts)}" for one, result in results.items() if result not in {ONCE, AGAIN}
    ]
    return Verdict(worst, (*wrong, *(f"not signed: {why}" for why in map(_unsigned, posts) if why)))


def _result(rig: PostRig, message: str, posts: Sequence[dict[str, Any]]) -> str:
    standing = rig.standing(message)
    if standing is None:
        return "lost"
    if not standing.is_settled:
        return "still held"
    if not any(one["answer"] == "204" for one in posts):
        return "lost"
    held = [one for one in posts if one["answer"] != REFUSED]
    if len({(one["headers"]["webhook-id"], one["body"]) for one in held}) > 1:
        return "another eventId"
    return ONCE if len(held) == 1 else AGAIN


def _unsigned(post: dict[str, Any]) -> str:
    try:
        Webhook(KEY).verify(post["body"], post["headers"])
    except WebhookVerificationError as wrong:
        # what was sent minutes ago is too old for it, and was in time then
        return "" if "timestamp too old" in str(wrong) else str(wrong)
    return ""


def _told(posts: Sequence[dict[str, Any]]) -> str:
    return "\n".join(f"  {one['answer']} {json.loads(one['body'])['eventId']} {one['body']}" for one in posts)


# -- scenes ----------------------------------------------------------------------------------------------------------


def plainly(rig: PostRig, point: Point) -> list[str]:
    """A message to a receiver that takes it."""
    rig.receiver.says("204")
    return _dying(rig, point)


def turned_away(rig: PostRig, point: Point) -> list[str]:
    """A receiver that does not know us at first."""
    rig.receiver.says(REFUSED, "204")
    return _dying(rig, point)


def failing(rig: PostRig, point: Point) -> list[str]:
    """A receiver that fails at first, and may have it."""
    rig.receiver.says("503", "204")
    return _dying(rig, point)


def joining(rig: PostRig, point: Point) -> list[str]:
    """A second message while the first waits for a suspended receiver."""
    rig.receiver.says(REFUSED, REFUSED, "204")
    first = rig.mail(f"first, dies at {point}")
    daemon = rig.dying(point)
    rig.waits_for(first, lambda standing: standing.hold == "unreachable", LONGEST)
    second = rig.mail(f"second, dies at {point}")
    _dies(daemon, point)
    return [first, second]


def acknowledging(rig: PostRig, point: Point) -> list[str]:
    """The mail is read after the wake."""
    rig.receiver.says("204")
    message = rig.mail(f"dies at {point}")
    daemon = rig.dying(point)
    rig.waits_until_settled(message)
    with MemoryCore(rig.plain.graph) as core:
        core.mark_read(message)
    _dies(daemon, point)
    return [message]


def in_flight(rig: PostRig, point: Point) -> list[str]:
    """The receiver has read all of it and does not answer."""
    del point
    count = len(rig.receiver.received())
    rig.receiver.says("hang")
    message = rig.mail("dies in the middle")
    daemon = rig.daemon()
    deadline = time.monotonic() + LONGEST
    while len(rig.receiver.received()) == count:
        assert time.monotonic() < deadline, f"it was never posted:\n{daemon.log()[-3000:]}"
        time.sleep(POLL)
    daemon.kill()
    return [message]


def _dying(rig: PostRig, point: Point) -> list[str]:
    message = rig.mail(f"dies at {point}")
    _dies(rig.dying(point), point)
    return [message]


def _dies(daemon: DaemonProcess, point: Point) -> None:
    deadline = time.monotonic() + LONGEST
    while daemon.process.poll() is None:
        assert time.monotonic() < deadline, f"it never came to {point}:\n{daemon.log()[-3000:]}"
        time.sleep(POLL)
    assert daemon.process.returncode == -signal.SIGKILL, f"it ended otherwise:\n{daemon.log()[-3000:]}"
