"""`channels`: the ways to a person; what was sent by them, and what became of it."""

from __future__ import annotations

import click

from wake_bridge.cli.context import CommandContext, limit_option, pass_run

TEST_TEXT = "This is a test. Nothing is to be done."


@click.group()
def channels() -> None:
    """List and test the ways to you, and send a text by one of them.

    A channel is a table [channels.NAME] of the configuration; NAME is its id. Nobody is shown where a channel leads.
    """


@channels.command("list")
@pass_run
def list_channels(run: CommandContext) -> None:
    """List the channels: their ids and labels, and which one is the default."""
    from wake_bridge.domain.channels import by_default
    from wake_bridge.offline.channels import channels_here
    from wake_bridge.records import channel_record

    known = channels_here(run)
    default = by_default(known)
    for one in known:
        if run.console.as_json:
            run.console.line(channel_record(one, is_default=one is default))
    if known:
        rows = [[one.name, one.label or "-", one.kind, "default" if one is default else ""] for one in known]
        run.console.table(["channel", "label", "kind", ""], rows)
    else:
        run.console.say("no channels; a table [channels.NAME] of the configuration makes one")


@channels.command("test")
@click.argument("name", metavar="NAME")
@pass_run
def test_channel(run: CommandContext, name: str) -> None:
    """Send a test message by one channel, and say whether the channel accepted it. It is tried once."""
    from wake_bridge.offline.channels import require_accepted, send_text
    from wake_bridge.records import send_record

    sent = send_text(run, TEST_TEXT, name, is_test=True)
    require_accepted(sent)
    run.console.object(send_record(sent.send), f"{name} accepted it")


@channels.command("send")
@click.argument("text", metavar="TEXT")
@click.option("--channel", default="", metavar="NAME", help="The channel; without it the default, else the first.")
@pass_run
def send(run: CommandContext, text: str, channel: str) -> None:
    """Send a text to the person by a channel.

    What a channel does not take is tried again for 24 hours. Without any channel the text is kept as long.
    """
    from wake_bridge.domain.channels import SendState, told_of
    from wake_bridge.offline.channels import require_accepted, send_text
    from wake_bridge.records import send_record

    sent = send_text(run, text, channel)
    if sent.send.state is SendState.FAILED:
        require_accepted(sent)
    run.console.object(send_record(sent.send), f"{sent.send.id}: {told_of(sent.send)}")
    if sent.channel is None:
        run.console.warn("warning: no channel is configured: the text is kept for 24 hours, and sent once there is one")
    elif sent.is_kept:
        run.console.warn("warning: not sent yet: it is tried again for 24 hours")


@channels.command("sent")
@limit_option(10_000, 50)
@pass_run
def sent(run: CommandContext, limit: int) -> None:
    """List messages to you, newest first: what was accepted, what waits, what failed. `why ID` tells the story of one."""
    from wake_bridge.domain.channels import told_of
    from wake_bridge.records import send_record
    from wake_bridge.storage.ledger import LedgerStore

    ledger = LedgerStore.open(run.places.state_dir, read_only=True)
    found = ledger.sends(limit)
    ledger.close()
    for one in found:
        if run.console.as_json:
            run.console.line(send_record(one))
    if found:
        rows = [
            [one.id[:10], one.channel or "-", one.identity or one.sender or "-", one.reason, told_of(one)]
            for one in found
        ]
        run.console.table(["message", "channel", "agent", "reason", "standing"], rows)
    else:
        run.console.say("no messages")
