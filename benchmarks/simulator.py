"""Cost of a simulation of an allocation policy, and the effect of each unusual rule of a peer's simulator.

* *speed*: jobs a second of processor time, from the workload in memory to the result, beside the rate of the peer whose
  figures the run reproduces. Peers' rates are those of their own programs on the machine that this project was developed
  on (two cores, one process each): what to compare with there, and no more. Pollux's tables are read again in every run;
  importing scipy is not counted.
* *rules*: average completion time under a peer's rules, under them with one rule changed, and under the default rules.

Run: ``python benchmarks/simulator.py [--runs 5] [--rules] [--json]``, with ``STEEPEST_DATA`` naming a folder that holds
``muri/`` and ``pollux/``, unless it is ``shared/data`` beside the repository.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from steepest.policies.baselines.optimus import OptimusParameters
from steepest.sim.allocation.simulate import simulate_allocation
from steepest.sim.cluster_spec import ClusterSpec
from steepest.sim.clusters import open_cluster
from steepest.sim.rules import DEFAULT, MURI, POLLUX, AtEveryEvent, AtRestart, Countdown, Placement, Rules
from steepest.sim.workload import Workload
from steepest.sim.workloads.read import read_workload


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


def data() -> Path:
    """The folder of traces."""
    named = os.environ.get("STEEPEST_DATA")
    return Path(named) if named else Path(__file__).parents[2] / "shared" / "data"


def opened(case: Case) -> tuple[Workload, ClusterSpec]:
    """A case's inputs."""
    return read_workload(data() / case.trace), open_cluster(case.cluster)


def speed(runs: int) -> list[dict[str, Any]]:
    """Jobs a second of each case, and whether its figure is the peer's."""
    rows = []
    for case in CASES:
        workload, cluster = opened(case)
        taken = []
        for _ in range(runs + 1):
            gc.collect()
            start = time.process_time()
            result = simulate_allocation(workload, cluster, case.policy, case.rules, 0)
            taken.append(time.process_time() - start)
        rates = [len(workload.jobs) / one for one in taken[1:]]  # the first run imports
        jct = result.summary().mean_jct
        rows.append(
            {
                "trace": case.trace,
                "policy": case.policy,
                "jobs_per_s": round(statistics.median(rates)),
                "least": round(min(rates)),
                "most": round(max(rates)),
                "peer_jobs_per_s": case.peer_rate,
                "times": round(statistics.median(rates) / case.peer_rate, 1),
                "mean_jct": round(jct, 4),
                "as_the_peer": abs(jct - case.peer_jct) < ALIKE_S,
            }
        )
    return rows


def worth() -> list[dict[str, Any]]:
    """Average completion time of each case under its rules, with one changed, and under the default ones."""
    rows = []
    for case in CASES:
        workload, cluster = opened(case)
        asked = [
            (f"{case.rules.name}, as published", case.rules),
            *(
                (one.name, msgspec.structs.replace(case.rules, **one.change))
                for one in VARIANTS[case.rules.name]
                if case.policy in one.policies
            ),
            ("default", DEFAULT),
        ]
        base = None
        for name, chosen in asked:
            summary = simulate_allocation(workload, cluster, case.policy, chosen, 0).summary()
            base = base or summary.mean_jct
            rows.append(
                {
                    "trace": case.trace,
                    "policy": case.policy,
                    "rules": name,
                    "mean_jct": round(summary.mean_jct, 1),
                    "change_percent": round(100 * (summary.mean_jct / base - 1), 2),
                    "makespan": round(summary.makespan, 1),
                }
            )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as Markdown."""
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([f"{row[name]}" for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rules", action="store_true", help="what each rule is worth, instead of the speed")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if not (data() / "muri").is_dir():
        sys.exit("no traces: set STEEPEST_DATA to a folder that holds muri/ and pollux/")
    rows = worth() if chosen.rules else speed(chosen.runs)
    report = {"python": platform.python_version(), "machine": platform.machine(), "rows": rows}
    print(json.dumps(report, indent=2) if chosen.json else table(rows))


if __name__ == "__main__":
    main()
