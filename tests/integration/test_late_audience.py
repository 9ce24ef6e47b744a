"""A broadcast's message commits before the edges that say for whom it is; a busy writer takes long for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.desk import AGENT, OTHER, Desk, played

RECEIPT = {"deliveredAt": "2026-11-28T22:00:00.000Z", "readAt": None, "deliveryKind": "broadcast"}


async def broadcast(desk: Desk) -> str:
    message = desk.office.core.send(OTHER, "AGENT:*", "lane claim")
    await desk.office.reads()
    return message


@pytest.mark.parametrize("late", [200, 1000, 1900])
def test_whom_a_late_audience_leaves_out_is_not_woken(tmp_path: Path, late: int) -> None:
    """Until it is written, the broadcast seems to be for everybody."""

    async def story(desk: Desk) -> None:
        await desk.lets_pass(60)
        desk.office.core.identity("@third")
        message = await broadcast(desk)
        await desk.office.passes(late)
        desk.office.core.link(message, "@third", "DELIVERED_TO", RECEIPT)
        await desk.office.reads()
        await desk.lets_pass(60)

        assert desk.office.agent("agent").received == []

    played(tmp_path, story)


def test_whom_the_audience_names_is_woken_at_once(tmp_path: Path) -> None:
    """The wait is for the audience: once that is written, nothing is waited for."""

    async def story(desk: Desk) -> None:
        await desk.lets_pass(60)
        message = await broadcast(desk)
        await desk.office.passes(100)
        assert desk.office.agent("agent").received == []
        desk.office.core.link(message, AGENT, "DELIVERED_TO", RECEIPT)
        await desk.office.reads()
        await desk.office.passes(1000)

        assert len(desk.office.agent("agent").received) == 1

    played(tmp_path, story)


def test_a_broadcast_without_an_audience_is_told_after_two_seconds(tmp_path: Path) -> None:
    """Older writers leave no edges: then it is for everybody."""

    async def story(desk: Desk) -> None:
        await desk.lets_pass(60)
        await broadcast(desk)
        await desk.office.passes(1900)
        assert desk.office.agent("agent").received == []
        await desk.office.passes(1000)

        assert len(desk.office.agent("agent").received) == 1

    played(tmp_path, story)
