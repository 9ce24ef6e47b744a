"""Items over HTTP: curl wakes a pane, on a host without a graph and beside one, over loopback and over a Unix socket."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.programs import needs
from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing.playground import AgentPane, Playground


class Entrance(NamedTuple):
    """A served host with one agent, and what may be posted to it."""

    sandbox: Sandbox
    agent: AgentPane
    port: int

    def token(self, source: str) -> str:
        return str(self.sandbox.ask("sources", "token", source)["token"])

    def posts(self, path: str, body: object, *headers: str) -> tuple[int, dict[str, Any]]:
        """What curl gets for a body."""
        return curl(f"http://127.0.0.1:{self.port}{path}", body, *headers)


def curl(url: str, body: object, *headers: str, socket: str = "") -> tuple[int, dict[str, Any]]:
    needs("curl")
    text = body if isinstance(body, str) else json.dumps(body)
    told = [part for one in ("Content-Type: application/json", *headers) for part in ("-H", one)]
    through = ["--unix-socket", socket] if socket else []
    answer = subprocess.run(
        ["curl", "-sS", "-w", "\n%{http_code}", *through, *told, "--data-binary", "@-", url],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    said, _, status = answer.stdout.rpartition("\n")
    return int(status), json.loads(said) if said.startswith("{") else {}


@pytest.fixture
def entrance(playground: Playground) -> Entrance:
    """`serve` on a free port, with the one agent @api, and sources of CI, GitHub, Alertmanager and A2A."""
    here = playground.sandbox
    agent = playground.agent("api")
    here.configure(
        f'{QUICK}[http]\nlisten = "127.0.0.1:0"\n[targets."@api"]\npane = "{agent.session}"\n'
        '[sources.ci]\nidentities = ["@api"]\ntiers = ["now", "next"]\n'
        + "".join(
            f'[sources.{one}]\nmode = "active"\nidentities = ["@api"]\n' for one in ("github", "alertmanager", "a2a")
        )
    )
    here.run("sources", "token", "ci")
    daemon = here.daemon(command="serve")
    (told,) = daemon.waits_for_log("http_listening")
    return Entrance(here, agent, int(told["where"].rpartition(":")[2]))


def test_a_daemon_whose_address_is_taken_says_so_before_it_is_ready(playground: Playground) -> None:
    """A service manager must not hear that it is ready, and nothing is left of it."""
    here = playground.sandbox
    here.run("init")
    here.run("sources", "token", "ci")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        here.configure(f'{QUICK}[http]\nlisten = "127.0.0.1:{taken.getsockname()[1]}"\n')
        said = here.run("run", expect=1)

    assert "in use" in said.stderr
    assert "daemon_started" not in said.stdout + said.stderr
    assert not (here.state_dir / "daemon.sock").exists()


def test_curl_wakes_an_agent_by_the_token_of_its_source(entrance: Entrance) -> None:
    """What is answered 202 is on disk; the digest names the source; the inbox has the text."""
    bearer = f"Authorization: Bearer {entrance.token('ci')}"

    status, said = entrance.posts(
        "/api/inbox", {"identity": "@api", "text": "main is red", "mode": "active", "priority": "high"}, bearer
    )

    assert (status, said["status"]) == (202, "accepted")
    entrance.sandbox.waits_for_delivery(target="@api", outcome="submitted")
    (submit,) = entrance.agent.fake.submits()
    assert '"main is red" from ci, high' in submit
    assert "Read: wake-bridge inbox @api" in submit
    wake = entrance.sandbox.waits_for_delivery(target="@api", outcome="submitted")
    (item,) = entrance.sandbox.lines("inbox", "@api")
    assert (item["id"], item["source"]) == (said["items"][0]["id"], "ci")
    assert item["deliveredAt"] == wake["settledAt"]
    told = entrance.sandbox.ask("why", item["id"])
    assert "acknowledged" in told["verdict"]


def test_githubs_failed_run_wakes_an_agent_and_its_success_withdraws_or_tells_once(entrance: Entrance) -> None:
    """GitHub's own body and signature are taken as they come; a token makes the path, and none unmakes it."""
    body: dict[str, Any] = {
        "action": "completed",
        "repository": {"full_name": "acme/api"},
        "sender": {"login": "octocat"},
        "workflow_run": {
            "name": "tests",
            "head_branch": "main",
            "conclusion": "failure",
            "html_url": "https://github.com/acme/api/actions/runs/1",
        },
    }
    assert entrance.posts("/api/inbox/github", body)[0] == 404
    secret = entrance.token("github")

    def hook(text: str) -> tuple[int, dict[str, Any]]:
        made = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        return entrance.posts(
            "/api/inbox/github", text, f"X-Hub-Signature-256: sha256={made}", "X-GitHub-Event: workflow_run"
        )

    assert hook(json.dumps(body))[0] == 202
    entrance.sandbox.waits_for_delivery(target="@api", outcome="submitted")
    assert "tests on main of acme/api: failure" in entrance.agent.fake.submits()[0]
    assert hook(json.dumps(body))[1]["status"] == "known"

    green = {**body, "workflow_run": {**body["workflow_run"], "conclusion": "success"}}
    assert hook(json.dumps(green))[1]["items"][0]["was"] == "new"
    assert entrance.posts("/api/inbox/github", body, "X-Hub-Signature-256: sha256=00", "X-GitHub-Event: push")[0] == 401
    entrance.sandbox.run("sources", "token", "github", "--remove")
    assert hook(json.dumps(body))[0] == 404


