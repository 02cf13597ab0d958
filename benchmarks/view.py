"""Cost of the view: records a second from bytes to a folded pool, and the cost of a record as the jobs grow in number.

Its figures are those of ``frame/record_cost.py``, each beside a baseline of the same run. The jobs run ten a node. The
records are a pool's in its daily life: of 100, 40 ``GrowthMeasured``, 35
``NodeUsage``, 10 ``Tick``, 10 ``CategoryChanged``, and 5 of a job that ends and of one that is submitted, placed and
started in its place.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.frame.record_cost import FOLD_JOBS, Action, bare_update, measure

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import ID, PREVIOUS, Received
from steepest.events.registry import CLUSTER, encode
from steepest.view.cluster_view import ClusterView

JOBS_A_NODE = 10
REQUESTS = Resources(cpu_m=100)
BECAUSE = c.Because(rule="a benchmark says so")
CATEGORIES = (c.Category.PROGRESSING, c.Category.WATCHED, c.Category.CONVERGED)
MEASURED_MS = 30_000
"""Mean time between two measurements of a job's growth."""

KINDS = ("growth",) * 40 + ("usage",) * 35 + ("tick",) * 10 + ("category",) * 10 + ("turnover",) * 1
"""Kinds of what comes next, as often as it does; a turnover is seven records."""

Raw = tuple[bytes, dict[str, str], str]
"""A record's value and headers, and the name of what it is about."""


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
        """The following records, without end."""
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
        self.counted_ms += max(1, MEASURED_MS * 4 // self.count)  # a tick comes with four measurements of growth
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


def begun(life: Life) -> ClusterView:
    """A view of a pool in which every job runs."""
    view = ClusterView()
    for offset, raw in enumerate(life.beginning()):
        assert view.fold(received(raw, offset)), raw
    return view


def fold(count: int) -> tuple[int, Action, Action]:
    """Records to decode, with and without the view."""
    life = Life(FOLD_JOBS)
    raws = [*life.beginning(), *itertools.islice(life.days(), count)]

    def decode() -> None:
        for offset, raw in enumerate(raws):
            received(raw, offset)

    def take_in() -> None:
        take = ClusterView().fold
        for offset, raw in enumerate(raws):
            take(received(raw, offset))

    return len(raws), decode, take_in


def scale(jobs: int, count: int) -> tuple[int, Callable[[], tuple[Action, Action]]]:
    """Records of this many jobs."""

    def prepare() -> tuple[Action, Action]:
        life = Life(jobs)
        view = begun(life)
        raws = list(itertools.islice(life.days(), count))
        records = [received(raw, view.position + offset) for offset, raw in enumerate(raws)]

        def take_in() -> None:
            for record in records:
                view.fold(record)

        return take_in, bare_update((about for _, _, about in raws), records)

    return count, prepare


if __name__ == "__main__":
    measure(__doc__, fold=fold, scale=scale)
