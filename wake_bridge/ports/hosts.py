"""The links to other hosts, as an adapter sees them.

Contract: a wake that was answered with a 2xx is on the disk of the other host. One that was handed over and not answered may be
there: the same bytes may be handed over again, and count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from wake_bridge.domain.hosts import AnswerThere, MailThere
from wake_bridge.domain.values import dataclass


class NotSentThere(Exception):
    """No byte of the wake has left; the text says why, in one clause."""


class UnansweredThere(Exception):
    """It was sent, or part of it, and no answer came; the text says why, in one clause."""


@dataclass(frozen=True, slots=True)
class HostReply:
    """What the daemon over there answered: the status as HTTP has it, and why, where it refused."""

    status: int
    why: str = ""


class HostLinks(Protocol):
    """See the module's contract."""

    def why_away(self, host: str) -> str:
        """Why nothing can be handed to the daemon of a host now, one clause; empty where it can."""

    async def hand_over(self, host: str, envelope: str) -> HostReply:
        """Sign an envelope with the key of the link and hand it over. Raises `NotSentThere` or `UnansweredThere`."""


class HostAnswers(Protocol):
    """Mail that has to be answered on other hosts; see the module's contract."""

    def hosts_up(self) -> Sequence[str]:
        """The hosts whose daemons can be asked now."""

    async def answers(self, host: str, asked: Sequence[MailThere]) -> Sequence[AnswerThere]:
        """What became on a host of mail that has to be answered, in the order in which it was asked for.

        A release that does not know the question says `UNASKED` of all. Raises `NotSentThere` or `UnansweredThere`.
        """

    async def tell_answered(self, host: str, answered: Sequence[MailThere]) -> None:
        """Tell a host what was answered here, signed as its wakes are; twice is as once.

        Raises `NotSentThere` or `UnansweredThere`.
        """


@runtime_checkable
class HostServed(Protocol):
    """What an adapter offers besides, if it reaches agents through daemons of other hosts."""

    def serve_hosts(self, links: HostLinks) -> None:
        """Be told, once, of the links."""
