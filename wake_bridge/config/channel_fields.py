"""The keys of the ways to a person: `[human]` and `[channels.NAME]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from wake_bridge.config.field_types import PlainName, Seconds, Table, Texts
from wake_bridge.config.secrets import ConfiguredSecret, SecretArguments
from wake_bridge.domain.channels import HUMAN, ChannelKind
from wake_bridge.domain.guards import QuietHours

PLACE_HOLDER: Final = re.compile(r"\{(?:title|body)\}")
WHOLE_ARGUMENT: Final = re.compile(r"(?:--[\w-]+=)?\{(?:title|body)\}")
NO_PLACE_HOLDER: Final = re.compile(r"(?:--[\w-]+=)?\{(?!(?:title|body)\})[A-Za-z_]\w*\}")
"""An argument that looks like a place-holder, and that nothing is put into."""

CODE_FOLLOWS: Final = re.compile(r"-[A-Za-z]*[ceE]|--(?:command|eval|execute|exec)|eval|exec|source|\.")
"""Arguments after which programs take the next one for code: `sh -c`, `python -c`, `osascript -e`, `perl -E`."""

READS_CODE: Final = frozenset(
    {
        *("autossh", "mosh", "rsh", "ssh"),
        *("awk", "gawk", "mawk"),
        *("parallel", "screen", "script", "su", "tmux", "watch", "xargs"),
    }
)
"""Programs that hand their arguments to a shell, or read commands in them: `ssh HOST …`, tmux's `#(…)`, awk's `system`."""

STARTS_ANOTHER: Final = frozenset(
    {"doas", "env", "ionice", "nice", "nohup", "setsid", "sshpass", "stdbuf", "sudo", "timeout"}
)


def texts_stay_out_of_code(argv: Sequence[str]) -> None:
    """Raise `ValueError` where a command has no program, or a place-holder that is unknown, no argument of its own, or run as code."""
    if argv and not argv[0].strip():
        raise ValueError("must begin with a program, not with an empty text")
    for before, argument in pairwise(("", *argv)):
        if NO_PLACE_HOLDER.fullmatch(argument):
            raise ValueError(
                f"{argument!r}: the place-holders are {{title}} and {{body}}; all else is in the JSON on stdin"
            )
        if not PLACE_HOLDER.search(argument):
            continue
        if not WHOLE_ARGUMENT.fullmatch(argument):
            raise ValueError(f"{argument!r}: a place-holder is an argument of its own, or --option={{title}}")
        if not before:
            raise ValueError("must begin with a program, not with a place-holder")
        if reader := _reads_code(argv):
            raise ValueError(
                f"{argument!r} would be run as code: {reader} hands it to a shell; let a program there read the JSON on stdin"
            )
        if CODE_FOLLOWS.fullmatch(before):
            raise ValueError(
                f"{argument!r} after {before!r} would be run as code: add arguments behind it, or read the JSON on stdin"
            )


def takes_a_text_for_an_option(argv: Sequence[str]) -> bool:
    """Whether a command gives notify-send a text that it would refuse as an option where it begins with `-`."""
    texts = [place for place, argument in enumerate(argv) if PLACE_HOLDER.match(argument)]
    return bool(texts) and argv[0].rpartition("/")[2] == "notify-send" and "--" not in argv[: texts[0]]


def _reads_code(argv: Sequence[str]) -> str:
    """The program that reads code in its arguments, whatever starts it; empty where none does."""
    names = [one.rpartition("/")[2] for one in argv]
    started = names if names[0] in STARTS_ANOTHER else names[:1]
    return next((one for one in started if one in READS_CODE), "")


def _checked_channel(name: str) -> str:
    if name == HUMAN:
        raise ValueError("is the channel that [human] describes: take another name")
    return name


ChannelName = Annotated[PlainName, AfterValidator(_checked_channel)]


class HumanTable(Table):
    """`[human]`: how you are told what needs you: a dialog that waits, a wake that failed, a spent budget."""

    command: Texts = Field(
        (),
        description='program and arguments, such as ["notify-send", "--", "{title}", "{body}"], JSON on stdin; empty: tmux',
    )
    notice_after: Seconds = Field(900.0, ge=1, le=86_400, description="a hold lasts before its one notice to you")

    @field_validator("command")
    @classmethod
    def _keeps_texts_out_of_shells(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        texts_stay_out_of_code(argv)
        return argv


class ChannelTable(Table):
    """`[channels.NAME]`: a way to you, for notices and for what agents tell you; NAME is its id (docs/channels.md)."""

    kind: Annotated[ChannelKind, Field(strict=False)] = Field(
        examples=["apprise"],
        description="tmux | desktop | command | webhook | file | apprise (ntfy, Telegram, Slack, Pushover and many more)",
    )
    label: str = Field("", max_length=80, examples=["my phone"], description="what agents are told about the channel")
    recipient: ConfiguredSecret | None = Field(
        None,
        examples=["ntfys://ntfy.sh/TOPIC"],
        description="the URL of webhook and apprise, the path of file; nobody is shown it",
    )
    recipient_file: str = Field("", description="instead: a file that only you can read, with the URL")
    command: SecretArguments | None = Field(
        None,
        examples=[["my-pager", "{title}"]],
        description="program and arguments of command, as in [human]; nobody is shown them",
    )
    key: ConfiguredSecret | None = Field(
        None, examples=["whsec_…"], description="of webhook: the key that signs its posts (Standard Webhooks)"
    )
    default: bool = Field(
        default=False, description="true: messages that name no channel take this one; without a default, the first"
    )
    quiet_hours: str = Field("", description='"22:00-07:00": messages wait until it ends')
    detail: Literal["short", "full"] = Field(
        "short", description="notices by webhook and apprise: short (agent and reason only) | full (with subjects)"
    )

    @field_validator("quiet_hours")
    @classmethod
    def _is_a_span(cls, text: str) -> str:
        QuietHours.parse(text)
        return text

    @field_validator("command")
    @classmethod
    def _keeps_texts_out_of_shells(cls, command: SecretArguments | None) -> SecretArguments | None:
        try:
            texts_stay_out_of_code(command.reveal() if command else ())
        except ValueError:
            raise ValueError(
                "must begin with a program; {title} and {body} are the only place-holders, arguments of their own, or"
                " --option={title}, and never stand where they would be run as code"
            ) from None
        return command

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> ChannelTable:
        has_recipient, needs_url = bool(self.recipient), self.kind in {ChannelKind.WEBHOOK, ChannelKind.APPRISE}
        if needs_url and has_recipient == bool(self.recipient_file):
            raise ValueError(f"kind {self.kind} needs either recipient or recipient_file")
        if self.kind is ChannelKind.FILE and not has_recipient:
            raise ValueError("kind file needs recipient: the path of the file")
        if (self.kind is ChannelKind.COMMAND) != bool(self.command):
            raise ValueError("kind command needs command" if not self.command else f"kind {self.kind} runs no command")
        if self.key and self.kind is not ChannelKind.WEBHOOK:
            raise ValueError("key belongs to kind webhook")
        return self
