"""The port through which Steepest controls a cluster.

It owns the vocabulary (the calls, their results, what a failure means) and no mechanism. It must never know why a call is
made: plans and policies are not its business. Every adapter passes the suite in
``tests/harness/contracts``.

Every adapter guarantees:

* *Conditional.* Every call names an incarnation, which is the job's: all replicas of a gang have the same one. A start is
  refused (``stale-incarnation``) where the adapter knows a newer incarnation of any of the job's replicas; a stop,
  checkpoint, release or limit acts on exactly the incarnation that it names.
* *Idempotent.* A call whose goal is already reached succeeds and changes nothing.
* *Honest failures.* :class:`~steepest.errors.RefusedError` means that nothing happened;
  :class:`~steepest.errors.UncertainError` that it may have. After the second, ``lookup`` returns the actual state.
* *No assumption from silence.* ``GONE`` is reported only of a replica that is proven not to run any more.
* *A place is not a job.* Where a pod, a container's engine, a node or its machine ends and takes a process along, the end is
  ``GONE`` with any exit status but 0. An end always has its reason in words.
* Calls never block the event loop. Times are integer milliseconds of the wall clock, CPU is in millicores.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from steepest.events.common import CheckpointMode, CheckpointRef, Resources, Taint
from steepest.events.heartbeat import NodeHeartbeat


class ReplicaId(msgspec.Struct, frozen=True, order=True):
    """One replica of one job."""

    job: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.job}/{self.index}"


class GangPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a replica among those that start together, all under the same incarnation.

    Attributes:
        role: What it does; a name.
        role_index: Its index among the replicas of its role, from 0.
        rank: Its index in the gang, from 0; rank 0 is the chief.
        world_size: The number of replicas in the gang.
        nodes: The node of each rank.
        roles: The name and the number of replicas of each role, in the order of their ranks; empty: all have ``role``.
    """

    role: str
    role_index: int
    rank: int
    world_size: int
    nodes: tuple[str, ...]
    roles: tuple[tuple[str, int], ...] = ()


class ReplicaSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The process to run.

    Attributes:
        command: Program and arguments; no shell.
        working_dir: The working folder; None is the adapter's default.
        env: Environment variables added to the adapter's own.
        requests: Reserved resources, which the node must have free.
        cpu_limit_m: Hard CPU cap in millicores; None: only the node's capacity limits it.
        image: The container image; empty is the adapter's default. Nodes without containers ignore it.
        gang: Its place in its gang; None: it trains alone, and gets no variables of a gang.
        metrics_folder: Where its losses are read from too, as its user says; empty: nowhere else.
        trace: What it finds in its variable ``TRACEPARENT`` (W3C Trace Context), unless ``env`` has one; empty: nothing.
        tty: Whether it prints to a pseudo-terminal. Containers ignore it.
        checkpoint_mode: What its user says of how it is saved; an adapter that has keepers starts one for those of ``KEPT``.
    """

    command: tuple[str, ...]
    working_dir: str | None = None
    env: Mapping[str, str] = {}
    requests: Resources = Resources()
    cpu_limit_m: int | None = None
    image: str = ""
    gang: GangPlace | None = None
    metrics_folder: str = ""
    trace: str = ""
    tty: bool = False
    checkpoint_mode: CheckpointMode | None = None


class ReplicaPhase(enum.StrEnum):
    """The state of an incarnation, as far as the adapter can prove it."""

    STARTING = "starting"  # accepted; its process is not proven to run yet
    RUNNING = "running"
    EXITED = "exited"  # it ended, and its exit status is known
    GONE = "gone"  # it is proven not to run any more; its place ended or how is unknown, so its job has not failed


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """How an incarnation ended, and what is left of it.

    Attributes:
        exit_status: As from ``wait``: 0–255, or minus the signal's number; None if it is lost, or not the process's own.
        reason: Why it ended, in words, where more than the status is known.
        step: The last step that the process reported, None before the first.
        checkpoint: The newest checkpoint whose manifest was verified, of any incarnation.
    """

    exit_status: int | None = None
    reason: str = ""
    step: int | None = None
    checkpoint: CheckpointRef | None = None


class ReplicaStatus(Stopped, frozen=True, kw_only=True):
    """An adapter's knowledge of the newest incarnation of a replica; how it ended only where it has.

    Attributes:
        restored_step: The step it resumed from; None: it started from the beginning or has not reported it yet.
    """

    replica: ReplicaId
    incarnation: int
    node: str
    phase: ReplicaPhase
    restored_step: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its process is proven not to run any more."""
        return self.phase in {ReplicaPhase.EXITED, ReplicaPhase.GONE}


class ReplicaFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that an incarnation prints and reports to; they may not exist yet.

    Attributes:
        below: Nothing below this folder is trusted: the job may replace any part of it.
    """

    replica: ReplicaId
    incarnation: int
    output: Path
    reports: Path
    below: Path


class MetricsPlace(NamedTuple):
    """The source of a job's losses other than its output and its reports.

    Attributes:
        folder: The folder; it may not exist yet.
        below: Nothing below this folder is trusted, and no link there is followed.
    """

    folder: Path
    below: Path


class NodeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a node takes, in a pool whose jobs say which nodes they may run on.

    Attributes:
        capacity: What those jobs may have that tolerate its taints; in a heartbeat, a node with taints has nothing free.
        labels: Its labels.
        taints: Those that keep jobs away.
    """

    capacity: Resources
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


class Cluster(Protocol):
    """A set of nodes that run replicas."""

    async def start(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
    ) -> None:
        """Start an incarnation on a node, resuming from ``restore``.

        Returns when the process is accepted, which does not mean that it already trains. If that incarnation is
        known on that node (running or ended), nothing happens.

        Raises:
            RefusedError: ``stale-incarnation``, ``still-running`` (an older incarnation of a replica of the job is not
                proven ended), ``unknown-node``, ``node-lost``, ``no-such-program``, ``no-such-image``,
                ``checkpoint-refused``, ``no-free-ports`` (for its gang), ``no-free-gpus`` or ``wrong-node`` (that
                incarnation was started on another node).
            UncertainError: It may have started.
        """

    async def checkpoint(
        self, replica: ReplicaId, incarnation: int, *, request: str, hold_s: float, timeout_s: float
    ) -> CheckpointRef:
        """Ask a running process to save and to wait up to ``hold_s`` for its stop; return the verified checkpoint.

        Raises:
            RefusedError: ``not-running``, ``checkpoint-refused`` (by the process), ``checkpoint-invalid`` (what it wrote
                fails verification) or ``checkpoint-timeout`` (no answer; the request was withdrawn).
            UncertainError: The process may be waiting now; release it.
        """

    async def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """Let a process that waits after ``checkpoint`` continue. A process that does not wait is unaffected."""

    async def keep(self, replica: ReplicaId, incarnation: int, checkpoint: str) -> None:
        """Let a process not delete a checkpoint of its job, by name, until another is named; empty: none in particular."""

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """End an incarnation: SIGTERM, on which it saves and exits, and SIGKILL after ``grace_s`` seconds.

        Returns once it is proven not to run any more. For an incarnation that ended earlier, it returns that end.

        Raises:
            RefusedError: ``unknown-incarnation``: that incarnation was never started here.
            UncertainError: It may still run.
        """

    async def limit(
        self,
        replica: ReplicaId,
        incarnation: int,
        cpu_limit_m: int | None,
        *,
        memory_limit_mib: int | UnsetType | None = UNSET,
    ) -> None:
        """Set the hard caps of a running replica; None removes a cap. Setting the current value changes nothing.

        Args:
            replica: The replica.
            incarnation: Its incarnation.
            cpu_limit_m: CPU in millicores.
            memory_limit_mib: Memory in MiB; if omitted, it stays unchanged.

        Raises:
            RefusedError: ``not-running``, ``limit-refused`` (the node rejects this cap, for example because the replica
                uses more memory) or ``limit-unsupported`` (its nodes cannot cap memory).
            UncertainError: It may have been set.
        """

    async def lookup(self, replica: ReplicaId, *, verify: bool = True) -> ReplicaStatus | None:
        """The proven status of the newest incarnation; None if none was ever started.

        Args:
            replica: The replica.
            verify: Whether to verify its newest checkpoint, for which it is read whole; without, ``checkpoint`` is None.

        Raises:
            UncertainError: The node does not answer.
        """

    async def wait_for_step(self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float) -> int:
        """Wait until that incarnation reports a step ≥ ``at_least`` or ends with status 0; return the step.

        Raises:
            RefusedError: ``ended`` (it failed or exited earlier), ``not-running`` or ``step-timeout``.
        """

    def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """Yield every node's heartbeats until closed: periodically, and immediately when a replica starts or ends."""

    def node_terms(self, node: str) -> NodeTerms | None:
        """Which jobs a node takes; None: all that it has room for, as its heartbeats have it. It does not block."""

    def silence_s(self) -> float:
        """Seconds since the adapter last completed a look at its replicas; 0 if it has no such loop."""

    def files(self, node: str | None = None, *, job: str | None = None) -> Sequence[ReplicaFiles]:
        """The files of every incarnation that runs or ran and is not forgotten yet.

        Args:
            node: Only of those on this node.
            job: Only of this job's: the work does not grow with the number of others.
        """

    def metrics_folder(self, job: str, asked: str) -> MetricsPlace:
        """The folder of a job that its user names as ``metrics_folder``. It may resolve links, and blocks.

        Raises:
            RefusedError: ``no-such-program``: the job itself could not read it. Its first incarnation is not started either.
        """

    async def forget(self, job: str) -> None:
        """Remove the records of a job whose replicas have all ended. Its output files stay."""

    async def close(self) -> None:
        """Release all resources without stopping any replica."""
