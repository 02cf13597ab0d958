"""The calls of the cluster port that steps are made of, as values: a shell makes them, in real or in virtual time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events import cluster as c
from steepest.events.common import CheckpointRef

START_S = 60.0
"""How long a node may take to accept a process."""

SLACK_S = 15.0
"""Time that a call may take beyond its own limit, for SIGKILL or a slow disk."""

LOOK_UP_S = 10.0
"""How long looking up may take, which changes nothing and reads little."""


class CheckpointCall(msgspec.Struct, frozen=True):
    """Answered by a ``CheckpointRef``."""

    replica: ReplicaId
    incarnation: int
    request: str
    hold_s: float
    timeout_s: float


class ReleaseCall(msgspec.Struct, frozen=True):
    """Answered by None."""

    replica: ReplicaId
    incarnation: int
    request: str


class StopCall(msgspec.Struct, frozen=True):
    """Answered by a ``Stopped``."""

    replica: ReplicaId
    incarnation: int
    grace_s: float


class StartCall(msgspec.Struct, frozen=True):
    """Answered by None."""

    replica: ReplicaId
    incarnation: int
    node: str
    spec: ReplicaSpec
    restore: CheckpointRef | None


class WaitCall(msgspec.Struct, frozen=True):
    """Answered by the step."""

    replica: ReplicaId
    incarnation: int
    at_least: int
    timeout_s: float


class LookupCall(msgspec.Struct, frozen=True):
    """Answered by a ``ReplicaStatus``, or by None where the replica is not known."""

    replica: ReplicaId


OneCall = CheckpointCall | ReleaseCall | StopCall | StartCall | WaitCall | LookupCall
"""A call of the cluster port; its fields are the method's arguments."""


class GatherCall(msgspec.Struct, frozen=True):
    """Concurrent calls for several replicas; the answer is a tuple of their answers and errors.

    Attributes:
        timeout_s: Of each.
    """

    calls: tuple[OneCall, ...]
    timeout_s: float


Call = OneCall | GatherCall
"""A call that a step asks its shell to make."""

Calls = Generator[Call, Any, c.ClusterEvent]
