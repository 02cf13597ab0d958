"""Whether it pays to announce something else than the truth, under the policy ``steepest``, in simulated pools.

In each pool one job announces the truth, then deviates, everything else equal: it prints nothing, prints epochs alone, or
announces a multiple of its steps; with three times as many it is a job that stops early. The others announce their steps,
print nothing, or a third each announce steps, print epochs alone and print nothing. Nodes give all of the CPU that they
declare, or a part.

``gains`` is the change of the deviating job's completion against that of the truth, in %, with the 95 % interval of the
mean over the seeds: above 0, the truth is better. ``late`` is how much later than under fair sharing the job ended that was
delayed most, without a deviation. ``made_late`` is the same of those jobs that the deviation made end later than without it.
A pool of n nodes has n times as many jobs, and runs under 1/n of the seeds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec
from benchmarks.frame.bench import changed, each, figure, options

from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.simulated.model import Says

CORES_M = 8_000
WORK_S = 60.0
"""Seconds that a job runs if it has a node to itself; where sizes differ, the scale of their distribution."""

LOAD = 1.5
A_NODE = 12
"""Jobs for each node."""

STEP_S = 2.0
NONE = -100.0
"""Percent by which the latest job is later where there is none."""

SPREAD_OF_SIZES = 1.0
"""σ of the lognormal sizes."""

OTHERS: Mapping[str, Sequence[Says]] = {
    "announce": ("steps",),
    "silent": ("nothing",),
    "mixed": ("steps", "epochs", "nothing"),
}
DEVIATIONS: Mapping[str, Mapping[str, float | Says]] = {
    "nothing": {"says": "nothing"},
    "epochs": {"says": "epochs"},
    "half": {"announced": 0.5},
    "a tenth": {"announced": 0.1},
    "three times": {"announced": 3.0},
    "ten times": {"announced": 10.0},
}


def main() -> None:
    """Measure all pools, and print a line a pool and deviation."""
    asked = options(
        __doc__,
        seeds=(2, 3, 12),
        first_seed=(0, 0, 0),
        nodes=((1,), (1, 4), (1, 4)),
        usable=((1.0,), (1.0, 0.5), (1.0, 0.7, 0.5)),
        others=(("announce",), tuple(OTHERS), tuple(OTHERS)),
        sizes=(("equal",), ("equal",), ("equal", "mixed")),
    )
    for nodes in asked.nodes:
        for usable in asked.usable:
            for others in asked.others:
                for sizes in asked.sizes:
                    name = f"{nodes} nodes, {usable:g}, {others}, {sizes}"
                    seeds = range(asked.first_seed, asked.first_seed + max(1, asked.seeds // nodes))
                    report(name, [measure(seed, nodes, usable, others, sizes) for seed in each(name, seeds)])


def report(name: str, rows: Sequence[Mapping[str, tuple[float, float]]]) -> None:
    """Print a pool's figures."""
    base = max(row["truth"][1] for row in rows)
    figure(name, truth=changed([row["truth"][0] for row in rows]), late=f"{base:+.0f} %")
    for deviation in DEVIATIONS:
        gains = [row[deviation][0] for row in rows]
        worst = max(row[deviation][1] for row in rows)
        figure(f"  {deviation}", gains=changed(gains), made_late="none" if worst <= NONE else f"{worst:+.0f} %")


def measure(
    seed: int,
    nodes: int,
    usable: float,
    others: str,
    sizes: str,
    *,
    deviations: Sequence[str] = tuple(DEVIATIONS),
) -> Mapping[str, tuple[float, float]]:
    """Of the truth: the job's change against fair sharing, in %. Of each deviation: its change against the truth.

    And how much later, in %, the job ended that was delayed most: of all others, or of those that the deviation delayed.
    """
    spec = ClusterSpec(
        source="truth",
        nodes=[
            SimNode(name=f"n{node}", capacity=Resources(cpu_m=CORES_M, memory_mib=10**6), usable=usable)
            for node in range(nodes)
        ],
    )
    truth, job = workload(seed, nodes, usable, others, sizes)
    fair = ends(truth, spec, "spread", seed, {})
    first = fair.first_nodes
    honest = ends(truth, spec, "steepest", seed, first)
    found = {"truth": (100 * (honest.jct_s[job] / fair.jct_s[job] - 1), _latest(honest, fair, set(fair.jct_s) - {job}))}
    for name in deviations:
        jobs = [msgspec.structs.replace(one, **DEVIATIONS[name]) if one.name == job else one for one in truth.jobs]
        after = ends(msgspec.structs.replace(truth, jobs=jobs), spec, "steepest", seed, first)
        delayed = {other for other in fair.jct_s if other != job and after.jct_s[other] > honest.jct_s[other]}
        found[name] = (100 * (after.jct_s[job] / honest.jct_s[job] - 1), _latest(after, fair, delayed))
    return found


class Ends(msgspec.Struct, frozen=True):
    """Completion times in seconds, and where jobs began."""

    jct_s: Mapping[str, float]
    first_nodes: Mapping[str, str]


def ends(workload: Workload, spec: ClusterSpec, policy: str, seed: int, first_nodes: Mapping[str, str]) -> Ends:
    """Simulate it."""
    parameters = POOL[policy].parameters(PoolParameters())
    result = simulate_system(workload, spec, policy, parameters, seed, first_nodes=first_nodes or None)
    return Ends(
        {job.name: job.jct_s for job in result.jobs},
        {job.name: job.first_node for job in result.jobs if job.first_node},
    )


def workload(seed: int, nodes: int, usable: float, others: str, sizes: str) -> tuple[Workload, str]:
    """Jobs that come at random, and the one of them that deviates, which announces the truth here."""
    rng = random.Random(f"{seed}/{nodes}")  # noqa: S311 - no secret
    said, at_s, jobs = OTHERS[others], 1.0, []
    count = A_NODE * nodes
    deviates = rng.randrange(count // 4, 3 * count // 4)
    for number in range(count):
        lognormal = min(400.0, max(10.0, rng.lognormvariate(math.log(0.7 * WORK_S), SPREAD_OF_SIZES)))
        work_s = WORK_S if sizes == "equal" else lognormal
        jobs.append(
            SimJob(
                name=f"j{number:02}",
                submit_s=at_s,
                requests=Resources(cpu_m=50, memory_mib=100),
                work_s=work_s,
                iterations=max(5, round(work_s / STEP_S)),
                demand_cpu_m=CORES_M,
                family="thesis/rnn-pytorch",
                memory_mib=500,
                says="steps" if number == deviates else said[number % len(said)],
            )
        )
        at_s += rng.expovariate(LOAD * nodes * usable / WORK_S)
    return Workload(source="truth", format="truth", jobs=jobs), f"j{deviates:02}"


def _latest(after: Ends, fair: Ends, jobs: AbstractSet[str]) -> float:
    return max((100 * (after.jct_s[name] / fair.jct_s[name] - 1) for name in jobs), default=NONE)


if __name__ == "__main__":
    main()
