"""The mock model that the real programs are run against, asked in each of its four protocols."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.model.scenes import COMMAND, PLAY
from tests.harness.model.server import MockModel

DIGEST = '[WAKE] 1 event for @you: 1 new message (latest: "請看 🚀" from @me)\nlast line'
SHELLS = {"anthropic": "Bash", "completions": "bash", "responses": "exec_command", "gemini": "run_shell_command"}


def _request(protocol: str, text: str) -> tuple[str, dict[str, Any]]:
    """A path and a body that asks for a streamed answer, with a shell as the only tool."""
    tool = SHELLS[protocol]
    match protocol:
        case "anthropic":
            messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
            return "/v1/messages", {"messages": messages, "stream": True, "tools": [{"name": tool}]}
        case "completions":
            messages = [{"role": "system", "content": "be good"}, {"role": "user", "content": text}]
            tools = [{"type": "function", "function": {"name": tool}}]
            return "/v1/chat/completions", {"messages": messages, "stream": True, "tools": tools}
        case "responses":
            items = [{"role": "user", "content": [{"type": "input_text", "text": text}]}]
            return "/v1/responses", {"input": items, "stream": True, "tools": [{"type": "function", "name": tool}]}
        case _:
            contents = [{"role": "user", "parts": [{"text": text}]}]
            body = {"contents": contents, "tools": [{"functionDeclarations": [{"name": tool}]}]}
            return "/v1beta/models/mock:streamGenerateContent?alt=sse", body


@pytest.fixture
def model(tmp_path: Path) -> Iterator[MockModel]:
    """A server that is up."""
    made = MockModel(tmp_path / "requests.jsonl")
    made.start()
    yield made
    made.close()


def _ask(model: MockModel, protocol: str, text: str) -> str:
    path, body = _request(protocol, text)
    request = urllib.request.Request(model.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("protocol", SHELLS)
def test_what_a_program_asks_is_written_down_to_the_byte(model: MockModel, protocol: str) -> None:
    """Presence one can trust: the request log is the proof of what reached the program."""
    assert "Noted." in _ask(model, protocol, DIGEST)

    (request,) = model.requests()
    assert request.asked.protocol == protocol
    assert request.asked.messages == ((DIGEST,),)
    assert request.asked.tools == {SHELLS[protocol]}
    assert not request.asked.is_after_tool


@pytest.mark.parametrize("protocol", SHELLS)
def test_a_scene_may_call_the_programs_own_shell(model: MockModel, protocol: str) -> None:
    """The tool scene: the program asks its person whether the command may run."""
    answer = _ask(model, protocol, PLAY.format("tool"))

    assert SHELLS[protocol] in answer
    assert COMMAND.partition(";")[0] in answer


@pytest.mark.parametrize("protocol", SHELLS)
@pytest.mark.parametrize("scene", ["streaming", "thinking"])
def test_an_answer_stands_until_the_test_lets_it_end(model: MockModel, protocol: str, scene: str) -> None:
    """The scenes in which a turn runs: as long as is needed to look at it, and no longer."""
    model.stage.holds()
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(_ask(model, protocol, PLAY.format(scene))))
    asking.start()
    while not model.stage.waiting:
        asking.join(0.02)
        assert asking.is_alive()
    assert not answers

    model.stage.goes_on()
    asking.join(20)

    assert not asking.is_alive()
    assert ("line 1 of" if scene == "streaming" else "Thought it over") in answers[0]
