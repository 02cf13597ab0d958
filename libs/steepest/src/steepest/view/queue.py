"""The jobs that wait for a place, and which of them may be placed now.

It owns who waits, and keeps it up to date as jobs change and time goes on. In which order they are placed is the business of
a queue policy (:mod:`steepest.policies.queueing`). It must never know nodes or plans.
"""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedDict

from steepest.view.orders.changes import Changes
from steepest.view.spec_rules import what_is_wrong
from steepest.view.state import Job


class Queue:
    """Jobs that wait, to start or to resume; each may be placed once its hold is over.

    Attributes:
        changes: The jobs that may be placed from now on, or no longer, or that have another progress.
    """

    def __init__(self, counted_ms: int) -> None:
        """Begin empty, at the pool's counted time."""
        self.changes: Changes[str] = Changes()
        self._counted_ms = counted_ms
        self._all: dict[str, Job] = {}
        self._ready: dict[str, Job] = {}
        self._held: SortedDict[tuple[int, str], Job] = SortedDict()
        self._kept: dict[str, None] = {}

    def __iter__(self) -> Iterator[Job]:
        """All that wait, in the order of their submission."""
        return iter(sorted(self._all.values(), key=lambda job: job.submitted_offset))

    def __len__(self) -> int:
        return len(self._all)

    @property
    def any_ready(self) -> bool:
        """Whether a job may be placed now."""
        return bool(self._ready)

    def ready(self) -> Iterator[Job]:
        """The jobs that may be placed now, in an arbitrary order."""
        return iter(self._ready.values())

    def find_ready(self, name: str) -> Job | None:
        """The job of that name, if it may be placed now."""
        return self._ready.get(name)

    def put(self, job: Job) -> None:
        """A job may have begun to wait, or waits no longer."""
        if not job.is_queued:
            if self._all.pop(job.name, None) is not None:
                self._leave(job)
        elif job.name not in self._all:
            self._all[job.name] = job
            self._enter(job)
        elif bool(job.hold) is not (job.name in self._kept):
            self.put_again(job)

    def put_again(self, job: Job) -> None:
        """A job that waits is held or no longer, or has another rank."""
        if job.name in self._all:
            self._leave(job)
            self._enter(job)

    def note_progress(self, name: str) -> None:
        """More is known of a job's progress, which reports that are late may change while it waits."""
        if name in self._ready:
            self.changes.note(name)

    def advance(self, counted_ms: int) -> None:
        """Advance the time, which ends some holds."""
        self._counted_ms = counted_ms
        while self._held and self._held.peekitem(0)[0][0] <= counted_ms:
            _, job = self._held.popitem(0)
            self._make_ready(job)

    def _enter(self, job: Job) -> None:
        if job.hold:
            self._kept[job.name] = None
        elif job.not_before_counted_ms > self._counted_ms:
            self._held[job.not_before_counted_ms, job.name] = job
        else:
            self._make_ready(job)

    def _make_ready(self, job: Job) -> None:
        if next(what_is_wrong(job.spec), None) is None:  # such a job is rejected
            self._ready[job.name] = job
            self.changes.note(job.name)

    def _leave(self, job: Job) -> None:
        self._kept.pop(job.name, None)
        self._held.pop((job.not_before_counted_ms, job.name), None)
        if self._ready.pop(job.name, None) is not None:
            self.changes.note(job.name)
