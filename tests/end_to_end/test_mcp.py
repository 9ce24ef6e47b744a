"""The MCP server with the official client: both protocol eras over stdio, and over HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed")

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.names import Identity
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG
from wake_bridge.testing.mcp_entrance import McpEntrance
from wake_bridge.testing.playground import Playground

CLIENT = """
import asyncio, json, os, pathlib, sys, time
from mcp import Client, StdioServerParameters

async def main(room, mode, command):
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    told = {}
    async with Client(server, mode=mode) as client:
        told["protocol"] = client.protocol_version
        told["tools"] = [one.model_dump(by_alias=True, exclude_none=True) for one in (await client.list_tools()).tools]
        calls = json.loads((room / "calls").read_text())
        answers = []
        for name, arguments in calls:
            answer = await client.call_tool(name, arguments)
            answers.append([answer.is_error, answer.structured_content, [one.text for one in answer.content]])
        told["answers"] = answers
    (room / "part").write_text(json.dumps(told))
    (room / "part").rename(room / "told")

room = pathlib.Path(sys.argv[1])
while not (room / "calls").exists():
    time.sleep(0.02)
asyncio.run(main(room, sys.argv[2], sys.argv[3:]))
"""


@pytest.fixture
def world(
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
    request: pytest.FixtureRequest,
) -> Iterator[Playground]:
    """On a graph in a file, or in PostgreSQL where a test says so."""
    with Playground(tmp_path, program) as made:
        if getattr(request, "param", "sqlite") == "postgres":
            made.sandbox.configure(f'graph.url = "{request.getfixturevalue("postgres_url")}"\n{QUICK}')
        made.sandbox.run("init")
        yield made


def plays(world: Playground, session: str, mode: str, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """A harness called `claude` in a pane of its own starts the server, and calls its tools with the official client."""
    room = world.directory / session
    room.mkdir()
    (room / "client.py").write_text(CLIENT)
    line = shlex.join([sys.executable, str(room / "client.py"), str(room), mode, *world.sandbox.command, "mcp"])
    environment = [f"{key}={value}" for key, value in world.sandbox.environment.items()]
    # under another name Python does not find its environment
    environment.append(f"PYTHONPATH={sysconfig.get_path('purelib')}")
    script = f"(exec -a claude {line}) 2> {room / 'errors'} || touch {room / 'told'}"
    world.tmux.new_pane(["env", *environment, "bash", "-c", script], session=session)
    world.sandbox.enlist("@mine", session)
    (room / "written").write_text(json.dumps(calls))
    (room / "written").rename(room / "calls")
    world.sandbox.waits_for((room / "told").exists, what="the client", timeout=HUNG)
    said = (room / "told").read_text()
    assert said, (room / "errors").read_text()
    told: dict[str, Any] = json.loads(said)
    return told


@pytest.mark.parametrize(
    ("mode", "protocol", "world"),
    [("legacy", "2025-11-25", "sqlite"), ("auto", "2026-07-28", "postgres")],
    indirect=["world"],
)
def test_an_agent_reads_and_answers_its_mail_by_tools_in_either_era(
    world: Playground, mode: str, protocol: str
) -> None:
    """The caller is whose pane the harness runs in; what is read is read, and what is refused says what to do."""
    sandbox = world.sandbox
    sandbox.run("agent", "add", "@mine")
    sandbox.run("agent", "add", "@boss")
    sent = sandbox.send("@mine", "please look", "--body", "The bug is in the parser.", sender="@boss")

    told = plays(
        world,
        "mine",
        mode,
        [
            ("presence", {}),
            ("check_inbox", {"consume": True}),
            ("send_message", {"to": "@boss", "subject": "Re: please look", "replyTo": sent}),
            ("check_inbox", {"floor": "soon"}),
        ],
    )

    assert told["protocol"] == protocol
    assert [one["name"] for one in told["tools"] if one["annotations"]["readOnlyHint"]] == ["presence", "list_channels"]
    presence, inbox, reply, refused = told["answers"]
    assert presence[1]["agentIdentity"] == "@mine"
    assert presence[2][-1].startswith("unread: 1")
    assert [(one["from"], one["body"]) for one in inbox[1]["messages"]] == [("@boss", "The bug is in the parser.")]
    assert [one[0] for one in told["answers"]] == [False, False, False, True]
    assert "floor: Input should be 'now', 'next' or 'later'" in refused[2][0]
    (answered,) = sandbox.lines("inbox", "@boss", "--bodies")
    assert (answered["messageId"], answered["from"], answered["inReplyTo"]) == (reply[1]["messageId"], "@mine", sent)
    assert sandbox.lines("inbox", "@mine", "--floor", "later") == []
    ledger = LedgerStore.open(sandbox.state_dir, read_only=True)
    assert ledger.announced(Identity("@mine"), [sent]) == {sent}
    ledger.close()


def test_over_http_only_the_token_says_who_calls(world: Playground) -> None:
    """The token alone opens the door, on loopback, for one identity; Host and Origin of a browser do not."""
    from httpx2 import AsyncClient
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    world.sandbox.run("agent", "add", "@mine")

    async def asks(address: str, token: str) -> Any:
        async with (
            AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http_client,
            Client(streamable_http_client(address, http_client=http_client)) as client,
        ):
            return (await client.call_tool("presence", {})).structured_content

    with McpEntrance(world.sandbox, "@mine") as entrance:
        token, file = entrance.token, entrance.token_file
        assert file.stat().st_mode & 0o777 == 0o600
        assert asyncio.run(asks(entrance.url, token))["agentIdentity"] == "@mine"
        good = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        assert [
            entrance.status(headers) for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "é"})
        ] == [401] * 3
        assert entrance.status({**good, "Host": "evil.example"}) == 421
        assert entrance.status({**good, "Origin": "https://evil.example"}) == 403
    file.chmod(0o644)
    refused = subprocess.run(
        [*world.sandbox.command, "mcp", "--http", "0", "--as", "@mine"],
        env=world.sandbox.environment,
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=False,
    )
    assert refused.returncode == 1
    assert "others can read the token" in refused.stderr
    assert os.fspath(file) in refused.stderr
