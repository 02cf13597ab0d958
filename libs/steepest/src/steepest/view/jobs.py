"""The jobs of a view: the queue, who is still undecided, and who converged most recently.

It owns these orders and keeps them up to date as jobs change. It must never know nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedDict

from steepest.events.cluster import Category
from steepest.view.movable import immovable
from steepest.view.orders.holds import Holds, keep
from steepest.view.orders.order import Order
from steepest.view.queue import Queue
from steepest.view.queue_use import QueueUse
from steepest.view.state import Job, Phase, ViewState

GRACE_INTERVALS = 4
"""Intervals for which a running job of which no growth was measured counts as growing; then its growth is unknown.

Of one that was measured, as many times the time between two measurements."""

ENDED_KEPT = 10_000
"""Ended jobs that are remembered, so that a name is not used twice and people can look back."""


class Jobs:
    """Jobs by name, in the queue's order, and in the order in which they converged.

    Attributes:
        queue: Those that wait for a place.
        use: What the running ones of each queue and user hold.
        holds: Those that are kept from starting, and those that may have to stop.
    """

    def __init__(self, state: ViewState) -> None:
        """Take over the jobs of a view's state, and build the orders as of its counted time."""
        self._jobs = jobs = state.jobs
        self.queue = Queue(state.counted_ms)
        self.use = QueueUse(state, jobs.values())
        self.holds = Holds()
        self._converged: SortedDict[tuple[int, str], Job] = SortedDict()
        self._undecided: dict[str, None] = {}
        self._silent: SortedDict[tuple[int, str], Job] = SortedDict()
        self._heard = Order()
        self._ended: dict[str, None] = {}
        for job in sorted(jobs.values(), key=lambda job: job.ended_offset):
            self.update(job)

    # --- looking ---------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Job:
        return self._jobs[name]

    def __contains__(self, name: object) -> bool:
        return name in self._jobs

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, name: str) -> Job | None:
        """The job of that name, ended or not."""
        return self._jobs.get(name)

    def is_over(self, name: str) -> bool:
        """Whether nothing more happens to the job of that name: it has ended, or was never submitted."""
        job = self._jobs.get(name)
        return job is None or job.phase is Phase.ENDED

    @property
    def undecided(self) -> int:
        """How many running jobs still grow by what was measured of them, and Algorithm 4 has not decided about."""
        return len(self._undecided)

    def newest_silent_counted_ms(self) -> int | None:
        """When the newest of the running jobs started of which no growth was measured yet; None without such jobs.

        Jobs whose growth is unknown are not among them.
        """
        return self._silent.peekitem()[0][0] if self._silent else None

    def silent_for_long(self, counted_ms: int, interval_ms: int) -> Job | None:
        """A running job whose growth may count as unknown by now: it was measured never, or for too long not again."""
        if self._silent:
            (since_ms, name), _ = self._silent.peekitem(0)
            if since_ms <= counted_ms - GRACE_INTERVALS * interval_ms:
                return self._jobs[name]
        while (first := self._heard.first()) is not None and first[0] <= counted_ms:
            job = self._jobs[first[1]]
            if (key := _unknown_at(job))[0] <= counted_ms:
                return job
            self._heard.put(key)
        return None

    def most_recently_converged(self) -> Iterator[Job]:
        """Running CC jobs that Algorithm 5 may move, and has not yet: smallest d = now − t_converged first, then by name.

        Those with a plan in flight and those that cannot be checkpointed are not among them.
        """
        return iter(self._converged.values())

    # --- changing --------------------------------------------------------------------------------------------------

    def add(self, job: Job) -> None:
        """A job was submitted."""
        self._jobs[job.name] = job
        self.update(job)

    def hear(self, job: Job, counted_ms: int, interval_ms: int) -> None:
        """Growth of a job was measured. That measurements become rarer is learned step by step: one silence says little.

        A job that becomes unknown later than before is put in its place only when its turn has come: most measurements
        change no order.
        """
        since_ms = counted_ms - max(job.growth_counted_ms, job.started_counted_ms)
        before_ms = job.growth_every_ms
        every_ms = max(min(since_ms, GRACE_INTERVALS * max(before_ms, interval_ms)), interval_ms)
        job.growth_every_ms, job.growth_counted_ms = every_ms, counted_ms
        if job.name not in self._heard:
            self.update(job)
        elif every_ms < before_ms:
            self._await_growth(job, wanted=True)

    def update(self, job: Job) -> None:
        """Bring the orders up to date after ``job`` changed. Call it before changing a time that it is ordered by."""
        running = job.phase is Phase.RUNNING
        converged = job.category is Category.CONVERGED
        self.queue.put(job)
        self.use.update(job)
        self.holds.update(job)
        keep(
            self._silent, (job.started_counted_ms, job.name), job, wanted=running and not (job.measured or job.unknown)
        )
        self._await_growth(job, wanted=running and job.measured and not job.unknown and job.growth_every_ms > 0)
        keep(
            self._converged,
            (-job.converged_counted_ms, job.name),
            job,
            wanted=running
            and converged
            and not (job.unknown or job.rebalanced)
            and job.plan is None
            and not job.spec.is_gang
            and immovable(job) is None,
        )
        is_undecided = running and job.measured and not (job.unknown or job.migrated or converged)
        keep(self._undecided, job.name, None, wanted=is_undecided)
        if job.phase is Phase.ENDED:
            self._retire(job)

    def _await_growth(self, job: Job, *, wanted: bool) -> None:
        if not wanted:
            self._heard.drop(job.name)
        elif (before := self._heard.of(job.name)) is None or _unknown_at(job) < before:
            self._heard.put(_unknown_at(job))

    def _retire(self, job: Job) -> None:
        self._ended[job.name] = None
        if len(self._ended) > ENDED_KEPT:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._jobs[oldest]


def _unknown_at(job: Job) -> tuple[int, str]:
    """From when on the growth of a job that was measured counts as unknown, if it is not measured again."""
    since_ms = max(job.growth_counted_ms, job.started_counted_ms)
    return since_ms + GRACE_INTERVALS * job.growth_every_ms, job.name
