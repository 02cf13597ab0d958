"""From heartbeats to facts: what is new in a node's heartbeat since the one before.

Heartbeats repeat the whole state of a node; the pool's log gets only the changes, and the node's usage at most once every
``USAGE_EVERY_MS``. Losing a heartbeat therefore loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.received import Received
from steepest.policies.decider import Decision

USAGE_EVERY_MS = 500
"""Shortest time between two ``NodeUsage`` of one node."""


class KnownReplica(msgspec.Struct):
    """What was said of a replica already."""

    incarnation: int
    state: ReplicaState
    mode: CheckpointMode | None = None
    proven: bool = False


class KnownNode(msgspec.Struct):
    """What was said of a node already."""

    capacity: Resources
    usage_ms: int = -USAGE_EVERY_MS
    replicas: dict[str, KnownReplica] = {}


class FactsState(msgspec.Struct):
    """Everything said so far, by node."""

    nodes: dict[str, KnownNode] = {}


class Facts:
    """Turns ``NodeHeartbeat`` into ``NodeJoined``, ``NodeUsage`` and what became of each replica."""

    name = "worker-monitor"
    logic = 1
    topic = "heartbeats"
    state_type = FactsState

    def __init__(self, state: FactsState | None = None) -> None:
        self.state = state or FactsState()

    def step(self, received: Received[Any]) -> Sequence[Decision]:
        """What is new in a heartbeat. Work: O(1) in the number of nodes."""
        event = received.event
        if not isinstance(event, NodeHeartbeat):
            return ()
        return [Decision(event.pool, fact) for fact in self._new(event)]

    def _new(self, beat: NodeHeartbeat) -> Iterator[c.ClusterEvent]:
        node = self.state.nodes.get(beat.node)
        if node is None or node.capacity != beat.capacity:
            yield c.NodeJoined(node=beat.node, capacity=beat.capacity)
            known = node.replicas if node else {}
            node = self.state.nodes[beat.node] = KnownNode(beat.capacity, replicas=known)
        if not 0 <= beat.at_ms - node.usage_ms < USAGE_EVERY_MS:  # its clock may have been set back
            node.usage_ms = beat.at_ms
            yield c.NodeUsage(node=beat.node, used=beat.used, jobs=_cpu(beat))
        listed: dict[str, KnownReplica] = {}
        for report in beat.replicas:
            key = f"{report.job}/{report.replica}"
            before = node.replicas.get(key)
            if before is None or before.incarnation < report.incarnation:
                before = KnownReplica(report.incarnation, ReplicaState.RUNNING)
                yield c.ReplicaStarted(
                    job=report.job, replica=report.replica, incarnation=report.incarnation, node=beat.node
                )
            listed[key] = before
            if report.incarnation == before.incarnation:
                yield from _changes(beat.node, report, before)
        node.replicas = listed


def _changes(node: str, report: ReplicaReport, known: KnownReplica) -> Iterator[c.ClusterEvent]:
    if report.checkpoint_mode is not None and report.checkpoint_mode is not known.mode:
        known.mode = report.checkpoint_mode
        yield c.CheckpointModeDeclared(job=report.job, incarnation=report.incarnation, mode=report.checkpoint_mode)
    if report.checkpoint is not None and not known.proven:
        known.proven = True
        yield c.CheckpointVerified(job=report.job, incarnation=report.incarnation, checkpoint=report.checkpoint)
    if known.state is ReplicaState.RUNNING and report.state is not ReplicaState.RUNNING:
        known.state = report.state
        yield c.ReplicaStopped(
            job=report.job,
            replica=report.replica,
            incarnation=report.incarnation,
            node=node,
            exit_status=report.exit_status,
            step=report.step,
            checkpoint=report.checkpoint,
            reason=report.reason,
        )


def _cpu(beat: NodeHeartbeat) -> dict[str, int]:
    """Measured CPU of each job on the node, in millicores, in the order of their names."""
    used: dict[str, int] = {}
    for report in beat.replicas:
        if report.cpu_m is not None and report.state is ReplicaState.RUNNING:
            used[report.job] = used.get(report.job, 0) + report.cpu_m
    return dict(sorted(used.items()))
