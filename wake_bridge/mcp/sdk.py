"""The names of the official SDK that we use. Importing the SDK takes most of the start, so less of it is imported."""

from __future__ import annotations

import gc

from pydantic import BaseModel

# of some thousand models a client's calls use a dozen: each is built when it is first used
BaseModel.model_config["defer_build"] = True
# nothing of an import is garbage
gc.disable()
try:
    import mcp_types as types
    from mcp.server.context import CallNext, ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.shared.exceptions import MCPError
finally:
    gc.enable()
    del BaseModel.model_config["defer_build"]

__all__ = ["CallNext", "MCPError", "Server", "ServerRequestContext", "stdio_server", "types"]
