"""PickyMan's simulations: workloads of Philly's jobs at several loads on several clusters, under every rule.

The paper's workloads and clusters are not public. A workload here is drawn from a public trace: jobs at random with their
durations and GPUs, at Poisson arrivals that give the load.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.errors import InputError
from steepest_lab.reproduce.pickyman.jobs import jobs_of
from steepest_lab.reproduce.pickyman.simulate import PreemptionResult, simulate_preemption
from steepest_lab.reproduce.verdict import Agreement, fall
from steepest_lab.sim.estimate import estimate
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.read import read_workload

RULES = ("fifo", "sjf", "srtf", "tiresias", "round-robin", "pickyman")
OURS = "pickyman"

TRACES: Mapping[str, str] = {"philly": "pollux/traces/philly.csv.gz", "muri": "muri/trace3.csv"}
"""Where each trace is in the data folder; ``docs/workloads.md`` says where they come from."""

LOADS = (0.5, 0.8, 1.0, 1.2)
LOW_LOAD = 0.5
GRACE_S = 1.0
"""At that load hardly a job waits, and a second may be many per cent."""

CLUSTERS = (64, 128)
"""GPUs."""

JOBS: Mapping[str, int] = {"philly": 700, "muri": 300}
"""Jobs of a workload. Most of Philly's take minutes: with fewer, arrivals are over before the cluster is full."""

LONGEST_S = 86_400.0
"""Longer runs are cut: a single one of Philly's longest jobs would be most of a workload."""

GIB_S = 2.0
"""Bandwidth of the storage, as of a link of 16 Gbit/s."""


class PreemptionTask(msgspec.Struct, frozen=True):
    """One repetition of one setting, under all rules."""

    trace: str
    folder: str
    gpus: int
    load: float
    seed: int


class PreemptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """PickyMan compared with a baseline in one setting: means over the repetitions, in seconds and %.

    Attributes:
        wait_s: PickyMan's mean waiting time; of all waiting.
        baseline_wait_s: The baseline's.
        wait_change: Of the one against the other, in %; low and high: the 95 % interval, paired by repetition.
        makespan_change: Likewise the makespan's, with its low and high.
        verdict: Against what is claimed: less waiting above ``LOW_LOAD``; at that, at most 2 % and ``GRACE_S`` more.
        makespan_verdict: Against a bar of this project: no longer makespan, at every load.
    """

    trace: str
    gpus: int
    load: float
    baseline: str
    repetitions: int
    wait_s: float
    baseline_wait_s: float
    wait_change: float
    wait_low: float
    wait_high: float
    makespan_change: float
    makespan_low: float
    makespan_high: float
    suspensions: float
    verdict: Agreement
    makespan_verdict: Agreement


def tasks(folder: Path, repetitions: int) -> Sequence[PreemptionTask]:
    """The runs of the experiment.

    Raises:
        InputError: A trace is not in the folder.
    """
    for name in TRACES.values():
        if not (folder / name).is_file():
            raise InputError(
                f"there is no trace {folder / name}",
                hint="Name the folder of the traces with --data, or in $STEEPEST_DATA.",
            )
    return [
        PreemptionTask(trace, str(folder), gpus, load, seed)
        for trace in TRACES
        for gpus in CLUSTERS
        for load in LOADS
        for seed in range(repetitions)
    ]


def run(task: PreemptionTask) -> Mapping[str, PreemptionResult]:
    """A repetition, by rule; all rules get the same jobs."""
    sims = drawn(
        read_workload(Path(task.folder) / TRACES[task.trace]).jobs, task.gpus, task.load, task.seed, JOBS[task.trace]
    )
    return {rule: simulate_preemption(jobs_of(sims, task.seed), task.gpus, rule, gib_s=GIB_S) for rule in RULES}


def drawn(jobs: Sequence[SimJob], gpus: int, load: float, seed: int, count: int) -> list[SimJob]:
    """Jobs of a trace at random, at Poisson arrivals that ask for ``load`` times the cluster's GPUs on average."""
    chance = random.Random(f"pickyman/{seed}")  # noqa: S311 - a simulation
    fits = [job for job in jobs if 0 < job.gpus <= gpus]
    chosen = [chance.choice(fits) for _ in range(count)]
    chosen = [msgspec.structs.replace(job, work_s=min(job.work_s, LONGEST_S)) for job in chosen]
    gap_s = math.fsum(job.work_s * job.gpus for job in chosen) / count / (load * gpus)
    at_s, arrived = 0.0, []
    for number, job in enumerate(chosen):
        arrived.append(msgspec.structs.replace(job, name=f"job-{number}", submit_s=at_s))
        at_s += chance.expovariate(1 / gap_s)
    return arrived


def rows(todo: Sequence[PreemptionTask], results: Sequence[Mapping[str, PreemptionResult]]) -> Sequence[PreemptionRow]:
    """A row for each setting and baseline."""
    settings: dict[tuple[str, int, float], list[Mapping[str, PreemptionResult]]] = {}
    for task, result in zip(todo, results, strict=True):
        settings.setdefault((task.trace, task.gpus, task.load), []).append(result)
    return [
        _row(trace, gpus, load, baseline, found)
        for (trace, gpus, load), found in settings.items()
        for baseline in RULES
        if baseline != OURS
    ]


def _row(
    trace: str, gpus: int, load: float, baseline: str, found: Sequence[Mapping[str, PreemptionResult]]
) -> PreemptionRow:
    ours, theirs = [one[OURS] for one in found], [one[baseline] for one in found]
    wait, other = _mean([one.mean_wait_s for one in ours]), _mean([one.mean_wait_s for one in theirs])
    pairs = list(zip(ours, theirs, strict=True))
    change = estimate([_percent(one.mean_wait_s, two.mean_wait_s) for one, two in pairs])
    makespan = estimate([_percent(one.makespan_s, two.makespan_s) for one, two in pairs])
    return PreemptionRow(
        trace=trace,
        gpus=gpus,
        load=load,
        baseline=baseline,
        repetitions=len(found),
        wait_s=round(wait, 3),
        baseline_wait_s=round(other, 3),
        wait_change=change.mean,
        wait_low=change.low,
        wait_high=change.high,
        makespan_change=makespan.mean,
        makespan_low=makespan.low,
        makespan_high=makespan.high,
        suspensions=_mean([float(one.suspensions) for one in ours]),
        verdict=_verdict(load, wait, other, change.low, change.high),
        makespan_verdict=fall(makespan.low, makespan.high, or_equal=True),
    )


def _verdict(load: float, wait: float, other: float, low: float, high: float) -> Agreement:
    if load <= LOW_LOAD:
        return Agreement.WITHIN if wait <= 1.02 * other + GRACE_S else Agreement.WORSE
    return fall(low, high)


def _percent(one: float, other: float) -> float:
    return 100 * (one - other) / max(other, 1.0)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
