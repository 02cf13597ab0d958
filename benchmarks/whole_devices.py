"""Whole gangs under ``steepest`` beside the published baselines, and how late jobs end against what is promised.

Jobs are drawn from Philly's or Muri's trace, or from Pollux' four workloads, at Poisson arrivals that ask for a share of
``GPUS`` GPUs (as in ``steepest reproduce pickyman``); a start costs ``START_S``, a stop nothing, and each rule knows how
long jobs run. The rule is the product's, on counted devices (``steepest-gangs`` of ``steepest simulate``). Each figure is
the mean over seeds; a change is against ``srtf`` with the same jobs, in %, with the 95 % interval of the mean. *Late* is
the share of the jobs that end more than 5 % and ``GRACE_S`` after their end under a fluid on nine tenths of the devices,
and *worst* the latest as a multiple.

*wrong totals*: what a job announces is off by a factor, log-normal with σ ``WRONG``. *liars*: each tenth job announces a
tenth of what it has, and *late* and *worst* are those of the honest ones. With *elastic* gangs, each may have from half
to twice the GPUs that it asks for, and its speed grows with their number to the power of ``SCALING``; *elastic against
rigid* is the change against the same rule on the same jobs.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from benchmarks.frame.bench import changed, data, each, figure, options

from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest_lab.baselines.steepest_gangs import SteepestGangsParameters
from steepest_lab.reproduce.pickyman.experiment import JOBS, TRACES, drawn
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import DEFAULT, AtRestart
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.read import read_workload

POLLUX = "pollux/workloads/workload-{}.csv"
GPUS = 64
START_S = 20.0
GRACE_S = 60.0
LATE = 1.05
RULES = msgspec.structs.replace(DEFAULT, overhead=AtRestart(launch_s=START_S, checkpoint_mib=0.0))
OURS, BLIND = "steepest-gangs", "steepest-gangs, unknown sizes"
UNKNOWN = msgspec.structs.replace(RULES, parameters={"steepest-gangs": SteepestGangsParameters(knows=False)})
SCALING = 0.9
ELASTIC = "steepest-gangs, elastic"
RESIZED = msgspec.structs.replace(
    RULES, scaling=SCALING, parameters={"steepest-gangs": SteepestGangsParameters(elastic=2.0)}
)
BASE = "srtf"
FILES = {**{name: (path,) for name, path in TRACES.items()}, "pollux": tuple(map(POLLUX.format, range(1, 5)))}
COUNTS = {**JOBS, "pollux": 400}
WRONG, LIES = 0.3, 0.1
MISTAKEN, LIARS = "steepest-gangs, wrong totals", "steepest-gangs, liars"
OF = {BLIND: UNKNOWN, MISTAKEN: RULES, LIARS: RULES, ELASTIC: RESIZED}
"""The rules of further runs of the policy ``OURS``."""
POLICIES = (BASE, "srsf", "tiresias", OURS, *OF)


class GangRun(msgspec.Struct, frozen=True):
    """A run to be made; ``gangs`` 0: as many as the published experiments draw from the trace."""

    data: str
    trace: str
    load: float
    gangs: int
    policy: str = ""
    seed: int = 0


def jobs_of(run: GangRun) -> list[SimJob]:
    """The jobs of a run."""
    jobs = [job for name in FILES[run.trace] for job in read_workload(Path(run.data) / name).jobs]
    count = run.gangs or COUNTS[run.trace]
    rng = random.Random(run.seed)  # noqa: S311 - no secret
    says: dict[str, Callable[[], float]] = {
        MISTAKEN: lambda: rng.lognormvariate(0.0, WRONG),
        LIARS: lambda: LIES if rng.random() < LIES else 1.0,
    }
    announced = says.get(run.policy, lambda: 1.0)
    return [
        msgspec.structs.replace(job, memory_mib=0, announced=announced())
        for job in drawn(jobs, GPUS, run.load, run.seed, count)
    ]


def run_one(run: GangRun) -> SimulationResult:
    """Make a run."""
    workload = Workload(source=run.trace, format=run.trace, jobs=jobs_of(run))
    policy = OURS if run.policy in OF else run.policy
    return simulate_allocation(workload, open_cluster(f"1x{GPUS}gpu"), policy, OF.get(run.policy, RULES), run.seed)


def lateness(run: GangRun, result: SimulationResult) -> tuple[float, float]:
    """The share of late jobs, in %, and the latest as a multiple of its fair completion time."""
    fair = FairDevices(float(GPUS))
    jobs = {job.name: job for job in jobs_of(run)}
    for job in jobs.values():
        fair.know(job.name, float(job.gpus), (job.work_s + START_S) * job.gpus, job.submit_s)
    fair.look(fair.now_s)
    found = []
    for done in result.jobs:
        job = jobs[done.name]
        if run.policy == LIARS and job.announced != 1:
            continue
        fair_s = (fair.gangs[job.name].ends_s or 0.0) - job.submit_s
        found.append((done.jct_s, fair_s))
    late = [jct > LATE * fair_s + GRACE_S for jct, fair_s in found]
    return 100 * statistics.fmean(late), max(jct / (fair_s + GRACE_S) for jct, fair_s in found)


def table(of: GangRun, seeds: Sequence[int], rules: Sequence[str]) -> None:
    """Run and print one load of a trace."""
    runs = [
        msgspec.structs.replace(of, policy=policy, seed=seed)
        for seed in seeds
        for policy in dict.fromkeys((BASE, OURS, ELASTIC, *rules))
    ]
    found = {(run.policy, run.seed): (run, run_one(run)) for run in each(f"{of.trace}, load {of.load:g}", runs)}
    pairs = [(found[ELASTIC, seed][1].summary(), found[OURS, seed][1].summary()) for seed in seeds]
    figure(
        f"{of.trace} {of.load:g} elastic against rigid",
        mean=changed([100 * (a.mean_jct / b.mean_jct - 1) for a, b in pairs]),
        makespan=changed([100 * (a.makespan / b.makespan - 1) for a, b in pairs]),
    )
    for policy in rules:
        ours = [found[policy, seed] for seed in seeds]
        base = [found[BASE, seed][1].summary() for seed in seeds]
        sums = [one.summary() for _, one in ours]
        late = [lateness(*one) for one in ours]
        figure(
            f"{of.trace} {of.load:g} {policy}",
            mean=changed([100 * (a.mean_jct / b.mean_jct - 1) for a, b in zip(sums, base, strict=True)]),
            makespan=changed([100 * (a.makespan / b.makespan - 1) for a, b in zip(sums, base, strict=True)]),
            late=round(statistics.fmean(share for share, _ in late), 1),
            worst=round(max(times for _, times in late), 2),
            stops=round(statistics.fmean(job.preemptions for _, one in ours for job in one.jobs), 2),
        )


def main() -> None:
    """Print the tables."""
    traces = (("muri",), ("muri",), tuple(FILES))
    asked = options(
        __doc__,
        traces=traces,
        loads=((1.0,), (1.0,), (0.8, 1.0, 1.2)),
        seeds=(1, 1, 10),
        gangs=(20, 100, 0),
        rules=(POLICIES, POLICIES, POLICIES),
    )
    folder = str(data("muri", "pollux"))
    for trace in asked.traces:
        for load in asked.loads:
            table(GangRun(folder, trace, load, asked.gangs), range(asked.seeds), asked.rules)


if __name__ == "__main__":
    main()
