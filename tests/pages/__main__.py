"""`make docs`: write what of the documents is drawn from the program: modules, keys of the configuration, the demo's picture."""

from __future__ import annotations

from tests.pages.modules import PAGE, with_modules
from tests.pages.picture import FILE, draw
from tests.pages.settings import EXAMPLE, example, with_keys
from tests.pages.settings import PAGE as SETTINGS

PAGE.write_text(with_modules(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
print(f"{PAGE.name}: the list of modules")
EXAMPLE.write_text(example(), encoding="utf-8")
SETTINGS.write_text(with_keys(SETTINGS.read_text(encoding="utf-8")), encoding="utf-8")
print(f"{EXAMPLE.name}, {SETTINGS.name}: the keys")
draw()
print(f"{FILE.name}: the picture of the demo")
