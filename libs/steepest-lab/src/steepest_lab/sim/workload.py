"""The input of a simulation: the jobs of a trace or generator, in one format for all policies.

It owns the format. :mod:`steepest_lab.sim.workloads` reads files, and a job's loss curve is in
:mod:`steepest_lab.sim.losses`. It must never know a policy or a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.common import Resources
from steepest_lab.simulated.model import Says


class SimJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job of a workload.

    Attributes:
        name: Unique within its workload; valid as a job's name on the log.
        submit_s: Submission, in seconds since the workload's start.
        requests: Resources that one replica requests.
        replicas: Number of replicas; a job of n GPUs in a trace without replicas is one replica.
        min_replicas: The fewest that it can run with; 0: ``replicas``.
        max_replicas: The most that it can make use of; 0: ``replicas``.
        servers: Parameter servers in addition to the replicas; each requests the CPU and memory of a replica, and no
            GPU.
        exchanged_mib: What each replica exchanges with the others at each iteration, in MiB.
        asynchronous: Whether surplus replicas may leave while the others train on.
        work_s: Seconds from start to end if it runs alone, with all it requests, on a node of speed 1.
        iterations: Of the whole run.
        model: The model that is trained; selects a loss family and a peer's tables.
        batch_size: As its user requested; None if the trace has none.
        family: Name of its loss family (:mod:`steepest_lab.sim.losses`); empty: chosen by model and seed.
        memory_mib: The process's memory, which determines the checkpoint's size; 0: unknown.
        demand_cpu_m: CPU that one replica can use, which decides how fast it runs where CPU is short; a container of
            Kubernetes may use more than the reservation in ``requests``. 0: as much as it requests.
        announced: The steps that the job announces, as a multiple of those that it has; 0: it announces none.
        says: What its log names: ``steps``, only ``epochs``, one a step, or ``nothing``.
        priority: How urgent it is, for the queue policy ``priority``.
        fails_at: Share of the run at which its first process fails; 0: it does not.
        details: Further columns that only a peer's rules read.
    """

    name: str
    submit_s: float
    requests: Resources
    replicas: int = 1
    min_replicas: int = 0
    max_replicas: int = 0
    servers: int = 0
    exchanged_mib: float = 0.0
    asynchronous: bool = False
    work_s: float
    iterations: int = 1
    model: str = ""
    batch_size: int | None = None
    family: str = ""
    memory_mib: int = 0
    demand_cpu_m: int = 0
    announced: float = 1.0
    says: Says = "steps"
    priority: int = 0
    fails_at: float = 0.0
    details: Mapping[str, str] = {}

    @property
    def is_gang(self) -> bool:
        """Whether it has several processes, which run together, or may have."""
        return self.replicas + self.servers > 1 or self.max_replicas > 1

    @property
    def gpus(self) -> int:
        """GPUs over all replicas."""
        return self.requests.gpus * self.replicas


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in the order of submission; jobs with equal times keep their source's order.

    Attributes:
        source: File or generator, for messages and reports.
        format: The trace's format, e.g. ``muri``.
        jobs: At least one.
        skipped: Entries of the source that are not simulated: how many for each reason.
    """

    source: str
    format: str
    jobs: Sequence[SimJob]
    skipped: Mapping[str, int] = {}
