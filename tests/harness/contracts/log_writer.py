"""A program that appends to a log and says what was acknowledged: the other process of the contract suite's tests.

Run as ``python -m tests.harness.contracts.log_writer TASK``, where TASK is a ``Task`` as JSON. It prints an empty
line once it has opened the log, and begins when it reads one. For each append that returned it prints its offsets as a
JSON array in a line.
"""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import sys

import msgspec

from steepest.log.base import Log, NewRecord, TopicPartition


class Task(msgspec.Struct, kw_only=True):
    """The records to append.

    Attributes:
        opener: What opens the log, as ``package.module:name``; may give an awaitable.
        arguments: The opener's arguments.
        tag: Begins each record's value, with the record's number.
        appends: How many calls to make.
        batch: How many records to append in each.
        padding: How many bytes each value has besides.
    """

    opener: str
    arguments: list[str]
    to: TopicPartition
    tag: str
    appends: int
    batch: int
    padding: int = 0


async def run(task: Task) -> None:
    """Append it all."""
    log: Log = pkgutil.resolve_name(task.opener)(*task.arguments)
    if inspect.isawaitable(log):
        log = await log
    _say(b"")
    await asyncio.to_thread(sys.stdin.readline)
    for number in range(task.appends):
        records = [
            NewRecord(to=task.to, key=task.tag, value=value(task, number * task.batch + step), at_ms=number)
            for step in range(task.batch)
        ]
        _say(msgspec.json.encode(list(await log.append(records))))
    await log.close()


def value(task: Task, number: int) -> bytes:
    """The value of the task's record with this number."""
    return f'"{task.tag}:{number}:{"x" * task.padding}"'.encode()


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Task)))
