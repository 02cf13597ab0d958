"""Runs of the simulator: one of them from names and files to a result, and several side by side on all cores.

A run is a pure function of what it names, so its result is the same wherever and beside whatever it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from steepest.events.parameters import PoolParameters
from steepest.sim.allocation.simulate import simulate_allocation
from steepest.sim.clusters import open_cluster
from steepest.sim.policies import POOL, refuse_unfit
from steepest.sim.result import SimulationResult
from steepest.sim.rules import RULES
from steepest.sim.system.simulate import simulate_system
from steepest.sim.workloads.read import open_workload

R = TypeVar("R")
T = TypeVar("T")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What to simulate, by name.

    Attributes:
        workload: A file, or a name like ``thesis:fixed-20``.
        cluster: E.g. ``8x8gpu``, or a file.
        rules: Of :data:`steepest.sim.rules.RULES`.
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


def simulate(run: Run) -> SimulationResult:
    """Do one run.

    Raises:
        InputError: Something that it names is not there or not right; or a pool's policy under a peer's rules.
    """
    refuse_unfit(run.policy, run.rules)
    workload = open_workload(run.workload, seed=run.seed)
    cluster = open_cluster(run.cluster)
    if run.policy not in POOL:
        return simulate_allocation(workload, cluster, run.policy, RULES[run.rules], run.seed, profiles=run.profiles)
    return simulate_system(workload, cluster, run.policy, POOL[run.policy].parameters(run.parameters), run.seed)


def side_by_side(do: Callable[[R], T], runs: Sequence[R], workers: int | None = None) -> Iterator[T]:
    """Do several runs side by side, and give their results in the order of the runs.

    Args:
        do: Does one, in a process of its own.
        runs: What to do.
        workers: Processes; None: as many as there are cores.

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
