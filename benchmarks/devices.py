"""What the policy ``steepest`` would come to on devices, where a job has its GPUs or has not: by suspensions alone.

A prototype of the rule, in the simulator of ``steepest reproduce pickyman`` (:mod:`steepest_lab.reproduce.pickyman`): GPUs
of one cluster, gangs whole or not at all, suspensions that wait for the end of an epoch, starts that read data. Jobs are
drawn from Philly's or Muri's trace, on ``GPUS`` GPUs.

* ``steepest``: a waiting job takes the places of running ones whose index, the worth of a GPU-second
  (:func:`steepest.policies.steepest.learning.worth`), is less than its own by ``FACTOR``, the least first. In a virtual pool
  all jobs share the GPUs fairly, each up to what it asks for; a job is due 4 % of its completion time there later. A
  running job gives way if it still ends in time after the other one has run, or if it is late already. A waiting job that
  must start within ``SOON_S`` to be in time is served first, and takes the place of any that may give way.
* ``unguarded``: the same without due times.
* ``in-queue``: ``steepest``, but what becomes free goes to waiting jobs in the order of submission, as the placer gives it.
* ``fifo``, ``round-robin``, ``srtf``, ``pickyman``: as there; they know no due times.

Every change is against ``fifo`` with the same jobs, in %, with the 95 % interval of the mean. T90 is the mean time to the
share of a job's work at which 90 % of its loss reduction is reached, drawn for each model. *Late* is the share of the jobs
that end more than 5 % and ``GRACE_S`` later than their fair copy; beside it the longest completion time, as a multiple of
the fair copy's. Under *quick*, epochs take 10 to 60 s and starts read 0.1 to 10 GiB.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from benchmarks.frame.bench import changed, data, each, figure, options

from steepest.policies.steepest.fair.fair_sharing import Load, run_fairly
from steepest.policies.steepest.learning import SHARES, worth
from steepest_lab.reproduce.pickyman.experiment import GIB_S, JOBS, TRACES, drawn
from steepest_lab.reproduce.pickyman.jobs import LAUNCH_S, PreemptibleJob, PreemptionPhase, jobs_of
from steepest_lab.reproduce.pickyman.simulate import (
    LOOK_EVERY_S,
    LOOKED_AT,
    MIN_RUN_S,
    MOST_SUSPENSIONS,
    TINY,
    PreemptionLoop,
)
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.read import read_workload

GPUS = 64
LEARNING = 0.45
LATENESS = 0.04
FACTOR = 1.5
SOON_S = 120.0
GRACE_S = 60.0
LATE = 1.05

OURS = ("steepest", "unguarded", "in-queue")
RULES = ("fifo", "round-robin", "srtf", "pickyman", *OURS)
FIGURES = ("mean", "median", "makespan", "T90")

QUICK_EPOCH_S = (10.0, 60.0)
QUICK_GIB = (0.1, 10.0)


class FairDevices:
    """All jobs on all GPUs at once under fair sharing; a job's work is in GPU-seconds."""

    def __init__(self, gpus: int) -> None:
        self._gpus = float(gpus)
        self._now_s = 0.0
        self._used: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        self.sizes: dict[str, tuple[float, float]] = {}

    def add(self, name: str, size: float, gpus: int) -> None:
        """A job comes, which needs so many GPU-seconds and can use so many GPUs."""
        self.sizes[name] = (size, float(gpus))
        self._used[name] = 0.0

    def go_on(self, now_s: float) -> None:
        """Let the copies run up to now."""
        run = run_fairly(self._gpus, self._loads(), now_s - self._now_s)
        for name, end, used in zip(list(self._used), run.ends, run.used, strict=True):
            self._used[name] += used
            if end <= now_s - self._now_s:
                self.ends[name] = self._now_s + end
                del self._used[name]
        self._now_s = now_s

    def forecast(self) -> Mapping[str, float]:
        """When each copy ended, or ends if no other job comes."""
        run = run_fairly(self._gpus, self._loads())
        return self.ends | {name: self._now_s + end for name, end in zip(self._used, run.ends, strict=True)}

    def _loads(self) -> list[Load]:
        sizes = ((self.sizes[name], used) for name, used in self._used.items())
        return [Load(max(size - used, 0.0), gpus) for (size, gpus), used in sizes]


def fair_ends(jobs: Sequence[PreemptibleJob], gpus: int) -> Mapping[str, float]:
    """When each job would end under fair sharing, which costs nothing, by what it really needs."""
    fair = FairDevices(gpus)
    for job in jobs:
        fair.go_on(job.submit_s)
        fair.add(job.name, job.work_s * job.gpus, job.gpus)
    return fair.forecast()


