"""The contract of a log that several processes share: it stays correct while they append together, or are killed.

It owns the tests with real processes. It must never know which implementation it runs on.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.harness.contracts.log_contract import (
    CLUSTER,
    LOSS,
    PATIENCE_S,
    LogContract,
    new,
    numbered,
    read,
    read_all,
    values,
)
from tests.harness.contracts.log_writer import Task, value

from steepest.log.base import Log, Record, TopicPartition

Opener = tuple[str, list[str]]
"""The opener of the log under test in another process: ``package.module:name``, and its arguments."""


def task_for(
    opener: Opener, tag: str, *, to: TopicPartition = CLUSTER, appends: int, batch: int, padding: int = 0
) -> Task:
    """Something for another process to append."""
    target, arguments = opener
    return Task(opener=target, arguments=arguments, to=to, tag=tag, appends=appends, batch=batch, padding=padding)


@contextlib.asynccontextmanager
async def writing(*tasks: Task) -> AsyncIterator[list[Process]]:
    """A process for each task; they begin together, once each has opened the log. The end kills those that run."""
    async with contextlib.AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(_opened(task)) for task in tasks]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
        yield processes


@contextlib.asynccontextmanager
async def _opened(task: Task) -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "tests.harness.contracts.log_writer", msgspec.json.encode(task).decode()]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"\n", "the writer could not open the log"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def acknowledged(process: Process, appends: int | None = None) -> list[list[int]]:
    """The offsets of its next acknowledged appends, this many, or of all until it ends."""
    assert process.stdout is not None
    found: list[list[int]] = []
    async with asyncio.timeout(PATIENCE_S):
        while appends is None or len(found) < appends:
            line = await process.stdout.readline()
            if not line.endswith(b"\n"):
                assert appends is None, "the writer ended early"
                break
            found.append(msgspec.json.decode(line, type=list[int]))
    return found


class SharedLogContract(LogContract):
    """``LogContract``, and what holds between processes."""

    @pytest.fixture
    def opener(self) -> Opener:
        """The opener of the log under test in another process."""
        raise NotImplementedError("a subclass says how another process opens its log")

    async def test_processes_append_at_once(self, log: Log, opener: Opener) -> None:
        """Several processes append to one partition: no record is lost, doubled, torn or in another's batch."""
        tasks = [task_for(opener, tag, appends=200, batch=5) for tag in ("a", "b", "c")]
        async with writing(*tasks) as processes:
            acks = await asyncio.gather(*(acknowledged(process) for process in processes))
        found = await read_all(log, CLUSTER)
        assert [record.offset for record in found] == list(range(3 * 200 * 5))
        for task, batches in zip(tasks, acks, strict=True):
            assert all(batch == list(range(batch[0], batch[0] + 5)) for batch in batches)
            offsets = [offset for batch in batches for offset in batch]
            assert [found[offset].value for offset in offsets] == [value(task, number) for number in range(1000)]

    async def test_a_waiting_poll_wakes_for_another_process(self, log: Log, opener: Opener) -> None:
        """A reader that waits at its end gets what another process appends, in any of its partitions."""
        reader = log.reader(dict.fromkeys(LOSS, 0))
        waiting = asyncio.create_task(reader.poll(timeout_s=PATIENCE_S))
        task = task_for(opener, "far", to=LOSS[1], appends=1, batch=1)
        async with writing(task), asyncio.timeout(PATIENCE_S / 2):
            assert values(await waiting) == [value(task, 0)]
        await reader.close()

    @pytest.mark.parametrize("padding", [10, 100_000], ids=["small records", "large records"])
    async def test_a_killed_process_leaves_sound_records(self, log: Log, opener: Opener, padding: int) -> None:
        """Processes die while they append: acknowledged records are there, none is torn or missing, the log goes on."""
        followed: list[Record] = []
        reader = log.reader({CLUSTER: 0})

        async def follow() -> None:
            while True:
                followed.extend(await reader.poll())

        following = asyncio.create_task(follow())
        kept: dict[int, bytes] = {}
        for appends in (1, 3, 8):
            task = task_for(opener, f"killed after {appends}", appends=1_000_000, batch=3, padding=padding)
            async with writing(task) as [process]:
                acks = await acknowledged(process, appends)
                process.kill()
                acks += await acknowledged(process)
            offsets = [offset for batch in acks for offset in batch]
            kept |= {offset: value(task, number) for number, offset in enumerate(offsets)}
            [offset] = await log.append([new(b"between")])
            kept[offset] = b"between"
        following.cancel()
        await asyncio.wait({following})
        followed += await read(reader, await log.end(CLUSTER) - len(followed))
        await reader.close()
        assert [record.offset for record in followed] == list(range(await log.end(CLUSTER)))
        assert not [record for record in followed if record.damage]
        assert {offset: followed[offset].value for offset in kept} == kept

    async def test_a_process_goes_on_where_another_ended(self, log: Log, opener: Opener) -> None:
        """Offsets go on over processes: one that comes later continues after what is there."""
        await log.append(numbered(2))
        async with writing(task_for(opener, "later", appends=2, batch=2)) as [process]:
            assert await acknowledged(process) == [[2, 3], [4, 5]]
        assert list(await log.append([new()])) == [6]
