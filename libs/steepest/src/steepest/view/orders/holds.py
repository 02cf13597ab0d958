"""The jobs that are kept from starting, and those that may have to stop: by their users, by other jobs, by a limit.

It owns these indexes and keeps them up to date as jobs change. Who is released, and when, is the placer's business.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeVar

import msgspec

from steepest.events.requests import Hold, JobSpec
from steepest.view.state import Job, Phase

K = TypeVar("K")
V = TypeVar("V")


class ArrayJobs(msgspec.Struct):
    """The jobs of an array that are not over, in their order.

    Attributes:
        active: Those that may run.
        held: Those that wait for others.
        stopped: Those that are suspended or will be; ``leaving``: of these, those that still have a place.
    """

    active: dict[str, None] = {}
    held: dict[str, None] = {}
    stopped: dict[str, None] = {}
    leaving: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.active, *self.held, *self.stopped)

    @property
    def placed(self) -> int:
        """How many have a turn, of as many as may run at a time."""
        return len(self.active) + len(self.leaving)


class Holds:
    """Indexes over jobs by what holds them.

    Attributes:
        limited: The running jobs that have a time limit.
        to_suspend: The running jobs that will be suspended, for their users, findings, or other trials.
    """

    def __init__(self) -> None:
        self.limited: dict[str, Job] = {}
        self.to_suspend: dict[str, Job] = {}
        self._behind: dict[str, dict[str, None]] = {}
        self._arrays: dict[str, ArrayJobs] = {}

    def behind(self, name: str) -> Iterator[str]:
        """The jobs that are held until the job of that name is over."""
        return iter(tuple(self._behind.get(name, ())))

    def array(self, name: str) -> ArrayJobs:
        """The jobs of an array that are not over."""
        return self._arrays.get(name) or ArrayJobs()

    def update(self, job: Job) -> None:
        """Bring the indexes up to date after a job changed."""
        running = job.phase is Phase.RUNNING
        keep(self.limited, job.name, job, wanted=running and job.spec.time_limit_ms is not None and not job.cancel)
        keep(self.to_suspend, job.name, job, wanted=running and job.hold.suspends and not job.cancel)
        if job.spec.after:
            self._update_behind(job)
        if job.spec.array:
            self._update_array(job)

    def _update_behind(self, job: Job) -> None:
        for name in job.spec.after:
            if job.hold is Hold.OTHERS and job.phase is not Phase.ENDED:
                self._behind.setdefault(name, {})[job.name] = None
            elif (there := self._behind.get(name)) is not None:
                there.pop(job.name, None)
                if not there:
                    del self._behind[name]

    def _update_array(self, job: Job) -> None:
        jobs = self._arrays.setdefault(job.spec.array, ArrayJobs())
        is_over = job.phase is Phase.ENDED
        keep(jobs.active, job.name, None, wanted=job.hold is Hold.NONE and not is_over)
        keep(jobs.held, job.name, None, wanted=job.hold is Hold.OTHERS and not is_over)
        keep(jobs.stopped, job.name, None, wanted=job.hold.suspends and not is_over)
        keep(jobs.leaving, job.name, None, wanted=job.hold.suspends and not is_over and not job.is_queued)
        if not (jobs.active or jobs.held or jobs.stopped):
            del self._arrays[job.spec.array]


def hold_of(spec: JobSpec, holds: Holds) -> Hold:
    """What holds a job when it is submitted: jobs that it comes after, or as many of its array as may run at a time."""
    array = holds.array(spec.array) if spec.array_most is not None else None
    full = array is not None and spec.array_most is not None and array.placed >= spec.array_most
    return Hold.OTHERS if spec.after or full else Hold.NONE


def keep(index: MutableMapping[K, V], key: K, value: V, *, wanted: bool) -> None:
    """Have a value in an index under its key, or not."""
    if wanted:
        index[key] = value
    else:
        index.pop(key, None)


def overdue_ms(job: Job, counted_ms: int) -> int:
    """By how much a job that holds its places has exceeded its time limit; negative: it has that much left."""
    ran_ms = job.held_ms + counted_ms - job.started_counted_ms
    return ran_ms - (job.spec.time_limit_ms or ran_ms + 1)
