"""Turns heartbeats into facts: the changes in a node's heartbeat since the previous one.

A heartbeat repeats the whole state of a node; the pool's log gets only the changes, and the node's usage as often as the
heartbeat requests (:mod:`steepest.policies.monitor.use`). So losing a heartbeat loses nothing. A repeated heartbeat must not
revert the node to an earlier state: if its source numbers heartbeats, one that is not beyond the source's last is dropped.

The pool forgets a node that is silent for a day. A heartbeat that states a usage period comes from a writer that knows this:
its node joins again every ``JOIN_EVERY_MS``, and after a silence, so that a node that returns is known again and the
state is bounded.

For a node that takes no jobs, only its existence and usage are reported: Steepest runs no process there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, KeeperFacts, Resources, Taint
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.received import SEQUENCE, SOURCE, Received, is_number
from steepest.policies.decider import Decision
from steepest.policies.monitor.others import others_used
from steepest.policies.monitor.replica_progress import ReportedProgress, newer_progress
from steepest.policies.monitor.use import FACTS_PER_SILENCE, USAGE_EVERY_MS, UsageTotal

JOIN_EVERY_MS = 3_600_000
"""Time by the node's clock after which a node joins again."""

BEATS_KEPT = 1_000_000
"""Heartbeats of other nodes after which a silent node is forgotten; it returns as a new one, which is harmless."""

SOURCES_KEPT = 4
"""Sources remembered for each node: an agent has one at a time, and a new one with each start."""


Reports = Sequence[tuple[str, ReplicaReport]]
"""What a heartbeat says of each replica, and the key of the replica in ``KnownNode.replicas``."""


class KnownReplica(msgspec.Struct):
    """The facts about a replica that are in the log.

    Attributes:
        checkpoint: The newest checkpoint of its job that is in the log, by its name, and when it was reported, by its node.
    """

    incarnation: int
    state: ReplicaState
    mode: CheckpointMode | None = None
    mode_reason: str = ""
    checkpoint: str = ""
    checkpoint_ms: int = 0
    progress: ReportedProgress | None = None


class KnownNode(msgspec.Struct):
    """What the log already says about a node.

    Attributes:
        sequences: The highest number of each source, the newest source at the end.
        takes_jobs: From its newest heartbeat.
        untold: Whether its next heartbeat must be reported completely.
        joined_ms: When it joined last, by its own clock.
        use: Its usage since its newest ``NodeUsage``.
        gap_ms: Time between its two newest ``NodeUsage``; 0 before the second.
        silence_ms: The longest silence that ended with a heartbeat without a period: its agent had just started, and did not
            know the pool yet. Judged with the next one that has a period.
        beat: The number of its newest heartbeat among those of all nodes.
    """

    capacity: Resources
    usage_ms: int = -USAGE_EVERY_MS
    replicas: dict[str, KnownReplica] = {}
    sequences: dict[str, int] = {}
    takes_jobs: bool = True
    untold: bool = False
    joined_ms: int = -JOIN_EVERY_MS
    use: UsageTotal = msgspec.field(default_factory=UsageTotal)
    gap_ms: int = 0
    silence_ms: int = 0
    beat: int = 0
    labels: dict[str, str] | None = None
    taints: tuple[Taint, ...] = ()
    failed_gpus: tuple[c.FailedGpu, ...] = ()
    keeper: KeeperFacts | None = None

    def is_as(self, beat: NodeHeartbeat) -> bool:
        """Whether the log already has what a heartbeat says of the node itself."""
        mine = (self.capacity, self.takes_jobs, self.labels, self.taints, self.failed_gpus, self.keeper)
        return mine == (beat.capacity, beat.takes_jobs, beat.labels, beat.taints, beat.failed_gpus, beat.keeper)


class FactsState(msgspec.Struct):
    """The facts reported so far, by node; the node that is silent for longest comes first.

    Attributes:
        beats: Number of heartbeats that state a usage period.
    """

    nodes: dict[str, KnownNode] = {}
    beats: int = 0


