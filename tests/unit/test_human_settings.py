"""`[human]`: a command whose arguments cannot become code."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from wake_bridge.config.channel_fields import ChannelTable, HumanTable, takes_a_text_for_an_option


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["notify-send", "{title}", "{body}"],
        ["notify", "--title={title}", "--body={body}"],
        ["sh", "-c", 'notify-send "$1" "$2"', "sh", "{title}", "{body}"],
        ["/usr/local/bin/tell-me"],
        ["jq", "-r", ".title, .body"],
        ["ssh", "host", "tell-me"],
        ["notify-send", "-a", "watch", "{title}"],
        ["curl", "-d", "@-", "http://localhost/{other}"],
        ["jq", "{title: .title}"],
        ["xargs", "-I", "{}", "tell", "{}"],
    ],
)
def test_a_command_takes_the_texts_as_arguments_of_their_own(command: list[str]) -> None:
    """`[human]`: argv, and JSON on stdin."""
    assert HumanTable(command=tuple(command)).command == tuple(command)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["sh", "-c", "notify-send '{title}'"], "an argument of its own"),
        (["sh", "-c", "{body}"], "run as code"),
        (["bash", "-lc", "{title}"], "run as code"),
        (["python3", "-c", "{title}"], "run as code"),
        (["osascript", "-e", "{body}"], "run as code"),
        (["ssh", "host", "notify-send {title}"], "an argument of its own"),
        (["env", "TITLE={title}", "tell"], "an argument of its own"),
        (["{title}"], "begin with a program"),
        ([""], "begin with a program"),
        ([" ", "{title}"], "begin with a program"),
        (["tell", "{bogus}"], "place-holders are {title} and {body}"),
        (["tell", "--from={sender}", "{title}"], "place-holders are {title} and {body}"),
        (["ssh", "host", "notify-send", "{title}", "{body}"], "ssh hands it to a shell"),
        (["tmux", "display-message", "{body}"], "tmux hands it to a shell"),
        (["/usr/bin/env", "LANG=C", "/usr/bin/ssh", "host", "tell", "{body}"], "ssh hands it to a shell"),
    ],
)
def test_a_command_that_would_run_a_text_is_refused(command: list[str], why: str) -> None:
    """Graph text reaches no shell, not even one that a configuration asks for."""
    with pytest.raises(ValidationError, match=why):
        HumanTable(command=tuple(command))


@pytest.mark.parametrize("command", [[""], ["tell", "{bogus}"]])
def test_a_channels_command_is_checked_alike_and_never_repeated(command: list[str]) -> None:
    """`[channels.NAME] command` may hold a secret: the mistake says what is right, not what was written."""
    with pytest.raises(
        ValidationError, match=r"begin with a program; \{title\} and \{body\} are the only place-holders"
    ):
        ChannelTable.model_validate({"kind": "command", "command": command})


def test_the_documented_command_keeps_a_text_from_being_an_option() -> None:
    """What the key's description shows has `--` before the texts, and so does what is advised."""
    said = str(HumanTable.model_fields["command"].description)
    shown = json.loads(said[said.index("[") : said.index("]") + 1])
    assert not takes_a_text_for_an_option(shown)
    assert takes_a_text_for_an_option(["/usr/bin/notify-send", "-u", "low", "{title}"])
    assert not takes_a_text_for_an_option(["notify-send", "Agent", "--", "{title}"])
    assert not any(map(takes_a_text_for_an_option, ([], ["notify-send", "hello"], ["tell", "{title}"])))
