"""`make docs`: write what of the documents is made from the program: modules, keys, names, holds, the demo's picture."""

from __future__ import annotations

from tests.benchmarks.picture import drawn
from tests.benchmarks.record import PICTURE, kept
from tests.pages.modules import PAGE, with_modules
from tests.pages.names import CONTRACT_PAGE, FAULTS_PAGE, with_holds, with_names
from tests.pages.picture import FILE, draw
from tests.pages.settings import EXAMPLE, example, with_keys
from tests.pages.settings import PAGE as SETTINGS

PAGE.write_text(with_modules(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
print(f"{PAGE.name}: the list of modules")
EXAMPLE.write_text(example(), encoding="utf-8")
SETTINGS.write_text(with_keys(SETTINGS.read_text(encoding="utf-8")), encoding="utf-8")
print(f"{EXAMPLE.name}, {SETTINGS.name}: the keys")
CONTRACT_PAGE.write_text(with_names(CONTRACT_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
FAULTS_PAGE.write_text(with_holds(FAULTS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
print(f"{CONTRACT_PAGE.name}, {FAULTS_PAGE.name}: names and holds")
PICTURE.write_text(drawn(kept()), encoding="utf-8")
print(f"{PICTURE.name}: the picture of the figures")
draw()
print(f"{FILE.name}: the picture of the demo")
