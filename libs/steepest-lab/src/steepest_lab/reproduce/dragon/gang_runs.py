"""Distributed trainings on two emulated nodes, under DRAGON, without its parts, and without scaling: one run after another.

It owns which runs there are and what is measured of each. What the nodes' links cost a gang is measured first, so that the
report can say whether locality counted at all.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest_lab.demo import stage
from steepest_lab.demo.gangs.workload import gang_parameters, gang_workload
from steepest_lab.reproduce.kept_runs import Records, is_kept, run_once, timeline_of

JOBS = 12
MINUTES = 3
"""The approximate duration of a run."""

PARTS: Mapping[str, str] = {
    "not-scaled": "gangs, not scaled",
    "dragon": "dragon",
    "no-scaling": "dragon without scaling",
    "no-locality": "dragon without locality",
    "fixed": "dragon-fixed",
}
"""Parts that run alone, and their arms; the first is the baseline."""

PROBED_STEPS = 40
_PROBE_S = 300.0


class GangRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run, in real seconds.

    Attributes:
        completion_s: Mean time from a job's submission to its end.
        waited_s: Mean time from there to its start.
        makespan_s: From the first submission to the last end.
        utilisation: Mean measured use of the nodes' CPU over that time, as a share of their capacity.
        spanning: Starts and scalings after which a gang was on both nodes.
    """

    completion_s: float
    waited_s: float
    makespan_s: float
    utilisation: float
    spanning: int
    scale_ups: int
    scale_downs: int
    steps_lost: int


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """Duration of a step of a server and one worker, in milliseconds: on one node, and on two."""

    one_node_ms: float
    two_nodes_ms: float


def arms() -> Mapping[str, PoolParameters]:
    """Each arm's parameters by its name, the baseline first: gangs are placed whole, as they are named, and never scaled."""
    dragon, fixed = gang_parameters("dragon"), gang_parameters("dragon-fixed")
    none = gang_parameters("spread")
    all_of = (none, dragon, _with(dragon, scaling=False), _with(dragon, locality=False), fixed)
    return dict(zip(PARTS.values(), all_of, strict=True))


def _with(parameters: PoolParameters, **switches: bool) -> PoolParameters:
    return msgspec.structs.replace(parameters, dragon=msgspec.structs.replace(parameters.dragon, **switches))


def runs(
    repetitions: int,
    folder: Path,
    link_mbit: int | None,
    on_run: Callable[[str, int, GangRun], None],
    *,
    jobs: int = JOBS,
    length: float = 1.0,
    parts: Sequence[str] = (),
) -> Mapping[str, Sequence[GangRun]]:
    """Make all runs that are not in the folder yet; the order of the arms rotates from one repetition to the next.

    An arm that is not to run is among the results where all its runs are in the folder.

    Args:
        repetitions: Of each arm, with seeds from 0.
        folder: For the recordings and their results; a run of the same jobs that has ended there is not repeated.
        link_mbit: The rate of the nodes' links; None: there are none.
        on_run: Is called after each run that was made with its arm and seed.
        jobs: How many.
        length: Of every training, relative to the demo's.
        parts: Of :data:`PARTS`, those to be run; none: all of them.

    Raises:
        ClusterError: A job failed.
        KeyboardInterrupt: It was interrupted.
    """
    wanted = _arms_of(parts)
    found: dict[str, list[GangRun]] = {name: [] for name in arms()}
    for seed in range(repetitions):
        given = gang_workload(seed, stage.cores(), jobs, length, link_mbit)
        names = [*found]
        for name in [*names[seed % len(names) :], *names[: seed % len(names)]]:
            recording = recording_of(folder, name, seed)
            before = is_kept(given, arms()[name], recording)
            if before or name in wanted:
                one = measured(run_once(given, arms()[name], recording))
                found[name].append(one)
                if not before:
                    on_run(name, seed, one)
    return {name: made for name, made in found.items() if len(made) == repetitions}


