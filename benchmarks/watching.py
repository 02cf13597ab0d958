"""Cost of watching losses: what it adds to a record's decoding and folding, and to its whole way from a printed line.

The whole way: lines are read, their losses become records, which are appended to a log in files, read back, decoded and
folded. Each is a share of the same without watching, the median of pairs of runs and their ends.
"""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
from collections.abc import Callable
from unittest.mock import patch

from benchmarks.categorizer import FOLD_EVERY_MS, received, reports, watches
from benchmarks.frame.bench import cpu_s, doing, figure, options
from benchmarks.metrics import share

from steepest.events.loss import LossReported
from steepest.events.registry import encode
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.policies.specon import categorizer
from steepest.policies.specon.categorizer import Categorizer
from steepest.training_logs import LogReader

JOBS = 10
BATCH = 100
"""Records of an append, as many as a busy node has in a second."""


def noisy(number: int) -> float:
    """A loss that falls with noise of a twentieth."""
    return (1 + 1 / (1 + 0.01 * number)) * math.exp(random.Random(number).gauss(0, 0.05))  # noqa: S311


def without(run: Callable[[], float]) -> Callable[[], float]:
    """The same without watching."""

    def bare() -> float:
        with patch.object(categorizer, "_watched", lambda *_: categorizer.NOTHING):
            return run()

    return bare


def fold(rounds: int) -> float:
    """Processor time to decode and fold reports."""
    raws = [*watches(JOBS), *reports(JOBS, range(rounds), FOLD_EVERY_MS, noisy)]

    def take_in() -> None:
        step = Categorizer().step
        for offset, raw in enumerate(raws):
            step(received(raw, offset))

    return cpu_s(take_in)


def whole_way(rounds: int) -> float:
    """Processor time from printed lines to decisions."""
    lines = [f"step {number}/{rounds} loss {noisy(number):.6f} lr 0.001\n".encode() for number in range(rounds)]
    at = TopicPartition("loss")

    async def go(folder: str) -> None:
        log = FileLog(folder, {"loss": 1})
        step = Categorizer().step
        await log.append([NewRecord(to=at, key="job", value=raw[0], at_ms=0, headers=raw[2]) for raw in watches(JOBS)])
        readers, reader, sent, done = [LogReader() for _ in range(JOBS)], log.reader({at: 0}), JOBS, 0
        batch: list[NewRecord] = []
        for number, line in enumerate(lines):
            for job, lines_of in enumerate(readers):
                for found in lines_of.feed(line):
                    event = LossReported(job=f"job-{job}", incarnation=1, step=found.step, value=found.value)
                    headers = {"source": "collector/1", "seq": str(sent)}
                    record = NewRecord(
                        to=at, key="job", value=encode(event), at_ms=number * FOLD_EVERY_MS, headers=headers
                    )
                    batch.append(record)
                    sent += 1
            if len(batch) >= BATCH:
                await log.append(batch)
                batch = []
        await log.append(batch)
        while done < sent:
            for one in await reader.poll():
                step(received((one.value, one.at_ms, dict(one.headers)), done))
                done += 1
        await reader.close()
        await log.close()

    with tempfile.TemporaryDirectory() as folder:
        return cpu_s(lambda: asyncio.run(go(folder)))


def main() -> None:
    """Measure what the command line asks for."""
    asked = options(__doc__, rounds=(30, 3_000, 10_000), runs=(1, 5, 9))
    for name, run in (("decode and fold", fold), ("whole way", whole_way)):
        doing(name)

        def watched(run: Callable[[int], float] = run) -> float:
            return run(asked.rounds)

        figure(name, **share(name, asked.runs, without(watched), watched))


if __name__ == "__main__":
    main()
