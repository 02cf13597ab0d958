"""The one port through which anything is done to a cluster.

It owns the words (what may be asked, what comes back, what a failure means) and no mechanism. It must never know why
something is asked for: plans and policies are not its business. Every adapter passes the suite in
``steepest.testing.contracts.cluster_contract``.

What every adapter promises:

* *Conditional.* Every call names an incarnation. A start is refused (``stale-incarnation``) where the adapter knows a
  newer incarnation of the replica; a stop, checkpoint, release or limit acts on exactly the incarnation that it names.
* *Idempotent.* Asking again for what is so already succeeds and changes nothing.
* *Honest failures.* :class:`~steepest.errors.RefusedError` means that nothing happened;
  :class:`~steepest.errors.UncertainError` that it may have. After the second, ``lookup`` tells what is so.
* *No assumption from silence.* ``GONE`` is said only of a replica that surely does not run any more.
* Calls never block the event loop. Times are integer milliseconds of the wall clock, CPU is in millicores.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from steepest.events.common import CheckpointRef, Resources
from steepest.events.heartbeat import NodeHeartbeat


class ReplicaId(msgspec.Struct, frozen=True, order=True):
    """One replica of one job."""

    job: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.job}/{self.index}"


class ReplicaSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to run.

    Attributes:
        command: Program and arguments; no shell.
        working_dir: Where to run it; None is the adapter's default.
        env: Environment variables added to the adapter's own.
        requests: Reserved resources; what the node must have free.
        cpu_limit_m: Hard CPU cap in millicores; None is no cap but the node's own.
        image: The container image to run it in; empty is the adapter's default. Nodes without containers need none.
    """

    command: tuple[str, ...]
    working_dir: str | None = None
    env: Mapping[str, str] = {}
    requests: Resources = Resources()
    cpu_limit_m: int | None = None
    image: str = ""


class ReplicaPhase(enum.StrEnum):
    """Where a replica's incarnation stands, as far as the adapter surely knows."""

    STARTING = "starting"  # accepted; its process is not proven to run yet
    RUNNING = "running"
    EXITED = "exited"  # it ended, and its exit status is known
    GONE = "gone"  # it surely does not run any more, and nobody saw its exit status


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter knows of the newest incarnation of a replica.

    Attributes:
        exit_status: As of ``wait``: 0–255, or minus the signal's number; only for ``EXITED``.
        step: The last step that the process reported, None before the first.
        restored_step: The step it resumed from; None: it began anew or has not said yet.
        checkpoint: The newest checkpoint whose manifest was verified, of any incarnation.
    """

    replica: ReplicaId
    incarnation: int
    node: str
    phase: ReplicaPhase
    exit_status: int | None = None
    step: int | None = None
    restored_step: int | None = None
    checkpoint: CheckpointRef | None = None


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """How a stop ended: the process does not run any more.

    Attributes:
        exit_status: None where nobody saw it.
        step: The last step it reported.
        checkpoint: The newest verified checkpoint on the volume.
    """

    exit_status: int | None
    step: int | None
    checkpoint: CheckpointRef | None


class ReplicaFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node-local reader finds what an incarnation prints and reports; files may not be there yet.

    Attributes:
        below: From this folder on nothing is trusted: the job may put into its place what it likes.
    """

    replica: ReplicaId
    incarnation: int
    output: Path
    reports: Path
    below: Path


class Cluster(Protocol):
    """Some nodes that run replicas."""

    async def start(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
    ) -> None:
        """Start an incarnation on a node, resuming from ``restore``.

        Returns when the process is accepted, which does not mean that it trains already. Where that incarnation is
        known on that node (running or ended) nothing happens.

        Raises:
            RefusedError: ``stale-incarnation``, ``still-running`` (an older incarnation is not proven ended),
                ``unknown-node``, ``node-lost``, ``no-such-program``, ``no-such-image``, ``checkpoint-refused`` or
                ``wrong-node`` (that incarnation was started on another node).
            UncertainError: It may have started.
        """

    async def checkpoint(
        self, replica: ReplicaId, incarnation: int, *, request: str, hold_s: float, timeout_s: float
    ) -> CheckpointRef:
        """Ask a running process to save and to wait up to ``hold_s`` for its stop; give the verified checkpoint.

        Raises:
            RefusedError: ``not-running``, ``checkpoint-refused`` (the process said no), ``checkpoint-invalid`` (what it
                wrote does not verify) or ``checkpoint-timeout`` (no answer; the request was withdrawn).
            UncertainError: It may wait now; release it.
        """

    async def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """Let a process that waits after ``checkpoint`` train on. A process that does not wait is not disturbed."""

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """End an incarnation: save and leave (SIGTERM), and after ``grace_s`` seconds for good.

        Returns once it surely does not run any more. An incarnation that ended before is reported as it ended.

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
        """Set the hard caps of a running replica; None takes one away, and asking for what is so already changes nothing.

        Args:
            replica: Which one.
            incarnation: Its incarnation.
            cpu_limit_m: CPU in millicores.
            memory_limit_mib: Memory in MiB; left out, it stays as it is.

        Raises:
            RefusedError: ``not-running``, ``limit-refused`` (the node does not take this cap: a replica uses more memory
                than that, say) or ``limit-unsupported`` (its nodes cannot cap memory).
            UncertainError: It may have been set.
        """

    async def lookup(self, replica: ReplicaId) -> ReplicaStatus | None:
        """What is surely so of the newest incarnation; None where none was ever started.

        Raises:
            UncertainError: The node does not answer.
        """

    async def wait_for_step(self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float) -> int:
        """Wait until that incarnation reports a step ≥ ``at_least`` (or ends with status 0) and give the step.

        Raises:
            RefusedError: ``ended`` (it failed or left before), ``not-running`` or ``step-timeout``.
        """

    def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """Heartbeats of all nodes, each at its own period and at once when a replica starts or ends, until closed."""

    def silence_s(self) -> float:
        """For how long, in seconds, the adapter has not come round to looking at its replicas; 0 where it needs not."""

    def files(self, node: str) -> Sequence[ReplicaFiles]:
        """The files of every incarnation that is or was on this node and is not forgotten yet."""

    async def forget(self, job: str) -> None:
        """Remove what is kept of a job whose replicas have all ended. Its output files stay."""

    async def close(self) -> None:
        """Let go of everything without stopping any replica."""
