"""Following a log: records as they come, and the first one that answers a question.

It owns patience. It must never know what is asked for or how it is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from steepest.cli.pool.stored_pool import StoredPool, fold_one
from steepest.errors import UndecodableError
from steepest.events.cluster import JobRejected
from steepest.events.received import Received
from steepest.log.base import Log, Record, TopicPartition
from steepest.runtime.decode import received

T = TypeVar("T")

LOOK_UP_S = 1.0
"""How often it is looked whether the system still runs, while nothing comes."""


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run to its end, or until SIGINT or SIGTERM, also where the caller's shell ignores them."""

    async def run() -> None:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())


async def batches(
    log: Log, start: Mapping[TopicPartition, int], timeout_s: float = LOOK_UP_S
) -> AsyncIterator[Sequence[Record]]:
    """Records from these offsets on, without end; an empty batch after each timeout."""
    reader = log.reader(start)
    try:
        while True:
            yield await reader.poll(timeout_s=timeout_s)
    finally:
        await reader.close()


async def first(
    log: Log, start: Mapping[TopicPartition, int], wanted: Callable[[Received[Any]], T | None], patience_s: float
) -> T | None:
    """The first answer that an event gives; None where none came in time."""
    deadline = time.monotonic() + patience_s
    async for records in batches(log, start, timeout_s=0.25):
        for record in records:
            try:
                answer = wanted(received(record))
            except UndecodableError:
                continue
            if answer is not None:
                return answer
        if time.monotonic() >= deadline:
            return None
    return None


async def what_counts(
    log: Log, pool: StoredPool, beside: Mapping[TopicPartition, int]
) -> AsyncIterator[Received[Any] | None]:
    """The events behind a pool's position that count, folding them into its view; None now and then while none comes.

    It yields events of further partitions too, each from its given offset on.
    """
    async for records in batches(log, {pool.at: pool.view.position, **beside}):
        for record in records:
            if record.at != pool.at:
                with contextlib.suppress(UndecodableError):
                    yield received(record)
                continue
            folded = fold_one(pool.view, record)
            # A second job of a name is rejected without any change of the view.
            if folded is not None and (folded[1] or isinstance(folded[0].event, JobRejected)):
                yield folded[0]
        if not records:
            yield None
