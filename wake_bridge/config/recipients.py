"""Channels as they are configured: what everybody may know of them, where their recipients are read, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wake_bridge.config.layers import Key, Mistake, spelled
from wake_bridge.config.senders import is_open_to_others
from wake_bridge.domain.channels import HUMAN, Channel, ChannelKind
from wake_bridge.domain.guards import QuietHours
from wake_bridge.domain.receivers import why_no_key, why_no_url
from wake_bridge.system.files import expanded, read_own_file

if TYPE_CHECKING:
    from wake_bridge.config.channel_fields import ChannelTable, HumanTable
    from wake_bridge.config.fields import Configuration

_LONGEST_FILE: Final = 64 * 1024


def channels_of(config: Configuration) -> tuple[Channel, ...]:
    """The channels that a person configured, in the order written; that of a `[human] command` comes last."""
    written = tuple(
        Channel(
            name,
            one.kind,
            one.label,
            one.default,
            QuietHours.parse(one.quiet_hours),
            has_full_detail=one.detail == "full",
        )
        for name, one in config.channels.items()
    )
    return (*written, human_channel(config.human)) if config.human.command else written


def human_channel(human: HumanTable) -> Channel:
    """The channel that `[human]` describes: its command, else a line in tmux."""
    return Channel(HUMAN, ChannelKind.COMMAND if human.command else ChannelKind.TMUX, has_full_detail=True)


def recipient_of(table: ChannelTable, config_file: Path) -> str:
    """The recipient as it is now; empty for a kind that has none.

    Raises:
        OSError: its file cannot be read.
        ValueError: others may read the file, or nothing stands there; the text is a clause.
    """
    if not table.recipient_file:
        return table.recipient.reveal() if table.recipient else ""
    path = config_file.parent / expanded(table.recipient_file)
    if is_open_to_others(path):
        raise ValueError(f"others may read {path}: run `chmod 600` on it")
    if not (text := read_own_file(path, _LONGEST_FILE).decode("utf-8", "replace").strip()):
        raise ValueError(f"nothing stands in {path}")
    return text


def channel_mistakes(
    channels: Mapping[str, ChannelTable], config_file: Path, files: Sequence[Path], origins: Mapping[Key, str]
) -> Iterator[Mistake]:
    """What is wrong with the recipients of channels; none of them is shown."""
    for name, table in channels.items():
        key = ("channels", name)
        for inner, why in _wrong_with(table, config_file, files):
            yield Mistake(origins.get(key, str(config_file)), spelled((*key, inner)), why)


def _wrong_with(table: ChannelTable, config_file: Path, files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    named = "recipient_file" if table.recipient_file else "recipient"
    is_secret = table.kind in {ChannelKind.WEBHOOK, ChannelKind.APPRISE}
    if ((is_secret and table.recipient) or table.key) and any(map(is_open_to_others, files)):
        yield named if is_secret else "key", "others may read this file: run `chmod 600` on it, or use recipient_file"
    try:
        recipient = recipient_of(table, config_file)
    except OSError as refusal:
        yield named, f"cannot be read ({refusal.strerror})"
        return
    except ValueError as wrong:
        yield named, str(wrong)
        return
    if table.kind is ChannelKind.WEBHOOK:
        if why := why_no_url(recipient):
            yield named, why.removeprefix("its url ")
        if table.key and (why := why_no_key(table.key.reveal())):
            yield "key", why.replace("its signingKey", "it")
