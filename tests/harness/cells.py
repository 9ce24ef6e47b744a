"""One cell of the table: a program in a state, a wake that comes meanwhile, and what the model got to read."""

from __future__ import annotations

import re
import time
from typing import Any, Final

from tests.harness.house import PATIENCE, House
from tests.harness.model.asked import Asked
from tests.harness.states import State, Visit

LOOKS: Final = 3
"""How often presence is asked while a wake waits; the daemon looks several times in between."""

WAKES_IN_IDLE: Final = 10
EVENTS: Final = 3
"""In a wake that has waited: two messages and a task that moved."""

SUBJECTS: Final = (
    "Review request",
    "請看這個檔案 🚀👍",
    'a `backtick`, $(touch x) and "quotes"',
    "! not a shell command",
    "/clear is not a command either",
    "mail for @README.md",
    "ends in a backslash \\",
    "café, naïve, Ωmega",
    "twice as long: " + "word " * 25,
    "# heading - and a list",
)


class Broken(AssertionError):
    """A rule was broken; the message says which."""


def run_cell(house: House, state: State) -> str:
    """Bring the program there, let a wake come, judge; answers what the table says of it.

    Raises:
        Broken: what was seen is not right.
        TimeoutError: something never came.
    """
    visit = Visit(house)
    house.waits_for_presence("idle")
    start = len(house.model.requests())
    state.put(visit)
    try:
        _presence_is_right(visit, state)
        delivery = _waits_and_comes(visit, state) if state.hold else _comes_at_once(house, f"mail in {state.name}")
        arrived_once(house, delivery, start)
    finally:
        state.tidy(visit)
    house.waits_for_presence("idle")
    arrived_once(house, delivery, start)
    return "pass"


def run_ten(house: House) -> str:
    """Ten wakes, one after the other, in an idle program."""
    house.waits_for_presence("idle")
    for number in range(WAKES_IN_IDLE):
        start = len(house.model.requests())
        delivery = _comes_at_once(house, SUBJECTS[number])
        arrived_once(house, delivery, start)
    return f"{WAKES_IN_IDLE} of {WAKES_IN_IDLE}"


def _presence_is_right(visit: Visit, state: State) -> None:
    """The state, and the reason for it: asked until both are told, and then by the command as a person has it."""
    expected, rules = state.presence(visit), state.why(visit)
    deadline = time.monotonic() + PATIENCE
    while not _is_told(found := visit.house.presence(), expected, rules):
        if time.monotonic() > deadline:
            seen = [(one["vote"], one["rule"], one["saw"]) for one in found["evidence"]]
            raise Broken(f"never {expected} because of {sorted(rules)}: {found['state']}, {found['why']}, {seen}")
        time.sleep(0.1)
    found = visit.house.explained()
    if not _is_told(found, expected, rules):
        raise Broken(f"{found['state']} because of {found['why']!r}, not {expected} because of {sorted(rules)}")


def _is_told(found: dict[str, Any], expected: str, rules: frozenset[str]) -> bool:
    decides = [one["rule"] for one in found["evidence"] if one["decides"]]
    return found["state"] == expected and any(rule in rules for rule in decides)


def _comes_at_once(house: House, subject: str) -> dict[str, Any]:
    message = house.bridge.send(house.identity, subject)
    return _is_submitted(house, message)


def _waits_and_comes(visit: Visit, state: State) -> dict[str, Any]:
    """Mail, more mail and a task that moves, while the state stands; then the state goes."""
    house, expected = visit.house, state.presence(visit)
    reasons = {"by presence": expected, "by view": visit.manners.scrolled_is[0]}
    reason = reasons.get(state.hold, state.hold)
    start = len(house.model.requests())
    before = house.look()
    message = _send_several(house, state.name)
    held = _is_held(house, message, reason)
    for _ in range(LOOKS):
        found = house.presence()
        if found["state"] != expected:
            raise Broken(f"it said {found['state']} ({found['why']}) while it was {expected}")
        time.sleep(1)
    if state.is_still and _rests(house, house.look().text) != _rests(house, before.text):
        raise Broken(f"the screen changed while a wake waited:\n{before.text}\n--- then\n{house.look().text}")
    if early := [one for one in house.model.requests(start) if one.asked.mentions(held["id"])]:
        raise Broken(f"{len(early)} requests told of the wake before the state allowed it")
    state.lift(visit)
    delivery = _is_submitted(house, message)
    if len(delivery["events"]) != EVENTS or delivery["id"] != held["id"]:
        raise Broken(f"{len(delivery['events'])} of {EVENTS} events were in the wake that came: {delivery}")
    return delivery


def _rests(house: House, text: str) -> str:
    """A screen without what fades on it by itself, such as a scroll bar."""
    fades = house.manners.fades
    return fades.sub("", text) if fades is not None else text


def _send_several(house: House, name: str) -> str:
    """Three events of two kinds, which one digest announces; answers the id of the first message."""
    task = house.bridge.send(house.identity, f"task in {name}", "--task")
    house.bridge.send(house.identity, f"mail in {name}", "--priority", "high")
    house.bridge.run("task", task, "canceled", "--as", "@me")
    return task


def _is_held(house: House, message: str, reason: str) -> dict[str, Any]:
    """The delivery that announces the message, once it waits for that reason."""
    return house.bridge.waits_for(
        lambda: next((one for one in house.deliveries_of(message) if one["hold_reason"] == reason), None),
        PATIENCE,
        f"a wake held because of {reason}",
    )


def _is_submitted(house: House, message: str) -> dict[str, Any]:
    """The delivery that announces the message, once it is settled; it must be the only one.

    Raises:
        Broken: there are several, or it ended in another way.
    """

    def settled() -> list[dict[str, Any]]:
        found = house.deliveries_of(message)
        return found if found and all(one["settledAt"] for one in found) else []

    found = house.bridge.waits_for(settled, PATIENCE, f"a wake for {message}")
    if [(one["state"], one["outcome"]) for one in found] != [("DELIVERED", "submitted")]:
        raise Broken(f"it ended otherwise: {found}")
    return found[0]


def arrived_once(house: House, delivery: dict[str, Any], start: int) -> None:
    """The digest is one text of one message of the conversation, exactly as it was frozen."""
    mark, digest = str(delivery["id"]), str(delivery["digest"])
    deadline = time.monotonic() + PATIENCE
    while not (told := [one.asked for one in house.model.requests(start) if _tells(house, one.asked, mark)]):
        if time.monotonic() > deadline:
            raise Broken(f"the model never got to read {mark}\n{house.look().text}")
        time.sleep(0.05)
    manners = house.manners
    exact = re.compile(manners.heads.pattern + re.escape(digest) + manners.adds.pattern, manners.adds.flags)
    for asked in told:
        texts = [text for message in asked.messages for text in message if mark in text]
        if len(texts) != 1:
            raise Broken(f"the model read of {mark} {len(texts)} times in one conversation")
        if not exact.fullmatch(texts[0]):
            raise Broken(f"the model did not read what was sent:\n{digest!r}\n--- but\n{texts[0]!r}")
    turns = [asked for asked in told if mark in asked.last and not asked.is_after_tool]
    if len(turns) != 1:
        raise Broken(f"{mark} began {len(turns)} turns")


def _tells(house: House, asked: Asked, mark: str) -> bool:
    """Whether it is the agent's conversation that tells of the mark: titles and the like are asked for without tools."""
    is_conversation = bool(asked.tools) or house.program.registry == "pypi"
    return is_conversation and asked.mentions(mark) > 0
