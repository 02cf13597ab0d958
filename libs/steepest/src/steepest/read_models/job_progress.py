"""How far a job is and how much time is left, in words: for tables, the live view and ``explain``.

It owns the words. What is known is in :mod:`steepest.view.progress`.
"""

from __future__ import annotations

from steepest.describe import span
from steepest.view.progress import TimeLeft, course, shown_total
from steepest.view.state import Job


def steps(job: Job, step: int | None = None, epoch: float | None = None) -> str:
    """``300/1000``, ``300``, or ``epoch 3/10`` of a job that reports no steps; empty where nothing is known.

    Args:
        job: The job.
        step: A step that is known to be newer than the pool's; None: there is none.
        epoch: An epoch, likewise.
    """
    progress = job.progress
    known = progress.step if step is None else step
    # The number of its readings is no step; an ended job has no history.
    has_epochs = progress.epoch is not None or epoch is not None
    only_epochs = progress.history.by_epochs or (progress.step is None and has_epochs)
    if known is None or only_epochs:
        return _epochs(job, epoch)
    total = shown_total(job)
    return str(known) if total is None else f"{min(known, total)}/{total}"


def share_done(job: Job) -> str:
    """``30 %`` of its steps or epochs; empty where its total is unknown."""
    step, total = course(job)
    total = shown_total(job) if total is None and not job.progress.history.by_epochs else total
    return "" if total is None or step is None else f"{100 * step // total} %"


def interval(left: TimeLeft) -> str:
    """The bounds of an estimate: ``3 min 10 s – 5 min 20 s``, or one of them where they read the same."""
    low, high = span(left.low), span(left.high)
    return low if low == high else f"{low} – {high}"


def in_words(job: Job, left: TimeLeft | None) -> str:
    """A sentence about a job that is not over; empty where nothing is known of its progress, and it has no deadline."""
    where = steps(job)
    due = job.spec.deadline_ms
    deadline = "" if due is None else f"it should be over {span(due)} after its submission"
    if not where:
        return deadline
    done = share_done(job)
    sentence = where if where.startswith("epoch") else f"step {where}"
    if done:
        sentence += f", {done} done"
    if left is not None:
        sentence += f"; about {span(left.p50)} left ({interval(left)})"
    elif job.alive:
        sentence += "; how long it takes is unknown" if not done else "; its pace is not measured yet"
    return f"{sentence}; {deadline}" if deadline else sentence


def _epochs(job: Job, newer: float | None = None) -> str:
    progress = job.progress
    known = [epoch for epoch in (progress.epoch, newer) if epoch is not None]
    if not known:
        return ""
    epoch = max(known)  # the newest report is the newest finite loss
    epochs = progress.epochs or job.spec.epochs
    return f"epoch {epoch:g}" + (f"/{epochs:g}" if epochs else "")
