"""`make docs`: write what of the documents is drawn from the program: the list of modules, the picture of the demo."""

from __future__ import annotations

from tests.pages.modules import PAGE, with_modules
from tests.pages.picture import FILE, draw

PAGE.write_text(with_modules(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
print(f"{PAGE.name}: the list of modules")
draw()
print(f"{FILE.name}: the picture of the demo")
