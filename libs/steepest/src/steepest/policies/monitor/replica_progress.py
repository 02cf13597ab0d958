"""Which replicas have made progress since their node last reported it.

It owns what counts as progress, and how often it becomes a fact. It must never know how it was measured.
"""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState


class ReportedProgress(msgspec.Struct):
    """The newest fact about a replica's progress, and the node's time of the heartbeat that it was made of."""

    at_ms: int
    progress: c.ReplicaProgress


def newer_progress(
    before: ReportedProgress | None, report: ReplicaReport, beat: NodeHeartbeat
) -> ReportedProgress | None:
    """The fact that follows from a heartbeat; None where the replica is where it was, or no fact is due yet.

    The last one of a replica that has ended is due immediately, and so is that a signal has stopped or continued it.
    """
    if (
        before is not None
        and report.state is ReplicaState.RUNNING
        and report.stopped is before.progress.stopped
        and 0 <= beat.at_ms - before.at_ms < beat.progress_every_ms  # a clock may be set back
    ):
        return None
    progress = c.ReplicaProgress(
        job=report.job,
        incarnation=report.incarnation,
        replica=report.replica,
        step=report.step,
        total=report.total,
        epoch=report.epoch,
        epochs=report.epochs,
        cpu_ms=report.cpu_ms,
        loss=report.loss,
        read_bytes=report.read_bytes,
        activity=report.activity,
        stopped=report.stopped,
    )
    known = _nothing(report) if before is None else before.progress
    return None if progress == known else ReportedProgress(beat.at_ms, progress)


def _nothing(report: ReplicaReport) -> c.ReplicaProgress:
    return c.ReplicaProgress(job=report.job, incarnation=report.incarnation, replica=report.replica)
