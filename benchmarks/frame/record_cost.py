"""Cost of a record for a component that reads records one by one: shared by the categorizer's and the view's benchmarks.

* *fold*: decode a record and take it in, beside decoding the same records and nothing else.
* *scale*: take in decoded records of 10, 1,000 and 100,000 jobs in turn. Function calls a record, Python's and C's, are
  counted with a profile hook and must not depend on the number of jobs. The time may: more jobs are more memory than the
  processor's cache holds. The bare update accounts for that: as many plain objects, found by name and written once a
  record. The component must not slow down by more than 1.5 times as much as the bare update.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.frame.bench import between, cpu_s, doing, each, figure, options
from tests.harness.call_count import count_calls

from steepest.events.received import Received

FOLD_JOBS = 100

Action = Callable[[], object]


class Plain:
    """The object that the bare update writes to: two attributes."""

    __slots__ = ("at_ms", "total")

    def __init__(self) -> None:
        self.total = 0
        self.at_ms = 0


def bare_update(names: Iterable[str], records: Sequence[Received[Any]]) -> Callable[[], None]:
    """For every record, a write to the plain object that has its name."""
    names = list(names)
    objects = {name: Plain() for name in names}

    def update() -> None:
        for name, record in zip(names, records, strict=True):
            found = objects[name]
            found.total += record.offset
            found.at_ms = record.at_ms

    return update


def measure(
    doc: str | None,
    *,
    fold: Callable[[int], tuple[int, Action, Action]],
    scale: Callable[[int, int], tuple[int, Callable[[], tuple[Action, Action]]]],
) -> None:
    """Measure what the command line asks for.

    Args:
        doc: The benchmark's docstring.
        fold: From a number of records to the number that there is, a function that decodes them, and one that takes them in
            as well.
        scale: From numbers of jobs and of records to the number of records that there is, and a function that returns, for
            each run, one that takes them in, and the bare update for them.
    """
    asked = options(
        doc,
        records=(1_000, 20_000, 200_000),
        runs=(1, 3, 5),
        jobs=((10, 100), (10, 1_000, 30_000), (10, 1_000, 100_000)),
    )
    doing("making records")
    count, decode, take_in = fold(asked.records)
    pairs = [(cpu_s(decode), cpu_s(take_in)) for _ in each("fold", range(asked.runs))]
    figure("decode per s", **between([count / bare for bare, _ in pairs], 0))
    figure("decode + fold per s", **between([count / whole for _, whole in pairs], 0))
    first = (0.0, 0.0)
    for jobs in asked.jobs:
        doing(f"{jobs} jobs: making records")
        count, prepare = scale(jobs, asked.records)
        taken, bare = [], []
        for _ in each(f"{jobs} jobs", range(asked.runs)):
            take_in, update = prepare()
            taken.append(1e9 * cpu_s(take_in) / count)
            bare.append(1e9 * cpu_s(update) / count)
        called, _ = count_calls(prepare()[0])
        now = statistics.median(taken), statistics.median(bare)
        first = first if any(first) else now
        slowdown = (now[0] / first[0]) / (now[1] / first[1])
        figure(
            f"{jobs} jobs",
            calls_per_record=called / count,
            ns_per_record=round(now[0]),
            bare_ns_per_record=round(now[1]),
            slowdown_over_bare=round(slowdown, 2),
        )