def test_alertmanagers_alerts_open_and_resolve_by_their_fingerprints(entrance: Entrance) -> None:
    """Each alert is an item: told once while it fires, and once when it is over."""
    bearer = f"Authorization: Bearer {entrance.token('alertmanager')}"

    def alerts(status: str) -> tuple[int, dict[str, Any]]:
        one = {
            "status": status,
            "labels": {"alertname": "DiskFull", "severity": "critical", "instance": "db1"},
            "annotations": {"summary": "95 % used on db1"},
            "startsAt": "2026-11-29T16:00:00Z",
            "fingerprint": "c2f1a4",
        }
        return entrance.posts("/api/inbox/alertmanager", {"version": "4", "status": status, "alerts": [one]}, bearer)

    assert alerts("firing")[1]["items"][0]["was"] == "new"
    entrance.sandbox.waits_for_delivery(target="@api", outcome="submitted")
    assert "DiskFull is firing: 95 % used on db1" in entrance.agent.fake.submits()[0]
    assert alerts("firing")[1]["items"][0]["was"] == "same"
    assert alerts("resolved")[1]["items"][0]["was"] == "new"
    assert alerts("resolved")[1]["items"][0]["was"] == "same"


def test_a_task_of_an_a2a_agent_is_told_as_it_stands_last(entrance: Entrance) -> None:
    """A2A's push notification, with its own header for the token."""
    token = f"X-A2A-Notification-Token: {entrance.token('a2a')}"
    task = {
        "kind": "task",
        "id": "t-7",
        "contextId": "c-1",
        "status": {"state": "input-required", "message": {"parts": [{"kind": "text", "text": "which branch?"}]}},
    }

    assert entrance.posts("/api/inbox/a2a", task, token)[0] == 202
    entrance.sandbox.waits_for_delivery(target="@api", outcome="submitted")
    assert "task t-7 is input-required: which branch?" in entrance.agent.fake.submits()[0]


def test_what_is_wrong_is_refused_with_its_field_and_nothing_comes_in(entrance: Entrance) -> None:
    """Empty text, unknown words, another's identity, tier or source: 4xx, and an empty inbox."""
    bearer = f"Authorization: Bearer {entrance.token('ci')}"
    right = {"identity": "@api", "text": "x"}
    for wrong, status, field in (
        ({**right, "text": "  "}, 422, "text"),
        ({**right, "tier": "soon"}, 422, "tier"),
        ({**right, "priority": "urgent"}, 422, "priority"),
        ({**right, "mode": "active", "tier": "next"}, 422, "tier"),
        ({**right, "state": "open"}, 422, "state"),
        ({**right, "identity": "api"}, 422, "identity"),
        ({**right, "identity": "@other"}, 403, "identity"),
        ({**right, "tier": "later"}, 403, "tier"),
        ({**right, "source": "github"}, 403, "source"),
        ({**right, "mode": "prompt"}, 403, "mode"),
        ({**right, "text": "x" * 70_000}, 413, None),
    ):
        got, said = entrance.posts("/api/inbox", wrong, bearer)
        assert (got, said.get("field")) == (status, field), wrong
    assert entrance.posts("/api/inbox", "[1]", bearer)[0] == 422
    assert entrance.posts("/api/inbox", right, bearer, "Origin: http://evil.example")[0] == 403
    assert entrance.posts("/api/inbox", right, bearer, "Host: evil.example")[0] == 403
    assert entrance.sandbox.lines("inbox", "@api", "--floor", "later") == []


