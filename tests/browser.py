"""A real browser for tests: Chromium without a window, told what to do by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

from websockets.sync.client import connect

from wake_bridge.demo.sandbox import end_process_with_us
from wake_bridge.testing import HUNG, until

FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, "/": 191, " ": 32}
LOGGED_TYPES: Final = {"error", "warning"}


class Browser:
    """One browser with a profile of its own; a context manager that ends it."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="wbt-browser-", ignore_cleanup_errors=True)
        environment = {**os.environ, "HOME": self._home.name}
        self._process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        end_process_with_us(self._process.pid)
        port = Path(self._home.name) / "DevToolsActivePort"
        until(lambda: port.exists() and len(port.read_text().splitlines()) == 2, what="the browser's port")
        number, path = port.read_text().splitlines()
        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(f"ws://127.0.0.1:{number}{path}", max_size=None, open_timeout=HUNG, ping_interval=None)
        )
        self._number = 0
        self.events: list[dict[str, Any]] = []
        """What the browser told without being asked."""

    def tab(self, url: str = "about:blank", *, width: int = 1280, height: int = 900) -> Tab:
        """Open a tab in a context of its own: it shares nothing with any other."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        return self.tab_in(context, url, width=width, height=height)

    def tab_in(self, context: str, url: str, *, width: int = 1280, height: int = 900) -> Tab:
        """Open a tab beside others."""
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, context, session, url, width, height)

    def call(self, method: str, session: str = "", **arguments: Any) -> dict[str, Any]:
        """One call of the protocol, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments}
        self._socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        while True:
            answer = json.loads(self._socket.recv(HUNG))
            if answer.get("id") != self._number:
                self.events.append(answer)
                continue
            assert "error" not in answer, (method, answer["error"])
            result: dict[str, Any] = answer["result"]
            return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):
            self.call("Browser.close")
        self._open.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(HUNG)
        self._home.cleanup()


class Tab:
    """One tab."""

    def __init__(self, browser: Browser, context: str, session: str, url: str, width: int, height: int) -> None:
        self.browser = browser
        self.context = context
        self._session = session
        self.resize(width, height)
        self.call("Page.enable")
        self.goes_to(url)

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """One call of the protocol."""
        return self.browser.call(method, self._session, **arguments)

    def goes_to(self, url: str) -> None:
        """Load an address."""
        self.call("Page.navigate", url=url)

    def resize(self, width: int, height: int = 900) -> None:
        """Let the window have this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def is_dark(self, dark: bool) -> None:
        """What the person prefers."""
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def does(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """What is seen in the first element that matches; empty where none does."""
        return str(self.does(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def waits(self, script: str, what: str = "") -> Any:
        """Wait until an expression is true, and have its value."""
        found: list[Any] = [None]

        def is_true() -> bool:
            # a node has no value of its own
            found[0] = self._quietly(f"((v) => (v instanceof Node ? true : v))({script})")
            return bool(found[0])

        until(is_true, what=what or script)
        return found[0]

    def sees(self, text: str, selector: str = "body") -> None:
        """Wait until a text is seen."""
        try:
            until(lambda: text in self._seen(selector))
        except AssertionError as late:
            raise AssertionError(f"{text!r} was never seen in {self._seen(selector)!r}") from late

    def presses(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        code = KEYS.get(key, ord(key[0].upper()))
        more = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        modifiers = 8 if shift else 0
        for kind, told in (("keyDown", more), ("keyUp", {})):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **told
            )

    def types(self, text: str) -> None:
        """Type a text."""
        for one in text:
            self.presses(one)

    def clicks(self, selector: str) -> None:
        """Click in the middle of the first element that matches, as a mouse does."""
        where = self.waits(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)

    def answers(self, count: int) -> list[int]:
        """Wait for so many answers to this tab since its network is watched; their status codes."""

        def codes() -> list[int]:
            self.does("0")
            told = [one["params"] for one in self.browser.events if one.get("sessionId") == self._session]
            # what a browser does not let its page read, it tells here alone
            return [one["statusCode"] for one in told if one.get("statusCode")]

        until(lambda: len(codes()) >= count, what="the answers")
        return codes()

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen as a PNG."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(taken["data"]))

    def _quietly(self, script: str) -> Any:
        # while a page is being loaded there is nothing to ask
        try:
            return self.does(script)
        except AssertionError:
            return None

    def _seen(self, selector: str) -> str:
        found = self._quietly(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return str(found or "")
