"""Partitions that come and go: what a loop works on while several processes share a topic.

It owns the hand-over: work on a share ends before the share is given back. It must never know who assigns the shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from steepest.aio import until_stopped
from steepest.log.base import TopicPartition

IDLE_S = 1.0
"""How often a loop without partitions reports that it is alive."""


class Assignment(Protocol):
    """A changing share of a topic's partitions."""

    @property
    def revoked(self) -> asyncio.Event:
        """Set when the share that was taken last must be given back."""

    async def take(self) -> Sequence[TopicPartition]:
        """Wait for a share, which may be empty, and begin to work on it.

        Raises:
            LogUnavailableError: None can be had now.
        """

    async def is_held(self, at: TopicPartition) -> bool:
        """Whether the share that was taken last is still this process's, with this partition.

        It waits for as long as this cannot be known.
        """

    def give_back(self) -> None:
        """The loop has ended its work on the share."""

    async def close(self) -> None:
        """Leave all partitions to other processes."""


async def follow_assignments(
    share: Assignment,
    stop: asyncio.Event,
    follow: Callable[[Sequence[TopicPartition], asyncio.Event], Awaitable[None]],
    wait: Callable[[], None],
    idle: Callable[[], None],
) -> None:
    """Follow one share after the other until ``stop`` is set; then leave all partitions to other processes.

    Args:
        share: The partitions that are assigned to this process.
        stop: Ends everything.
        follow: Works on some partitions until the event is set, and leaves them so that another process can go on.
        wait: Reports that the loop is alive and waits for a share, without end where the group cannot be joined.
        idle: Reports that the loop is alive, where there is nothing to work on.
    """
    try:
        while not stop.is_set():
            partitions = await until_stopped(share.take(), stop, tick=wait, interval_s=IDLE_S)
            if partitions is None:
                return
            try:
                async with _either(stop, share.revoked) as ended:
                    if partitions:
                        await follow(partitions, ended)
                    else:
                        await until_stopped(asyncio.Event().wait(), ended, tick=idle, interval_s=IDLE_S)
            finally:
                share.give_back()
    finally:
        if stop.is_set():
            await share.close()


@asynccontextmanager
async def _either(*events: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """An event that is set when one of them is."""
    either = asyncio.Event()

    async def watch(event: asyncio.Event) -> None:
        await event.wait()
        either.set()

    watching = [asyncio.create_task(watch(event)) for event in events]
    try:
        yield either
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
