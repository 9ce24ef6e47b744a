"""What tests share: a tmux server, and wake-bridge as a person has it, each of their own."""

from __future__ import annotations

import gc
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.nursery import born_command, born_daemon
from tests.programs import cannot
from tests.spread import Spread, begins
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.tmux_programs import TmuxProgram, tmux_programs

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

TMUX_PROGRAMS: list[TmuxProgram | None] = [*tmux_programs()] or [None]
"""Every test that asks for tmux runs on each; the only one has no name of its own in a test's."""


# how long an example takes says how busy the machine is
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """`--dist loadscope` spreads tests as `tests.spread` says."""
    return Spread(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are made and none is thrown away: to look for garbage among them is a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first; those of a kind stay in the order that the seed gave them."""
    items.sort(key=begins)


Sandbox.processes = staticmethod(born_command)
Sandbox.daemon_processes = staticmethod(born_daemon)  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def executed_daemons() -> Iterator[None]:
    """For these tests a daemon is a new interpreter, as a person starts it, and not born in the nursery."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "daemon_processes", staticmethod(DaemonProcess))
        yield


@pytest.fixture(scope="session")
def program() -> tuple[str, ...]:
    """The installed console script."""
    return (str(Path(sys.executable).with_name("wake-bridge")),)


@pytest.fixture(
    scope="session",
    params=TMUX_PROGRAMS,
    ids=[pytest.HIDDEN_PARAM] if len(TMUX_PROGRAMS) == 1 else [one.name for one in TMUX_PROGRAMS if one],
)
def tmux_program(request: pytest.FixtureRequest) -> Iterator[str]:
    """The tmux to test with, first on PATH. A laptop may lack it, and skips; where CI is set its tests must run."""
    program: TmuxProgram | None = request.param
    if program is None:
        cannot("tmux is not installed")
    with program.first_on_path():
        yield str(program.path)


@pytest.fixture(scope="session")
def tmux_version(tmux_program: str) -> tuple[int, int]:
    """Its version, `(3, 3)` for 3.3a."""
    return TmuxProgram.at(Path(tmux_program)).version


@pytest.fixture
def tmux(tmux_program: str) -> Iterator[PrivateTmux]:  # noqa: ARG001 - asked for what it demands
    """A tmux server on a socket of its own; it starts with the first pane."""
    with PrivateTmux() as server:
        yield server


@pytest.fixture
def playground(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Playground]:  # noqa: ARG001
    """wake-bridge in a HOME of its own, and a tmux server to put agents in; nothing of it is started yet."""
    with Playground(tmp_path, program) as world:
        yield world


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> PostgresServer:
    """A PostgreSQL server, started by the first test that asks for it; its databases are made for each test."""
    # a test that asks for none needs no driver for one
    from tests.postgres import PostgresServer

    run = getattr(request.config, "workerinput", {}).get("testrunuid", uuid.uuid4().hex)
    return PostgresServer.started(run[:12])


@pytest.fixture(scope="session")
def postgres_database(postgres: PostgresServer) -> Iterator[str]:
    """The database of this worker; its tests have it one after the other."""
    url = postgres.database()
    yield url
    postgres.drop(url)


@pytest.fixture
def postgres_url(postgres: PostgresServer, postgres_database: str) -> str:
    """A database with an empty graph."""
    return postgres.emptied(postgres_database)
