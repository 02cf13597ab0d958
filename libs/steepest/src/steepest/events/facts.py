"""The facts of a pool: its log, its clock, its nodes, its processes, and how a job ended."""

from __future__ import annotations

import enum

import msgspec

from steepest.events.common import (
    Activity,
    CheckpointMode,
    CheckpointRef,
    Count,
    ExitStatus,
    KeeperFacts,
    LabelText,
    Millis,
    Name,
    Positive,
    Resources,
    Taint,
    Text,
)
from steepest.events.parameters import PoolParameters


class LogOpened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The first record of every partition: a random identity. Ids, positions and snapshots contain it."""

    epoch: Text


class PoolConfigured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """These parameters and behaviour flags are in force from here on.

    Attributes:
        reads: The lowest event version that a reader must know; one that knows less stops before this record.
        flags: Numbers of the behaviour changes that are switched on.
    """

    reads: Count = 1
    flags: tuple[Count, ...] = ()
    parameters: PoolParameters = PoolParameters()


class Tick(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The pool's clock. ``counted_ms`` grows by at most two periods a tick, so an outage expires nothing."""

    counted_ms: Millis


class FailedGpu(msgspec.Struct, frozen=True):
    """A GPU that failed, by its id on its node, and why it is out of use."""

    gpu: Count
    why: Text


class NodeJoined(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A node is present with this capacity, or what it says of itself has changed.

    Attributes:
        takes_jobs: Whether jobs may be placed there; a device that only reports takes none.
        labels: Its labels; None: they are not known, and no job that requires any is placed there.
        taints: What keeps jobs away that do not tolerate it.
        failed_gpus: Its GPUs that are out of use; ``capacity`` is without them.
        keeper: What an image of its jobs depends on; None: it is not known.
    """

    node: Name
    capacity: Resources
    takes_jobs: bool = True
    labels: dict[LabelText, LabelText] | None = None
    taints: tuple[Taint, ...] = ()
    failed_gpus: tuple[FailedGpu, ...] = ()
    keeper: KeeperFacts | None = None


class NodeLost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A node was silent for too long. This frees nothing: its replicas may still run."""

    node: Name
    silent_ms: Millis


class NodeGone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A lost node never returns, as an operator or its cluster says: its processes no longer run, its places are free."""

    node: Name


class ReplicaProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far an incarnation of a replica has come.

    Attributes:
        step: The last step that it reported; None where it reports none.
        total: The steps of the whole training, as the process states them; None where it does not.
        epoch: The epoch that it is in, as it counts them; fractions where its output states them.
        epochs: The epochs of the whole training, as the process states them.
        cpu_ms: CPU time that the incarnation has used on this node; None where it is not measured.
        loss: The newest value of its evaluation function; None where none is known, or it is not finite.
        read_bytes: Bytes that the incarnation has read from the storage, as the network shows; None where unknown.
        activity: What its newest line is about; None where it has printed none.
        stopped: Whether a signal has stopped the process of it that worked most; also False where that is not known.
    """

    job: Name
    incarnation: Count
    replica: Count = 0
    step: Count | None = None
    total: Count | None = None
    epoch: float | None = None
    epochs: float | None = None
    cpu_ms: Count | None = None
    loss: float | None = None
    read_bytes: Count | None = None
    activity: Activity | None = None
    stopped: bool = False


class OtherUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The use of a job's processes on a node besides CPU; None: it is not measured.

    Attributes:
        memory_mib: Resident memory.
        block_bytes_s: Read from and written to block devices, a second.
        network_bytes_s: Received and sent, a second.
    """

    memory_mib: Count | None = None
    block_bytes_s: Count | None = None
    network_bytes_s: Count | None = None


class GpuUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The use of a GPU by all processes; None: its driver does not say it.

    Attributes:
        gpu: Its id on its node.
        busy: The percentage of the time in which a kernel ran.
        memory_mib: Memory in use.
    """

    gpu: Count
    busy: Count | None = None
    memory_mib: Count | None = None


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Measured use of a node; the resource use R(w, t) of SpeCon's Algorithm 4.

    Attributes:
        jobs: CPU of each job on the node, in millicores.
        measured: How many measurements this is the mean of.
        progress: The replicas on the node that have come further since they were named last.
        others: What each job used besides CPU, in a pool whose policy considers it.
        gpus: The newest use of its GPUs, where a driver says it.
    """

    node: Name
    used: Resources
    jobs: dict[Name, Count] = {}
    measured: Positive = 1
    progress: tuple[ReplicaProgress, ...] = ()
    others: dict[Name, OtherUse] = {}
    gpus: tuple[GpuUse, ...] = ()


class ReplicaStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A replica's process runs on this node.

    Attributes:
        gpus: The ids of its GPUs there, the one of which it has a share last; empty: it has none, or they are unknown.
    """

    job: Name
    replica: Count = 0
    incarnation: Count
    node: Name
    gpus: tuple[Count, ...] = ()


class CheckpointModeDeclared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The process, or its keeper, declared how it can be checkpointed; ``node`` is where it runs.

    Attributes:
        reason: Why its keeper cannot save it, or what was lost when it was restored, beginning with a code; else empty.
    """

    job: Name
    incarnation: Count
    mode: CheckpointMode
    node: Name
    replica: Count = 0
    reason: Text = ""


class CheckpointVerified(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A good checkpoint is on its job's volume: the incarnation's first, which proves that it can save, or a newer one.

    Attributes:
        node: Where it runs.
    """

    job: Name
    incarnation: Count
    checkpoint: CheckpointRef
    node: Name
    replica: Count = 0


class ReplicaStopped(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A replica's process definitely no longer runs.

    Attributes:
        exit_status: 0–255 or minus the signal's number; None where it was not seen.
        step: The last step it reported.
        checkpoint: The newest verified checkpoint on the job's volume.
    """

    job: Name
    replica: Count = 0
    incarnation: Count
    node: Name
    exit_status: ExitStatus | None = None
    step: Count | None = None
    checkpoint: CheckpointRef | None = None
    reason: Text = ""


class Outcome(enum.StrEnum):
    """How a job ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job has ended and holds nothing."""

    job: Name
    outcome: Outcome
    exit_status: ExitStatus | None = None
    reason: Text = ""
