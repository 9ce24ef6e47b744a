"""The names of the official SDK that we use. Importing the SDK takes most of the start, so less of it is imported."""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec, module_from_spec

from pydantic import BaseModel

from wake_bridge.system.garbage import collect_as_usual

# the packages' own `__init__` import the client and the high-level server as well, a fifth of the start: whoever asks for
# the packages later gets them whole
_BARE = [name for name in ("mcp", "mcp.server") if name not in sys.modules]
for _name in _BARE:
    if (_spec := find_spec(_name)) is not None:
        sys.modules[_name] = module_from_spec(_spec)
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
    collect_as_usual()
    for _name in _BARE:
        sys.modules.pop(_name, None)
    del BaseModel.model_config["defer_build"]

__all__ = ["CallNext", "MCPError", "Server", "ServerRequestContext", "stdio_server", "types"]
