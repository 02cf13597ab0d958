"""The figures of the live page: ``make test-page`` prints them as one JSON object.

``live_ms`` is the median time from an append to the screen of a real Chromium, ``first_view_ms`` that from the timeline's
answer to its drawing, ``draw_p95_ms`` the time of a drawing of 10,000 runs; all hold for the machine that they ran on.
``gzip_bytes`` is the size of all scripts and styles.

With the name of a file, it also takes the README's picture: the timeline of a recording of the demo. With ``--questions``
and a folder, it only takes a picture of the answer to each of the ten questions that the first view answers.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from tests.harness.system.running_system import RunningSystem
from tests.integration.gateway.browser import Browser
from tests.integration.gateway.gateway_system import JOB, answers, free_ports
from tests.integration.gateway.served import ServedFolder, measured
from tests.integration.gateway.test_page import VIEWS, filled, slide, two_policies, viewed
from tests.unit.gateway.test_page_files import gzipped_sizes

APPENDS = 20

PICTURED = Path("tests/golden/moves")
PICTURED_AT = 0.6
WAITING = Path("tests/golden/preemptions")
WAITING_AT = 0.5

RUNS = "section[aria-labelledby=timeline]"
TILE = ".answers > div:nth-child({})"
OF_MOVES = {
    "who-runs-where": RUNS,
    "what-ends-next": TILE.format(3),
    "what-is-stuck": TILE.format(5),
    "which-node-is-full": TILE.format(6),
    "what-was-moved": TILE.format(4),
    "who-holds-most": TILE.format(1),
}
OF_STORY = {"what-failed": TILE.format(5), "better-than-before": TILE.format(8)}
"""Of each question, the part of the first view that answers it."""

ANSWERED = """
const asked = performance.getEntriesByType('resource').find((one) => one.name.includes('/timeline?'));
return performance.getEntriesByName('drawn')[0].startTime - asked.responseEnd;
"""
MADE_UP = Path(__file__).with_name("made_up_timeline.js").read_text()
DRAWING = """
const { drawn, all } = document.querySelector('.timeline').api, times = [], done = arguments[arguments.length - 1];
const canvas = document.querySelector('.timeline canvas').getContext('2d');
(async () => {
  all();
  for (let k = 0; k < 61; k++) {
    const began = performance.now();
    drawn();
    await null; // it is drawn in a task of its own
    canvas.getImageData(0, 0, 1, 1);
    if (k) times.push(performance.now() - began);
  }
  done(times.sort((a, b) => a - b)[57]);
})();
"""
SHOWN = """
const wanted = arguments[0], done = arguments[arguments.length - 1];
const shown = () => Number(document.documentElement.dataset.offset);
const look = () => shown() >= wanted ? done(Date.now()) : requestAnimationFrame(look);
look();
"""


def main() -> None:
    """Load every view, append and watch, and print what came of it; or take pictures."""
    if sys.argv[1:2] == ["--questions"]:
        _questions(Path(sys.argv[2]))
        return
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
                "draw_p95_ms": round(_draw_p95_ms(browser, address)),
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


def _questions(to: Path) -> None:
    """A picture of each answer."""
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        served = ServedFolder(Path(folder))
        system = RunningSystem(Path(folder) / "up", "--node", "only=0.8", "--gateway", str(free_ports()[0]))
        browser = Browser(Path(folder) / "profile", height=1_600)
        try:
            for recording, at, parts in (
                (PICTURED, PICTURED_AT, OF_MOVES),
                (WAITING, WAITING_AT, {"who-waits-and-why": "section[aria-labelledby=waits]"}),
            ):
                with viewed(str(recording)) as address:
                    _open(browser, address)
                    slide(browser, at)
                    browser.shows("the past")
                    _take(browser, to, parts)
            two_policies(served)
            _open(browser, served.start())
            browser.shows("other jobs")
            _take(browser, to, OF_STORY)
            system.start()
            address = system.await_line("the live page is on ").split()[-1]
            answers(address)
            system.call("submit", "--name", "first", "--", *JOB)
            _open(browser, address)
            browser.shows("well")
            _take(browser, to, {"is-the-system-well": TILE.format(7)})
        finally:
            browser.quit()
            served.stop()
            system.end()


def _open(browser: Browser, address: str) -> None:
    browser.driver.get("about:blank")
    browser.driver.get(f"{address}/#/")
    browser.shows("Full nodes")


def _take(browser: Browser, to: Path, parts: dict[str, str]) -> None:
    for name, selector in parts.items():
        part = browser.until(lambda: browser.run("return document.querySelector(arguments[0])", selector), name)  # noqa: B023
        part.screenshot(str(to / f"{name}.png"))


def _draw_p95_ms(browser: Browser, address: str) -> float:
    """Of 60 drawings of 10,000 runs of 1,000 jobs on 64 nodes, made up, all of them in view."""
    made = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": MADE_UP})
    try:
        _open(browser, address)
        browser.until(lambda: "10000 runs" in browser.text(), "they are there")
        found: float = browser.driver.execute_async_script(DRAWING)
        return found
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def _draw(browser: Browser, picture: Path) -> None:
    """The first view in the middle of a recording."""
    with viewed(str(PICTURED)) as address:
        browser.driver.get(f"{address}/#/")
        browser.until(lambda: browser.run("return document.documentElement.dataset.drawn"), "the timeline is drawn")
        slide(browser, PICTURED_AT)
        browser.shows("the past")
        browser.shows("sorted by")
        browser.run("document.activeElement.blur()")
        browser.driver.save_screenshot(str(picture))


def _live_ms(served: ServedFolder, browser: Browser, number: int) -> float:
    last = served.append(measured("a", 100 + number, 1.0))
    appended_ms = time.time() * 1000
    shown_ms: float = browser.driver.execute_async_script(SHOWN, last + 1)
    return max(0.0, shown_ms - appended_ms)


if __name__ == "__main__":
    main()
