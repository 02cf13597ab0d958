"""How much of a job is left, at which pace it works, and when that is known.

Pure functions of a job's spec and of what its nodes have reported (:class:`~steepest.view.progress_state.Progress`). Each of
them says None where the answer is unknown or not to be believed: a number that is made up would be acted upon.

A total is believed in this order: what the process states; its epochs, or the announced ones, times the steps an epoch that
were measured; what was announced at submission. A source is left out where it cannot be right:

* it is 0, or ``MOST_STEPS`` or more, as scripts say that train without an end;
* the job is past it;
* the process has stated totals that differ by more than a factor of two (a changed world begins a new incarnation, which may
  state another one).

A job whose log has only epochs has a pace and a rest as well: its steps are thousandths of an epoch then.

Where the steps of an incarnation began again (:data:`steepest.view.folds.fold_progress.STEP_MAY_FALL`) they count something
else than the whole training, and nothing is known of what is left.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from steepest.events.common import LARGEST, Resources
from steepest.view.progress_state import Progress, ProgressHistory
from steepest.view.state import Job, Phase

MOST_STEPS = 1_000_000_000
"""Steps, from which on a total says that the training has no end."""

MOST_EPOCHS = 1_000_000
"""Epochs, from which on a total says that the training has no end."""

OF_AN_EPOCH = 1_000
"""Steps an epoch, of a job whose log has only epochs."""

RECENT_STEPS = 3
"""Fewer recent steps, or epochs, have no pace of their own: one may be nearly done, or just begun, when it is seen."""

QUANTILE = 10
"""The range of the time left leaves out one of this many paces at each end."""


class TimeLeft(msgspec.Struct, frozen=True):
    """Time until a job is trained at the pace of the last minutes, in milliseconds."""

    p50: int
    low: int
    high: int


def checkpoint_step(job: Job) -> int | None:
    """The step that its checkpoint holds: of an image of its processes, the last one that they reported; None: none."""
    if job.checkpoint is None:
        return None
    return job.progress.step if job.checkpoint.is_image else job.checkpoint.step


def total_steps(job: Job) -> int | None:
    """The steps of the whole training; None if no source of them is plausible."""
    progress, spec = job.progress, job.spec
    if progress.steps_doubted:
        return None
    stated = None if progress.total_doubted else progress.total
    for total in (stated, _in_steps(progress, progress.epochs), spec.steps, _in_steps(progress, spec.epochs)):
        if total is not None and 0 < total < MOST_STEPS and (progress.step or 0) <= total:
            return total
    return None


def shown_total(job: Job) -> int | None:
    """As :func:`total_steps`, for people: until a new incarnation states its total, that of the one before is shown."""
    total, its = total_steps(job), job.progress
    is_before = (
        total is None and its.total is None and not its.steps_doubted and (its.step or 0) <= (its.total_before or 0)
    )
    return its.total_before if is_before else total


def course(job: Job) -> tuple[int | None, int | None]:
    """The job's step and its total; of a job whose log has only epochs, both in thousandths of an epoch.

    The epochs of the whole training are those that the process states, else those that were announced at submission. An
    estimate, as every total: a script may count its epochs from 0 or from 1, and name one at its beginning or at its end.
    """
    progress = job.progress
    if not progress.history.by_epochs:
        return progress.step, total_steps(job)
    done = None if progress.epoch is None else round(OF_AN_EPOCH * progress.epoch)
    for epochs in (progress.epochs, job.spec.epochs):
        if epochs is not None and 0 < epochs < MOST_EPOCHS and (done or 0) <= OF_AN_EPOCH * epochs:
            return done, round(OF_AN_EPOCH * epochs)
    return done, None


def steps_left(job: Job) -> int | None:
    """Steps until the training is complete, as :func:`course` counts them; None where its step or total is unknown."""
    step, total = course(job)
    if step is None and not job.incarnation:
        return total
    return None if total is None or step is None else total - step


def one_step(job: Job) -> int:
    """What a step counts as in :func:`course`."""
    return OF_AN_EPOCH if job.progress.history.by_epochs else 1


def cpu_ms_per_step(job: Job) -> float | None:
    """CPU time of a step of all replicas, in milliseconds; None until two steps were seen.

    It is the mean of all steps, unless those of the last minutes differ from it by more than one step in all: a report is
    seen up to a step after it was reached. The first span of these does not count: the first steps of some scripts come in
    a burst, which their imports paid for. What an incarnation uses before its first report (imports, loading data,
    restoring) is no step's.
    """
    history, mean = job.progress.history, _mean_of_steps(job)
    reached, since = history.reached, history.recent[1:]
    if mean is None or reached is None or not since or since[0][2] is None:
        return mean
    steps, cpu_ms = reached[0] - since[0][1], reached[1] - since[0][2]
    if steps < RECENT_STEPS * one_step(job) or cpu_ms <= 0:
        return mean
    recent = cpu_ms / steps
    return recent if abs(recent - mean) * steps > max(recent, mean) * one_step(job) else mean


def _mean_of_steps(job: Job) -> float | None:
    steps, cpu_ms = worked(job.progress.history)
    return cpu_ms / steps if steps > 0 and cpu_ms > 0 else None


def worked(history: ProgressHistory) -> tuple[int, int]:
    """Steps, and their CPU time in milliseconds, between the first and the newest step of each incarnation."""
    first, last = history.begun_at, history.reached
    if first is None or last is None:
        return history.steps, history.cpu_ms
    return history.steps + last[0] - first[0], history.cpu_ms + last[1] - first[1]


def cpu_ms_before_steps(job: Job) -> float:
    """CPU time that a job's first incarnation used before its first step, in milliseconds; 0 until two steps were seen.

    A later incarnation goes on at a step that it does not report, so that this is not known of it. The step that was under
    way at the first report may have been nearly done, and counts as a step.
    """
    if job.incarnation > 1:
        return 0.0
    history, of_each = job.progress.history, _mean_of_steps(job)
    if history.begun_at is None or of_each is None:
        return 0.0
    step, cpu_ms = history.begun_at
    one = OF_AN_EPOCH if history.by_epochs and step % OF_AN_EPOCH == 0 else 1
    return max(0.0, cpu_ms - (step + one) * of_each)


def cpu_ms_left(job: Job) -> int | None:
    """CPU time until the training is complete, in milliseconds; None where it is unknown."""
    left, of_each = steps_left(job), cpu_ms_per_step(job)
    return None if left is None or of_each is None else round(left * of_each)


def cpu_ms_of_all_steps(job: Job) -> float | None:
    """CPU time of all steps, in milliseconds: of those that are done by their mean, of the others as of recent ones."""
    left_ms, of_each, (step, _) = cpu_ms_left(job), _mean_of_steps(job), course(job)
    return None if left_ms is None or of_each is None or step is None else left_ms + step * of_each


def time_left(job: Job) -> TimeLeft | None:
    """Time until a running job is trained, from the spread of its pace in the last minutes; None where it is unknown.

    Each span of about five seconds between two reports has a pace, its time a step. The middle estimate is the steps left
    times the mean pace; the bounds are the same with the fastest and the slowest pace without a tenth at each end.
    """
    left, recent = steps_left(job), job.progress.history.recent
    if left is None or not job.alive or not recent[1:]:
        return None
    paces = sorted((later[0] - before[0]) / (later[1] - before[1]) for before, later in pairwise(recent))
    mean = (recent[-1][0] - recent[0][0]) / (recent[-1][1] - recent[0][1])
    drop = len(paces) // QUANTILE
    return TimeLeft(round(left * mean), round(left * min(paces[drop], mean)), round(left * max(paces[-1 - drop], mean)))


def attained_ms(job: Job, counted_ms: int) -> int:
    """A job's service: the time for which it held places, times the GPUs of all its replicas, or their cores without any."""
    if job.phase is not Phase.RUNNING:
        return job.service_ms
    total = Resources()
    for requests in job.spec.replica_requests(job.sizes):
        total += requests
    held_ms = counted_ms - job.started_counted_ms
    return min(job.service_ms + held_ms * (total.all_gpus_m or total.cpu_m) // 1000, LARGEST)


def epoch_steps(progress: Progress) -> float | None:
    """Steps an epoch: those between two beginnings of epochs, by the epochs between them; None until two were seen.

    It holds for epochs counted from 0 or 1, in fractions or whole, and for one report an epoch as for many.
    """
    history = progress.history
    first, last = history.epoch_first, history.epoch_last
    if first is None or last is None or last[0] <= first[0] or last[1] <= first[1]:
        return history.epoch_steps
    return (last[1] - first[1]) / (last[0] - first[0])


def _in_steps(progress: Progress, epochs: float | None) -> int | None:
    """Epochs in steps. Near the end, the estimate may be behind the job by up to half an epoch: then it is complete."""
    of_each = epoch_steps(progress)
    if of_each is None or epochs is None or not 0 < epochs < MOST_EPOCHS or not of_each < MOST_STEPS:
        return None
    total, step = round(epochs * of_each), progress.step or 0
    return step if total < step <= total + of_each / 2 else total
