"""A slow reference for Pollux's simulator: rounds, countdowns, epochs, its Tiresias and Optimus, on invented tables.

Jobs are (submission in s, application, replicas, batch size), on 4 nodes of 4 GPUs. The answer is each job's end.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

Asked = tuple[int, str, int, int]
LOCALS = (8, 16, 32, 64)
BATCHES = (64, 128, 256)
EPOCHS = 4
SPEED = {"alpha": 0.05, "beta": 3.0}
NODES, GPUS = 4, 4
TIRESIAS_LIMIT = 57_600


def progress(application: str, batch: int, epoch: int) -> float:
    """Steps of the first batch size at an epoch's end, as a validation file has it."""
    return (epoch + 1) * (900.0 if application == "alpha" else 700.0) + batch / 64


def iterations(application: str, batch: int, epoch: int) -> float:
    """Iterations at an epoch's end."""
    return float(round(progress(application, batch, epoch) * 64 / batch * 1.1))


def squares(batch: int, epoch: int) -> tuple[float, float]:
    """The gradient's squared norm and variance in an epoch."""
    return 1.0 + batch / 512, 3.0 + 2 * epoch + batch / 128


def times(application: str, placement: tuple[int, ...], local: int) -> tuple[float, float]:
    """Step and synchronisation in s as measured, for one of :data:`LOCALS`."""
    sync = 0.01 * (sum(placement) - 1) + 0.05 * (len(placement) - 1) + 0.003 * placement[0]
    return SPEED[application] * (1 + local / 32) + sync, sync


def placements() -> list[tuple[int, ...]]:
    """All ways to lie on up to 4 nodes, each in its least rotation."""
    ways = itertools.chain.from_iterable(itertools.product(range(1, GPUS + 1), repeat=n) for n in range(1, NODES + 1))
    return sorted({least(way) for way in ways})


def least(way: tuple[int, ...]) -> tuple[int, ...]:
    """The least rotation."""
    return min(way[turn:] + way[:turn] for turn in range(len(way)))


def write_tables(folder: Path) -> Path:
    """The folder of both applications' tables."""
    for application in SPEED:
        place = folder / application
        place.mkdir()
        lines = ["placement,local_bsz,step_time,sync_time"]
        for way in placements():
            for local in LOCALS:
                step, sync = times(application, way, local)
                lines.append(f"{''.join(map(str, way))},{local},{step!r},{sync!r}")
        (place / "placements.csv").write_text("\n".join(lines) + "\n")
        (place / "scalability.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,8,1.0,0.5\n")
        for batch in BATCHES:
            lines = ["progress,iteration,metric,grad_sqr,grad_var"]
            for epoch in range(EPOCHS):
                sqr, var = squares(batch, epoch)
                done = progress(application, batch, epoch)
                lines.append(f"{done!r},{iterations(application, batch, epoch):.0f},0.5,{sqr!r},{var!r}")
            (place / f"validation-{batch}.csv").write_text("\n".join(lines) + "\n")
    return folder


@dataclass(eq=False)
class Job:
    """One job on its way."""

    submit: int
    application: str
    replicas: int
    batch: int
    gpus: list[int] = field(default_factory=list)  # the node of each, in the order of allocation
    epoch: int = 0
    progress: float = 0.0
    countdown: int = 0
    ran: int = 0
    queue: int = 0
    end: int | None = None

    def placement(self) -> tuple[int, ...]:
        """GPUs by node."""
        return tuple(len(list(group)) for _, group in itertools.groupby(self.gpus))


def between(at: float, known: tuple[int, ...], values: list[float]) -> float:
    """Linear; exact at the points."""
    for low, high, left, right in zip(known, known[1:], values, values[1:], strict=False):
        if low <= at <= high:
            return left if at == low else right if at == high else left + (right - left) * (at - low) / (high - low)
    raise AssertionError(f"{at} is beyond {known}")


