"""Every trap of tmux gets its one answer, in whatever room and size, whoever looks on.

The table is `trap_table.py`, the rooms are in `house.py`. The quick form takes each trap into two cells so that all
rooms, sizes and onlookers come up many times; torture takes each into every room before every onlooker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from tests.integration.tmux.conftest import Scene
from tests.integration.tmux.house import ONLOOKERS, ROOMS, SIZES, Cell, House
from tests.integration.tmux.trap_table import TRAPS, Come, Trap
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import HoldReason, Step
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Failed, Nowhere, Refused, Unknown, Wake
from wake_bridge.testing import until

Place = tuple[str, str, str]

QUICK: Final = 2
"""Cells for each trap in the quick form."""


def _places() -> list[Place]:
    """Every room before every onlooker, in ever different sizes."""
    sizes = list(SIZES)
    rooms_and_onlookers = enumerate(product(ROOMS, ONLOOKERS))
    return [(onlooker, sizes[(n + n // 3) % 3], room) for n, (room, onlooker) in rooms_and_onlookers]


def _fitting(trap: Trap) -> list[Place]:
    return [place for place in _places() if not trap.needs_client or _can_be_typed_in(place)]


def _cells() -> Iterator[tuple[Trap, Place]]:
    for number, trap in enumerate(TRAPS):
        fitting = _fitting(trap)
        if not trap.slow:
            # 5 shares no factor with the number of places: after as many traps each came up
            for turn in range(QUICK):
                yield trap, fitting[(number * 5 + turn * (len(fitting) // 2 + 1)) % len(fitting)]


def _can_be_typed_in(place: Place) -> bool:
    """Whether a key of the onlooker goes to the agent: no popup takes it, and no pane in front."""
    onlooker, _, room = place
    return onlooker == "a client" and room not in {"under a popup", "behind a zoomed pane"}


def _named(value: object) -> str:
    return value.name if isinstance(value, Trap) else " ".join(value) if isinstance(value, tuple) else ""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, tmux_program: str) -> Iterator[House]:  # noqa: ARG001
    """All sessions with their onlookers, once for all cells."""
    with PrivateTmux() as tmux, PrivateTmux() as outer, PrivateTmux() as stranger:
        yield House(tmp_path_factory.mktemp("house"), tmux, outer, stranger)


@pytest.mark.parametrize(("trap", "place"), [*_cells()], ids=_named)
def test_a_trap_gets_its_answer(house: House, tmp_path: Path, trap: Trap, place: Place) -> None:
    """It is refused for its own reason, or submitted once; and nobody else gets a byte."""
    _try(house, tmp_path, trap, place)


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("trap", TRAPS, ids=_named)
def test_a_trap_gets_its_answer_everywhere(
    house: House, tmp_path: Path, trap: Trap, record_property: Callable[[str, object], None]
) -> None:
    """The same in every room before every onlooker."""
    for number, place in enumerate(_fitting(trap)):
        room = tmp_path / str(number)
        room.mkdir()
        print("in:", *place)
        _try(house, room, trap, place)
    record_property("trials", len(_fitting(trap)))


def _try(house: House, directory: Path, trap: Trap, place: Place) -> None:
    scene = Scene(house.tmux, directory)
    cell = Cell.furnished(house, scene, place, trap.start)
    try:
        wake = scene.wake(trap.text)
        _judge(cell, trap, wake, _outcome(cell, trap, wake))
        assert house.strays() == []
        cell.lift()
        assert scene.leftovers() == []
    finally:
        cell.clear()


def _outcome(cell: Cell, trap: Trap, wake: Wake) -> AttemptOutcome | Nowhere:
    cell.target = cell.agent.id
    if trap.when is None:
        trap.laid(cell)
    else:
        cell.scene.journal.on[trap.when] = lambda: trap.laid(cell)
    target = "" if cell.target == "by its mark" else cell.target
    found = cell.scene.resolve(cell.scene.address(target, socket=cell.socket))
    return found if isinstance(found, Nowhere) else cell.scene.deliver_at(found, wake)


def _received_at_last(cell: Cell) -> bytes:
    """What the agent got, once the person's own keys are among it: the refusal may be quicker than they."""
    until(lambda: cell.agent.fake.bytes_received().endswith(cell.persons), "the person's keys")
    return cell.agent.fake.bytes_received()


def _judge(cell: Cell, trap: Trap, wake: Wake, outcome: AttemptOutcome | Nowhere) -> None:
    received, frame = _received_at_last(cell), b"\x1b[200~" + wake.text.encode() + b"\x1b[201~"
    come, reason = trap.answer.come, trap.answer.reason
    if come is Come.ONCE:
        assert isinstance(outcome, Delivered), outcome
        assert cell.agent.fake.submits() == [wake.text]
        assert received == frame + b"\r"
    elif come is Come.STAGED:
        assert isinstance(outcome, Refused), outcome
        assert outcome.reason is reason
        assert received == frame + cell.persons
    elif come is Come.UNKNOWN:
        assert isinstance(outcome, Unknown), outcome
        assert received == frame
    else:
        kind = {Come.REFUSED: Refused, Come.NOWHERE: Nowhere, Come.UNFIT: Failed}[come]
        assert isinstance(outcome, kind), outcome
        assert reason is None or getattr(outcome, "reason") is reason, outcome  # noqa: B009 - of two kinds
        assert received == cell.persons
        assert reason is not HoldReason.COPY_MODE or cell.format("#{pane_in_mode}") == "1"
        assert Step.STAGED.value not in cell.scene.journal.names
