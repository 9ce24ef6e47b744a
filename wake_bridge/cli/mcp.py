"""`mcp`: mail, tasks and subscriptions as MCP tools, for the harness that starts it."""

from __future__ import annotations

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, foreign_option, pass_run

MISSING = "the MCP SDK is not installed"
EXTRA = "install it: `pip install 'wake-bridge[mcp]'`"


@click.command("mcp")
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Serve over HTTP on this port of 127.0.0.1 instead of stdio; 0: a free port.",
)
@click.option("--as", "identity", type=IDENTITY, help="With --http: the identity that the token stands for.")
@foreign_option
@pass_run
def mcp(run: CommandContext, port: int | None, identity: str | None, foreign: bool) -> None:
    """Serve check_inbox, send_message and five more tools to an MCP client.

    Over stdio the caller is the agent whose harness started the server. Over HTTP it is whoever sends the token that
    the server keeps in a private file and names when it starts.
    """
    from wake_bridge.domain.errors import OperationFailed, UsageMistake

    if (port is None) is not (identity is None):
        given, missing = ("--http", "--as @ID") if identity is None else ("--as", "--http PORT")
        raise UsageMistake(f"{given} needs {missing}", "mcp", hint="`wake-bridge mcp --http 0 --as @ID`")
    try:
        from wake_bridge.mcp import server
    except ModuleNotFoundError as missing_module:
        if str(missing_module.name).partition(".")[0] == "wake_bridge":
            raise
        raise OperationFailed(MISSING, str(missing_module.name), hint=EXTRA) from missing_module
    if port is None or identity is None:
        server.run(run.config_option, foreign=foreign)
        return
    from wake_bridge.mcp import http

    http.run(run, port, identity, foreign=foreign, announce=run.console.warn)
