"""Whole gangs under ``steepest`` beside the published baselines, and how late jobs end against what is promised.

Jobs are drawn from Philly's or Muri's trace, at Poisson arrivals that ask for a share of ``GPUS`` GPUs (as in ``steepest
reproduce pickyman``); a start costs ``START_S``, a stop nothing, and each rule knows how long jobs run. The rule is the
product's, on counted devices (``steepest-gangs`` of ``steepest simulate``). Each figure is the mean over seeds; a change is
against ``srtf`` with the same jobs, in %, with the 95 % interval of the mean. *Late* is the share of the jobs that end more
than 5 % and ``GRACE_S`` after their end under a fluid on nine tenths of the devices, and *worst* the latest as a multiple.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest_lab.baselines.steepest_gangs import SteepestGangsParameters
from steepest_lab.reproduce.pickyman.experiment import JOBS, TRACES, drawn
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.estimate import Estimate, estimate
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import DEFAULT, AtRestart
from steepest_lab.sim.run import side_by_side
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.read import read_workload

GPUS = 64
START_S = 20.0
GRACE_S = 60.0
LATE = 1.05
RULES = msgspec.structs.replace(DEFAULT, overhead=AtRestart(launch_s=START_S, checkpoint_mib=0.0))
OURS, BLIND = "steepest-gangs", "steepest-gangs, unknown sizes"
UNKNOWN = msgspec.structs.replace(RULES, parameters={"steepest-gangs": SteepestGangsParameters(knows=False)})
BASE = "srtf"
POLICIES = (BASE, "srsf", "tiresias", OURS, BLIND)


class GangRun(msgspec.Struct, frozen=True):
    """A run to be made."""

    data: str
    trace: str
    load: float
    policy: str
    seed: int


def jobs_of(run: GangRun) -> list[SimJob]:
    """The jobs of a run."""
    jobs = read_workload(Path(run.data) / TRACES[run.trace]).jobs
    return [
        msgspec.structs.replace(job, memory_mib=0) for job in drawn(jobs, GPUS, run.load, run.seed, JOBS[run.trace])
    ]


def run_one(run: GangRun) -> SimulationResult:
    """Make a run."""
    workload = Workload(source=run.trace, format=run.trace, jobs=jobs_of(run))
    policy, rules = (OURS, UNKNOWN) if run.policy == BLIND else (run.policy, RULES)
    return simulate_allocation(workload, open_cluster(f"1x{GPUS}gpu"), policy, rules, run.seed)


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
        fair_s = (fair.gangs[job.name].ends_s or 0.0) - job.submit_s
        found.append((done.jct_s, fair_s))
    late = [jct > LATE * fair_s + GRACE_S for jct, fair_s in found]
    return 100 * statistics.fmean(late), max(jct / (fair_s + GRACE_S) for jct, fair_s in found)


def table(trace: str, load: float, seeds: Sequence[int], data: str, workers: int) -> None:
    """Run and print one load of a trace."""
    runs = [GangRun(data, trace, load, policy, seed) for seed in seeds for policy in POLICIES]
    found = {
        (run.policy, run.seed): (run, one) for run, one in zip(runs, side_by_side(run_one, runs, workers), strict=True)
    }
    print(f"{trace}, load {load:g}, {len(seeds)} seeds")
    for policy in POLICIES:
        ours = [found[policy, seed] for seed in seeds]
        base = [found[BASE, seed][1].summary() for seed in seeds]
        sums = [one.summary() for _, one in ours]
        mean = estimate([100 * (a.mean_jct / b.mean_jct - 1) for a, b in zip(sums, base, strict=True)])
        span = estimate([100 * (a.makespan / b.makespan - 1) for a, b in zip(sums, base, strict=True)])
        late = [lateness(*one) for one in ours]
        stops = statistics.fmean(job.preemptions for _, one in ours for job in one.jobs)
        print(
            f"  {policy:29} mean {_shown(mean)}  makespan {_shown(span)}  late {statistics.fmean(x for x, _ in late):5.1f} %"
            f"  worst x{max(x for _, x in late):.2f}  stops a job {stops:.2f}",
            flush=True,
        )


def _shown(change: Estimate) -> str:
    return f"{change.mean:+6.1f} % ({change.low:+.1f} to {change.high:+.1f})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder of the traces")
    parser.add_argument("--traces", nargs="+", default=list(TRACES))
    parser.add_argument("--loads", nargs="+", type=float, default=[0.8, 1.0, 1.2])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    for trace in asked.traces:
        for load in asked.loads:
            table(trace, load, range(asked.seeds), asked.data, asked.jobs)


if __name__ == "__main__":
    main()
