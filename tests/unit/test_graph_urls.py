"""`graph.url`: what it may be, what nobody is told of it, and how the connection is secured."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from wake_bridge.config.settings import load_settings
from wake_bridge.domain.errors import ConfigurationInvalid, SourceUnavailable
from wake_bridge.domain.graph_places import GraphUrl, graph_place
from wake_bridge.storage.graph.opened import open_graph
from wake_bridge.storage.graph.postgres.connection import connect_options, libpq_defaults

PASSWORD = "correct-horse"


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's own settings counts."""
    for name in ("PGSSLMODE", "PGSSLROOTCERT", "PGCONNECT_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@db/wake",
        f"postgres://me:{PASSWORD}@db:5433,other/wake",
        f"postgresql://db/wake?user=me&password={PASSWORD}",
        f"postgresql://db/wake?sslpassword={PASSWORD}",
        f"postgresql://db/wake?PASSWORD={PASSWORD}",
        f"postgresql://me:{PASSWORD}#2@db/wake",
        f"postgresql://me:x#{PASSWORD}@db/wake",
        f"postgresql://me:x/{PASSWORD}@db/wake",
        f"postgresql://me:12/{PASSWORD}@db/wake",
        f"postgresql://me:x?y={PASSWORD}@db/wake",
        f"postgresql://me:x&{PASSWORD}@db/wake",
        f"postgresql://me:x@{PASSWORD}@db/wake",
        f"postgresql://me:x {PASSWORD}@db/wake",
        f'postgresql://me:x\\"{PASSWORD}@db/wake',
        f"postgresql://db/wake?password=x {PASSWORD}",
    ],
)
def test_a_password_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    """Everybody who reads the file or looks at `ps` would see it: it belongs into ~/.pgpass, and no mistake repeats it."""
    config = tmp_path / "config.toml"
    config.write_text(f'[graph]\nurl = "{url}"\n')
    with pytest.raises(ConfigurationInvalid) as refused:
        load_settings(str(config), {})
    told = str(refused.value) + "".join(refused.value.problems)
    assert "~/.pgpass" in told
    assert PASSWORD not in told


@pytest.mark.parametrize("scheme", ["postgresql", "PostgreSQL", " postgres"])
def test_a_url_is_no_file_and_its_password_is_not_repeated(scheme: str, tmp_path: Path) -> None:
    """In `graph.path` it would name a file, and be shown wherever that is."""
    config = tmp_path / "config.toml"
    config.write_text(f'[graph]\npath = "{scheme}://me:{PASSWORD}@db/wake"\n')
    with pytest.raises(ConfigurationInvalid) as refused:
        load_settings(str(config), {})
    told = str(refused.value) + "".join(refused.value.problems)
    assert "graph.url" in told
    assert PASSWORD not in told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@db:5432,[::1]:5433/wake?application_name=me@laptop",
        "postgresql://me@db:/wake",
        "postgresql://me%40home@db/a@b",
        "postgresql:///wake?host=/run/a@b",
        "postgresql://db:port/wake",
    ],
)
def test_an_at_sign_alone_is_no_password(url: str) -> None:
    """Names of users, databases, directories and programs may have one."""
    assert GraphUrl(url).text == url


@pytest.mark.parametrize("text", ["mysql://db/wake", "postgresql://[db/wake", "db.example"])
def test_what_is_no_url_of_postgresql_is_a_mistake(text: str) -> None:
    """It is said before anything is tried."""
    with pytest.raises(ValueError, match="is no URL of PostgreSQL"):
        GraphUrl(text)


def test_one_database_has_one_key_however_it_is_written() -> None:
    """By the key a host has one daemon for each graph: user and options that say nothing of the place do not count."""
    one = GraphUrl("postgresql://a@db/wake")
    for other in ("postgres://b@db:5432/wake", "postgresql://db/wake?connect_timeout=3", "postgresql:///wake?host=db"):
        assert GraphUrl(other).key == one.key
    for other in ("postgresql://a@db/other", "postgresql://a@db2/wake", "postgresql://a@db:5433/wake"):
        assert GraphUrl(other).key != one.key


@pytest.mark.parametrize(
    ("url", "mode", "root"),
    [
        ("postgresql://db.example/wake", "verify-full", "system"),
        ("postgresql://10.0.0.1,localhost/wake", "verify-full", "system"),
        ("postgresql://db.example/wake?sslrootcert=/ca.crt", "verify-full", None),
        ("postgresql://db.example/wake?sslmode=require", None, None),
        ("postgresql:///wake", None, None),
        ("postgresql:///wake?host=/run/postgresql", None, None),
        ("postgresql://localhost:5432/wake", None, None),
        ("postgresql://[::1]/wake", None, None),
    ],
)
def test_a_server_elsewhere_must_prove_who_it_is(url: str, mode: str | None, root: str | None) -> None:
    """`sslmode=verify-full` by default, unless the URL says otherwise; on this machine there is no network to be secured."""
    asked = connect_options(GraphUrl(url))
    assert (asked.get("sslmode"), asked.get("sslrootcert")) == (mode, root)


def test_the_environment_may_say_how_the_connection_is_secured(monkeypatch: pytest.MonkeyPatch) -> None:
    """PGSSLMODE is libpq's own way to say it for all programs."""
    monkeypatch.setenv("PGSSLMODE", "require")
    assert "sslmode" not in connect_options(GraphUrl("postgresql://db.example/wake"))


def test_who_is_done_connecting_takes_no_ones_verification_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service file that says nothing of TLS, and several threads that connect at the same time."""
    monkeypatch.delenv("PGSSLMODE", raising=False)
    place = GraphUrl("postgresql:///?service=graph")
    first, second = ExitStack(), ExitStack()
    for one in (first, second):
        one.enter_context(libpq_defaults(place))
    first.close()
    assert os.environ["PGSSLMODE"] == "verify-full"
    second.close()
    assert "PGSSLMODE" not in os.environ


def test_a_path_and_a_url_are_one_too_many(tmp_path: Path) -> None:
    """Nobody should have to guess which graph is served."""
    config = tmp_path / "config.toml"
    config.write_text('[graph]\nurl = "postgresql://db/wake"\npath = "graph.sqlite"\n')
    with pytest.raises(ConfigurationInvalid, match="1 mistake") as refused:
        load_settings(str(config), {})
    assert "path and url name two graphs" in refused.value.problems[0]


def test_a_place_is_read_as_it_was_written() -> None:
    """State files and answers name the place as text."""
    for place in (GraphUrl("postgresql://me@db/wake?host=/run/x"), Path("/data/graph.sqlite")):
        assert graph_place(str(place)) == place


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install has no driver: a graph of that kind cannot be used, and everything else goes on."""
    for name in [one for one in sys.modules if one.startswith("wake_bridge.storage.graph.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SourceUnavailable, match="needs psycopg") as refused:
        open_graph(GraphUrl("postgresql://db/wake"))
    assert "pip install 'wake-bridge[postgres]'" in refused.value.hint
