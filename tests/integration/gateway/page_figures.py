"""The figures of the live page: ``make test-page`` prints them as one JSON object.

``live_ms`` is the median time from an append to the screen of a real Chromium; it holds for the machine that it ran on.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from tests.integration.gateway.browser import Browser
from tests.integration.gateway.served import ServedFolder, measured
from tests.integration.gateway.test_page import VIEWS, filled

APPENDS = 20

SHOWN = """
const wanted = arguments[0], done = arguments[arguments.length - 1];
const shown = () => Number(document.documentElement.dataset.offset);
const look = () => shown() >= wanted ? done(Date.now()) : requestAnimationFrame(look);
look();
"""


def main() -> None:
    """Load every view, append and watch, and print what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        served = ServedFolder(Path(folder))
        browser = Browser(Path(folder) / "profile")
        try:
            address = filled(served)
            violations = []
            for view, text in VIEWS.items():
                browser.driver.get(f"{address}/#/{view}")
                browser.shows(text)
                violations += browser.violations()
            browser.driver.get(f"{address}/#/jobs")
            browser.shows("3 of 3 jobs")
            times = [_live_ms(served, browser, number) for number in range(APPENDS)]
            figures = {
                "pages": len(VIEWS),
                "live_ms": round(statistics.median(times)),
                "foreign_requests": len(browser.foreign()),
                "axe_violations": len(violations),
            }
        finally:
            browser.quit()
            served.stop()
    sys.stdout.write(f"{msgspec.json.encode(figures).decode()}\n")


def _live_ms(served: ServedFolder, browser: Browser, number: int) -> float:
    last = served.append(measured("a", 100 + number, 1.0))
    appended_ms = time.time() * 1000
    shown_ms: float = browser.driver.execute_async_script(SHOWN, last + 1)
    return max(0.0, shown_ms - appended_ms)


if __name__ == "__main__":
    main()
