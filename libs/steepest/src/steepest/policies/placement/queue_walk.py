"""Goes through the waiting jobs of a view in their queue policy's order, past those that surely cannot be placed.

It owns the walk: what blocks, what is passed over, and what the limits of queues hold back. It must never know nodes.

Where the queue does not block, jobs that ask for the same stand in a *line*; when the first of a line has no room, the
whole line has none. Where it blocks, each queue is a line, and the first job without room ends the walk; a job that its
queue's limits hold back ends its own line only. All of it follows from the view and the plans under way, so nothing of it is
kept in a snapshot.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from steepest.policies.pending import Pending
from steepest.policies.placement.gangs import fewest
from steepest.policies.placement.room import Room
from steepest.policies.queueing.limits import LimitsOfQueues
from steepest.policies.queueing.order import Place, QueueOrder
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

Awaits = Callable[[Job], bool]
"""Whether a decision about a job is not read back yet."""


class QueueWalk:
    """The waiting jobs of one view, with the plans of one decider under way.

    Attributes:
        room: Which wishes may have room.
        limits: What queues may hold.
    """

    def __init__(self, view: ClusterView, pending: Pending) -> None:
        self.order = QueueOrder(view)
        self.room = Room(view, pending, self.order)
        self.limits = LimitsOfQueues(view, pending)
        self._view = view
        self._held_back: dict[str, dict[Wish, None]] = {}
        self._falls = view.jobs.use.falls.now
        self._goes_on = False

    def is_of(self, view: ClusterView, pending: Pending) -> bool:
        """Whether this is the walk through that view."""
        return self.room.is_of(view, pending)

    def may_be_tried(self, job: Job) -> bool:
        """Whether a job's queue may have it now, in its smallest size."""
        return self.limits.of(job.spec.queue) is None or self.limits.allow(job.spec, smallest(job))

    def jobs(self, awaits: Awaits) -> Iterator[Job]:
        """The jobs to be tried. Between two of them the caller says by :meth:`tried` what became of the one before.

        Work: O(log n) for each job that is tried, and for each queue or wish that may have room.
        """
        self.room.look()
        self._let_go_on()
        blocks = self._view.parameters.queueing.blocking
        due: list[tuple[Place, Wish | str]] = []
        for line in list(self.order.queues()) if blocks else self.room.open():
            self._line_up(due, line, awaits)
        heapq.heapify(due)
        while due:
            place, line = heapq.heappop(due)
            if isinstance(line, Wish) and self.room.is_short(line):
                continue  # what it might have had went to those before it
            job = self._view.jobs[place[-1]]
            if not self.may_be_tried(job):
                if isinstance(line, Wish):
                    self._held_back.setdefault(line.queue, {})[line] = None
                    self.room.close(line)
                continue
            yield job
            if self._goes_on:
                behind: list[tuple[Place, Wish | str]] = []
                self._line_up(behind, line, awaits, after=place)
                for one in behind:
                    heapq.heappush(due, one)
            elif blocks:
                return

    def first(self, awaits: Awaits) -> Job | None:
        """The first job in the queue about which no decision is under way."""
        self.room.look()
        heads = [
            next((job for job in self.order.in_queue(queue) if not awaits(job)), None) for queue in self.order.queues()
        ]
        return min((job for job in heads if job is not None), key=self.order.place, default=None)

    def waiting(self, awaits: Awaits) -> Iterator[Job]:
        """The jobs that may be placed, in order, about which no decision is under way; whether they have room or not."""
        order = self.order
        lines = [((order.place(job), job) for job in order.in_queue(queue)) for queue in order.queues()]
        for _, job in heapq.merge(*lines, key=lambda one: one[0]):
            if not awaits(job) and self.may_be_tried(job):
                yield job

    def tried(self, *, placed: bool, rejected: bool) -> None:
        """What became of the job that was given last."""
        self._goes_on = placed or (rejected and self._view.parameters.queueing.blocking)

    def is_back(self, name: str) -> None:
        """A plan for a job was not valid: it waits, as if it had just come."""
        wish = self.order.wish(name)
        if wish is not None:
            self.holds_less(wish.queue)
            self.room.reopen((wish,))

    def holds_less(self, queue: str) -> None:
        """The jobs of a queue hold less than before: its limits may leave more."""
        self.room.reopen(self._held_back.pop(queue, ()))

    def _let_go_on(self) -> None:
        falls = self._view.jobs.use.falls
        fallen = falls.since(self._falls)
        self._falls = falls.now
        for queue in list(self._held_back) if fallen is None else fallen:
            self.holds_less(queue)

    def _line_up(
        self, due: list[tuple[Place, Wish | str]], line: Wish | str, awaits: Awaits, after: Place | None = None
    ) -> None:
        """Let the next job of a line that awaits nothing be tried when it is its turn."""
        order = self.order
        if after is None and isinstance(line, Wish):
            head = order.head(line)
            if head is None or not awaits(self._view.jobs[head[-1]]):
                due += [] if head is None else [(head, line)]
                return
        jobs = order.asking_for(line, after) if isinstance(line, Wish) else order.in_queue(line, after)
        for job in jobs:
            if not awaits(job):
                due.append((order.place(job), line))
                return


def walk_of(walk: QueueWalk | None, view: ClusterView, pending: Pending) -> QueueWalk:
    """The walk through a view: the one before, as long as it is through that view."""
    return walk if walk is not None and walk.is_of(view, pending) else QueueWalk(view, pending)


def read_back(walk: QueueWalk | None, pending: Pending, plan: str) -> None:
    """A plan is in the log: from here on the view contains its effect, and what it took may be free."""
    made = pending.plans.get(plan)
    if made is not None and walk is not None:
        walk.room.may_be_back(places.node for places in made.targets)
    pending.read_back(plan)


def smallest(job: Job) -> tuple[int, ...]:
    """The least numbers of replicas that a job may be started with; empty: it has one replica."""
    wish = wish_of(job)
    return fewest(wish.roles) if wish.roles else ()
