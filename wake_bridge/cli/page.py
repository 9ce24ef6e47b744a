"""`open`: a one-time link to the fleet page."""

from __future__ import annotations

import click

from wake_bridge.cli.context import CommandContext, pass_run


@click.command("open")
@click.option("--print", "only_printed", is_flag=True, help="Print the link, and start no browser.")
@click.option("--token", "is_token", is_flag=True, help="Print a token for a program that reads the feed by HTTP.")
@click.option("--sign-out", is_flag=True, help="End all sessions: links and tokens made so far are worth nothing.")
@pass_run
def open_page(run: CommandContext, only_printed: bool, is_token: bool, sign_out: bool) -> None:
    """Open the page of all your agents in the browser: what needs you, what waits and why, what happened.

    The page is at an address of this host alone. Its link counts once, and for five minutes.
    """
    from wake_bridge.control.client import ask
    from wake_bridge.domain.errors import RefusedForSafety
    from wake_bridge.offline.owner import invoker

    who = invoker(run)
    if not who.is_person:
        raise RefusedForSafety(
            "the page is for a person: its buttons act for every agent",
            who.told,
            hint="a person can do this in their own shell, outside any agent",
        )
    answer = ask(run.places.state_dir, "page", token=is_token, signOut=sign_out)
    if sign_out:
        run.console.object(answer, "every session of the page has ended")
    elif is_token:
        run.console.object(answer, str(answer["token"]))
    else:
        run.console.object(answer, str(answer["url"]))
        run.console.flush()
        if not (only_printed or run.console.as_json):
            _start_browser(run, str(answer["url"]))


def _start_browser(run: CommandContext, url: str) -> None:
    import webbrowser

    try:
        is_started = webbrowser.open(url)
    except webbrowser.Error:
        is_started = False
    if not is_started:
        run.console.warn("note: no browser could be started here: open the link in one on this host")
