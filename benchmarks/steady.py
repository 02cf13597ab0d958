"""How often the policy ``steepest`` changes limits, how many of these changes it takes back, and what keeping limits costs.

Each pool is simulated under ``spread``, under ``steepest`` without a stay (``stay_ms=0``), and with it; every job begins
where ``spread`` places it. A *change* is a limit that was applied and differs from the one before. It is *taken back* if
the job's limit moves the other way within two plans and a tick: 5 s. The case ``demo`` is the twelve jobs and four nodes
of ``steepest demo``, simulated, with its parameters.

``mean``, ``T90`` and ``late`` are the differences to ``steepest`` without a stay, in points of the change against
``spread``, with the 95 % interval of their mean (Student's t): below 0 is better. ``of`` is the share of the changes that
remains.

``--out FILE`` appends a JSON line a case and seed, and skips what the file holds already.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.frame.bench import changed, each, figure, kept, options
from benchmarks.policies import CASES, announcing, fair, logic, parameters_of

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest_lab.demo import workload as demo
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.system.simulate import HEARTBEAT_S, simulate_system
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.read import open_workload

DEMO = "demo"
DEMO_CORES = 2
DEMO_HEARTBEAT_S = 0.5
DEMO_DEMAND_M = 1_000
SILENT = "softmax"
"""The demo's training that prints no total."""

BACK_MS = 5_000
"""A change is taken back within so long."""

FIGURES = ("mean_jct", "mean_t90")


class Changes:
    """Counts the limits that are applied."""

    def __init__(self, nodes: ClusterSpec) -> None:
        self.count = self.back = 0
        self._whole_m = {node.name: node.capacity.cpu_m for node in nodes.nodes}
        self._limits_m: dict[tuple[str, int], int] = {}
        self._newest: dict[tuple[str, int], tuple[int, int]] = {}

    def see(self, received: Received[Any]) -> None:
        """Count a record, if it is one of these."""
        event = received.event
        if not isinstance(event, c.LimitsApplied):
            return
        job, whole_m = (event.job, event.incarnation), self._whole_m[event.node]
        limit_m = whole_m if event.cpu_m is None else event.cpu_m
        by_m = limit_m - self._limits_m.get(job, whole_m)
        self._limits_m[job] = limit_m
        if by_m:
            at_ms, before_m = self._newest.get(job, (0, 0))
            self.count += 1
            self.back += before_m * by_m < 0 and received.at_ms - at_ms <= BACK_MS
            self._newest[job] = (received.at_ms, by_m)


def main() -> None:
    """Measure what is not known yet, and print a line a case."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of steepest")
        parser.add_argument("--out", type=Path, help="JSON lines of what was measured")

    asked = options(
        __doc__,
        more,
        seeds=(1, 2, 10),
        first_seed=(0, 0, 0),
        case=((DEMO,), (DEMO,), (DEMO, "mixed-30 4x8", "mixed-50 4x8", "flowcon2-60", "nodes give 70 %")),
    )
    for name in asked.case:
        rows = [
            (row(asked.out, name, seed, ["stay_ms=0"]), row(asked.out, name, seed, asked.set))
            for seed in each(f"{name}: seeds", range(asked.first_seed, asked.first_seed + asked.seeds))
        ]
        figure(name, **line(rows))


def row(out: Path | None, name: str, seed: int, sets: Sequence[str]) -> Mapping[str, Any]:
    """What is known of a run, or measured now."""
    parameters = parameters_of("steepest", sets, given(name))
    of = {"case": name, "seed": seed, "parameters": msgspec.to_builtins(parameters), "logic": logic()}
    return kept(out, of, partial(measure, name, seed, parameters))


def measure(name: str, seed: int, parameters: PoolParameters) -> dict[str, Any]:
    """One run, compared with fair sharing, in %; changes are for each job."""
    workload, nodes = pool_of(name, seed)
    changes, spread = Changes(nodes), fair_demo(seed) if name == DEMO else fair(name, seed)
    first_nodes = {job.name: job.first_node for job in spread.jobs if job.first_node}
    after = simulate_system(
        workload,
        nodes,
        "steepest",
        parameters,
        seed,
        first_nodes=first_nodes,
        watch=changes.see,
        heartbeat_s=DEMO_HEARTBEAT_S if name == DEMO else HEARTBEAT_S,
    ).summary(spread)
    if after.left_out:
        raise SystemExit(f"{name}, seed {seed}: not all jobs finished")
    return {
        **{figure: 100 * (getattr(after, f"{figure}_change") or 0.0) for figure in FIGURES},
        "late": 100 * (after.late_share or 0.0),
        "worst": 100 * (after.late_worst or 0.0),
        "changes": changes.count / after.jobs,
        "back": changes.back / after.jobs,
    }


@cache
def fair_demo(seed: int) -> SimulationResult:
    """The demo under fair sharing."""
    workload, nodes = pool_of(DEMO, seed)
    return simulate_system(workload, nodes, "spread", parameters_of("spread", (), demo.parameters()), seed)


def given(name: str) -> PoolParameters:
    """The parameters of a case, whatever its policy."""
    return demo.parameters() if name == DEMO else PoolParameters()


def pool_of(name: str, seed: int) -> tuple[Workload, ClusterSpec]:
    """The jobs and nodes of a case."""
    if name != DEMO:
        case = CASES[name]
        return announcing(open_workload(case.workload, seed=seed), case, seed), case.nodes()
    played = demo.workload(seed, DEMO_CORES)
    nodes = [
        SimNode(name=node.name, capacity=Resources(cpu_m=node.capacity.cpu_m, memory_mib=10**6))
        for node in played.nodes
    ]
    jobs = tuple(_simulated(arrival) for arrival in played.arrivals)
    return Workload(source=DEMO, format=DEMO, jobs=jobs), ClusterSpec(source=DEMO, nodes=nodes)


def _simulated(arrival: demo.Arrival) -> SimJob:
    recipe, steps = demo.RECIPES[arrival.kind], int(arrival.spec.command[4])
    return SimJob(
        name=arrival.job,
        submit_s=arrival.at_s,
        requests=recipe.requests,
        replicas=recipe.replicas,
        work_s=steps * recipe.step_core_ms / 1000 / recipe.replicas,
        iterations=steps,
        model=recipe.model,
        demand_cpu_m=DEMO_DEMAND_M,
        memory_mib=20,
        announced=0.0 if arrival.kind == SILENT else 1.0,
        priority=arrival.spec.priority,
    )


def line(rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, str]:
    """The figures of a case."""
    before, after = (statistics.fmean(row["changes"] for row in side) for side in zip(*rows, strict=True))
    back = sum(now["back"] for _, now in rows) / max(sum(now["changes"] for _, now in rows), 1e-9)
    back_before = sum(was["back"] for was, _ in rows) / max(sum(was["changes"] for was, _ in rows), 1e-9)
    return {
        "changes": f"{after:.1f} a job, {back:.0%} taken back",
        "without a stay": f"{before:.1f}, {back_before:.0%}",
        "of": f"{after / before:.0%}",
        "mean": changed([now["mean_jct"] - was["mean_jct"] for was, now in rows]),
        "T90": changed([now["mean_t90"] - was["mean_t90"] for was, now in rows]),
        "late": changed([now["late"] - was["late"] for was, now in rows]),
        "worst": f"{max(now['worst'] for _, now in rows):+.0f} %",
    }


if __name__ == "__main__":
    main()
