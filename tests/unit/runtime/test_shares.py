"""Whether a loop without partitions is ready: one that was dealt none is, one that waits to be dealt any is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from steepest.log.base import TopicPartition
from steepest.runtime.sharing.assignment import follow_assignments


class Dealer:
    """Assigns partitions when the test says so."""

    def __init__(self) -> None:
        self.revoked = asyncio.Event()
        self.deal = asyncio.Event()

    async def take(self) -> Sequence[TopicPartition]:
        """Nothing, once it is dealt."""
        await self.deal.wait()
        return ()

    async def is_held(self, at: TopicPartition) -> bool:
        """Nothing was dealt."""
        raise AssertionError(at)

    def give_back(self) -> None:
        """Take it back."""

    async def close(self) -> None:
        """Deal no more."""


async def test_a_loop_that_waits_for_partitions_is_not_ready() -> None:
    """A group that cannot be joined never assigns any; the loop stays alive."""
    share, stop = Dealer(), asyncio.Event()
    said: asyncio.Queue[str] = asyncio.Queue()

    async def follow(_: Sequence[TopicPartition], __: asyncio.Event) -> None:
        raise AssertionError

    following = asyncio.create_task(
        follow_assignments(share, stop, follow, lambda: said.put_nowait("waits"), lambda: said.put_nowait("idle"))
    )
    waiting = [await said.get(), await said.get()]
    share.deal.set()
    while (dealt := await said.get()) == "waits":
        pass
    stop.set()
    await following

    assert waiting == ["waits", "waits"]
    assert dealt == "idle"
