"""The figures of the live page: ``make test-page`` prints them as one JSON object.

``live_ms`` is the median time from an append to the screen of a real Chromium, ``first_view_ms`` that from the timeline's
answer to its drawing; both hold for the machine that they ran on. ``gzip_bytes`` is the size of all scripts and styles. With
the name of a file, it also takes the README's picture: the timeline of a recording of the demo.
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
from tests.integration.gateway.test_page import VIEWS, filled, slide, viewed
from tests.unit.gateway.test_page_files import gzipped_sizes

APPENDS = 20

PICTURED = Path("tests/golden/moves")
PICTURED_AT = 0.6

ANSWERED = """
const asked = performance.getEntriesByType('resource').find((one) => one.name.includes('/timeline?'));
return performance.getEntriesByName('drawn')[0].startTime - asked.responseEnd;
"""
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
            first_view_ms = _first_view_ms(browser, address)
            browser.driver.get(f"{address}/#/jobs")
            browser.shows("3 of 3 jobs")
            times = [_live_ms(served, browser, number) for number in range(APPENDS)]
            figures = {
                "pages": len(VIEWS),
                "live_ms": round(statistics.median(times)),
                "first_view_ms": round(first_view_ms),
                "gzip_bytes": sum(gzipped_sizes().values()),
                "foreign_requests": len(browser.foreign()),
                "axe_violations": len(violations),
            }
            for picture in sys.argv[1:]:
                _draw(browser, Path(picture))
        finally:
            browser.quit()
            served.stop()
    sys.stdout.write(f"{msgspec.json.encode(figures).decode()}\n")


def _first_view_ms(browser: Browser, address: str) -> float:
    browser.driver.get("about:blank")
    browser.driver.get(f"{address}/#/")
    browser.until(lambda: browser.run("return document.documentElement.dataset.drawn"), "the timeline is drawn")
    taken_ms: float = browser.run(ANSWERED)
    return taken_ms


def _draw(browser: Browser, picture: Path) -> None:
    """The first view in the middle of a recording."""
    with viewed(str(PICTURED)) as address:
        browser.driver.get(f"{address}/#/")
        browser.until(lambda: browser.run("return document.documentElement.dataset.drawn"), "the timeline is drawn")
        slide(browser, PICTURED_AT)
        browser.shows("the past")
        browser.shows("sorted by")
        browser.driver.save_screenshot(str(picture))


def _live_ms(served: ServedFolder, browser: Browser, number: int) -> float:
    last = served.append(measured("a", 100 + number, 1.0))
    appended_ms = time.time() * 1000
    shown_ms: float = browser.driver.execute_async_script(SHOWN, last + 1)
    return max(0.0, shown_ms - appended_ms)


if __name__ == "__main__":
    main()