@functools.cache
def shape(asked: int, replicas: int, *, predicts: bool) -> tuple[int, int]:
    """The batch of one local step, and the number of accumulation steps before the last."""
    local = math.ceil(Fraction(asked, replicas))
    more = math.ceil(Fraction(local, LOCALS[-1])) - 1
    if replicas == 1 and (predicts or asked > BATCHES[0]):
        more = max(more, 1)
    return min(math.ceil(Fraction(local, more + 1)), BATCHES[-1] // (replicas * (more + 1))), more


@functools.cache
def step_s(application: str, placement: tuple[int, ...], local: int, more: int) -> float:
    """Seconds of a whole step."""
    measured = [times(application, least(placement), size) for size in LOCALS]
    step = between(local, LOCALS, [one[0] for one in measured])
    sync = between(local, LOCALS, [one[1] for one in measured])
    return step + (step - sync) * more


def rate(job: Job) -> float:
    """Progress a second."""
    n = len(job.gpus)
    local, more = shape(job.batch, n, predicts=False)
    batch = min(n * local * (more + 1), BATCHES[-1])
    rows = [squares(size, job.epoch) for size in BATCHES]
    sqr, var = (between(batch, BATCHES, [row[part] for row in rows]) for part in (0, 1))
    gain = (var + sqr) / (var / (n * local * (more + 1) / BATCHES[0]) + sqr)
    return gain / step_s(job.application, job.placement(), local, more)


def advance(job: Job, now: int) -> None:
    """One round of 60 s."""
    if not job.gpus or job.end is not None:
        return
    job.ran += 60
    waits = min(job.countdown, 60)
    job.countdown -= waits
    rest, clock = 60 - waits, now + waits
    while rest > 0:
        goal = min(progress(job.application, batch, job.epoch) for batch in BATCHES)
        speed = rate(job)
        if job.progress + speed * rest < goal:
            job.progress += speed * rest
            return
        seconds = round((goal - job.progress) / speed)
        job.progress, job.epoch, rest, clock = goal, job.epoch + 1, rest - seconds, clock + seconds
        if job.epoch == EPOCHS:
            job.end, job.gpus = clock, []
            return


def run(asked: list[Asked], policy: str) -> list[int | None]:
    """Rounds until all jobs are complete."""
    jobs = [Job(*one) for one in asked]
    queues: list[list[Job]] = [[], []]
    now = 0
    while any(job.end is None for job in jobs):
        for job in jobs:
            advance(job, now)
        now += 60
        there = [job for job in jobs if job.submit <= now and job.end is None]
        counts = by_service(there, queues) if policy == "tiresias" else by_gain(there)
        for job in there:
            if len(job.gpus) != counts.get(id(job), 0):
                job.gpus = []
        free = [GPUS - sum(job.gpus.count(node) for job in jobs) for node in range(NODES)]
        order = [job for queue in queues for job in queue] if policy == "tiresias" else there
        if policy == "optimus":
            order = sorted(there, key=lambda job: counts.get(id(job), 0))
        for job in order:
            wanted = counts.get(id(job), 0)
            if len(job.gpus) == wanted:
                continue
            job.countdown = 30
            while len(job.gpus) < wanted:
                node = free.index(max(free))
                taken = min(free[node], wanted - len(job.gpus))
                job.gpus += [node] * taken
                free[node] -= taken
    return [job.end for job in jobs]


def by_service(there: list[Job], queues: list[list[Job]]) -> dict[int, int]:
    """Tiresias: GPUs of those that run."""
    known = [job for queue in queues for job in queue]
    queues[0] += [job for job in there if job not in known]
    for queue in queues:
        queue[:] = [job for job in queue if job.end is None]
    for job in there:
        if job.queue == 0 and job.gpus and job.ran * job.replicas >= TIRESIAS_LIMIT:
            queues[0].remove(job)
            queues[1].append(job)
            job.queue = 1
    free, counts = NODES * GPUS, {}
    for job in itertools.chain(*queues):
        if job.replicas <= free:
            counts[id(job)] = job.replicas
            free -= job.replicas
    return counts


@functools.cache
def remaining(application: str, asked: int, epoch: int) -> float:
    """Iterations from an epoch's end to the last one's."""
    if epoch >= EPOCHS - 1:
        return 1.0
    now, then = ([iterations(application, batch, number) for batch in BATCHES] for number in (epoch, EPOCHS - 1))
    return between(asked, BATCHES, then) - between(asked, BATCHES, now)


def by_gain(there: list[Job]) -> dict[int, int]:
    """Optimus: GPUs of each."""
    free, counts = NODES * GPUS, {}
    for job in there:
        counts[id(job)] = min(free, 1)
        free -= counts[id(job)]

    def predicted(job: Job, n: int) -> float:
        ideal = (GPUS,) * (n // GPUS) + ((n % GPUS,) if n % GPUS else ())
        return step_s(job.application, ideal, *shape(job.batch, n, predicts=True))

    def gain(job: Job) -> float:
        n = counts[id(job)]
        if not n or n + 1 > job.batch // LOCALS[0]:
            return 0.0
        return (predicted(job, n) - predicted(job, n + 1)) * remaining(job.application, job.batch, job.epoch)

    while free and there:
        best = max(there, key=gain)
        if gain(best) <= 0:
            break
        counts[id(best)] += 1
        free -= 1
    return counts
