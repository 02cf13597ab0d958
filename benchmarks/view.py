"""What the view costs: records a second from bytes to a folded pool, and the cost of a record as jobs become many.

Two measurements, each beside a bare one of the same run, so that a figure does not depend on the machine alone:

* *fold*: decode a record and fold it, beside decoding the same records and nothing else.
* *scale*: fold decoded records into a pool of 10, 1,000 and 100,000 running jobs, 10 a node. Function calls a record,
  Python's and C's, are counted with a profile hook and must not depend on the number of jobs. The time may: more jobs are
  more memory than the processor's cache holds. Hence the bare update: as many plain objects, found by name and written
  once a record. The view must not slow down by more than 1.5 times what the bare update slows down by.

The records are a pool's in its daily life: of 100, 40 ``GrowthMeasured``, 35 ``NodeUsage``, 10 ``Tick``, 10
``CategoryChanged``, and 5 of a job that ends and of one that is submitted, placed and started in its stead.

Run: ``python benchmarks/view.py [--records 100000] [--runs 5] [--json]``
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import ID, PREVIOUS, Received
from steepest.events.registry import CLUSTER, encode
from steepest.view.cluster_view import ClusterView

FOLD_JOBS = 100
SCALE_JOBS = (10, 1_000, 100_000)
JOBS_A_NODE = 10
REQUESTS = Resources(cpu_m=100)
BECAUSE = c.Because(rule="a benchmark says so")
CATEGORIES = (c.Category.PROGRESSING, c.Category.WATCHED, c.Category.CONVERGED)
KINDS = ("growth",) * 40 + ("usage",) * 35 + ("tick",) * 10 + ("category",) * 10 + ("turnover",) * 1
"""Kinds of what comes next, as often as it does; a turnover is seven records."""

Raw = tuple[bytes, dict[str, str], str]
"""A record's value and headers, and the name of what it is about."""


class Plain:
    """What the bare update writes to: nothing but two attributes."""

    __slots__ = ("at_ms", "total")

    def __init__(self) -> None:
        self.total = 0
        self.at_ms = 0