def test_forty_wrong_tokens_origins_and_hosts_let_nothing_in_and_nothing_out(entrance: Entrance) -> None:
    """An answer to a stranger names no source, no identity and no token."""
    token, other = entrance.token("ci"), entrance.token("alertmanager")
    body = json.dumps({"identity": "@api", "text": "let me in", "mode": "active"})
    tokens = [
        "",
        "x",
        token[:-1],
        f"{token}x",
        token.upper(),
        f" {token} x",
        f"{token},{token}",
        "é",
        "null",
        token[4:],
        "wbs_",
    ]
    wrong: list[tuple[str, list[str]]] = [
        *(("/api/inbox", [f"Authorization: Bearer {one}"]) for one in tokens),
        *(("/api/inbox", [f"Authorization: {scheme} {token}"]) for scheme in ("Basic", "Token", "wbs", "Digest")),
        ("/api/inbox", []),
        ("/api/inbox", [f"Authorization: Bearer {token}", f"Authorization: Bearer {other}"]),
        ("/api/inbox", [f"X-A2A-Notification-Token: {token}"]),
        ("/api/inbox", [f"Cookie: token={token}"]),
        (f"/api/inbox?token={token}", []),
        ("/api/inbox/alertmanager", [f"Authorization: Bearer {token}"]),
        ("/api/inbox/github", [f"Authorization: Bearer {token}"]),
        ("/api/inbox/a2a", [f"Authorization: Bearer {token}"]),
        ("/api/inbox/ci", [f"Authorization: Bearer {token}"]),
        ("/api/wake", [f"Authorization: Bearer {token}"]),
        *(
            ("/api/inbox", [f"Authorization: Bearer {token}", f"Origin: {origin}"])
            for origin in (
                "null",
                "http://evil.example",
                "http://localhost:3000",
                "https://127.0.0.1",
                "file://",
                "http://127.0.0.1",
            )
        ),
        *(
            ("/api/inbox", [f"Authorization: Bearer {token}", f"Host: {host}"])
            for host in (
                "evil.example",
                "127.0.0.1.nip.io",
                "0.0.0.0",
                "localhost.evil.example",
                "[::2]",
                "api",
                "10.0.0.1",
                "a b",
            )
        ),
        ("/api/inbox", [f"Authorization: Bearer {token}", "Sec-Fetch-Site: cross-site", "Origin: http://evil.example"]),
    ]
    assert len(wrong) >= 40

    for path, headers in wrong:
        status, said = entrance.posts(path, body, *headers)
        assert status in {400, 401, 403, 404}, (path, headers, status)
        assert set(said) <= {"error", "field"}, said
        assert not any(secret in json.dumps(said) for secret in (token, other, "@api", "ci")), said

    assert entrance.sandbox.lines("inbox", "@api", "--floor", "later") == []
    assert entrance.sandbox.deliveries() == []


def test_the_first_serve_in_a_terminal_makes_a_token_and_prints_it_once(playground: Playground) -> None:
    """Where nobody may send anything there is no server, but for a person who can read the token."""
    here = playground.sandbox
    agent = playground.agent("api")
    here.configure(f'{QUICK}[http]\nlisten = "127.0.0.1:0"\n[targets."@api"]\npane = "{agent.session}"\n')
    assert "no source has a token" in here.run("serve", expect=3).stderr

    def posted(port: int, token: str) -> int | None:
        """The answer; a daemon that is starting says 503, and when to try again."""
        body = {"identity": "@api", "text": "main is red", "mode": "active"}
        status, _ = curl(f"http://127.0.0.1:{port}/api/inbox", body, f"Authorization: Bearer {token}")
        return None if status == 503 else status

    def seen(times: int) -> str:
        log = here.home / f"typescript{times}"
        command = f"{' '.join(here.command)} serve"
        with subprocess.Popen(
            ["script", "-qfc", command, str(log)],
            env=here.environment,
            cwd=here.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ) as person:
            try:
                here.waits_for(lambda: log.exists() and "http_listening" in log.read_text(), what="the server")
                shown = log.read_text()
                if token := re.search(r"wbs_[\w-]{43}", shown):
                    port = int(re.findall(r"127\.0\.0\.1:(\d+)", shown)[-1])
                    assert here.waits_for(lambda: posted(port, token[0]), what="the daemon to have started") == 202
                    here.waits_for_delivery(target="@api", outcome="submitted")
            finally:
                person.terminate()
        return log.read_text()

    needs("script")
    first, second = seen(1), seen(2)
    assert '"main is red" from inbox' in agent.fake.submits()[0]

    (token,) = set(re.findall(r"wbs_[\w-]{43}", first))
    assert "it is not shown again" in first
    assert "wbs_" not in second
    assert stat.S_IMODE((here.state_dir / "sources.json").stat().st_mode) == 0o600
    assert token in (here.state_dir / "sources.json").read_text()


def test_a_daemon_with_a_graph_takes_items_in_over_a_unix_socket(playground: Playground, tmp_path: Path) -> None:
    """The socket is the user's own; the token is asked for all the same."""
    here = playground.sandbox
    agent = playground.agent("api")
    path = tmp_path / "in.sock"
    here.configure(f'{QUICK}[http]\nlisten = "unix:{path}"\n')
    here.run("init")
    here.enlist("@api", agent.session)
    here.run("run", "--once", expect=3)
    token = here.ask("sources", "token", "build")["token"]
    here.daemon()

    url, body = "http://localhost/api/inbox", {"identity": "@api", "text": "built", "mode": "active"}
    assert curl(url, body, socket=str(path))[0] == 401
    assert curl(url, body, f"Authorization: Bearer {token}", socket=str(path))[0] == 202

    here.waits_for_delivery(target="@api", outcome="submitted")
    assert '"built" from build' in agent.fake.submits()[0]