class Facts:
    """Turns ``NodeHeartbeat`` into ``NodeJoined``, ``NodeUsage`` and the facts of each replica."""

    name = "worker-monitor"
    logic = 1
    topic = "heartbeats"
    state_type = FactsState

    def __init__(self, state: FactsState | None = None) -> None:
        self.state = state or FactsState()

    def restate(self) -> None:
        """See ``StreamDecider.restate``: a heartbeat has the whole state of its node, so forget what was reported."""
        for node in self.state.nodes.values():
            node.untold, node.replicas, node.usage_ms = True, {}, -USAGE_EVERY_MS

    def step(self, received: Received[Any]) -> Sequence[Decision]:
        """Report the changes in a heartbeat. Work: O(1) in the number of nodes."""
        event = received.event
        if not isinstance(event, NodeHeartbeat) or self._is_repeated(event.node, received.headers):
            return ()
        facts = [Decision(event.pool, fact) for fact in self._new(event)]
        _remember(self.state.nodes[event.node], received.headers)
        if event.usage_every_ms:
            self._forget_silent(event.node)
        return facts

    def _forget_silent(self, heard: str) -> None:
        state = self.state
        state.beats += 1
        state.nodes[heard] = node = state.nodes.pop(heard)
        node.beat = state.beats
        silent = next(iter(state.nodes))
        if state.beats - state.nodes[silent].beat > BEATS_KEPT:
            del state.nodes[silent]

    def _is_repeated(self, node: str, headers: Mapping[str, str]) -> bool:
        known = self.state.nodes.get(node)
        number = _number(headers)
        return known is not None and number is not None and number <= known.sequences.get(headers[SOURCE], -1)

    def _new(self, beat: NodeHeartbeat) -> Iterator[c.ClusterEvent]:
        node, takes_jobs = self.state.nodes.get(beat.node), beat.takes_jobs
        if node is None or node.untold or not node.is_as(beat):
            yield _joined(beat)
            before_it = node or KnownNode(beat.capacity)
            node = KnownNode(
                beat.capacity,
                replicas=before_it.replicas,
                sequences=before_it.sequences,
                takes_jobs=before_it.takes_jobs,
                joined_ms=beat.at_ms,
                labels=beat.labels,
                taints=beat.taints,
                failed_gpus=beat.failed_gpus,
                keeper=beat.keeper,
            )
            self.state.nodes[beat.node] = node
        elif beat.usage_every_ms:
            if _may_be_forgotten(node, beat):
                node.joined_ms = beat.at_ms
                yield _joined(beat)
            node.silence_ms = 0
        elif (silent_ms := beat.at_ms - node.usage_ms) > 2 * node.gap_ms:
            node.silence_ms = max(node.silence_ms, silent_ms)
        node.takes_jobs = beat.takes_jobs
        reports = [(f"{one.job}/{one.replica}", one) for one in beat.replicas] if takes_jobs else []
        yield from _usage(node, beat, _cpu(beat) if takes_jobs else {}, reports)
        listed: dict[str, KnownReplica] = {}
        for key, report in reports:
            before = node.replicas.get(key)
            if before is None or before.incarnation < report.incarnation:
                before = KnownReplica(report.incarnation, ReplicaState.RUNNING)
                yield c.ReplicaStarted(
                    job=report.job,
                    replica=report.replica,
                    incarnation=report.incarnation,
                    node=beat.node,
                    gpus=report.gpus,
                )
            listed[key] = before
            if report.incarnation == before.incarnation:
                yield from _changes(beat, report, before)
        node.replicas = listed


def _joined(beat: NodeHeartbeat) -> c.NodeJoined:
    return c.NodeJoined(
        node=beat.node,
        capacity=beat.capacity,
        takes_jobs=beat.takes_jobs,
        labels=beat.labels,
        taints=beat.taints,
        failed_gpus=beat.failed_gpus,
        keeper=beat.keeper,
    )


def _may_be_forgotten(node: KnownNode, beat: NodeHeartbeat) -> bool:
    """Whether a node must join again: its last join is long ago, or it was silent for as long as a lost node.

    A node whose heartbeats are always that far apart is not silent: its silence is twice its own period.
    """
    silent_ms = beat.at_ms - node.usage_ms
    lost_ms = FACTS_PER_SILENCE * beat.usage_every_ms
    was_silent = silent_ms >= max(lost_ms, 2 * node.gap_ms) or node.silence_ms >= lost_ms
    return was_silent or not 0 <= beat.at_ms - node.joined_ms < JOIN_EVERY_MS


def _progress(node: KnownNode, beat: NodeHeartbeat, reports: Reports) -> list[tuple[KnownReplica, ReportedProgress]]:
    """The replicas that have come further, as far as a fact about it is due."""
    if not beat.progress_every_ms or not beat.takes_jobs:
        return []
    return [
        (known, newer)
        for key, report in reports
        if (known := node.replicas.get(key)) is not None
        and known.incarnation == report.incarnation
        and (newer := newer_progress(known.progress, report, beat)) is not None
    ]


def _has_turned(known: KnownReplica, newer: ReportedProgress) -> bool:
    """Whether a signal has stopped a replica or let it go on."""
    return newer.progress.stopped is not (known.progress is not None and known.progress.progress.stopped)


