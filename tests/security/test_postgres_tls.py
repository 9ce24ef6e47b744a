"""A server on another machine proves who it is before anything is said to it; and nobody is told the password."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer, made_with_tls
from tests.programs import needs
from tests.security.test_canary_run import CommandLines
from wake_bridge.demo.sandbox import QUICK, Sandbox

# their command lines are looked at
pytestmark = pytest.mark.usefixtures("executed_daemons")

PASSWORD = "CANARYPASSWORD3c1f"
NAME = "db.example"


class Authority:
    """A CA of the test, whose certificate is `root`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.root = directory / "root.crt"
        self._openssl(
            "req", "-x509", *self._new_key("root"), "-subj", "/CN=an authority", "-days", "2", "-out", "root.crt"
        )

    def signs(self, name: str) -> tuple[Path, Path]:
        """Certificate and key for a host's name."""
        self._openssl("req", *self._new_key(name), "-subj", f"/CN={name}", "-out", f"{name}.csr")
        (self._directory / "names").write_text(f"subjectAltName=DNS:{name}\n", encoding="ascii")
        signed = ("-CA", "root.crt", "-CAkey", "root.key", "-CAcreateserial", "-extfile", "names", "-days", "2")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.crt")
        return self._directory / f"{name}.crt", self._directory / f"{name}.key"

    @staticmethod
    def _new_key(name: str) -> tuple[str, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._directory, check=True, capture_output=True)


class Site:
    """A server with a certificate for `db.example`, and a person with nothing but a URL; `said` is all they were told."""

    def __init__(self, directory: Path, program: tuple[str, ...], server: PostgresServer, port: int) -> None:
        self.box = Sandbox(directory, "no-such-server", program)
        self.server, self.port = server, port
        self.said: dict[str, str] = {}
        self.password_file = self.box.home / ".pgpass"
        self.root_file = self.box.home / ".postgresql/root.crt"
        self.root_file.parent.mkdir()

    def url(self, host: str = NAME, options: str = "") -> str:
        """Of the database, for its owner; no name is looked up."""
        return f"postgresql://wake_owner@{host}:{self.port}/wake?hostaddr=127.0.0.1{options}"

    def trusts(self, authority: Authority) -> None:
        """As libpq has it."""
        shutil.copy(authority.root, self.root_file)

    def knows(self, password: str) -> None:
        """As libpq has it."""
        self.password_file.write_text(f"{NAME}:{self.port}:wake:wake_owner:{password}\n", encoding="ascii")
        self.password_file.chmod(0o600)

    def runs(self, *words: str, url: str = "", expect: int | None = 0) -> str:
        """One command, as wordy as it can be; answers what it wrote to stderr."""
        told = {"WAKE_BRIDGE_GRAPH_URL": url} if url else {}
        done = self.box.run("-vv", *words, expect=expect, environment=told)
        self.said[f"{len(self.said)} {' '.join(words)}"] = done.stdout + done.stderr
        return done.stderr

    def is_refused(self, url: str, *, told: str, advice: str) -> None:
        """It ends with 4, names the place, says what is wrong and what to do."""
        said = self.runs("agent", "list", url=url, expect=4)
        assert said.startswith("error: ")
        assert told in said.lower()
        assert url in said
        assert advice in said.partition("hint: ")[2]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """That signed the server's certificate."""
    needs("openssl")
    return Authority(tmp_path / "authority")


@pytest.fixture
def site(tmp_path: Path, program: tuple[str, ...], authority: Authority) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="wbt-") as place:
        Path(place).chmod(0o755)
        server, port = made_with_tls(Path(place), *authority.signs(NAME))
        server.start()
        with contextlib.ExitStack() as ending:
            ending.callback(server.stop, "immediate")
            with server.connected() as admin:
                admin.execute(f"CREATE ROLE wake_owner LOGIN CREATEROLE PASSWORD '{PASSWORD}'".encode())
                admin.execute("CREATE DATABASE wake OWNER wake_owner")
            made = Site(tmp_path / "person", program, server, port)
            ending.enter_context(made.box)
            yield made


def test_a_server_proves_who_it_is_and_nobody_is_told_the_password(
    site: Site, authority: Authority, tmp_path: Path
) -> None:
    """`verify-full` with the CA's certificate; a wrong CA, a wrong name and a server without TLS are refused, with advice.

    The password comes from ~/.pgpass or a service file, and turns up nowhere else.
    """
    url = site.url()
    site.is_refused(url, told="certificate verify failed", advice="~/.postgresql/root.crt")
    site.trusts(authority)
    site.is_refused(url, told="no password supplied", advice="~/.pgpass")
    site.knows(f"{PASSWORD}-of-last-year")
    site.is_refused(url, told="password authentication failed", advice="~/.pgpass")
    site.knows(PASSWORD)
    site.runs("init", "--graph", url)
    site.box.configure(f'graph.url = "{url}"\n{QUICK}')

    other = Authority(tmp_path / "other")
    site.trusts(other)
    site.is_refused(url, told="certificate verify failed", advice="~/.postgresql/root.crt")
    site.trusts(authority)
    site.is_refused(site.url("db2.example"), told='does not match host name "db2.example"', advice="sslmode=require")
    with site.server.connected() as admin:
        admin.execute("ALTER SYSTEM SET ssl = off")
        admin.execute("SELECT pg_reload_conf()")
        site.is_refused(url, told="server does not support ssl", advice="sslmode=require")
        admin.execute("ALTER SYSTEM RESET ssl")
        admin.execute("SELECT pg_reload_conf()")

    # a service file's password; it counts more than the environment, and still the server is verified
    services = site.box.home / ".pg_service.conf"
    place = {"host": NAME, "hostaddr": "127.0.0.1", "port": site.port, "dbname": "wake", "user": "wake_owner"}
    lines = [f"{name}={value}" for name, value in {**place, "password": PASSWORD}.items()]
    services.write_text("\n".join(["[wake]", *lines, ""]), encoding="ascii")
    site.password_file.unlink()
    site.runs("agent", "add", "@ada", url="postgresql:///?service=wake")
    site.trusts(other)
    site.is_refused("postgresql:///?service=wake", told="certificate verify failed", advice="~/.postgresql/root.crt")
    site.trusts(authority)
    site.knows(PASSWORD)

    daemon = site.box.daemon(environment={"WAKE_BRIDGE_DAEMON_LOG_LEVEL": "debug"})
    with CommandLines(daemon.pid) as lines_seen:
        site.runs("send", "@ada", "--from", "@me", "--subject", "x")
        for words in (
            "config check",
            "doctor",
            "status",
            "hosts list",
            "list",
            "logs",
            "why MESSAGE:none",
            "--json status",
        ):
            site.runs(*words.split(), expect=None)
    daemon.stop()
    assert daemon.entries("caught_up")
    places = {**site.said, "the daemon's log": daemon.log(), **{f"ps: {one[:60]}": one for one in lines_seen.seen}}
    places |= {one.name: one.read_bytes().decode("latin-1") for one in site.box.state_dir.iterdir() if one.is_file()}
    places["the configuration"] = site.box.config_file.read_text(encoding="utf-8")
    assert [where for where, text in places.items() if PASSWORD in text] == []
    assert any("wake-bridge run" in line for line in lines_seen.seen)