def missing(
    repetitions: int,
    folder: Path,
    link_mbit: int | None,
    *,
    jobs: int = JOBS,
    length: float = 1.0,
    parts: Sequence[str] = (),
) -> int:
    """How many runs of these parts are not in the folder yet."""
    all_of = [(name, seed) for name in _arms_of(parts) for seed in range(repetitions)]
    return sum(
        not is_kept(
            gang_workload(seed, stage.cores(), jobs, length, link_mbit), arms()[name], recording_of(folder, name, seed)
        )
        for name, seed in all_of
    )


def _arms_of(parts: Sequence[str]) -> Sequence[str]:
    return [PARTS[part] for part in parts or PARTS]


def recording_of(folder: Path, arm: str, seed: int) -> Path:
    """The folder of a run's recording."""
    return folder / f"{seed}-{arm.replace(',', '').replace(' ', '-')}"


def measured(events: Records) -> GangRun:
    """The figures of a run whose jobs have all ended."""
    timeline = timeline_of(events)
    jobs = list(timeline.jobs.values())
    began, ended = min(job.submitted_ms for job in jobs), max(job.ended_ms or 0 for job in jobs)
    capacities = {node.name: node.capacity.cpu_m for node in timeline.view.nodes}
    used: dict[str, list[int]] = {name: [] for name in capacities}
    spanning = 0
    for one in events:
        match one.event:
            case c.NodeUsage(node=node, used=use) if node in used and began <= one.at_ms <= ended:
                used[node].append(use.cpu_m)
            case c.JobPlaced(nodes=nodes) | c.TransitionFinished(nodes=nodes):
                spanning += len(set(nodes)) > 1
    in_use = sum(statistics.fmean(values) for values in used.values() if values)
    return GangRun(
        completion_s=statistics.fmean((job.completion_ms or 0) / 1000 for job in jobs),
        waited_s=statistics.fmean((job.waited_ms or 0) / 1000 for job in jobs),
        makespan_s=(ended - began) / 1000,
        utilisation=in_use / sum(capacities.values()),
        spanning=spanning,
        scale_ups=timeline.scalings.ups,
        scale_downs=timeline.scalings.downs,
        steps_lost=timeline.steps_lost,
    )


def step_cost(link_mbit: int | None, steps: int = PROBED_STEPS) -> StepCost:
    """Measure what a step takes a gang on one node and on two.

    Raises:
        ClusterError: A training does not run.
    """
    with tempfile.TemporaryDirectory(prefix="steepest-") as folder:
        return asyncio.run(_step_cost(Path(folder), link_mbit, steps))


async def _step_cost(folder: Path, link_mbit: int | None, steps: int) -> StepCost:
    nodes = [LocalNode(name, Resources(cpu_m=1000)) for name in ("n1", "n2")]
    cluster = LocalCluster(folder, nodes, "step-cost", heartbeat_s=0.5, link_mbit=link_mbit)
    try:
        together = await _step_ms(cluster, "together", ("n1", "n1"), steps)
        apart = await _step_ms(cluster, "apart", ("n1", "n2"), steps)
    finally:
        await cluster.close()
    return StepCost(one_node_ms=together, two_nodes_ms=apart)


async def _step_ms(cluster: LocalCluster, job: str, nodes: tuple[str, str], steps: int) -> float:
    clock = asyncio.get_running_loop().time
    module = "steepest_lab.jobs.gangs.parameter_server"
    command = (sys.executable, "-m", module, "--steps", "1000000", "--work", "0.1")
    replicas = [ReplicaId(job, rank) for rank in range(len(nodes))]
    try:
        for replica, node in zip(replicas, nodes, strict=True):
            place = GangPlace(
                role="worker", role_index=replica.index, rank=replica.index, world_size=len(nodes), nodes=nodes
            )
            await cluster.start(replica, 1, node, ReplicaSpec(command=command, gang=place), None)
        first = await cluster.wait_for_step(replicas[0], 1, at_least=5, timeout_s=_PROBE_S)
        began = clock()
        last = await cluster.wait_for_step(replicas[0], 1, at_least=first + steps, timeout_s=_PROBE_S)
        return 1000 * (clock() - began) / (last - first)
    finally:
        for replica in replicas:
            if await cluster.lookup(replica, verify=False) is not None:
                await cluster.stop(replica, 1, grace_s=5.0)