class Standing(msgspec.Struct):
    """A job as the rule sees it now, in seconds: what it still trains, a start of it, and how long it can still wait."""

    index: float
    left_s: float
    start_s: float
    slack_s: float
    is_late: bool
    is_urgent: bool = False


class DeviceLoop(PreemptionLoop):
    """A run under one of the rules of this file."""

    def __init__(
        self, jobs: Sequence[PreemptibleJob], gpus: int, rule: str, gib_s: float, learned: Mapping[str, float]
    ) -> None:
        super().__init__(jobs, gpus, rule if rule not in OURS else "fifo", gib_s)
        self._ours = rule if rule in OURS else ""
        self._fair = FairDevices(gpus)
        self._learned = learned
        self._finished: dict[str, float] = {}
        self.t90_s: dict[str, float] = {}

    def _arrive(self) -> None:
        if not self._ours:
            super()._arrive()
            return
        self._fair.go_on(self.now_s)
        while self.coming and self.coming[-1].submit_s <= self.now_s + TINY:
            job = self.coming.pop()
            self._wait(job)
            self._fair.add(job.name, self._size(job), job.gpus)

    def _change(self) -> None:
        for job in self.held.values():
            over_s = job.trained_s(self.now_s) - self._learned[job.model] * job.work_s
            if over_s >= 0 and job.name not in self.t90_s:
                self.t90_s[job.name] = self.now_s - over_s - job.submit_s
        super()._change()

    def _done(self, job: PreemptibleJob) -> None:
        super()._done(job)
        self._finished[job.model] = self._learned[job.model]
        if self._ours:
            self._fair.sizes[job.name] = (job.work_s * job.gpus, float(job.gpus))

    def _size(self, job: PreemptibleJob) -> float:
        """GPU-seconds as they are predicted, with one start."""
        train_s = self.view.left_s(job) + job.trained_s(self.now_s)
        return (train_s + LAUNCH_S + job.load_gib / self.view.gib_s) * job.gpus

    def _serve(self) -> None:
        if not self._ours:
            super()._serve()
            return
        self.view.readers = sum(1 for one in self.held.values() if one.phase is PreemptionPhase.LOADING)
        stands = self._standings()

        def rank(job: PreemptibleJob) -> tuple[bool, float, str]:
            return (not stands[job.name].is_urgent, -stands[job.name].index, job.name)

        def by_submission(job: PreemptibleJob) -> tuple[bool, float, str]:
            return (False, job.submit_s, job.name)

        waiting = sorted(
            (job for job in self.waiting.values() if not job.room_from),
            key=by_submission if self._ours == "in-queue" else rank,
        )
        rest = []
        for job in waiting:
            if job.gpus <= self.free:
                self._start(job)
            else:
                rest.append(job)
        for job in sorted(rest, key=rank)[:LOOKED_AT]:
            if taken := self._gives_way(job, stands):
                self._make_room(job, taken)
        self.looks_s = self.now_s + LOOK_EVERY_S

    def _standings(self) -> Mapping[str, Standing]:
        now_s, stands = self.now_s, {}
        for name in self._fair.sizes:
            if self.jobs[name].end_s is None:
                self._fair.sizes[name] = (self._size(self.jobs[name]), float(self.jobs[name].gpus))
        ends = self._fair.forecast()
        for job in (*self.waiting.values(), *self.held.values()):
            left_s, trained_s = max(self.view.left_s(job), 1.0), job.trained_s(now_s)
            shares = (self._finished[job.model],) if job.model in self._finished else SHARES
            index = worth(trained_s / (trained_s + left_s), left_s * job.gpus, LEARNING, shares)
            start_s = self.view.start_s(job, self.view.readers)
            due_s = job.submit_s + (1 + LATENESS) * (ends[job.name] - job.submit_s)
            waits = job.phase is PreemptionPhase.WAITING
            slack_s = due_s - now_s - left_s - (start_s if waits else 0.0)
            is_urgent = waits and 0 < slack_s < SOON_S and self._ours != "unguarded"
            stands[job.name] = Standing(index, left_s, start_s, slack_s, slack_s <= 0, is_urgent)
        return stands

    def _gives_way(self, wanted: PreemptibleJob, stands: Mapping[str, Standing]) -> list[PreemptibleJob]:
        may = list(self._candidates(wanted, stands))
        may.sort(
            key=lambda one: (
                self.view.stop_s(one) if stands[wanted.name].is_urgent else stands[one.name].index,
                one.name,
            )
        )
        taken, free = [], self.free
        for one in may:
            if free >= wanted.gpus:
                break
            taken.append(one)
            free += one.gpus
        if free < wanted.gpus:
            return []
        for one in sorted(taken, key=lambda one: (-stands[one.name].index, one.name)):
            if free - one.gpus >= wanted.gpus:
                taken.remove(one)
                free -= one.gpus
        return taken

    def _candidates(self, wanted: PreemptibleJob, stands: Mapping[str, Standing]) -> Iterator[PreemptibleJob]:
        me = stands[wanted.name]
        for one in self.held.values():
            stand = stands[one.name]
            if one.phase is not PreemptionPhase.TRAINING or one.suspensions >= MOST_SUSPENSIONS:
                continue
            if self.now_s - one.since_s < MIN_RUN_S or stand.left_s <= self.view.stop_s(one) + stand.start_s:
                continue
            if not me.is_urgent and FACTOR * stand.index >= me.index:
                continue
            in_time = stand.slack_s >= stand.start_s + me.start_s + me.left_s
            if in_time or stand.is_late or self._ours == "unguarded":
                yield one


