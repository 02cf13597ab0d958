"""A real Chromium, driven by its own driver, and what it asked for and complained of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

AXE = Path(__file__).parents[3] / "tools" / "page" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_S = 60.0
OWN = "127.0.0.1"
NEEDED = ("chromium", "chromedriver")


class Browser:
    """A browser without a window.

    Attributes:
        driver: Selenium's.
        requested: The addresses that it has asked for so far.
    """

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        options = Options()
        options.binary_location = str(shutil.which("chromium"))
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--force-color-profile=srgb",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            *(("--force-dark-mode", "--blink-settings=preferredColorScheme=0") if dark else ()),
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        self.driver.set_script_timeout(PATIENCE_S)
        self.requested: list[str] = []

    def quit(self) -> None:
        """End it."""
        self.driver.quit()

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until something is true of the page."""
        return WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.1).until(lambda _: condition(), what)

    def text(self) -> str:
        """What is on the page."""
        found: str = self.run("return document.body.innerText") or ""
        return found

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script."""
        return self.driver.execute_script(script, *arguments)

    def shows(self, text: str) -> None:
        """Wait for a text."""
        try:
            self.until(lambda: text in self.text(), text)
        except TimeoutException:
            raise AssertionError(f"the page does not show {text!r} but: {self.text()[:2000]}") from None

    def position(self) -> int:
        """The offset up to which the page shows the pool."""
        return int(self.run("return document.documentElement.dataset.offset") or 0)

    def foreign(self) -> list[str]:
        """The addresses of other hosts that were asked for."""
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        asked = [urlsplit(url) for url in self.requested]
        return [url.geturl() for url in asked if url.hostname != OWN and url.scheme in {"http", "https", "ws", "wss"}]

    def complaints(self) -> list[str]:
        """What the page wrote to the console; a gateway that is away is no complaint."""
        found = [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        return [one for one in found if "net::ERR" not in one]

    def violations(self) -> list[str]:
        """What axe finds wrong with the page as it is."""
        self.run(AXE.read_text())
        found: Any = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run().then((found) => done(found.violations), (error) => done([String(error)]));"
        )
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" if isinstance(one, dict) else one for one in found]


def missing() -> str:
    """What a browser lacks here, and the command that gets it; empty where there is one."""
    absent = [name for name in NEEDED if shutil.which(name) is None] or ([] if AXE.exists() else ["axe"])
    return f"no {absent[0]}: get it with `make chromium`" if absent else ""


def refuse_without_browser() -> None:
    """Skip the test where there is no browser."""
    if why := missing():
        pytest.skip(why)
