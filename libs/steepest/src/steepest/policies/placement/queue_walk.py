"""Goes through the waiting jobs of a view in their queue policy's order, past those that surely cannot be placed.

It owns the walk: what blocks, what is passed over, and what the limits of queues hold back. It must never know nodes.

Where the queue does not block, jobs that ask for the same form a *line*; when the first of a line has no room, the
whole line has none. Where it blocks, the jobs of each user in each queue are a line, and the first job without room ends the
walk, if it would have room were the nodes empty; a job that a limit holds back for now ends only the lines of that queue or
user. All of it follows from the view and the plans under way, so nothing of it is kept in a snapshot.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from steepest.policies.pending import Pending
from steepest.policies.placement.gangs import Sizes, within
from steepest.policies.placement.room import Room, would_have_room
from steepest.policies.queueing.order import Accounts, Place, QueueOrder
from steepest.policies.queueing.ranks import turn
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.view.cluster_view import ClusterView
from steepest.view.places.queue_limits import Excess, excess
from steepest.view.state import Job

LOOKED_AT = 16
"""Lines of waiting jobs for which room is looked for at a time."""

Line = Wish | Accounts

Awaits = Callable[[Job], bool]
"""Whether a decision about a job is not read back yet."""


class QueueWalk:
    """The waiting jobs of one view, with the plans of one decider under way.

    Attributes:
        room: Which wishes may have room.
    """

    def __init__(self, view: ClusterView, pending: Pending) -> None:
        self.order = QueueOrder(view)
        self.room = Room(view, pending, self.order)
        self._view = view
        self._pending = pending
        self._held_back: dict[str, dict[Wish, None]] = {}
        self._falls = view.jobs.use.falls.now
        self._goes_on = False

    def is_of(self, view: ClusterView, pending: Pending) -> bool:
        """Whether this is the walk through that view."""
        return self._view is view and self._pending is pending

    def may_be_tried(self, job: Job) -> bool:
        """Whether a job's queue may have it now, in its smallest size."""
        return self.excess(job, job.spec.smallest) is None

    def excess(self, job: Job, sizes: Sizes) -> Excess | None:
        """The limit of its queue or user that a job would exceed with these numbers of replicas by role; None: none."""
        return excess(self._view, job, sizes, self._pending.coming)

    def allowed(self, job: Job) -> Wish:
        """What a job asks for, with no more replicas of each role than its queue may have now."""
        wish = wish_of(job)
        sizes = within(wish.roles, wish.sizes, lambda sizes: self.excess(job, sizes) is None) or ()
        roles = (msgspec.structs.replace(role, replicas=size) for role, size in zip(wish.roles, sizes, strict=True))
        return msgspec.structs.replace(wish, roles=tuple(roles))

    def jobs(self, awaits: Awaits) -> Iterator[Job]:
        """The jobs to be tried. Between two of them the caller says by :meth:`tried` what became of the one before.

        Work: O(log n) for each job that is tried, and for each queue or wish that may have room; where the queue blocks,
        also O(nodes) for each job that has no room.
        """
        self.room.look()
        self._let_go_on()
        blocks = self._view.parameters.queueing.blocking
        for job in self._walk(list(self.order.accounts()) if blocks else self.room.open(), awaits):
            yield job
            if blocks and not self._goes_on:
                if would_have_room(self._view, wish_of(job)):
                    return
                self._goes_on = True  # nothing that runs keeps it waiting

    def heads(self, awaits: Awaits, most: int = LOOKED_AT) -> Iterator[Job]:
        """The first job of each line, in order, whether it has room or not; never one that its queue's limits hold back.

        Between two of them the caller says by :meth:`tried` whether the next one of its line is to come. Of more than
        ``most`` lines, the first half of these is looked at always, and the others in turns, so that none keeps others from
        being looked at for ever.

        Work: O(log n) for each job and line that is looked at.
        """
        self.room.look()
        self._let_go_on()
        blocks = self._view.parameters.queueing.blocking
        lines: Sequence[Line] = sorted(self.order.accounts()) if blocks else self.order.lines()
        self._pending.turn += 1
        step = max(most // 2, 1)
        first = most - most // 2
        turns = max(-(-(len(lines) - first) // step), 1)
        start = first + self._pending.turn % turns * step
        return self._walk([*lines[:first], *lines[start : start + step]], awaits, by_room=False)

    def _walk(self, lines: Iterable[Line], awaits: Awaits, *, by_room: bool = True) -> Iterator[Job]:
        due = self._lined_up(lines, awaits)
        heapq.heapify(due)
        ended: dict[str, None] = {}
        while due:
            _, place, line = heapq.heappop(due)
            if by_room and isinstance(line, Wish) and self.room.is_short(line):
                continue  # what it might have had went to those before it
            if not isinstance(line, Wish) and any(account in ended for account in line):
                continue
            job = self._view.jobs[place[-1]]
            held_back = self.excess(job, job.spec.smallest)
            if held_back is None:
                yield job
            elif isinstance(line, Wish):
                self._held_back.setdefault(held_back.account, {})[line] = None
                self.room.close(line)
            elif not held_back.is_alone:
                ended[held_back.account] = None
            if self._goes_on if held_back is None else (not isinstance(line, Wish) and held_back.is_alone):
                for one in self._lined_up((line,), awaits, after=place):
                    heapq.heappush(due, one)

    def tried(self, *, placed: bool, rejected: bool = False) -> None:
        """What became of the job that was given last."""
        self._goes_on = placed or (rejected and self._view.parameters.queueing.blocking)

    def is_back(self, name: str) -> None:
        """A decision about a job is in the log: if it was not valid, the job waits, and its queue and user hold less."""
        job, wish = self._view.jobs.get(name), self.order.wish(name)
        for account in list(self._held_back) if job is None else job.accounts:
            self.holds_less(account)
        if wish is not None:
            self.room.reopen((wish,))

    def holds_less(self, account: str) -> None:
        """The jobs of a queue or user hold less than before: its limits may leave more."""
        self.room.reopen(self._held_back.pop(account, ()))

    def _let_go_on(self) -> None:
        falls = self._view.jobs.use.falls
        fallen = falls.since(self._falls)
        self._falls = falls.now
        for account in list(self._held_back) if fallen is None else fallen:
            self.holds_less(account)

    def _lined_up(
        self, lines: Iterable[Line], awaits: Awaits, after: Place | None = None
    ) -> list[tuple[float, Place, Line]]:
        """The next job of each line that awaits nothing."""
        order, due = self.order, list[tuple[float, Place, Line]]()
        for line in lines:
            first = turn(self._view, line.accounts if isinstance(line, Wish) else line)
            head = order.head(line) if after is None and isinstance(line, Wish) else None
            if head is not None and not awaits(self._view.jobs[head[-1]]):
                due.append((first, head, line))
                continue
            jobs = order.asking_for(line, after) if isinstance(line, Wish) else order.of(line, after)
            due += [(first, order.place(job), line) for job in islice((job for job in jobs if not awaits(job)), 1)]
        return due


def walk_of(walk: QueueWalk | None, view: ClusterView, pending: Pending) -> QueueWalk:
    """The walk through a view: the one before, as long as it is through that view."""
    return walk if walk is not None and walk.is_of(view, pending) else QueueWalk(view, pending)


def read_back(walk: QueueWalk | None, pending: Pending, plan: str) -> None:
    """A plan is in the log: from here on the view contains its effect, and what it took may be free, of nodes and limits."""
    made = pending.plans.get(plan)
    if made is not None and walk is not None:
        walk.room.may_be_back(places.node for places in made.targets)
        walk.is_back(made.job)
    pending.read_back(plan)