class Run(msgspec.Struct, frozen=True):
    """What a rule came to: the figures, the share of late jobs in %, the worst one's multiple, and suspensions a job."""

    figures: Sequence[float]
    late: float
    worst: float
    suspensions: float


@cache
def jobs_of_trace(file: Path) -> Sequence[SimJob]:
    """All of its jobs."""
    return read_workload(file).jobs


def measure(trace: str, rule: str, seed: int, *, load: float, traces: Path, jobs: int, quick: bool) -> Run:
    """One run; the same jobs under every rule."""
    sims = drawn(jobs_of_trace(traces / TRACES[trace]), GPUS, load, seed, jobs or JOBS[trace])
    drawn_jobs = [_quick(job, seed) if quick else job for job in jobs_of(sims, seed)]
    models = dict.fromkeys(job.model for job in drawn_jobs)
    learned = {model: random.Random(f"learned/{seed}/{model}").choice(SHARES) for model in models}  # noqa: S311
    fair = fair_ends(drawn_jobs, GPUS)
    loop = DeviceLoop(drawn_jobs, GPUS, rule, GIB_S, learned)
    result = loop.run()
    took = list(zip(result.completions_s, (fair[job.name] - job.submit_s for job in drawn_jobs), strict=True))
    return Run(
        figures=(
            statistics.fmean(result.completions_s),
            statistics.median(result.completions_s),
            result.makespan_s,
            statistics.fmean(loop.t90_s.values()),
        ),
        late=100 * statistics.fmean(one > LATE * other + GRACE_S for one, other in took),
        worst=max(one / (other + GRACE_S) for one, other in took),
        suspensions=result.suspensions / len(drawn_jobs),
    )


def _quick(job: PreemptibleJob, seed: int) -> PreemptibleJob:
    """The job with short epochs and little to read, the same for all of a model."""
    chance = random.Random(f"quick/{seed}/{job.model}")  # noqa: S311 - a simulation
    epoch_s, gib = (math.exp(chance.uniform(math.log(low), math.log(high))) for low, high in (QUICK_EPOCH_S, QUICK_GIB))
    return msgspec.structs.replace(job, epoch_s=min(epoch_s, job.work_s), load_gib=gib, room_from=[])


def line(runs: Sequence[Run], beside: Sequence[Run]) -> dict[str, str]:
    """The figures of a rule."""
    pairs = list(zip(runs, beside, strict=True))
    changes = {
        name: changed([100 * (one.figures[at] / two.figures[at] - 1) for one, two in pairs])
        for at, name in enumerate(FIGURES)
    }
    late = f"{statistics.fmean(run.late for run in runs):.1f} %, ×{max(run.worst for run in runs):.1f}"
    return {**changes, "late": late, "suspensions": f"{statistics.fmean(run.suspensions for run in runs):.2f}"}


def main() -> None:
    """Print a line a rule."""
    asked = options(
        __doc__,
        seeds=(1, 1, 10),
        first_seed=(0, 0, 0),
        trace=(("philly",), tuple(TRACES), tuple(TRACES)),
        rule=(("steepest",), RULES, RULES),
        load=(1.0, 1.0, 1.0),
        jobs=(10, 100, 0),
    )
    traces = data(*(TRACES[trace] for trace in asked.trace))
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    for trace in asked.trace:
        for quick in (False, True):
            name, fifo = f"{trace}{' quick' if quick else ''}", list[Run]()
            for rule in dict.fromkeys(("fifo", *asked.rule)):
                runs = [
                    measure(trace, rule, seed, load=asked.load, traces=traces, jobs=asked.jobs, quick=quick)
                    for seed in each(f"{name} {rule}: seeds", seeds)
                ]
                fifo = fifo or runs
                figure(f"{name} {rule}", **line(runs, fifo))


if __name__ == "__main__":
    main()
