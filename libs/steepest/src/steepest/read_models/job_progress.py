"""How far a job is, how much time is left and what it is promised, in words: for tables, the live view and ``explain``.

It owns the words. What is known is in :mod:`steepest.view.progress`.
"""

from __future__ import annotations

from collections.abc import Iterator

from steepest.describe import count, span
from steepest.policies.steepest.devices.which_jobs import devices_of, has_devices, is_in_force
from steepest.view.cluster_view import ClusterView
from steepest.view.places.node_rules import is_allowed
from steepest.view.progress import TimeLeft, course, time_left, total_steps
from steepest.view.state import Job, Phase

SHOWN = 4
"""Jobs before one that waits for devices that are named."""


def steps(job: Job, step: int | None = None) -> str:
    """``300/1000``, ``300``, or ``epoch 3/10`` of a job that reports no steps; empty where nothing is known.

    Args:
        job: The job.
        step: A step that is known to be newer than the pool's; None: there is none.
    """
    known = job.progress.step if step is None else step
    if known is None:
        return _epochs(job)
    total = total_steps(job)
    return str(known) if total is None else f"{min(known, total)}/{total}"


def share_done(job: Job) -> str:
    """``30 %`` of its steps or epochs; empty where its total is unknown."""
    step, total = course(job)
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


def _epochs(job: Job) -> str:
    progress = job.progress
    if progress.epoch is None:
        return ""
    epochs = progress.epochs or job.spec.epochs
    return f"epoch {progress.epoch:g}" + (f"/{epochs:g}" if epochs else "")


def device_promise(view: ClusterView, job: Job, at_ms: int) -> Iterator[str]:
    """For a job that waits, who holds the devices until when; for any, what was promised; nothing for other jobs."""
    if job.phase is Phase.ENDED or not has_devices(job) or not is_in_force(view.parameters):
        return
    if job.is_queued:
        yield from _before(view, job)
    promise = job.promise
    if promise is None:
        yield "nothing is promised to it yet: nothing says how long it runs"
        return
    ends = _when(promise.fair_end_ms, at_ms)
    due = "it is promised no end any more" if promise.due_ms is None else f"it is due {_when(promise.due_ms, at_ms)}"
    put_off = ""
    if promise.tier:
        first = "" if promise.first_due_ms is None else f"; the first promise was {_when(promise.first_due_ms, at_ms)}"
        put_off = f", put off {count(promise.tier, 'time')}{first}"
    yield f"{due}{put_off} (under fair sharing it ends {ends})"


def _before(view: ClusterView, job: Job) -> Iterator[str]:
    """The jobs that hold devices where it may run, those first that end first."""
    holding: list[tuple[int | None, Job]] = []
    for one in view.jobs:
        nodes = [node for name in one.holds if (node := view.nodes.get(name)) is not None]
        if has_devices(one) and any(is_allowed(job.spec.node_rule, node) for node in nodes):
            left = time_left(one)
            holding.append((None if left is None else left.p50, one))
    holding.sort(key=lambda each: (each[0] is None, each[0] or 0, each[1].name))
    named = [
        f"{one.name} holds {devices_of(one, one.sizes):g} for {'an unknown time' if left_ms is None else span(left_ms)}"
        for left_ms, one in holding[:SHOWN]
    ]
    if named:
        more = f", and {count(len(holding) - SHOWN, 'other job')}" if holding[SHOWN:] else ""
        yield f"of the GPUs before it, {', '.join(named)}{more}"


def _when(then_ms: int, at_ms: int) -> str:
    return f"in {span(then_ms - at_ms)}" if then_ms >= at_ms else f"{span(at_ms - then_ms)} before"
