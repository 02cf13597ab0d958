"""A pool's gauges at one moment, read from its view. Pure; the tables say which gauges there are.

It must never show a job by name unless an operator asks for it, nor more nodes than :data:`NODES_MOST`: a pool may have any
number of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import msgspec

from steepest.events.cluster import Category
from steepest.policies.named import named
from steepest.pool_metrics.bounded_label import OTHER
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Node, Phase, PlanKind

T = TypeVar("T")

PART = 1_000
"""Jobs or nodes that are read in one go, in about a millisecond."""

NODES_MOST = 50
"""Nodes that have series of their own, by name; the sums of all others are one node more, ``other``."""

QUEUES_MOST = 16
"""Queues with their own series, by name; the sums of all others are the queue ``other``."""

MIB = 1024 * 1024
UNKNOWN = "unknown"


class PoolSample(msgspec.Struct):
    """Gauges by name, and their values by labels without the pool."""

    values: dict[str, dict[tuple[str, ...], float]] = msgspec.field(default_factory=dict)

    def put(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Set one."""
        self.values.setdefault(name, {})[labels] = value

    def add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Add to one."""
        series = self.values.setdefault(name, {})
        series[labels] = series.get(labels, 0) + value


class GaugeDefinition(msgspec.Struct, frozen=True):
    """A gauge: its meaning, and its labels in addition to the pool."""

    about: str
    labels: tuple[str, ...] = ()


POOL_GAUGES: Mapping[str, GaugeDefinition] = {
    "pool_info": GaugeDefinition("1; the labels are the policy and the queue policy in force.", ("policy", "queueing")),
    "pool_counted_seconds": GaugeDefinition(
        "The pool's clock, which stands still without ticks. Does not rise: the worker-monitor is away."
    ),
    "jobs": GaugeDefinition(
        "Jobs that have not ended, by phase. Many `waiting` while nodes are free: `steepest jobs` says why each waits.",
        ("phase",),
    ),
    "jobs_by_category": GaugeDefinition(
        "Running jobs by category: PC, WC, CC, or `unknown` where no growth was measured for long.", ("category",)
    ),
    "jobs_by_list": GaugeDefinition("Running jobs by FlowCon's list.", ("list",)),
    "jobs_limited": GaugeDefinition("Running jobs with a CPU limit in force."),
    "plans_in_flight": GaugeDefinition(
        "Plans that are valid and not over, by kind. Does not fall for minutes: see `steepest_plan_step_seconds`.",
        ("kind",),
    ),
    "queue_jobs": GaugeDefinition("Jobs that wait for a place, to start or to resume, by queue.", ("queue",)),
    "queue_oldest_seconds": GaugeDefinition(
        "For how long the job has waited that was submitted first, in counted time, by queue. Rising without end: see"
        " `steepest explain` for that job.",
        ("queue",),
    ),
    "nodes": GaugeDefinition(
        "Nodes by state: `open`, `lost` (silent for too long), or `watched` (it reports and takes no jobs).", ("state",)
    ),
    "nodes_unnamed": GaugeDefinition(f"Nodes beyond the first {NODES_MOST}, which are the node `{OTHER}` together."),
    "node_replicas": GaugeDefinition("Replicas on a node, by their jobs' category.", ("node", "category")),
}
"""Gauges of the pool as a whole."""


class NodeGauge(msgspec.Struct, frozen=True):
    """A gauge of a node: what it means, and its value; ``adds``: whether the sum over several nodes means something."""

    about: str
    value: Callable[[ClusterView, Node], float]
    adds: bool = True


NODE_GAUGES: Mapping[str, NodeGauge] = {
    "node_up": NodeGauge("1 while the node sends heartbeats; of `other`: how many do.", lambda _, node: not node.lost),
    "node_silence_seconds": NodeGauge(
        "Counted time since the node's last heartbeat.",
        lambda view, node: max(0, view.counted_ms - node.seen_counted_ms) / 1000,
        adds=False,
    ),
    "node_score": NodeGauge(
        "The node's score by the categories of its jobs.", lambda view, node: view.nodes.score(node)
    ),
    "node_cpu_capacity_cores": NodeGauge("CPU that the node has.", lambda _, node: node.capacity.cpu_m / 1000),
    "node_cpu_reserved_cores": NodeGauge(
        "CPU that jobs and valid plans reserve on the node.", lambda _, node: node.allocated.cpu_m / 1000
    ),
    "node_cpu_used_cores": NodeGauge("CPU that is used, as measured.", lambda _, node: node.used.cpu_m / 1000),
    "node_memory_capacity_bytes": NodeGauge(
        "Memory that the node has; 0: it is not known.", lambda _, node: node.capacity.memory_mib * MIB
    ),
    "node_memory_reserved_bytes": NodeGauge(
        "Memory that jobs and valid plans reserve on the node.", lambda _, node: node.allocated.memory_mib * MIB
    ),
    "node_memory_used_bytes": NodeGauge(
        "Memory that is used, as measured.", lambda _, node: node.used.memory_mib * MIB
    ),
    "node_gpu_capacity": NodeGauge("GPUs that the node has.", lambda _, node: node.capacity.all_gpus_m / 1000),
    "node_gpu_reserved": NodeGauge(
        "GPUs that jobs and valid plans reserve on the node.", lambda _, node: node.allocated.all_gpus_m / 1000
    ),
}


class JobGauge(msgspec.Struct, frozen=True):
    """A gauge of single jobs: its meaning, and its value, None if that is unknown."""

    about: str
    value: Callable[[Job], float | None]


CATEGORY_NUMBERS: Mapping[Category, int] = {Category.PROGRESSING: 0, Category.WATCHED: 1, Category.CONVERGED: 2}

JOB_GAUGES: Mapping[str, JobGauge] = {
    "job_loss": JobGauge("The newest value of the job's evaluation function.", lambda job: job.progress.loss),
    "job_step": JobGauge("The largest step that the job has reported.", lambda job: job.progress.step),
    "job_growth": JobGauge("The newest growth that was measured of the job.", lambda job: job.growth),
    "job_category": JobGauge(
        "0: PC, 1: WC, 2: CC; absent while no growth is known.",
        lambda job: CATEGORY_NUMBERS[job.category] if job.measured and not job.unknown else None,
    ),
    "job_cpu_limit_cores": JobGauge(
        "The CPU limit in force; absent where there is none.",
        lambda job: job.limit.in_force_m / 1000 if job.limit and job.limit.in_force_m else None,
    ),
    "job_moves": JobGauge("How often the job was moved.", lambda job: job.moves),
    "job_suspensions": JobGauge("How often the job was suspended.", lambda job: job.suspensions),
    "job_steps_lost": JobGauge("Training steps that it had to do again.", lambda job: job.steps_lost),
}
"""Gauges of single jobs; only of the first ``metrics.jobs`` running ones."""


def sampling(sample: PoolSample, view: ClusterView, jobs_named: int, see: Callable[[Job], None]) -> Iterator[None]:
    """Take the sample of a view, with a pause after each part of it that is read.

    Args:
        sample: An empty one; complete at the end.
        view: The pool. It may change between two parts: then they are of different moments.
        jobs_named: How many running jobs are shown by name.
        see: Called with each running job.
    """
    _pool(sample, view)
    for nodes in _parts(sorted(view.nodes, key=lambda node: node.name)):
        for index, node in nodes:
            _node(sample, view, node, index)
        yield
    named_jobs = 0
    for jobs in _parts(list(view.jobs)):
        for _, job in jobs:
            if job.phase is Phase.ENDED:
                continue
            sample.add("jobs", (job.phase.value,), 1)
            if job.is_queued:
                _queued(sample, view, job)
            if job.phase is not Phase.RUNNING:
                continue
            _running(sample, job)
            see(job)
            if named_jobs < jobs_named:
                named_jobs += 1
                _named_job(sample, job)
        yield


def _parts(items: Sequence[T]) -> Iterator[Iterator[tuple[int, T]]]:
    numbered = iter(enumerate(items))
    for _ in range(0, max(len(items), 1), PART):
        yield islice(numbered, PART)


def _pool(sample: PoolSample, view: ClusterView) -> None:
    sample.put("pool_info", (named(view.parameters), view.parameters.queueing.policy), 1)
    sample.put("pool_counted_seconds", (), view.counted_ms / 1000)
    for phase in (Phase.WAITING, Phase.SUSPENDED, Phase.RUNNING, Phase.STOPPED):
        sample.put("jobs", (phase.value,), 0)
    for category in (*Category, UNKNOWN):
        sample.put("jobs_by_category", (str(category),), 0)
    sample.put("jobs_limited", (), 0)
    for state in ("open", "lost", "watched"):
        sample.put("nodes", (state,), 0)
    sample.put("nodes_unnamed", (), 0)
    for kind in PlanKind:
        sample.put("plans_in_flight", (kind.value,), 0)
    for plan in view.in_flight.values():
        sample.add("plans_in_flight", (plan.kind.value,), 1)
    sample.put("queue_jobs", ("default",), 0)
    sample.put("queue_oldest_seconds", ("default",), 0)


def _queued(sample: PoolSample, view: ClusterView, job: Job) -> None:
    lengths, oldest = sample.values["queue_jobs"], sample.values["queue_oldest_seconds"]
    queue = (job.spec.queue,)
    if queue not in lengths and len(lengths) >= QUEUES_MOST:
        queue = (OTHER,)
    lengths[queue] = lengths.get(queue, 0) + 1
    waited_s = max(0, view.counted_ms - job.submitted_counted_ms) / 1000
    oldest[queue] = max(oldest.get(queue, 0), waited_s)


def _node(sample: PoolSample, view: ClusterView, node: Node, index: int) -> None:
    state = "lost" if node.lost else "open" if node.takes_jobs else "watched"
    sample.add("nodes", (state,), 1)
    if not node.takes_jobs:
        return
    is_named = index < NODES_MOST
    name = node.name if is_named else OTHER
    if not is_named:
        sample.add("nodes_unnamed", (), 1)
    for gauge, definition in NODE_GAUGES.items():
        if is_named or definition.adds:
            sample.add(gauge, (name,), definition.value(view, node))
    for category, count in zip((*Category, UNKNOWN), (*node.replicas, node.unknown), strict=True):
        sample.add("node_replicas", (name, str(category)), count)


def _running(sample: PoolSample, job: Job) -> None:
    sample.add("jobs_by_category", (UNKNOWN if job.unknown else job.category.value,), 1)
    if job.limit is None:
        return
    if job.limit.growth_list is not None:
        sample.add("jobs_by_list", (job.limit.growth_list.value,), 1)
    if job.limit.in_force_m is not None:
        sample.add("jobs_limited", (), 1)


def _named_job(sample: PoolSample, job: Job) -> None:
    for gauge, definition in JOB_GAUGES.items():
        if (value := definition.value(job)) is not None:
            sample.put(gauge, (job.name, job.node or ""), value)
