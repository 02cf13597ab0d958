"""Which job is suspended so that one without room can run: one that is last in line, and holds room for hardly any CPU.

Jobs that wait for room get the places of others that are limited to little more than the floor, in this order:

* a suspended job that would be late if it waited longer, that which is due first;
* a job that never ran, and whose fair copy runs already;
* others that never ran, where room would come too late by itself.

Of the jobs that are last in line and can be resumed exactly, that of the lowest index gives way. It must still be in time
if it waits until the next job on its node ends, and have ``SPARE`` of the time that it needs beside that. It comes back as
any job of the queue does, or as above.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received
from steepest.policies.placement.gangs import GangPlaces
from steepest.policies.placement.preemption import suspension
from steepest.policies.placement.queue_walk import LOOKED_AT, QueueWalk, read_back, walk_of
from steepest.policies.placement.room import has_room
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.policies.steepest.gangs.unmanaged import is_managed
from steepest.policies.steepest.job_facts import facts_of
from steepest.policies.steepest.moves import MOST_SOURCES, SPARE
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.policies.steepest.residences import Residence, Residences
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job
from steepest.view.validity import void_transition

LAST_IN_LINE = 0.2
"""A job that gets at most this share of what it can use may give way. With half of it, more jobs were suspended in
simulations, and more were late."""

WOULD_BE_LATE = "it would be late if it waited longer"
RUNS_FAIRLY = "it would run already under fair sharing"
COMES_LATE = "room would come too late by itself"


class LastInLine(NamedTuple):
    """A job that may give way; that of the lowest index comes first."""

    worth: float
    job: str
    node: str


class RoomMaker:
    """Plans suspensions, and the placements that they make room for; a part of the steepest-planner.

    Work of a plan: O(jobs on the ``MOST_SOURCES`` fullest nodes), where jobs wait for room.
    """

    def __init__(self, state: SteepestPlannerState, residences: Residences) -> None:
        """A part of the planner with that state, and its residences."""
        self._state, self._residences = state, residences
        self._walk: QueueWalk | None = None

    def read_back(self, plan: str) -> None:
        """A plan is in the log: from here on the view contains its effect."""
        read_back(self._walk, self._state, plan)

    def plan(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        """The exchanges to be made now. The residences are changed as if each was made."""
        if not view.jobs.queue.any_ready:
            return
        walk = self._walk = walk_of(self._walk, view, self._state)
        residences = self._residences.fullest(MOST_SOURCES)
        last = sorted(one for residence in residences for one in self._last_in_line(view, residence))
        ends_s = min((_ends_s(residence)[0] for residence in residences), default=math.inf)
        comes_late = math.inf > ends_s > view.parameters.steepest.pays * self._cost_s(view)
        for wanted in self._without_room(view, walk, last) if last else ():
            free = walk.room.slots_for(wish_of(wanted[0])).free
            for one in last if wanted[1] != COMES_LATE or comes_late else ():
                if exchange := [*self._exchange(view, one, wanted, free, received)]:
                    yield from exchange
                    walk.room.was_taken([view.nodes[one.node]])
                    break

    def _without_room(
        self, view: ClusterView, walk: QueueWalk, last: Sequence[LastInLine]
    ) -> Sequence[tuple[Job, str]]:
        """The jobs that get others' places, in order, and why, of those for whom one of ``last`` leaves enough room."""
        state = self._state
        back = sorted(
            (due_s, name) for name in state.suspended if (due_s := self._is_due_back(view, view.jobs[name])) is not None
        )
        new: list[Job] = []
        for job in walk.heads(lambda job: state.concerns(job) or job.incarnation > 0 or not is_managed(job)):
            wish, slots = wish_of(job), walk.room.slots_for(wish_of(job))
            is_short = not has_room(wish, slots)
            helpful = [one for one in last if is_short and _leaves_room(view, one, wish, slots.free)]
            walk.tried(placed=bool(helpful) and not view.parameters.queueing.blocking)
            new += [job] if any(view.jobs[one.job].spec.priority <= job.spec.priority for one in helpful) else []
            if len(new) == LOOKED_AT:
                break
        wanted = [(view.jobs[name], WOULD_BE_LATE) for _, name in back]
        wanted += [(job, RUNS_FAIRLY) for job in new if job.name in state.fair.jobs]
        wanted += [(job, COMES_LATE) for job in new if job.name not in state.fair.jobs]
        return [
            (job, reason)
            for job, reason in wanted
            if walk.may_be_tried(job) and not has_room(wish := wish_of(job), walk.room.slots_for(wish))
        ]

    def _is_due_back(self, view: ClusterView, job: Job) -> float | None:
        """When a suspended job is due, if it would be late were it to wait longer; else None."""
        state = self._state
        if not job.is_queued or state.concerns(job):
            return None
        facts = facts_of(state, view.parameters.steepest, job, state.fair.largest)
        if facts.left is None or facts.due_s is None:
            return None
        needs_s = self._cost_s(view, job.spec.model) + facts.left / facts.demand
        return facts.due_s if facts.due_s - state.now_s < (1 + SPARE) * needs_s else None

    def _last_in_line(self, view: ClusterView, residence: Residence) -> Iterator[LastInLine]:
        """The jobs on a node that may give way, as far as their promises go."""
        if residence.awaits:
            return
        first_s, second_s = _ends_s(residence)
        for job in residence.jobs:
            if not job.free or job.left is None or job.due_s is None:
                continue
            demand = min(job.elsewhere, residence.cores)
            needs_s = job.left / demand
            cost_s = self._cost_s(view, view.jobs[job.name].spec.model)
            wait_s = cost_s + (second_s if needs_s == first_s else first_s)
            can_wait = job.due_s - self._state.now_s - wait_s >= (1 + SPARE) * needs_s
            if job.rate <= LAST_IN_LINE * demand and can_wait:
                yield LastInLine(job.index, job.name, residence.name)

    def _exchange(
        self,
        view: ClusterView,
        one: LastInLine,
        wanted: tuple[Job, str],
        free: Mapping[str, Resources],
        received: Received[c.ClusterEvent],
    ) -> Iterator[c.ClusterEvent]:
        """Let a job give way to one that has room then, unless it must not: without limit, its next step ends soon."""
        state, job, residence, (placed, reason) = self._state, view.jobs[one.job], self._residences[one.node], wanted
        if residence.awaits or job.spec.priority > placed.spec.priority:
            return
        if not _leaves_room(view, one, wish_of(placed), free):
            return
        facts = facts_of(state, view.parameters.steepest, job, view.nodes[one.node].capacity.cpu_m / 1000)
        because = c.Because(
            rule=f"it is last in line, and can wait; {placed.name} has no room: {reason}",
            standing=facts.standing(received.at_ms, state.now_s),
        )
        leaving = suspension(job, placed.name, f"steepest-{received.offset}-suspend-{job.name}", because)
        if void_transition(leaving, job, view) is not None:
            return
        plan = f"steepest-{received.offset}-lift-{job.name}"
        yield from state.lift(job, one.node, plan, "it gives way, and saves after its next step")
        state.add_suspension(leaving.plan, job)
        yield leaving
        because = c.Because(rule=f"{reason}; {job.name}, which is last in line there, gives way")
        plan = f"steepest-{received.offset}-place-{placed.name}"
        yield state.place(plan, placed, GangPlaces((one.node,), ()), because, (leaving.plan,))
        residence.jobs = [each for each in residence.jobs if each.name != job.name]
        residence.awaits = True
        self._residences.put(residence)

    def _cost_s(self, view: ClusterView, model: str = "") -> float:
        """Seconds that giving way costs a job of a model: the pool's parameter, or more if suspensions took longer."""
        return max(view.parameters.steepest.move_cost_ms / 1000, self._state.learned.stop_s(model))


def _leaves_room(view: ClusterView, one: LastInLine, wish: Wish, free: Mapping[str, Resources]) -> bool:
    """Whether there is room for a wish on a node once a job that may give way is gone."""
    if one.node not in free or wish.first_node not in {None, one.node}:
        return False
    return wish.requests.fits(free[one.node] + view.nodes.held(view.jobs[one.job], one.node))


def _ends_s(residence: Residence) -> tuple[float, float]:
    """In how many seconds the first two jobs of a node would end if they got all they can use; infinite: unknown."""
    ends = [job.left / min(job.elsewhere, residence.cores) for job in residence.jobs if job.left is not None]
    first, second = (*heapq.nsmallest(2, ends), math.inf, math.inf)[:2]
    return first, second
