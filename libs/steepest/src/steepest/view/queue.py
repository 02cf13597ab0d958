"""The jobs that wait for a place: in the order of their submission, and by what they ask for.

It owns these orders and keeps them up to date as jobs change and time goes on. It must never know nodes or plans.
"""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedDict

from steepest.events.common import Resources
from steepest.view.orders.changes import Changes
from steepest.view.state import Job

Place = tuple[int, str]
"""Where a job stands in the queue: the offset of its submission, and its name."""

Wish = tuple[Resources, str | None]
"""What a job asks for: resources, and the node that it must start on, if its user names one."""


def wish_of(job: Job) -> Wish:
    """What a job asks for now; once it has started anywhere, it may go on everywhere."""
    return (job.spec.requests, job.spec.first_node if job.incarnation == 0 else None)


class Queue:
    """Jobs of one replica that wait, each among those that ask for the same once its hold is over.

    Attributes:
        news: The wishes that a job was added to.
    """

    def __init__(self, counted_ms: int) -> None:
        """Begin empty at the pool's counted time."""
        self.news: Changes[Wish] = Changes()
        self._counted_ms = counted_ms
        self._all: SortedDict[Place, Job] = SortedDict()
        self._ready: dict[Wish, SortedDict[Place, Job]] = {}
        self._held: SortedDict[tuple[int, str], Job] = SortedDict()
        self._wishes: dict[str, Wish] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(self._all.values())

    def wishes(self) -> Iterator[Wish]:
        """What jobs ask for that may be placed now, each once."""
        return iter(self._ready)

    def asking_for(self, wish: Wish, after: Place | None = None) -> Iterator[Job]:
        """The jobs behind a place in the queue that ask for the same and may be placed now, in the queue's order."""
        jobs = self._ready.get(wish)
        if jobs is None:
            return iter(())
        return map(jobs.__getitem__, jobs.irange(after, inclusive=(False, True)))

    def put(self, job: Job) -> None:
        """A job may have begun to wait, or waits no longer."""
        place = (job.submitted_offset, job.name)
        if not job.is_queued:
            if self._all.pop(place, None) is not None:
                self._leave(job)
        elif place not in self._all:
            self._all[place] = job
            if job.not_before_counted_ms > self._counted_ms:
                self._held[job.not_before_counted_ms, job.name] = job
            else:
                self._make_ready(job)

    def advance(self, counted_ms: int) -> None:
        """Time has gone on: some holds are over."""
        self._counted_ms = counted_ms
        while self._held and self._held.peekitem(0)[0][0] <= counted_ms:
            _, job = self._held.popitem(0)
            self._make_ready(job)

    def _make_ready(self, job: Job) -> None:
        if job.spec.replicas != 1 or not job.spec.command:
            return  # such a job is never placed
        wish = self._wishes[job.name] = wish_of(job)
        self._ready.setdefault(wish, SortedDict())[job.submitted_offset, job.name] = job
        self.news.note(wish)

    def _leave(self, job: Job) -> None:
        self._held.pop((job.not_before_counted_ms, job.name), None)
        wish = self._wishes.pop(job.name, None)
        if wish is None:
            return
        del self._ready[wish][job.submitted_offset, job.name]
        if not self._ready[wish]:
            del self._ready[wish]
