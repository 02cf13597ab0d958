"""A loop, run again and again for as long as its log takes and gives nothing.

It owns when to try again. It must never know what a loop does.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from steepest.clock import Clock
from steepest.errors import LogEpochError, LogUnavailableError, LogVersionError
from steepest.logger import Logger
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.outbox import LONGEST_WAIT_S, patiently

logger = Logger()


class Loop(Protocol):
    """A loop that follows a log."""

    @property
    def name(self) -> str:
        """The name of the task in metrics and health."""

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the log until ``stop`` is set.

        Raises:
            LogUnavailableError: Run it again.
            LogVersionError, LogEpochError: The log is not for this reader.
        """


async def keep_running(loop: Loop, stop: asyncio.Event, *, metrics: Metrics, health: Health, clock: Clock) -> None:
    """Run a loop until ``stop`` is set.

    Raises:
        LogVersionError, LogEpochError: The log is not for this reader; the process says so, and is not ready.
    """
    metrics.restarts.labels(loop.name)  # a series that begins at 1 has never risen
    try:
        while not stop.is_set():
            async for attempt in patiently():
                with attempt:
                    await _run_once(loop, stop, metrics, health, clock)
    except (LogVersionError, LogEpochError) as error:
        health.refuse(str(error))
        logger.critical("this log is not for this reader", loop=loop.name, why=str(error), hint=error.hint)
        raise


async def _run_once(loop: Loop, stop: asyncio.Event, metrics: Metrics, health: Health, clock: Clock) -> None:
    """Run a loop until it stops or its log fails; raise only if the caller should retry after a wait."""
    began = clock.monotonic()
    try:
        await loop.run(stop)
    except LogUnavailableError as error:
        metrics.restarts.labels(loop.name).inc()
        health.wait(loop.name)
        logger.warning("the log failed; starting again", loop=loop.name, why=str(error), hint=error.hint)
        has_worked = clock.monotonic() - began > LONGEST_WAIT_S
        if not (has_worked or stop.is_set()):
            raise
