"""The fake harness under real programs' names: for tests about recognising, naming and setting up agents.

What stands behind such a name is the fake harness with its own screens, and a profile that reads those. So they prove
nothing about the real program's screens; captures and the real programs do (DESIGN §11).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

BUNDLED: Final = Path(__file__).parents[2] / "adapters/wake_bridge_adapters/screens/fake.toml"
_PROGRAM: Final = """#!{python}
import sys

from wake_bridge.testing.fake_harness.__main__ import main

sys.argv[1:1] = {options!r}
raise SystemExit(main())
"""


class Impostors:
    """Programs to put on a PATH, and the directory of profiles that goes with them.

    Args:
        directory: an empty directory. `profiles` in it is what `screens.directory` must name, `logs` holds what each
            program received, by name and process.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.profiles = directory / "profiles"
        self.logs = directory / "logs"
        self.search_path: list[str] = []
        """What belongs on PATH."""
        for one in (self.profiles, self.logs):
            one.mkdir(parents=True)

    def node_program(self, name: str, package: str, version: str, *options: str) -> None:
        """A program as npm installs it: its version stands in the `package.json` beside it."""
        home = self._directory / "node_modules" / package
        home.mkdir(parents=True)
        (home / "package.json").write_text(json.dumps({"name": package, "version": version}), encoding="utf-8")
        self._write(home, name, options)
        self._profile(name, f"packages = [{json.dumps(package)}]")

    def python_program(self, name: str, distribution: str, version: str, *options: str) -> None:
        """A program as pip installs it: its version stands in the name of the directory that describes it."""
        prefix = self._directory / f"{name}-environment"
        described = f"{distribution.replace('-', '_')}-{version}.dist-info"
        (prefix / "lib/python3.12/site-packages" / described).mkdir(parents=True)
        (prefix / "bin").mkdir()
        self._write(prefix / "bin", name, options)
        self._profile(name, f"distributions = [{json.dumps(distribution)}]")

    def _write(self, home: Path, name: str, options: tuple[str, ...]) -> None:
        program = home / name
        received = [*options, "--name", name]
        program.write_text(_PROGRAM.format(python=sys.executable, options=received), encoding="utf-8")
        program.chmod(0o755)
        self.search_path.append(str(home))

    def _profile(self, name: str, recognised_besides: str) -> None:
        text = BUNDLED.read_text(encoding="utf-8")
        text = text.replace('name = "fake"', f"name = {json.dumps(name)}", 1)
        own = 'modules = ["wake_bridge.testing.fake_harness"]'
        text = text.replace(own, f"commands = [{json.dumps(name)}]\n{recognised_besides}", 1)
        (self.profiles / f"{name}.toml").write_text(text, encoding="utf-8")
