"""Pictures of a pool: its rows, its queue and its numbers, now or at an earlier position.

It owns what is in a picture. It must never know how the pool was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.errors import InputError
from steepest.gateway.pool.changes import PoolChanges, QueueRow, Totals
from steepest.policies.placement.standing import Standing, standings
from steepest.read_models.decisions import DecisionEntry
from steepest.read_models.job_rows import JobRow, PoolMoment, job_row
from steepest.read_models.node_rows import node_row
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase

JOBS_SENT = 5_000
"""Jobs in a picture: all that are not over, then the newest that are."""


class PastMoment(msgspec.Struct, frozen=True):
    """A pool at a position of its log."""

    view: ClusterView
    now_ms: int

    def has_stopped(self, job: Job) -> bool:  # noqa: ARG002 - the files of its processes may be elsewhere
        """See :class:`~steepest.read_models.job_rows.PoolMoment`."""
        return False


def job_of(view: ClusterView, name: str) -> Job:
    """The job of that name.

    Raises:
        InputError: There is none.
    """
    job = view.jobs.get(name)
    if job is None:
        raise InputError(f"there is no job {name[:80]!r}", code="no-such-job")
    return job


def whole(name: str, pool: PoolMoment, decisions: Sequence[DecisionEntry], numbers: Totals, *, up: bool) -> PoolChanges:
    """A picture of a pool."""
    standing = standings(pool.view) if len(pool.view.jobs.queue) else {}
    return PoolChanges(
        pool=name,
        offset=pool.view.position,
        at_ms=pool.now_ms,
        whole=True,
        up=up,
        jobs=[brief(pool, job, standing.get(job.name)) for job in sent(pool.view)],
        nodes=[node_row(pool.view, node) for node in pool.view.nodes],
        decisions=decisions,
        queue=queue_rows(pool.view, standing),
        totals=numbers,
    )


def brief(pool: PoolMoment, job: Job, standing: Standing | None) -> JobRow:
    """A job's row without its command."""
    return msgspec.structs.replace(job_row(pool, job, None, standing), command=())


def sent(view: ClusterView) -> list[Job]:
    """The jobs of a picture: those that are not over, and the newest of the others, in the order of their submission."""
    going = [job for job in view.jobs if job.outcome is None][:JOBS_SENT]
    room = JOBS_SENT - len(going)
    over = [job for job in view.jobs if job.outcome is not None][-room:] if room else []
    return sorted([*going, *over], key=lambda job: job.submitted_offset)


def queue_rows(view: ClusterView, standing: Mapping[str, Standing] | None = None) -> list[QueueRow]:
    """The queue of a view, in its order."""
    if not len(view.jobs.queue):
        return []
    rows = [
        QueueRow(
            job=name,
            queue=view.jobs[name].spec.queue,
            priority=view.jobs[name].spec.priority,
            position=one.position,
            waits_for=one.waits_for,
            reason=one.reason,
            start_ms=one.start_ms,
        )
        for name, one in (standings(view) if standing is None else standing).items()
    ]
    return rows[:JOBS_SENT]


def totals(view: ClusterView, dead_letters: int) -> Totals:
    """Numbers of a view."""
    running = waiting = ended = moves = 0
    for job in view.jobs:
        running += job.phase is Phase.RUNNING
        waiting += job.is_queued
        ended += job.outcome is not None
        moves += job.moves
    return Totals(
        jobs=running + waiting + ended,
        running=running,
        waiting=waiting,
        ended=ended,
        moves=moves,
        dead_letters=dead_letters,
    )
