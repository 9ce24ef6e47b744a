"""The process."""

import asyncio
import sys
from pathlib import Path

from wake_bridge.testing.fake_app_server.server import serve

asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