class Life:
    """Writes a pool's log: it begins with every job running, and goes on as :data:`KINDS` say."""

    def __init__(self, jobs: int) -> None:
        self.kinds = random.Random(7)  # noqa: S311 - the same kinds in the same order, however many jobs there are
        self.random = random.Random(7)  # noqa: S311
        self.nodes = max(2, jobs // JOBS_A_NODE)
        self.jobs: list[tuple[str, str]] = []
        self.number = itertools.count()
        self.counted_ms = 0
        self.previous: dict[str, str] = {}
        self.decisions = itertools.count(1)
        self.count = jobs

    def beginning(self) -> Iterator[Raw]:
        """Nodes join, and every job runs."""
        yield self.raw(c.LogOpened(epoch="e"))
        yield self.raw(c.Tick(counted_ms=1))
        for node in range(self.nodes):
            capacity = Resources(cpu_m=2 * JOBS_A_NODE * REQUESTS.cpu_m, memory_mib=65_536)
            yield self.raw(c.NodeJoined(node=f"node-{node}", capacity=capacity))
        for job in range(self.count):
            yield from self.start(f"node-{job % self.nodes}")

    def days(self) -> Iterator[Raw]:
        """What happens then, without end."""
        while True:
            kind = self.kinds.choice(KINDS)
            if kind == "turnover":
                yield from self.turnover()
            else:
                yield self.one(kind)

    def one(self, kind: str) -> Raw:
        """One record about a node, a job or the time."""
        place = self.random.randrange(len(self.jobs))
        name, _ = self.jobs[place]
        match kind:
            case "growth":
                return self.raw(self.growth(name), name, "categorizer")
            case "category":
                before, after = self.random.sample(CATEGORIES, 2)
                return self.raw(
                    c.CategoryChanged(job=name, before=before, after=after, growth=0.01), name, "categorizer"
                )
            case "usage":
                node = f"node-{self.random.randrange(self.nodes)}"
                used = Resources(cpu_m=self.random.randrange(1_000), memory_mib=self.random.randrange(60_000))
                return self.raw(c.NodeUsage(node=node, used=used, jobs={name: 90}), node, "worker-monitor")
        self.counted_ms += 1_000
        return self.raw(c.Tick(counted_ms=self.counted_ms))

    def turnover(self) -> Iterator[Raw]:
        """A job finishes, and another takes its place."""
        place = self.random.randrange(len(self.jobs))
        self.jobs[place], self.jobs[-1] = self.jobs[-1], self.jobs[place]
        name, node = self.jobs.pop()
        yield self.raw(c.ReplicaStopped(job=name, incarnation=1, node=node, exit_status=0), name, "worker-monitor")
        yield self.raw(c.JobEnded(job=name, outcome=c.Outcome.FINISHED, exit_status=0), name, "placer")
        yield from self.start(node)

    def start(self, node: str) -> Iterator[Raw]:
        """A job is submitted, placed and started, and its growth measured for the first time."""
        name = f"job-{next(self.number)}"
        self.jobs.append((name, node))
        spec = c.JobSpec(command=("python", "train.py"), requests=REQUESTS)
        yield self.raw(c.JobSubmitted(job=name, request=name, spec=spec), name)
        plan = f"place-{name}"
        yield self.raw(
            c.PlacementPlanned(plan=plan, job=name, incarnation=0, nodes=(node,), because=BECAUSE), name, "placer"
        )
        yield self.raw(c.StepBegun(plan=plan, step=c.Step.START, attempt=1, job=name, incarnation=1, node=node), name)
        yield self.raw(c.JobPlaced(plan=plan, attempt=1, job=name, incarnation=1, node=node), name)
        yield self.raw(self.growth(name), name, "categorizer")

    def growth(self, name: str) -> c.GrowthMeasured:
        """An interval of a job has ended."""
        return c.GrowthMeasured(
            job=name,
            interval=5,
            total=2.5,
            count=10,
            largest=1.0,
            first_ms=1,
            last_ms=30_000,
            growth=0.123456789,
            per_second=0.004115226,
            category=c.Category.PROGRESSING,
        )

    def raw(self, event: c.ClusterEvent, about: str = "", decider: str = "") -> Raw:
        """An event as its writer appends it; a decider's has its id and the one before."""
        headers: dict[str, str] = {}
        if decider:
            headers[ID] = f"{decider}/e/cluster/0/{next(self.decisions)}/0"
            headers[PREVIOUS] = self.previous.get(decider, "")
            self.previous[decider] = headers[ID]
        return encode(event), headers, about


def received(raw: Raw, offset: int) -> Received[Any]:
    """A record as the runtime hands it to the view."""
    value, headers, _ = raw
    return Received(
        event=CLUSTER.decode(value), topic="cluster", partition=0, offset=offset, at_ms=offset, headers=headers
    )


def seconds(run: Callable[[], object]) -> float:
    """Processor time of one run, without the garbage of the ones before it."""
    gc.collect()
    start = time.process_time()
    run()
    return time.process_time() - start


def begun(life: Life) -> ClusterView:
    """A view of a pool in which every job runs."""
    view = ClusterView()
    for offset, raw in enumerate(life.beginning()):
        assert view.fold(received(raw, offset)), raw
    return view


def fold(count: int, runs: int) -> dict[str, Any]:
    """Records a second, with and without the view, the two in turn."""
    life = Life(FOLD_JOBS)
    raws = [*life.beginning(), *itertools.islice(life.days(), count)]

    def bare() -> None:
        for offset, raw in enumerate(raws):
            received(raw, offset)

    def whole() -> None:
        take_in = ClusterView().fold
        for offset, raw in enumerate(raws):
            take_in(received(raw, offset))

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
    taken, bare, called = [], [], 0
    for number in range(runs + 1):
        life = Life(jobs)
        view = begun(life)
        raws = list(itertools.islice(life.days(), count))
        records = [received(raw, view.position + offset) for offset, raw in enumerate(raws)]
        names = [raw[2] for raw in raws]
        if number == runs:
            called = calls(lambda view=view, records=records: folded(view, records))  # type: ignore[misc]
            break
        objects = {name: Plain() for name in (*names, *(f"job-{job}" for job in range(jobs)))}
        taken.append(seconds(lambda view=view, records=records: folded(view, records)))  # type: ignore[misc]
        bare.append(seconds(lambda names=names, records=records, objects=objects: updated(objects, names, records)))  # type: ignore[misc]
    return {
        "jobs": jobs,
        "records": count,
        "calls_per_record": called / count,
        "ns_per_record": round(1e9 * statistics.median(taken) / count),
        "bare_ns_per_record": round(1e9 * statistics.median(bare) / count),
    }


def folded(view: ClusterView, records: Sequence[Received[Any]]) -> None:
    """Fold every record."""
    for record in records:
        view.fold(record)


def updated(objects: dict[str, Plain], names: Sequence[str], records: Sequence[Received[Any]]) -> None:
    """For every record, write to the object that it is about."""
    for name, record in zip(names, records, strict=True):
        found = objects[name]
        found.total += record.offset
        found.at_ms = record.at_ms


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


def calls(run: Callable[[], None]) -> int:
    """How many functions a run calls, Python's and C's."""
    counted = 0

    def count(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal counted
        counted += kind in {"call", "c_call"}

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return counted


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
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
    measured = result["fold"]
    lines = [
        f"{'':16}{'records/s':>12}{'least':>12}{'most':>12}",
        *(
            f"{name:16}{rate['median']:>12,}{rate['least']:>12,}{rate['most']:>12,}"
            for name, rate in (("decode", measured["decode_per_s"]), ("decode + fold", measured["fold_per_s"]))
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
