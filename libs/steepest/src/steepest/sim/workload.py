"""What a simulation is asked to run: jobs, as a trace or a generator gives them, in one shape for every policy.

It owns the shape. How files are read is in :mod:`steepest.sim.workloads`, what a job's loss does in
:mod:`steepest.sim.losses`. It must never know a policy or a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.common import Resources


class SimJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job of a workload.

    Attributes:
        name: Unique within its workload; fit to be a job's name on the log.
        submit_s: Submission, in seconds since the workload's start.
        requests: What one replica asks for.
        replicas: How many replicas it asks for; a job of n GPUs in a trace that names no replicas is one replica.
        work_s: Seconds from its start to its end if it runs alone, with all it asks for, on a node of speed 1.
        iterations: Of the whole run.
        model: What is trained; selects a loss family and a peer's tables.
        batch_size: As its user asked; None where the trace names none.
        family: Name of its loss family (:mod:`steepest.sim.losses`); empty: chosen by model and seed.
        memory_mib: The process's memory, which a checkpoint has to carry; 0: unknown.
        demand_cpu_m: CPU that one replica can use, which decides how fast it runs where CPU is short; a container of
            Kubernetes may use more than the reservation in ``requests``. 0: as much as it requests.
        fails_at: Share of the run at which its first process fails; 0: it does not.
        details: Further columns that only a peer's rules read.
    """

    name: str
    submit_s: float
    requests: Resources
    replicas: int = 1
    work_s: float
    iterations: int = 1
    model: str = ""
    batch_size: int | None = None
    family: str = ""
    memory_mib: int = 0
    demand_cpu_m: int = 0
    fails_at: float = 0.0
    details: Mapping[str, str] = {}

    @property
    def gpus(self) -> int:
        """GPUs over all replicas."""
        return self.requests.gpus * self.replicas


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in the order of their submission; of equal times, in their source's order.

    Attributes:
        source: File or generator, for messages and reports.
        format: The trace's format, e.g. ``muri``.
        jobs: At least one.
        skipped: What of the source is no job of the simulation, as a reason and how many times.
    """

    source: str
    format: str
    jobs: Sequence[SimJob]
    skipped: Mapping[str, int] = {}
