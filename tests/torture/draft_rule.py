"""The draft rule, and attacks on it.

If a person's key precedes the condition, the draft is byte-identical and nothing of ours is there; if it follows the paste,
our text is staged, unsubmitted, reported; the two are never submitted together. A key after Enter is the next draft.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.torture.rig import Standing, since
from wake_bridge.demo.fake_harness.screen import PASTE_END, PASTE_START
from wake_bridge.testing.crash_points import Point

REFUSED: Final = "refused, draft intact"
STAGED: Final = "staged, unsubmitted, reported"
AFTER: Final = "submitted alone, key after it"
BY_PERSON: Final = "the person's Enter sent ours"
RESULTS: Final = (REFUSED, STAGED, AFTER, BY_PERSON, "broken rule")

LONGEST_WAKE: Final = 0.9
"""Seconds from a committed message to what follows its Enter, in a pane that is watched."""

POINTS: Final = {
    "between look and paste": Point("intent_stage", "after"),
    "between paste and the last look": Point("staged", "after"),
    "between the last look and Enter": Point("intent_submit", "after"),
    "right after Enter": Point("submitted", "before"),
}
HEAD_STARTS: Final = (0.3, 0.0, -0.004, 0.004, -0.012, 0.03)
"""Seconds from the key to the daemon's going on: enough for the key to be first, then a race that either may win."""

IN_A_RACE: Final = ", in a race"


@dataclass(frozen=True, slots=True)
class Attack:
    """What a person does during one wake.

    Attributes:
        after: seconds from the committed message to the keys; or, where the daemon stands still, from the keys to its
            going on, negative for keys that come after that.
        keys: what is typed, at once.
        echo_delay: milliseconds until the agent shows it.
        aim: the moment at which the daemon stands still; empty for none.
    """

    after: float
    keys: str
    echo_delay: int = 0
    aim: str = ""

    @property
    def visible(self) -> str:
        """What of the keys is text."""
        return self.keys if self.keys.isalpha() else ""


def random_attacks(count: int, chance: random.Random) -> list[Attack]:
    """Keys at random phases of the wake; a third of them shown late."""
    return [
        Attack(
            after=chance.uniform(0.0, LONGEST_WAKE),
            keys=_keys(chance),
            echo_delay=chance.choice((200, 800, 1500)) if number % 3 == 0 else 0,
        )
        for number in range(count)
    ]


def aimed_attacks(count: int, aim: str, chance: random.Random) -> list[Attack]:
    """Keys right before the daemon's next command at one of `POINTS`."""
    return [Attack(HEAD_STARTS[number % len(HEAD_STARTS)], _keys(chance), aim=aim) for number in range(count)]


def _keys(chance: random.Random) -> str:
    """Mostly a few letters; now and then a key that leaves nothing to see, or the person's own Enter."""
    if chance.random() < 0.15:
        return chance.choice(("\r", "\x1b[D", "\x1b[A"))
    return "".join(chance.choice("bcdfghjklmpqrstvwxz") for _ in range(chance.randint(1, 6)))


def judge(
    attack: Attack, received: Sequence[Mapping[str, Any]], composer: str, standing: Standing | None
) -> tuple[str, list[str]]:
    """What came of it by the draft rule, and how the rule was broken.

    Args:
        attack: what the person did.
        received: the agent's log of this wake.
        composer: what stands in the composer.
        standing: what the ledger says.
    """
    pastes = since(received, 0, "paste")
    submits = [one["text"] for one in since(received, 0, "submit")]
    ours = {one["text"] for one in pastes}
    hold = standing.hold if standing else "lost"
    wrongs = [f"pasted over {one['composer']!r}" for one in pastes if one["composer"]]
    wrongs += [f"submitted together: {text!r}" for text in submits if text not in ours]
    if len(submits) > 1:
        wrongs.append("submitted more than once")
    if submits:
        if composer != attack.visible:
            wrongs.append(f"after the submit there stands {composer!r}")
        return (BY_PERSON if attack.keys == "\r" and _person_sent_it(received) else AFTER), wrongs
    if pastes:
        (text,) = ours
        if composer.replace(text, "", 1) != attack.visible or text not in composer:
            wrongs.append(f"neither ours and the key's nor anything like it: {composer!r}")
        if hold != "staged":
            wrongs.append(f"staged, but reported as {hold!r}")
        return STAGED, wrongs
    if composer != attack.visible:
        wrongs.append(f"the draft became {composer!r}")
    if hold not in {"userTyping", "active", "unknown"}:
        wrongs.append(f"refused, but reported as {hold!r}")
    return REFUSED, wrongs


def _person_sent_it(received: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one Enter came in, and no second that found nothing to send."""
    return not since(received, 0, "empty-enter")


def row_of(attack: Attack, received: Sequence[Mapping[str, Any]]) -> str:
    if attack.aim:
        return attack.aim + ("" if attack.after == max(HEAD_STARTS) else IN_A_RACE)
    return _phase(attack, received) + (", shown late" if attack.echo_delay else "")


def _phase(attack: Attack, received: Sequence[Mapping[str, Any]]) -> str:
    """Where among our bytes the key came in."""
    stream = b"".join(bytes.fromhex(one["hex"]) for one in since(received, 0, "bytes"))
    if attack.keys == "\r":
        return "the person's Enter"
    before, pasted, rest = stream.partition(PASTE_START)
    if not pasted or attack.keys.encode() in before:
        return "before the paste"
    gap = rest.partition(PASTE_END)[2].partition(b"\r")[0]
    return "after the paste, before Enter" if attack.keys.encode() in gap else "after Enter"
