"""Which limit of its queue a job would exceed. It must never know nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from steepest.events.common import Resources
from steepest.events.parameters import QueueLimits
from steepest.view.projection import Projection
from steepest.view.queue_use import holdings
from steepest.view.state import Job


class Excess(NamedTuple):
    """A limit that a job would exceed: in words, and whether it would also where its queue holds nothing."""

    words: str
    is_alone: bool


def limits_of(view: Projection, queue: str) -> QueueLimits | None:
    """The limits of a queue, if it has any."""
    return next((limits for limits in view.parameters.queueing.limits if limits.queue == queue), None)


def excess(view: Projection, job: Job, sizes: Sequence[int], coming: Resources | None = None) -> Excess | None:
    """A limit that a job exceeds with this number of replicas of each role; one that it exceeds alone comes first.

    It exceeds no limit of a resource of which it gets no more than it has. ``sizes`` empty: all that it names; ``coming``:
    what its queue will hold beyond what the view knows.
    """
    queue = job.spec.queue
    limits = limits_of(view, queue)
    if limits is None:
        return None
    more, held = (
        holdings(job.spec, sizes) - view.jobs.use.of_job(job),
        view.jobs.use.of(queue) + (coming or Resources()),
    )
    found = [
        Excess(_words(queue, unit, (most / scale, has / scale, asked / scale)), asked > most)
        for unit, scale, most, has, asked in (
            (" replicas", 1, limits.replicas, held.replicas, more.replicas),
            ("m CPU", 1, limits.cpu_m, held.cpu_m, more.cpu_m),
            (" GPUs", 1000, limits.gpu_m, held.all_gpus_m, more.all_gpus_m),
        )
        if most is not None and has + asked > most and asked > 0
    ]
    return max(found, key=lambda one: one.is_alone, default=None)


def _words(queue: str, unit: str, amounts: Sequence[float]) -> str:
    most, has, asked = (f"{amount:.12g}{unit.rstrip('s') if amount == 1 else unit}" for amount in amounts)
    holds = f"may hold {most}" if amounts[2] > amounts[0] else f"holds {has} of the {most} that it may hold"
    return f"it asks for at least {asked}, and queue {queue} {holds}"