def _any_ended(node: KnownNode, reports: Reports) -> bool:
    """Whether a replica has ended since the heartbeat before."""
    for key, one in reports:
        if one.state is not ReplicaState.RUNNING:
            known = node.replicas.get(key)
            if known is not None and known.state is ReplicaState.RUNNING:
                return True
    return False


def _usage(node: KnownNode, beat: NodeHeartbeat, jobs: dict[str, int], reports: Reports) -> Iterator[c.NodeUsage]:
    """Report a node's usage and its replicas' progress if it is due; the end of a replica, or its stop, does not wait.

    If its set of jobs changed, first report the usage with the previous jobs.
    """
    further = _progress(node, beat, reports)
    every_ms = beat.usage_every_ms or USAGE_EVERY_MS
    is_due = not 0 <= beat.at_ms - node.usage_ms < every_ms  # its clock may be set back
    if further and (any(_has_turned(*one) for one in further) or _any_ended(node, reports)):
        is_due = True
    if not beat.usage_every_ms:
        if node.use.measured:
            node.use = UsageTotal()
    elif node.use.measured and node.use.jobs.keys() != jobs.keys():
        yield node.use.mean(beat.node)
        node.use, is_due = UsageTotal(), True
    if is_due or beat.usage_every_ms:
        node.use.add(beat.used, jobs, others_used(beat) if beat.takes_jobs else {})
    if is_due:
        node.gap_ms = max(0, beat.at_ms - node.usage_ms) if node.usage_ms >= 0 else 0
        node.usage_ms = beat.at_ms
        for known, newer in further:
            known.progress = newer
        yield node.use.mean(beat.node, tuple([newer.progress for _, newer in further]), beat.gpus)
        node.use = UsageTotal()


def _number(headers: Mapping[str, str]) -> int | None:
    """A heartbeat's number within its source; None if it has no valid one."""
    text = headers.get(SEQUENCE, "") if SOURCE in headers else ""
    return int(text) if is_number(text) else None


def _remember(node: KnownNode, headers: Mapping[str, str]) -> None:
    number = _number(headers)
    if number is None:
        return
    node.sequences.pop(headers[SOURCE], None)
    node.sequences[headers[SOURCE]] = number
    if len(node.sequences) > SOURCES_KEPT:
        del node.sequences[next(iter(node.sequences))]


def _changes(beat: NodeHeartbeat, report: ReplicaReport, known: KnownReplica) -> Iterator[c.ClusterEvent]:
    said = (report.checkpoint_mode, report.mode_reason)
    if report.checkpoint_mode is not None and said != (known.mode, known.mode_reason):
        known.mode, known.mode_reason = said
        yield c.CheckpointModeDeclared(
            job=report.job,
            incarnation=report.incarnation,
            mode=report.checkpoint_mode,
            node=beat.node,
            replica=report.replica,
            reason=report.mode_reason,
        )
    if report.checkpoint is not None and _is_new_checkpoint(known, report, beat):
        known.checkpoint, known.checkpoint_ms = report.checkpoint.name, beat.at_ms
        yield c.CheckpointVerified(
            job=report.job,
            incarnation=report.incarnation,
            checkpoint=report.checkpoint,
            node=beat.node,
            replica=report.replica,
        )
    if known.state is ReplicaState.RUNNING and report.state is not ReplicaState.RUNNING:
        known.state = report.state
        yield c.ReplicaStopped(
            job=report.job,
            replica=report.replica,
            incarnation=report.incarnation,
            node=beat.node,
            exit_status=report.exit_status,
            step=report.step,
            checkpoint=report.checkpoint,
            reason=report.reason,
        )


def _is_new_checkpoint(known: KnownReplica, report: ReplicaReport, beat: NodeHeartbeat) -> bool:
    """Whether the newest checkpoint becomes a fact: the first one, and later ones from time to time, of a gang by one."""
    if not known.checkpoint:
        return True
    is_due = not 0 <= beat.at_ms - known.checkpoint_ms < beat.saved_every_ms  # its clock may be set back
    is_newer = report.checkpoint is not None and report.checkpoint.name != known.checkpoint
    return is_newer and is_due and beat.saved_every_ms > 0 and not report.replica


def _cpu(beat: NodeHeartbeat) -> dict[str, int]:
    """Measured CPU of each job on the node in millicores, sorted by name."""
    used: dict[str, int] = {}
    for report in beat.replicas:
        if report.cpu_m is not None and report.state is ReplicaState.RUNNING:
            used[report.job] = used.get(report.job, 0) + report.cpu_m
    return dict(sorted(used.items()))
