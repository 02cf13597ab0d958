"""Cost of a simulation of an allocation policy, and the effect of each unusual rule of a peer's simulator.

* *speed*: jobs a second of processor time, from the workload in memory to the result, beside the rate of the peer whose
  figures the run reproduces. Peers' rates are those of their own programs on the machine that this project was developed
  on (two cores, one process each): what to compare with there, and no more. Pollux's tables are read again in every run;
  importing scipy is not counted.
* *rules*: average completion time under a peer's rules, under them with one rule changed, and under the default rules.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.frame.bench import between, cpu_s, data, doing, each, figure, options

from steepest_lab.baselines.optimus import OptimusParameters
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.cluster_spec import ClusterSpec
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import DEFAULT, MURI, POLLUX, AtEveryEvent, AtRestart, Countdown, Placement, Rules
from steepest_lab.sim.workload import Workload
from steepest_lab.sim.workloads.read import read_workload


class Case(msgspec.Struct, frozen=True):
    """A run and its peer's figures: jobs a second, and average completion time in s."""

    trace: str
    cluster: str
    rules: Rules
    policy: str
    peer_rate: float
    peer_jct: float


CASES = (
    Case("muri/trace3.csv", "8x8gpu", MURI, "tiresias", 354, 347_213.248),
    Case("muri/trace3.csv", "8x8gpu", MURI, "srtf", 313, 193_081.796),
    Case("muri/trace3.csv", "8x8gpu", MURI, "srsf", 276, 185_021.880),
    Case("pollux/workloads/workload-1.csv", "16x4gpu", POLLUX, "tiresias", 7.6, 2_473.65),
    Case("pollux/workloads/workload-1.csv", "16x4gpu", POLLUX, "optimus", 1.2, 4_087.0625),
)


class Variant(msgspec.Struct, frozen=True):
    """One changed rule: for which policies, its description, and the change."""

    policies: tuple[str, ...]
    name: str
    change: Mapping[str, Any]


EVERY = ("tiresias", "srtf", "srsf", "optimus")
QUEUES = ("tiresias",)


def limits(rules: Rules, **parameters: Any) -> Mapping[str, Any]:
    """The change of Tiresias' parameters under some rules."""
    changed = msgspec.structs.replace(rules.parameters["tiresias"], **parameters)
    return {"parameters": {**rules.parameters, "tiresias": changed}}


VARIANTS: Mapping[str, Sequence[Variant]] = {
    "muri": (
        Variant(EVERY, "no overhead", {"overhead": AtEveryEvent(table={}, otherwise_s=0)}),
        Variant(EVERY, "8 s at each start, in the end too", {"overhead": AtRestart(launch_s=8, checkpoint_mib=0)}),
        Variant(EVERY, "an iteration takes as long as said", {"step_factor": 1.0}),
        Variant(("srtf", "srsf"), "ends are never merged", {"merge_ends": 0.0}),
        Variant(QUEUES, "limits at fractions of a second", limits(MURI, whole_seconds=False)),
        Variant(QUEUES, "waiting jobs keep their place", limits(MURI, running_first=False)),
        Variant(QUEUES, "one limit, 3,250", limits(MURI, limits=(3250.0,))),
    ),
    "pollux": (
        Variant(EVERY, "no countdown", {"overhead": Countdown(seconds=0)}),
        Variant(EVERY, "on one node where it fits", {"placement": Placement.CONSOLIDATE}),
        Variant(QUEUES, "running jobs first in a queue", limits(POLLUX, running_first=True)),
        Variant(QUEUES, "one queue", limits(POLLUX, limits=())),
        Variant(
            ("optimus",), "a round of 600 s", {"parameters": {**POLLUX.parameters, "optimus": OptimusParameters()}}
        ),
    ),
}

ALIKE_S = 1e-3


def opened(case: Case, traces: Path, jobs: int) -> tuple[Workload, ClusterSpec]:
    """A case's inputs: its first jobs, or all of them."""
    workload = read_workload(traces / case.trace)
    return msgspec.structs.replace(workload, jobs=workload.jobs[: jobs or None]), open_cluster(case.cluster)


def speed(case: Case, workload: Workload, cluster: ClusterSpec, runs: int) -> None:
    """Jobs a second, and whether the figure is the peer's."""
    results: list[SimulationResult] = []

    def run() -> None:
        results.append(simulate_allocation(workload, cluster, case.policy, case.rules, 0))

    taken = [cpu_s(run) for _ in each(f"{case.trace}, {case.policy}", range(runs + 1))]  # the first run imports
    rates = between([len(workload.jobs) / one for one in taken[1:]], 1)
    jct = results[-1].summary().mean_jct
    figure(
        f"{case.trace} {case.policy}",
        jobs_per_s=rates,
        peer_jobs_per_s=case.peer_rate,
        times=round(rates["median"] / case.peer_rate, 1),
        mean_jct=round(jct, 4),
        as_the_peer=abs(jct - case.peer_jct) < ALIKE_S,
    )


def worth(case: Case, workload: Workload, cluster: ClusterSpec) -> None:
    """Average completion time under the case's rules, with one changed, and under the default ones."""
    changed = {one.name: one.change for one in VARIANTS[case.rules.name] if case.policy in one.policies}
    asked = {
        f"{case.rules.name}, as published": case.rules,
        **{name: msgspec.structs.replace(case.rules, **change) for name, change in changed.items()},
        "default": DEFAULT,
    }
    base = 0.0
    for name, chosen in asked.items():
        doing(f"{case.trace}, {case.policy}: {name}")
        summary = simulate_allocation(workload, cluster, case.policy, chosen, 0).summary()
        base = base or summary.mean_jct
        figure(
            f"{case.trace} {case.policy}",
            rules=name,
            mean_jct=round(summary.mean_jct, 1),
            change_percent=round(100 * (summary.mean_jct / base - 1), 2),
            makespan=round(summary.makespan, 1),
        )


def main() -> None:
    """Measure each case."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rules", action="store_true", help="what each rule is worth, instead of the speed")

    asked = options(__doc__, more, runs=(1, 1, 5), jobs=(20, 0, 0))
    traces = data("muri", "pollux")
    for case in CASES:
        workload, cluster = opened(case, traces, asked.jobs)
        if asked.rules:
            worth(case, workload, cluster)
        else:
            speed(case, workload, cluster, asked.runs)


if __name__ == "__main__":
    main()
