"""What a node says of itself: the events of the ``heartbeats`` topic. The node's agent is their only writer."""

from __future__ import annotations

import enum

import msgspec

from steepest.events.common import CheckpointMode, CheckpointRef, Count, ExitStatus, Millis, Name, Resources
from steepest.events.parameters import Resource


class ReplicaState(enum.StrEnum):
    """What the node agent surely knows of an incarnation on its node."""

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
        checkpoint_mode: How the process says that it can be checkpointed; None: it has not said.
        checkpoint: The newest verified checkpoint on the job's volume.
        reason: Why it ended, in words, where the agent knows more than the status.
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
    checkpoint_mode: CheckpointMode | None = None
    checkpoint: CheckpointRef | None = None
    reason: str = ""


class NodeHeartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A node is alive, with its capacity, its use and the replicas that run or ran there.

    Attributes:
        at_ms: When the node measured it.
        used: Measured use since the heartbeat before; unknown resources are 0 in it.
        takes_jobs: Whether an adapter of the pool starts jobs there; False for a device that only reports. None: the
            agent is older than this field, and its node takes jobs.
        usage_every_ms: How often its use becomes a fact of the pool, as the mean since the one before; 0: as it comes, at
            most twice a second.
        usage_of: The resources besides CPU whose use by each job becomes a fact as well.
    """

    node: Name
    pool: Name
    at_ms: Millis
    capacity: Resources
    used: Resources = Resources()
    replicas: tuple[ReplicaReport, ...] = ()
    takes_jobs: bool | None = None
    usage_every_ms: Count = 0
    usage_of: tuple[Resource, ...] = ()


HeartbeatEvent = NodeHeartbeat
"""Everything that may stand on ``heartbeats``; a union once there is a second event."""
