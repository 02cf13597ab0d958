"""Run the simulator: one run from names and files to a result, or several in parallel on all cores.

A run is a pure function of its inputs, so its result does not depend on the machine or on other runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from steepest.events.parameters import PoolParameters
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.policies import POOL, pool_policy, refuse_unfit
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import RULES
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workloads.read import open_workload

SPREAD = "spread"
"""The policy whose first placements others are pinned to."""

R = TypeVar("R")
T = TypeVar("T")


class SimulationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to simulate, by name.

    Attributes:
        workload: A file, or a name like ``thesis:fixed-20``.
        cluster: E.g. ``8x8gpu``, or a file.
        rules: Of :data:`steepest_lab.sim.rules.RULES`.
        pinned: Whether each job begins where ``spread`` places it first, so that policies differ in what they do then.
        parameters: Of the pool, for the policies of a pool.
        profiles: Folder of measured tables, for rules that go by them.
    """

    workload: str
    cluster: str
    policy: str
    rules: str = "default"
    seed: int = 0
    parameters: PoolParameters = PoolParameters()
    profiles: Path | None = None
    pinned: bool = False


def simulate(run: SimulationSpec) -> SimulationResult:
    """Execute one run.

    Raises:
        InputError: An input is missing or invalid, or a pool's policy is used under a peer's rules.
    """
    refuse_unfit(run.policy, run.rules)
    workload = open_workload(run.workload, seed=run.seed)
    cluster = open_cluster(run.cluster)
    policy = pool_policy(run.policy)
    if policy is None:
        return simulate_allocation(workload, cluster, run.policy, RULES[run.rules], run.seed, profiles=run.profiles)
    first_nodes: dict[str, str] = {}
    if run.pinned:
        spread = simulate_system(workload, cluster, SPREAD, POOL[SPREAD].parameters(run.parameters), run.seed)
        first_nodes = {job.name: job.first_node for job in spread.jobs if job.first_node}
        if run.policy == SPREAD:
            return spread
    parameters = policy.parameters(run.parameters)
    return simulate_system(
        workload,
        cluster,
        run.policy,
        parameters,
        run.seed,
        first_nodes=first_nodes,
        pod_by_pod=policy.pod_by_pod,
        planner=policy.planner,
    )


def side_by_side(do: Callable[[R], T], runs: Sequence[R], workers: int | None = None) -> Iterator[T]:
    """Execute several runs in parallel and yield their results in the order of the runs.

    Args:
        do: Executes one run, in a separate process.
        runs: The runs.
        workers: Number of processes; None: one per core.

    Raises:
        What ``do`` raises.
    """
    workers = min(len(runs), workers or os.cpu_count() or 1)
    if workers <= 1:
        yield from map(do, runs)
        return
    with ProcessPoolExecutor(workers) as pool:
        try:
            yield from pool.map(do, runs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
