"""What the gateway takes: time from an event to its readers, memory of a large pool, many streams, a page of many jobs.

* *live*: events are appended at a steady rate; from an append until a reader of ``/live`` has the batch with it, and, where
  there is a Chromium (``make chromium``), until its page shows it.
* *large pool*: resident memory of a gateway over a log of so many jobs, and the seconds until it answers.
* *streams*: so many readers, half of which stop reading; until the others have an event, and what that takes in memory.
* *page*: a page of so many jobs: until it shows them, and until a filter shows one of them.

Times hold for the machine that they were measured on; memory holds for a busy machine as well.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil
from benchmarks.frame.bench import doing, figure, options
from tests.integration.gateway.browser import Browser, missing
from tests.integration.gateway.page_figures import SHOWN
from tests.integration.gateway.served import ServedFolder, measured, running, submitted
from tests.integration.gateway.test_streams import read_until, readers

from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record

AT = TopicPartition("cluster")
MIB = 2**20
AT_ONCE = 2_000
PATIENCE_S = 600.0
LOOKS = 20
JOBS_OF_A_PAGE = 2_000

FILTER = """
const filter = document.getElementById('filter');
filter.value = arguments[0];
filter.dispatchEvent(new Event('input', { bubbles: true }));
"""

LIMITS = {
    "live_stream_ms": 200.0,
    "live_screen_ms": 200.0,
    "large_pool_mib": 300.0,
    "page_first_ms": 1_000.0,
}
"""What the figures must not exceed on an idle machine of two cores."""


@contextmanager
def served(*events: c.ClusterEvent) -> Iterator[ServedFolder]:
    """A gateway over a log of these events."""
    with tempfile.TemporaryDirectory() as root:
        folder = ServedFolder(Path(root))
        folder.patience_s = PATIENCE_S
        for begin in range(0, len(events), AT_ONCE):
            folder.append(*events[begin : begin + AT_ONCE])
        try:
            folder.start()
            yield folder
        finally:
            folder.stop()


class Appender:
    """Appends measurements of one job at a rate, on a thread of its own.

    Attributes:
        newest: The offset of the newest record, and when it was appended by the wall clock in milliseconds.
    """

    def __init__(self, folder: ServedFolder, rate: int) -> None:
        self.newest = (0, 0.0)
        self.appended = 0
        self._folder = folder.folder.log
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        log, begun = FileLog.open(self._folder), time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begun) * self._rate) - self.appended
            if due > 0:
                now_ms = SystemClock().now_ms()
                events = [measured("a", self.appended + number, 1.0) for number in range(due)]
                offsets = await log.append([new_record(AT, "default", event, now_ms) for event in events])
                self.appended += due
                self.newest = (offsets[-1], time.time() * 1000)
            await asyncio.sleep(0.01)
        await log.close()


def live(rate: int, seconds: float) -> None:
    """From an append to a reader, and to the screen."""
    doing("live: a stream")
    with served(*running("a", "n1")) as folder:
        with Appender(folder, rate) as appender, readers(folder, 1, "/api/v1/live") as (one,):
            limited("live_stream_ms", looks(appender, lambda wanted: arrival(one, wanted), seconds))
        if missing():
            return
        doing("live: a page")
        with tempfile.TemporaryDirectory() as profile:
            browser = Browser(Path(profile))
            try:
                browser.driver.get(f"{folder.address}/#/jobs")
                browser.shows("1 of 1 jobs")
                with Appender(folder, rate) as appender:

                    def shown(wanted: int) -> float:
                        at_ms: float = browser.driver.execute_async_script(SHOWN, wanted + 1)
                        return at_ms

                    limited("live_screen_ms", looks(appender, shown, seconds))
            finally:
                browser.quit()


def limited(name: str, value: float) -> None:
    """A figure beside its limit."""
    figure(name, value=value, **({"at_most": LIMITS[name]} if name in LIMITS else {}))


def looks(appender: Appender, arrived: Callable[[int], float], seconds: float) -> float:
    """The median of the milliseconds until appended events arrived."""
    taken = []
    for _ in range(LOOKS):
        time.sleep(seconds / LOOKS)
        offset, appended_ms = appender.newest
        taken.append(max(0.0, arrived(offset) - appended_ms))
    return round(statistics.median(taken), 1)


def arrival(one: socket.socket, wanted: int) -> float:
    """When a stream had given what is known behind an offset, by the wall clock in milliseconds."""
    seen = b""
    while True:
        seen = (seen + one.recv(1 << 20))[-4_000_000:]
        ids = [int(line[4:]) for line in seen.split(b"\n") if line.startswith(b"id: ") and line[4:].isdigit()]
        if ids and ids[-1] > wanted:
            return time.time() * 1000


def large_pool(jobs: int) -> None:
    """Memory, and the time until the gateway answers."""
    doing(f"a log of {jobs} jobs")
    events = [event for number in range(jobs) for event in submitted(f"job-{number}")]
    began = time.monotonic()
    with served(*events) as folder:
        ready_s = time.monotonic() - began
        limited("large_pool_mib", memory_mib(folder))
        limited("large_pool_ready_s", round(ready_s, 1))


def memory_mib(folder: ServedFolder) -> float:
    """Resident memory of the gateway."""
    return round(psutil.Process(folder.pid).memory_info().rss / MIB, 1)


def streams(count: int) -> None:
    """Many readers, half of which read nothing."""
    doing(f"{count} streams")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * count)), hard))
    with served(*running("a", "n1")) as folder:
        before = memory_mib(folder)
        with readers(folder, count, "/api/v1/live") as opened:
            reading = opened[::2]
            for one in reading:
                read_until(one, b'"whole":true')
            began = time.monotonic()
            last = folder.append(*(measured("a", number, 1.0) for number in range(AT_ONCE)))
            for one in reading:
                read_until(one, f"id: {last + 1}".encode())
            took_s = time.monotonic() - began
            limited("streams_all_s", round(took_s, 2))
            limited("streams_more_mib", round(memory_mib(folder) - before, 1))


def page(jobs: int) -> None:
    """A page of many jobs in a browser."""
    if missing():
        return
    doing(f"a page of {jobs} jobs")
    events = [event for number in range(jobs) for event in submitted(f"job-{number}")]
    with served(*events) as folder, tempfile.TemporaryDirectory() as profile:
        browser = Browser(Path(profile))
        try:
            began = time.monotonic()
            browser.driver.get(f"{folder.address}/#/jobs")
            browser.shows(f"{jobs} of {jobs} jobs")
            first_s = time.monotonic() - began
            began = time.monotonic()
            browser.run(FILTER, f"job-{jobs - 1}")
            browser.shows(f"1 of {jobs} jobs")
            filter_s = time.monotonic() - began
        finally:
            browser.quit()
    limited("page_first_ms", round(1000 * first_s))
    limited("page_filter_ms", round(1000 * filter_s))


if __name__ == "__main__":
    asked = options(
        __doc__,
        rate=(50, 500, 500),
        seconds=(0.5, 5.0, 10.0),
        streams=(4, 200, 1_000),
        page=(10, JOBS_OF_A_PAGE, JOBS_OF_A_PAGE),
        jobs=(20, 20_000, 100_000),
    )
    live(asked.rate, asked.seconds)
    streams(asked.streams)
    page(asked.page)
    large_pool(asked.jobs)
