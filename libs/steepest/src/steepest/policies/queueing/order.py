"""The waiting jobs of a view in the order of its queue policy, and by what they ask for.

It owns these orders and keeps them up to date with the view. It must never know nodes or plans. All of it follows from the
view, so nothing of it is kept in a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sortedcontainers import SortedDict

from steepest.policies.queueing.ranks import Rank, queue_policy, turn
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.view.cluster_view import ClusterView
from steepest.view.orders.changes import Changes
from steepest.view.state import Job

Place = tuple[Rank, int, str]
"""Where a job stands: its rank, the offset of its submission, and its name."""

Accounts = tuple[str, ...]
"""A queue, and a user if one is known."""


class QueueOrder:
    """The jobs of a view that may be placed now.

    Attributes:
        news: The wishes that a job was added to.
    """

    def __init__(self, view: ClusterView) -> None:
        """Put all of them in order. Work: O(n log n); later O(log n) for each that comes or goes."""
        self.news: Changes[Wish] = Changes()
        self._view = view
        self._jobs = 0
        self._look_at_all()

    def wishes(self) -> Iterator[Wish]:
        """What jobs ask for, each once."""
        return iter(self._alike)

    def asking_for(self, wish: Wish, after: Place | None = None) -> Iterator[Job]:
        """The jobs behind a place in the queue that ask for the same and have one user, in order."""
        jobs = self._alike.get(wish)
        if jobs is None:
            return iter(())
        return map(jobs.__getitem__, jobs.irange(after, inclusive=(False, True)))

    def __len__(self) -> int:
        """How many wishes there are."""
        return len(self._alike)

    def head(self, wish: Wish) -> Place | None:
        """Where the first of the jobs stands that ask for the same; None if none does."""
        return self._heads.get(wish)

    def lines(self) -> Sequence[Wish]:
        """What jobs ask for, in the order of the first jobs that do.

        A part of it costs O(log n + its length); where the use of users comes first, O(n log n).
        """
        lines: Sequence[Wish] = self._lines.values()
        by_user = queue_policy(self._view.parameters.queueing.policy).by_user
        return sorted(lines, key=lambda wish: turn(self._view, wish.accounts)) if by_user else lines

    def wish(self, name: str) -> Wish | None:
        """What a job asks for; None where it may not be placed now."""
        found = self._found.get(name)
        return None if found is None else found[0]

    def accounts(self) -> Iterator[Accounts]:
        """The queues in which jobs wait, each with its users."""
        return iter(self._of)

    def of(self, accounts: Accounts, after: Place | None = None) -> Iterator[Job]:
        """The jobs of one user behind a place in one queue, in order."""
        jobs = self._of.get(accounts)
        if jobs is None:
            return iter(())
        return map(jobs.__getitem__, jobs.irange(after, inclusive=(False, True)))

    def place(self, job: Job) -> Place:
        """A job's place in the queue."""
        found = self._found.get(job.name)
        if found is not None:
            return found[1]
        parameters = self._view.parameters.queueing
        return (queue_policy(parameters.policy).rank(job, parameters), job.submitted_offset, job.name)

    def look(self) -> None:
        """Take in what has changed since the last look."""
        queue = self._view.jobs.queue
        changed = queue.changes.since(self._jobs)
        if changed is None or self._rules != self._view.parameters.queueing:
            self._look_at_all()
            return
        self._jobs = queue.changes.now
        for name in changed:
            self._drop(name)
            if (job := queue.find_ready(name)) is not None:
                self._add(job)

    def _look_at_all(self) -> None:
        queue = self._view.jobs.queue
        self._rules = self._view.parameters.queueing
        self._jobs = queue.changes.now
        self._of: dict[Accounts, SortedDict[Place, Job]] = {}
        self._alike: dict[Wish, SortedDict[Place, Job]] = {}
        self._found: dict[str, tuple[Wish, Place]] = {}
        self._same: dict[Wish, Wish] = {}
        self._heads: dict[Wish, Place] = {}
        self._lines: SortedDict[Place, Wish] = SortedDict()
        for job in queue.ready():
            self._add(job)

    def _add(self, job: Job) -> None:
        wish = wish_of(job)
        wish = self._same.setdefault(wish, wish)
        place = self.place(job)
        self._found[job.name] = (wish, place)
        self._of.setdefault(wish.accounts, SortedDict())[place] = job
        self._alike.setdefault(wish, SortedDict())[place] = job
        if place <= self._heads.get(wish, place):
            self._put_head(wish, place)
        self.news.note(wish)

    def _drop(self, name: str) -> None:
        found = self._found.pop(name, None)
        if found is None:
            return
        wish, place = found
        del self._of[wish.accounts][place], self._alike[wish][place]
        if not self._of[wish.accounts]:
            del self._of[wish.accounts]
        if not self._alike[wish]:
            del self._alike[wish], self._same[wish]
            self._put_head(wish, None)
        elif place == self._heads[wish]:
            self._put_head(wish, next(iter(self._alike[wish])))

    def _put_head(self, wish: Wish, place: Place | None) -> None:
        if (before := self._heads.pop(wish, None)) is not None:
            del self._lines[before]
        if place is not None:
            self._heads[wish], self._lines[place] = place, wish
