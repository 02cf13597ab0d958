"""Folds the progress of a job's replicas into a view.

It owns what is remembered of their reports. What follows from it (how much is left, at which pace) is in
:mod:`steepest.view.progress`.
"""

from __future__ import annotations

from steepest.events.cluster import ReplicaProgress
from steepest.events.common import LARGEST
from steepest.view.progress import MOST_EPOCHS, OF_AN_EPOCH, checkpoint_step, epoch_steps, shown_total, worked
from steepest.view.progress_state import Progress, ProgressHistory, ReplicaCourse
from steepest.view.projection import Projection
from steepest.view.state import Job, Phase

CHIEF = 0

TOTAL_MAY_CHANGE = 2
"""Factor by which a total may differ from the incarnation's first one. An estimate becomes better; a lie, or the total of
something else, is further away."""

STEP_MAY_FALL = 2
"""Factor by which a step may be behind the largest one: several processes print in turns, and an elastic job goes back to
its last checkpoint. A step that is further back counts something from its beginning."""

RECENT_EVERY_MS = 5_000
"""Least counted time between two points of ``ProgressHistory.recent``."""

RECENT_KEPT = 13
"""Points of ``ProgressHistory.recent``: at least the last minute."""


def advance(view: Projection, node: str, found: ReplicaProgress) -> None:
    """Take in what ``node`` reports of a replica. It does not count of an incarnation that this node does not have.

    Work: O(1).
    """
    job = view.state.jobs.get(found.job)
    if job is None or job.phase is Phase.ENDED or job.incarnation != found.incarnation:
        return
    if not _has_replica(job, found.replica, node):
        return
    progress = job.progress
    replicas, step, counted_ms = progress.history.replicas, found.step, view.state.counted_ms
    replica = replicas.get(found.replica)
    if replica is None:
        replica = replicas[found.replica] = ReplicaCourse()
    _use(progress, replica, found.cpu_ms)
    progress.seen_counted_ms = counted_ms
    if _leads(progress.history, found):
        _follow(progress, found)
        if step is not None:
            _step(progress, found, step, counted_ms)
        elif found.epoch is not None and 0 <= found.epoch < MOST_EPOCHS and _has_only_epochs(progress):
            progress.history.by_epochs = True
            _reach(progress, round(OF_AN_EPOCH * found.epoch), counted_ms)
    if step is not None and (replica.step is None or step > replica.step):
        replica.step = step


def resume(job: Job) -> None:
    """A new incarnation is about to start: it continues from the checkpoint, and its CPU time adds to the job's."""
    before = job.progress
    steps, cpu_ms = worked(before.history)
    job.progress = Progress(
        step=checkpoint_step(job),
        cpu_ms=before.cpu_ms,
        total_before=shown_total(job),
        history=ProgressHistory(
            by_epochs=before.history.by_epochs,
            steps=min(steps, LARGEST),
            cpu_ms=cpu_ms,
            epoch_steps=epoch_steps(before),
        ),
    )


def finish(job: Job) -> None:
    """The job has ended: nothing more is computed from its history."""
    job.progress.history = ProgressHistory()


def _has_replica(job: Job, replica: int, node: str) -> bool:
    if not job.spec.is_gang:
        return replica == CHIEF and node == job.started_on
    return replica < len(job.replicas) and job.replicas[replica].node == node


def _use(progress: Progress, replica: ReplicaCourse, cpu_ms: int | None) -> None:
    """Add CPU time. A lower value is a counter that was reset; it counts again once it passes the old one."""
    if cpu_ms is None or (replica.cpu_ms is not None and cpu_ms <= replica.cpu_ms):
        return
    progress.cpu_ms = min((progress.cpu_ms or 0) + cpu_ms - (replica.cpu_ms or 0), LARGEST)
    replica.cpu_ms = cpu_ms


def _leads(history: ProgressHistory, found: ReplicaProgress) -> bool:
    """Whether the job is where this replica is: the chief, or who is furthest as long as the chief reports no step."""
    if found.replica == CHIEF and found.step is not None:
        return True
    chief = history.replicas.get(CHIEF)
    if found.replica == CHIEF:
        known = chief is not None and chief.step is not None
        return known or all(one.step is None for one in history.replicas.values())
    if (chief is not None and chief.step is not None) or found.step is None:
        return False
    return all(found.step >= (one.step or 0) for one in history.replicas.values())


def _follow(progress: Progress, found: ReplicaProgress) -> None:
    """Take over what the leading replica states; what it does not state stays as it was."""
    if found.loss is not None:
        progress.loss = found.loss
    if found.epochs is not None:
        progress.epochs = found.epochs
    if found.epoch is not None:
        progress.epoch = found.epoch
    history = progress.history
    if found.total is not None and found.total != progress.total:
        history.first_total = first = found.total if history.first_total is None else history.first_total
        near = found.total <= first * TOTAL_MAY_CHANGE and first <= found.total * TOTAL_MAY_CHANGE
        progress.total_doubted = progress.total_doubted or not near
        progress.total = found.total
    if found.epoch is not None and found.step is not None:
        _enter(history, found.epoch, found.step)


def _enter(history: ProgressHistory, epoch: float, step: int) -> None:
    """Remember where an epoch was entered; an epoch or a step that goes back begins the measurement again."""
    last = history.epoch_last
    if last is None or epoch < last[0] or step < last[1]:
        history.epoch_first, history.epoch_last = None, (epoch, step)
    elif epoch > last[0]:
        history.epoch_last = (epoch, step)
        history.epoch_first = history.epoch_first or history.epoch_last


def _has_only_epochs(progress: Progress) -> bool:
    return all(one.step is None for one in progress.history.replicas.values())


def _step(progress: Progress, found: ReplicaProgress, step: int, counted_ms: int) -> None:
    history, before, is_chief = progress.history, progress.step, found.replica == CHIEF
    if history.by_epochs:  # what was measured in epochs does not continue
        history.by_epochs, history.steps, history.cpu_ms = False, 0, 0
        history.begun_at, history.reached, history.recent = None, None, []
    if history.chief_steps != is_chief:
        history.chief_steps, history.begun_at, history.reached, history.recent = is_chief, None, None, []
    if history.recent and before is not None and step <= before:
        progress.steps_doubted = progress.steps_doubted or step * STEP_MAY_FALL < before
        return
    progress.step = step
    _reach(progress, step, counted_ms)


def _reach(progress: Progress, step: int, counted_ms: int) -> None:
    """The job has reached a further step."""
    history, recent = progress.history, progress.history.recent
    if recent and step <= recent[-1][1]:
        return
    if progress.cpu_ms is not None:
        history.reached = (step, progress.cpu_ms)
        if history.begun_at is None:
            history.begun_at = history.reached
    if not recent or counted_ms - recent[-1][0] >= RECENT_EVERY_MS:
        recent.append((counted_ms, step, progress.cpu_ms))
        if len(recent) > RECENT_KEPT:
            del recent[:-RECENT_KEPT]
