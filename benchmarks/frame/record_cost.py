"""Cost of a record for a component that reads records one by one: shared by the categorizer's and view's benchmarks.

* *fold*: decode a record and take it in, beside decoding the same records and nothing else.
* *scale*: take in decoded records of 10, 1,000 and 100,000 jobs in turn. Function calls a record, Python's and C's, are
  counted with a profile hook and must not depend on the number of jobs. The time may: more jobs are more memory than the
  processor's cache holds. The bare update accounts for that: as many plain objects, found by name and written once a
  record. The component must not slow down by more than 1.5 times as much as the bare update.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from steepest.events.received import Received
from steepest.testing.call_count import count_calls

FOLD_JOBS = 100
SCALE_JOBS = (10, 1_000, 100_000)


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


def seconds(run: Callable[[], object]) -> float:
    """Processor time of one run, without the garbage of the ones before it."""
    gc.collect()
    start = time.process_time()
    run()
    return time.process_time() - start


def beside_decoding(
    count: int, runs: int, *, decode: Callable[[], object], take_in: Callable[[], object]
) -> dict[str, Any]:
    """Records a second of both, run in turn."""
    pairs = [(seconds(decode), seconds(take_in)) for _ in range(runs)]
    return {
        "records": count,
        "decode_per_s": _rate(count, [bare for bare, _ in pairs]),
        "fold_per_s": _rate(count, [whole for _, whole in pairs]),
        "fold_over_decode": round(statistics.median(whole / bare for bare, whole in pairs), 2),
    }


def beside_updating(
    jobs: int, count: int, runs: int, prepare: Callable[[], tuple[Callable[[], object], Callable[[], object]]]
) -> dict[str, Any]:
    """Cost of a record with this many jobs: calls, time, and the time of a bare update.

    ``prepare`` returns, for each run, a function that takes in that many records, and the bare update for them.
    """
    taken, bare = [], []
    for _ in range(runs):
        take_in, update = prepare()
        taken.append(seconds(take_in))
        bare.append(seconds(update))
    take_in, _ = prepare()
    called, _ = count_calls(take_in)
    return {
        "jobs": jobs,
        "records": count,
        "calls_per_record": called / count,
        "ns_per_record": round(1e9 * statistics.median(taken) / count),
        "bare_ns_per_record": round(1e9 * statistics.median(bare) / count),
    }


def report(
    doc: str | None,
    *,
    records: int,
    fold: Callable[[int, int], dict[str, Any]],
    scale: Callable[[int, int, int], dict[str, Any]],
) -> None:
    """Measure what the command line asks for, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=records)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "runs": chosen.runs,
        "fold": fold(chosen.records, chosen.runs),
        "scale": _against_bare([scale(jobs, chosen.records, chosen.runs) for jobs in SCALE_JOBS]),
    }
    print(json.dumps(result, indent=2) if chosen.json else _table(result))


def _rate(count: int, taken: Sequence[float]) -> dict[str, int]:
    rates = [count / one for one in taken]
    return {"median": round(statistics.median(rates)), "least": round(min(rates)), "most": round(max(rates))}


def _against_bare(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row with how much slower it is than the first, over how much slower its bare update is."""
    first = rows[0]
    return [
        {
            **row,
            "slowdown_over_bare": round(
                (row["ns_per_record"] / first["ns_per_record"])
                / (row["bare_ns_per_record"] / first["bare_ns_per_record"]),
                2,
            ),
        }
        for row in rows
    ]


def _table(result: dict[str, Any]) -> str:
    folded = result["fold"]
    lines = [
        f"{'':16}{'records/s':>12}{'least':>12}{'most':>12}",
        *(
            f"{name:16}{rate['median']:>12,}{rate['least']:>12,}{rate['most']:>12,}"
            for name, rate in (("decode", folded["decode_per_s"]), ("decode + fold", folded["fold_per_s"]))
        ),
        "",
        f"{'jobs':>8}{'calls/record':>14}{'ns/record':>12}{'bare update ns':>16}{'slowdown/bare':>15}",
        *(
            f"{row['jobs']:>8,}{row['calls_per_record']:>14.2f}{row['ns_per_record']:>12}"
            f"{row['bare_ns_per_record']:>16}{row['slowdown_over_bare']:>15}"
            for row in result["scale"]
        ),
    ]
    return "\n".join(lines)
