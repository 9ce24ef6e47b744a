"""`mcp`: mail, tasks and subscriptions as MCP tools, for the harness that starts it."""

from __future__ import annotations

import sys

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, foreign_option, pass_run


def require_mcp() -> None:
    """Raise `OperationFailed` where the SDK is not installed."""
    from importlib.util import find_spec

    from wake_bridge.domain.errors import OperationFailed

    for module in ("mcp", "mcp_types"):
        if sys.modules.get(module, module) is None or find_spec(module) is None:
            raise OperationFailed(
                "the MCP SDK is not installed", module, hint="install it: `pip install 'wake-bridge[mcp]'`"
            )


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
    """Serve check_inbox, send_message and eight more tools to an MCP client.

    Over stdio the caller is the agent whose harness started the server. Over HTTP it is whoever sends the token that
    the server keeps in a private file and names when it starts.
    """
    from wake_bridge.domain.errors import UsageMistake

    if (port is None) is not (identity is None):
        given, missing = ("--http", "--as @ID") if identity is None else ("--as", "--http PORT")
        raise UsageMistake(f"{given} needs {missing}", "mcp", hint="`wake-bridge mcp --http 0 --as @ID`")
    require_mcp()
    from wake_bridge.mcp import server

    if port is None or identity is None:
        server.run(run.config_option, foreign=foreign)
        return
    from wake_bridge.mcp import http

    http.run(run, port, identity, foreign=foreign, announce=run.console.warn)
