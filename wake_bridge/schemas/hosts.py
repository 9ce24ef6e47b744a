"""What another host tells of its agents, as models: a release later may tell more, and nothing of it is trusted."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from wake_bridge.domain.hosts import AnswerState, AnswerThere
from wake_bridge.domain.names import IDENTITY_PATTERN, AttentionKind, parse_instant
from wake_bridge.schemas.host_rows import LONGEST


def _text(value: object) -> object:
    return value[:LONGEST] or None if isinstance(value, str) else None


def _time(value: object) -> object:
    return value if isinstance(value, str) and parse_instant(value) is not None else None


def _count(value: object) -> object:
    return value if type(value) is int and value >= 0 else 0


Text = Annotated[str | None, BeforeValidator(_text)]
Time = Annotated[str | None, BeforeValidator(_time)]
Count = Annotated[int, BeforeValidator(_count)]


class _Told(BaseModel):
    """What all parts have in common: camelCase names, unknown ones passed over, fixed once read."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class NeedElsewhere(_Told):
    """What a person is needed for over there."""

    what: Annotated[str, BeforeValidator(lambda value: _text(value) or "something needs you")] = "something needs you"
    remedy: Annotated[str, BeforeValidator(lambda value: _text(value) or "look there")] = "look there"
    since: Time = None


class EpisodeTold(_Told):
    """What an agent stands at over there and its person was to be told of; unheard where no channel there took it."""

    id: Annotated[str, Field(pattern=r"^[0-9A-Za-z]{1,64}$")]
    kind: AttentionKind
    since: Time = None
    is_unheard: bool = False


def _episode(value: object) -> object:
    """None for what a later release may tell, and this one cannot read."""
    with suppress(ValidationError):
        return EpisodeTold.model_validate(value)
    return None


class BudgetElsewhere(BaseModel):
    """The wakes that count against the limits over there."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    this_hour: Count = 0
    of_hour: Count = 0
    today: Count = 0
    of_day: Count = 0


class AgentElsewhere(_Told):
    """One agent of another host, with the names of `status --watch --json`; `way` is the command that shows it there."""

    agent_identity: Annotated[str, Field(pattern=rf"^{IDENTITY_PATTERN.pattern}$")]
    presence: Text = None
    looks_like: Text = None
    since: Time = None
    route: Text = None
    where: Text = None
    waiting: Count = 0
    items: Count = 0
    hold_reason: Text = None
    cause: Text = None
    held_for: Text = None
    held_since: Time = None
    last_wake: Time = None
    budget: BudgetElsewhere = BudgetElsewhere()
    attention: Text = None
    needs: tuple[NeedElsewhere, ...] = ()
    way: Text = None
    episode: Annotated[EpisodeTold | None, BeforeValidator(_episode)] = None


def agents_elsewhere(told: object) -> tuple[AgentElsewhere, ...]:
    """Those that can be read; one that cannot stops no other."""
    found: dict[str, AgentElsewhere] = {}
    for one in told if isinstance(told, list) else ():
        agent = _read(one)
        if agent is not None:
            found[agent.agent_identity] = agent
    return tuple(found.values())


def _read(one: Any) -> AgentElsewhere | None:
    try:
        return AgentElsewhere.model_validate(one)
    except ValidationError:
        return None


class AnswerElsewhere(_Told):
    """How one message stands over there; a state that a later release may know is none that ends anything here."""

    state: Annotated[AnswerState, BeforeValidator(lambda value: value if value in _STATES else AnswerState.OPEN)]
    left: Count = 0
    is_late: bool = False
    is_called: bool = False


_STATES: Final = frozenset(AnswerState)


def answers_elsewhere(said: object, count: int) -> list[AnswerThere]:
    """What was said of so many messages, in their order; what cannot be read is open still."""
    answers = said.get("answers") if isinstance(said, dict) else None
    found = [_answer(one) for one in answers] if isinstance(answers, list) else []
    return [*found, *[AnswerThere(AnswerState.OPEN)] * count][:count]


def _answer(one: Any) -> AnswerThere:
    try:
        read = AnswerElsewhere.model_validate(one)
    except ValidationError:
        return AnswerThere(AnswerState.OPEN)
    return AnswerThere(read.state, read.left, read.is_late, read.is_called)
