"""Reports of jobs that do not run, appended at a given rate, with a record of every acknowledged one.

It owns the load and its proof. It must never follow a report through the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence

from steepest.clock import SystemClock
from steepest.errors import LogUnavailableError
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import SEQUENCE, SOURCE
from steepest.log.base import Log, Record
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout

JOBS = tuple(f"ghost-{number}" for number in range(8))
BATCH = 10
PERIOD_S = 0.05
Report = tuple[str, int]


class Load:
    """The load.

    Attributes:
        acknowledged: The reports that the log has acknowledged, by source and number.
    """

    def __init__(self, log: Log, layout: Layout, pools: Sequence[str]) -> None:
        """Reports of jobs of these pools in turn."""
        self.acknowledged: set[Report] = set()
        self._log = log
        self._layout = layout
        self._pools = pools

    async def run(self, stop: asyncio.Event) -> None:
        """Append until stopped. A batch of unknown outcome is appended again, as any source does."""
        for each, job in enumerate(JOBS):
            pool = self._pools[each % len(self._pools)]
            watched = JobWatched(
                job=job, pool=pool, incarnation=1, metric="loss", parameters=SpeConParameters(interval_ms=1000)
            )
            await self._append(job, [0], [watched])
        number = 0
        while not stop.is_set():
            for job in JOBS:
                numbers = list(range(number + 1, number + BATCH + 1))
                await self._append(job, numbers, [_report(job, each) for each in numbers])
            number += BATCH
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PERIOD_S)

    async def _append(self, job: str, numbers: list[int], events: list[JobWatched] | list[LossReported]) -> None:
        to = self._layout.of_key("loss", job)
        now_ms = SystemClock().now_ms()
        records = [
            new_record(to, job, event, now_ms, {SOURCE: f"chaos.{job}", SEQUENCE: str(number)})
            for number, event in zip(numbers, events, strict=True)
        ]
        while True:
            with contextlib.suppress(LogUnavailableError):
                await self._log.append(records)
                self.acknowledged.update((f"chaos.{job}", number) for number in numbers)
                return
            await asyncio.sleep(PERIOD_S)


def _report(job: str, number: int) -> LossReported:
    return LossReported(job=job, incarnation=1, step=number, value=1 + math.exp(-number / 1000))


def reports_in(records: list[Record]) -> list[Report]:
    """The reports of any source among records, in order."""
    return [
        (source, int(record.headers[SEQUENCE]))
        for record in records
        if (source := record.headers.get(SOURCE)) is not None
    ]


def applied(reports: list[Report]) -> list[Report]:
    """The reports that a reader applies: those of each source with a number above all earlier ones."""
    newest: dict[str, int] = {}
    taken = []
    for source, number in reports:
        if number > newest.get(source, -1):
            newest[source] = number
            taken.append((source, number))
    return taken
