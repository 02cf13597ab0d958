"""What the categorizer costs: records a second from bytes to decisions, and the cost of a record as jobs become many.

Two measurements, each beside a bare one of the same run, so that a figure does not depend on the machine alone:

* *fold*: decode a record and step the categorizer, beside decoding the same records and nothing else.
* *scale*: step over decoded records of 10, 1,000 and 100,000 jobs in turn. Function calls a record, Python's and C's,
  are counted with a profile hook and must not depend on the number of jobs. The time may: more jobs are more memory
  than the processor's cache holds. Hence the bare update: as many plain objects, found by name and written once. The
  categorizer must not slow down by more than 1.5 times what the bare update slows down by.

Run: ``python benchmarks/categorizer.py [--records 200000] [--runs 5] [--json]``
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import Received
from steepest.events.registry import LOSS, encode
from steepest.policies.specon.categorizer import Categorizer

FOLD_JOBS = 100
FOLD_EVERY_MS = 3_000
"""Each job reports this often, so that one report in ten ends an interval of 30 s."""

SCALE_JOBS = (10, 1_000, 100_000)
SCALE_EVERY_MS = 15_000
SCALE_WARM_UP = 5
"""Rounds before the measured ones, of which every second ends an interval, each in the same way."""

Raw = tuple[bytes, int, dict[str, str]]


class Plain:
    """What the bare update writes to: nothing but two attributes."""

    __slots__ = ("at_ms", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.at_ms = 0


def watches(jobs: int) -> list[Raw]:
    """One ``JobWatched`` a job."""
    parameters = SpeConParameters()
    return [
        (
            encode(JobWatched(job=f"job-{job}", pool="pool", incarnation=1, metric="loss", parameters=parameters)),
            0,
            {"source": "collector/1", "seq": str(job)},
        )
        for job in range(jobs)
    ]


def reports(jobs: int, rounds: range, every_ms: int, loss: Callable[[int], float]) -> Iterator[Raw]:
    """In each round one report of every job."""
    for number in rounds:
        for job in range(jobs):
            report = LossReported(job=f"job-{job}", incarnation=1, step=number, value=loss(number))
            headers = {"source": "collector/1", "seq": str((number + 1) * jobs + job)}
            yield encode(report), number * every_ms, headers


def flattening(number: int) -> float:
    """A loss that falls ever more slowly."""
    return 1 / (1 + number)


def swinging(number: int) -> float:
    """A loss that grows from each interval of two reports to the next, for ever."""
    return 1.0 if number % 4 in {1, 2} else 0.5


def received(raw: Raw, offset: int) -> Received[Any]:
    """A record as the runtime hands it to a decider."""
    value, at_ms, headers = raw
    return Received(event=LOSS.decode(value), topic="loss", partition=0, offset=offset, at_ms=at_ms, headers=headers)


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes, without the garbage of the ones before it."""
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def fold(count: int, runs: int) -> dict[str, Any]:
    """Records a second, with and without the categorizer, the two in turn."""
    rounds = range(count // FOLD_JOBS)
    raws = [*watches(FOLD_JOBS), *reports(FOLD_JOBS, rounds, FOLD_EVERY_MS, flattening)]

    def bare() -> None:
        for offset, raw in enumerate(raws):
            received(raw, offset)

    def whole() -> None:
        step = Categorizer().step
        for offset, raw in enumerate(raws):
            step(received(raw, offset))

    pairs = [(seconds(bare), seconds(whole)) for _ in range(runs)]
    return {
        "records": len(raws),
        "decode_per_s": _rate(len(raws), [pair[0] for pair in pairs]),
        "fold_per_s": _rate(len(raws), [pair[1] for pair in pairs]),
        "fold_over_decode": round(statistics.median(whole / bare for bare, whole in pairs), 2),
    }


def _rate(count: int, taken: Sequence[float]) -> dict[str, int]:
    rates = [count / one for one in taken]
    return {"median": round(statistics.median(rates)), "least": round(min(rates)), "most": round(max(rates))}


def scale(jobs: int, count: int, runs: int) -> dict[str, Any]:
    """Cost of a record with this many jobs: calls, time, and the time of a bare update."""
    rounds = range(SCALE_WARM_UP, SCALE_WARM_UP + 2 * max(1, count // (2 * jobs)))
    records = [received(raw, 0) for raw in reports(jobs, rounds, SCALE_EVERY_MS, swinging)]

    def start() -> Categorizer:
        categorizer = Categorizer()
        for raw in (*watches(jobs), *reports(jobs, range(SCALE_WARM_UP), SCALE_EVERY_MS, swinging)):
            categorizer.step(received(raw, 0))
        return categorizer

    def stepped(categorizer: Categorizer) -> None:
        for record in records:
            categorizer.step(record)

    def updated(objects: dict[str, Plain]) -> None:
        for record in records:
            found = objects[record.event.job]
            found.total += record.event.value
            found.at_ms = record.at_ms

    names = [f"job-{job}" for job in range(jobs)]
    taken, bare = [], []
    for _ in range(runs):
        categorizer, objects = start(), {name: Plain() for name in names}
        taken.append(seconds(lambda categorizer=categorizer: stepped(categorizer)))  # type: ignore[misc]
        bare.append(seconds(lambda objects=objects: updated(objects)))  # type: ignore[misc]
    return {
        "jobs": jobs,
        "records": len(records),
        "calls_per_record": calls(stepped, start()) / len(records),
        "ns_per_record": round(1e9 * statistics.median(taken) / len(records)),
        "bare_ns_per_record": round(1e9 * statistics.median(bare) / len(records)),
    }


def against_bare(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
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


def calls(run: Callable[[Categorizer], None], categorizer: Categorizer) -> int:
    """How many functions a run calls, Python's and C's."""
    counted = 0

    def count(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal counted
        counted += kind in {"call", "c_call"}

    sys.setprofile(count)
    try:
        run(categorizer)
    finally:
        sys.setprofile(None)
    return counted


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "runs": chosen.runs,
        "fold": fold(chosen.records, chosen.runs),
        "scale": against_bare([scale(jobs, chosen.records, chosen.runs) for jobs in SCALE_JOBS]),
    }
    print(json.dumps(result, indent=2) if chosen.json else table(result))


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    folded = result["fold"]
    lines = [
        f"{'':16}{'records/s':>12}{'least':>12}{'most':>12}",
        *(
            f"{name:16}{rate['median']:>12,}{rate['least']:>12,}{rate['most']:>12,}"
            for name, rate in (("decode", folded["decode_per_s"]), ("decode + step", folded["fold_per_s"]))
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


if __name__ == "__main__":
    main()
