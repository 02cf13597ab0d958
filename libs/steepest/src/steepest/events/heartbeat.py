"""A node's reports about itself: the events of the ``heartbeats`` topic. The node's agent is their only writer."""

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
    Resources,
    Taint,
    Text,
)
from steepest.events.facts import FailedGpu, GpuUse
from steepest.events.parameters import Resource


class ReplicaState(enum.StrEnum):
    """The node agent's certain knowledge of an incarnation on its node."""

    RUNNING = "running"
    EXITED = "exited"
    GONE = "gone"


class ReplicaReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One incarnation on the node.

    Attributes:
        exit_status: 0–255, or minus the signal's number; only where ``state`` is exited.
        cpu_m: CPU used since the heartbeat before, in millicores; None where it is unknown.
        memory_mib: Resident memory; None where it is unknown.
        block_bytes_s: Read from and written to block devices since the heartbeat before, a second; None where unknown.
        network_bytes_s: Received and sent since the heartbeat before, a second; None where unknown.
        step: The last step that the process reported.
        total: The steps of the whole training, as the process states them.
        epoch: The epoch that it is in, as it counts them.
        epochs: The epochs of the whole training, as the process states them.
        cpu_ms: CPU time that the incarnation has used on this node; None where it is unknown.
        loss: The newest finite value of its evaluation function.
        read_bytes: Bytes that the incarnation has read from the storage since its start, as the network shows, never as the
            process says; None where they are not counted. A counter that was lost begins again at 0.
        activity: What its newest line is about; None where it has printed none.
        stopped: Whether a signal has stopped the process of it that worked most; also False where that is not known.
        checkpoint_mode: How the process says that it can be checkpointed; None: it has not said.
        mode_reason: Why its keeper cannot save it, or what was lost when it was restored.
        checkpoint: The newest verified checkpoint on the job's volume.
        reason: Why it ended, in words, where the agent knows more than the status.
        gpus: The ids of its GPUs on the node, the one of which it has a share last; empty: it has none, or they are unknown.
    """

    job: Name
    replica: Count = 0
    incarnation: Count
    state: ReplicaState
    exit_status: ExitStatus | None = None
    cpu_m: Count | None = None
    memory_mib: Count | None = None
    block_bytes_s: Count | None = None
    network_bytes_s: Count | None = None
    step: Count | None = None
    total: Count | None = None
    epoch: float | None = None
    epochs: float | None = None
    cpu_ms: Count | None = None
    loss: float | None = None
    read_bytes: Count | None = None
    activity: Activity | None = None
    stopped: bool = False
    checkpoint_mode: CheckpointMode | None = None
    mode_reason: Text = ""
    checkpoint: CheckpointRef | None = None
    reason: str = ""
    gpus: tuple[Count, ...] = ()


class NodeHeartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A node is alive, with its capacity, its use and the replicas that run or ran there.

    Attributes:
        at_ms: When the node measured it.
        used: Measured use since the heartbeat before; unknown resources are 0 in it.
        takes_jobs: Whether an adapter of the pool starts jobs there; False for a device that only reports.
        usage_every_ms: How often its use becomes a fact of the pool, as the mean since the one before; 0: as it comes, at
            most twice a second.
        usage_of: The resources besides CPU whose use by each job becomes a fact as well.
        progress_every_ms: Least time between two facts about the progress of one of its replicas; 0: there are none.
        saved_every_ms: Least time between two facts about the newest checkpoint of a job; 0: only the first is one.
        labels: Its labels, where a job of the pool says which it requires; None: they are not said.
        taints: What keeps jobs away that do not tolerate it.
        gpus: The use of its GPUs, where a driver says it.
        failed_gpus: Those that are out of use; ``capacity`` is without them.
        keeper: What an image of its jobs depends on; None: it is not known.
    """

    node: Name
    pool: Name
    at_ms: Millis
    capacity: Resources
    used: Resources = Resources()
    replicas: tuple[ReplicaReport, ...] = ()
    takes_jobs: bool = True
    usage_every_ms: Count = 0
    usage_of: tuple[Resource, ...] = ()
    progress_every_ms: Count = 0
    saved_every_ms: Count = 0
    labels: dict[LabelText, LabelText] | None = None
    taints: tuple[Taint, ...] = ()
    gpus: tuple[GpuUse, ...] = ()
    failed_gpus: tuple[FailedGpu, ...] = ()
    keeper: KeeperFacts | None = None


HeartbeatEvent = NodeHeartbeat
"""The events of ``heartbeats``; a union once there is a second one."""
