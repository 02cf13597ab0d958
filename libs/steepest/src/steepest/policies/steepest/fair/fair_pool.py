"""The virtual fair pool: the same jobs on the same nodes under fair sharing, each placed by ``spread`` and never moved.

A fold: it is informed of nodes, of jobs that come and end, and of what is known of their sizes, and answers when each job
would end. Each node keeps its own time and is brought up to date only when something about it is asked or changes, so an
event costs what the jobs of one node cost. A new job goes where fewest are, so it brings those nodes up to date on which a
copy has ended since.

The sizes are those that are known now: where a job turns out longer or shorter than thought, its fair end moves with
it. A job that has really ended keeps running here until its fair copy has used as much.

Jobs wait for room here as they would under fair sharing: a copy has a place once a node has free what its job reserves.
Those that came first go first, and where one has no room, those behind it may go. While it waits, nothing says when it would
end. A copy whose job has no place yet runs as if that had one: the job falls behind it.

A gang has a copy for each replica, which get places by the rule for gangs: all of them at the same time, or none. Jobs of
which the policy divides nothing have none: they hold what they reserve where they really are, and use what they really use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from steepest.events.common import Resources
from steepest.events.requests import Role
from steepest.policies.placement.gangs import choose
from steepest.policies.placement.slots import Slots
from steepest.policies.steepest.fair.fair_copies import LEAST_DEMAND, SAME_DEMAND, SAME_SIZE, FairJob, FairNode
from steepest.policies.steepest.fair.fair_sharing import fair_level, run_fairly
from steepest.view.nodes import allocation


class FairPool(msgspec.Struct):
    """The pool under fair sharing.

    Attributes:
        nodes: By name.
        jobs: Copies of the jobs that run, and of those that have ended but would not yet under fair sharing.
        planned: Copies that have a place and do not train yet.
        waiting: The copies of jobs that wait for room, in the order in which these came; of a gang, one for all replicas.
        gangs: The copies of each gang that has a place.
        roomier: Whether any of them may have room now that had none.
        largest: Cores of the largest node.
    """

    nodes: dict[str, FairNode] = {}
    jobs: dict[str, FairJob] = {}
    planned: dict[str, FairJob] = {}
    waiting: dict[str, FairJob] = {}
    gangs: dict[str, tuple[str, ...]] = {}
    roomier: bool = False
    largest: float = 0.0

    # --- what happens ------------------------------------------------------------------------------------------------

    def join(self, name: str, capacity: Resources, now_s: float) -> None:
        """A node is here, or has another capacity now."""
        node = self.nodes.get(name)
        if node is None:
            for copy in () if self.nodes else self.jobs.values():
                copy.node = name  # it has ended, and its node was the last one
            self.nodes[name] = FairNode(capacity, capacity.cpu_m / 1000, now_s)
            self.largest = max(self.largest, capacity.cpu_m / 1000)
        elif node.capacity != capacity:
            self._bring_up(name, now_s)
            node.capacity, node.gives, node.stale = capacity, capacity.cpu_m / 1000, True
            self._find_largest()
        self.roomier = True

    def deliver(self, name: str, cores: float, now_s: float) -> None:
        """A node gives so many cores now, which may be fewer than it declares."""
        node = self.nodes.get(name)
        if node is not None and abs(node.gives - cores) > SAME_DEMAND * node.gives:
            self._bring_up(name, now_s)
            node.gives, node.stale = cores, True

    def leave(self, name: str, now_s: float) -> None:
        """A node is gone for good: its jobs continue on the others. Where there are none, they wait for one."""
        if name not in self.nodes:
            return
        self._bring_up(name, now_s)
        self.roomier = True  # for those that had to be placed there first
        del self.nodes[name]
        self._find_largest()
        for job, copy in [each for each in (*self.jobs.items(), *self.planned.items()) if each[1].node == name]:
            copy.node = self._choose(copy.requests) or ""
            if copy.end_s is not None:
                continue
            if copy.node:
                self._bring_up(copy.node, now_s)
                self._enter(job, copy, running=job in self.jobs)
            else:
                self.waiting[job] = (self.jobs if job in self.jobs else self.planned).pop(job)

    def come(
        self, job: str, requests: Resources, first_node: str | None, now_s: float, roles: tuple[Role, ...] = ()
    ) -> None:
        """A job is here; ``first_node``: where it must be placed first; ``roles``: of a gang."""
        known = (self.jobs, self.planned, self.waiting, self.gangs)
        if any(job in copies for copies in known) or not self.nodes:
            return
        self.waiting[job] = FairJob("", requests, now_s, 1.0, first_node=first_node, roles=roles)
        self.roomier = True
        self.admit(now_s)

    def place(self, job: str) -> None:
        """A job has a place: its copies train when it does."""
        for name in self.copies_of(job):
            if (copy := self.planned.get(name) or self.waiting.get(name)) is not None:
                copy.placed = True

    def admit(self, now_s: float) -> None:
        """Give those places that wait for one, where there is room.

        Work: O(nodes), and as much for each thing that is asked for by any of them, once something has become free.
        """
        if not self.waiting:
            return
        for name, node in self.nodes.items():
            self._forecast(name)
            if node.next_s <= now_s:
                self._bring_up(name, now_s)
                self._find_next(name)
        if not self.roomier:
            return
        self.roomier = False
        in_vain: dict[tuple[Resources, str | None, tuple[Role, ...]], None] = {}
        for job, copy in list(self.waiting.items()):
            asked = (copy.requests, copy.first_node, copy.roles)
            places = () if asked in in_vain else self._room_for(job, copy)
            if not places:
                in_vain[asked] = None
                continue
            del self.waiting[job]
            if copy.roles:
                self.gangs[job] = tuple(places)
            for name, place in places.items():
                if copy.trains:
                    self._bring_up(place.node, now_s)
                (self.jobs if copy.trains else self.planned)[name] = place
                self._enter(name, place, running=copy.trains)

    def ahead(self) -> dict[str, None]:
        """The jobs without a place whose copies have one."""
        return dict.fromkeys(copy.gang or name for name, copy in self.planned.items() if not copy.placed)

    def start(self, job: str, demand: float, now_s: float) -> None:
        """A planned job trains from here on; ``demand``: of each copy."""
        for name in self.copies_of(job):
            copy = self.planned.get(name) or self.waiting.get(name)
            if copy is not None:
                copy.demand, copy.trains = max(demand, LEAST_DEMAND), True
                if name in self.planned:
                    self._train(name, now_s)

    def pause(self, job: str, now_s: float) -> None:
        """A job has failed, and trains when it is started again: until then its copies keep their places, and use no CPU."""
        for name in self.copies_of(job):
            if (waiting := self.waiting.get(name)) is not None:
                waiting.trains = False
        for name, copy in self._training(job):
            self._bring_up(copy.node, now_s)
            if name in (node := self.nodes[copy.node]).jobs:
                del node.jobs[name]
                node.planned[name], self.planned[name], node.stale = None, self.jobs.pop(name), True
        self.place(job)

    def hold(self, name: str, job: str, held: Resources) -> None:
        """A job without a copy reserves this much of a node, where it really is."""
        if (node := self.nodes.get(name)) is not None:
            node.allocated += held - node.held.pop(job, Resources())
            node.held[job], self.roomier = held, True
            if held == Resources():
                del node.held[job]

    def know(self, job: str, size: float | None, demand: float, now_s: float) -> None:
        """What is known of a job's size, and of the demand of each of its copies, now.

        Copies that ended by too small a size go on, as if they had never ended.
        """
        names = self.copies_of(job)
        for name in names:
            self._know(name, None if size is None else size / len(names), max(demand, LEAST_DEMAND), now_s)

    def finish(self, job: str, size: float, now_s: float) -> None:
        """The real job has ended after ``size`` core-seconds."""
        names = self.copies_of(job)
        for name in names:
            if (planned := self.planned.get(name)) is not None and planned.used:
                self._train(name, now_s)  # it was paused, and may have got less than its job needed
            self._finish(name, size / len(names), now_s)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def copies_of(self, job: str) -> tuple[str, ...]:
        """A job's copies: of a gang with a place, one for each replica."""
        return self.gangs.get(job, (job,))

    def runs(self, job: str) -> bool:
        """Whether all of a job's copies train, or have ended."""
        return all(name in self.jobs for name in self.copies_of(job))

    def size(self, job: str) -> float | None:
        """Core-seconds of a job, as they are taken now; None: unknown, or its copies do not train yet."""
        sizes = [copy.size for name in self.copies_of(job) if (copy := self.jobs.get(name)) is not None]
        known = [size for size in sizes if size is not None]
        return sum(known) if sizes and len(known) == len(sizes) else None

    def look(self, job: str, now_s: float) -> FairJob | None:
        """Bring a job's copies up to date, with their ends or the forecasts of them: the one that ends last.

        None: they do not train yet.
        """
        copies = [self.jobs[name] for name in self.copies_of(job) if name in self.jobs]
        for _, copy in self._training(job):
            self._bring_up(copy.node, now_s)
            self._forecast(copy.node)
        return max(copies, key=lambda copy: math.inf if copy.ends_s is None else copy.ends_s, default=None)

    def rate(self, job: str) -> float:
        """Cores that each copy gets now, of a gang the one that gets least; 0 once they have ended."""
        return min((min(copy.demand, self._level(copy.node)) for _, copy in self._training(job)), default=0.0)

    def _level(self, name: str) -> float:
        """The most that a copy gets on a node now."""
        node = self.nodes[name]
        return fair_level(node.cores, [self.jobs[other].demand for other in node.jobs])

    def _training(self, job: str) -> list[tuple[str, FairJob]]:
        """A job's copies that train, with their names."""
        copies = [(name, self.jobs.get(name)) for name in self.copies_of(job)]
        return [(name, copy) for name, copy in copies if copy is not None and copy.end_s is None]

    def _find_largest(self) -> None:
        self.largest = max((node.capacity.cpu_m / 1000 for node in self.nodes.values()), default=0.0)

    # --- how it runs -------------------------------------------------------------------------------------------------

    def _choose(self, requests: Resources) -> str | None:
        """The node that ``spread`` would take (:mod:`steepest.policies.placement.spread`), whether there is room or not."""

        def fullness(name: str) -> tuple[bool, float, int, str]:
            node = self.nodes[name]
            after, count = node.allocated + requests, len(node.jobs) + len(node.planned) + len(node.held)
            return (not after.fits(node.capacity), allocation(after, node.capacity), count, name)

        return min(self.nodes, key=fullness, default=None)

    def _room_for(self, job: str, copy: FairJob) -> Mapping[str, FairJob]:
        """The copies of a job that waits, each on the node that it gets now; empty: there is no room."""
        if copy.roles:
            return self._room_for_gang(job, copy)
        name = copy.first_node if copy.first_node in self.nodes else self._choose(copy.requests)
        if name is None:
            return {}
        node = self.nodes[name]
        copy.node = name
        return {job: copy} if (node.allocated + copy.requests).fits(node.capacity) else {}

    def _room_for_gang(self, job: str, copy: FairJob) -> Mapping[str, FairJob]:
        slots = Slots({name: node.capacity - node.allocated for name, node in self.nodes.items()})
        first_node = copy.first_node if copy.first_node in self.nodes else None
        places = choose(copy.roles, slots, first_node=first_node)
        if places is None:
            return {}
        roles = [role for role, count in zip(copy.roles, places.sizes, strict=True) for _ in range(count)]
        each = msgspec.structs.replace(
            copy, gang=job, roles=(), size=None if copy.size is None else copy.size / len(roles)
        )
        return {
            f"{job}/{number}": msgspec.structs.replace(each, node=node, requests=role.requests)
            for number, (node, role) in enumerate(zip(places.nodes, roles, strict=True))
        }

    def _train(self, name: str, now_s: float) -> None:
        copy = self.planned.pop(name)
        del self.nodes[copy.node].planned[name]
        self.nodes[copy.node].allocated -= copy.requests
        self._bring_up(copy.node, now_s)
        self.jobs[name] = copy
        self._enter(name, copy, running=True)

    def _know(self, name: str, size: float | None, demand: float, now_s: float) -> None:
        copy, all_of_it = self.jobs.get(name), math.inf if size is None else size
        if copy is None or not copy.node or (copy.end_s is not None and all_of_it <= (1 + SAME_SIZE) * copy.used):
            return
        if copy.end_s is not None:
            seconds, copy.end_s, copy.forecast_s = now_s - copy.end_s, None, None
            self._bring_up(copy.node, now_s)
            self._enter(name, copy, running=True)
            more = seconds * min(copy.demand, self._level(copy.node))
            copy.used += more if size is None else min(more, size - copy.used)
        before = math.inf if copy.size is None else copy.size
        is_same = before == all_of_it or abs(before - all_of_it) < SAME_SIZE * min(before, all_of_it)
        if is_same and abs(copy.demand - demand) < SAME_DEMAND:
            return
        self._bring_up(copy.node, now_s)
        if copy.end_s is None:
            copy.size, copy.demand = size, demand
            self.nodes[copy.node].stale = True

    def _finish(self, name: str, size: float, now_s: float) -> None:
        if (planned := self.planned.get(name)) is not None:
            del self.nodes[planned.node].planned[name]
            self.nodes[planned.node].allocated -= planned.requests
            self.roomier = True
            self._forget(name)
        copy = self.waiting.get(name) or self.jobs.get(name)
        if copy is None or copy.over:
            return
        if name in self.waiting:
            copy.size, copy.trains = size, True
        else:
            self._know(name, size, copy.demand, now_s)
        copy.over = True
        if copy.end_s is not None or (name in self.waiting and size <= copy.used):
            self._forget(name)

    def _forget(self, name: str) -> None:
        """A copy is over; its gang is too, if it is the last one."""
        copy = self.jobs.pop(name, None) or self.planned.pop(name, None) or self.waiting.pop(name)
        left = tuple(other for other in self.gangs.get(copy.gang, ()) if other != name)
        if left:
            self.gangs[copy.gang] = left
        else:
            self.gangs.pop(copy.gang, None)

    def _enter(self, job: str, copy: FairJob, *, running: bool) -> None:
        node = self.nodes[copy.node]
        node.allocated += copy.requests
        if running:
            node.jobs[job] = None
            node.stale = True
        else:
            node.planned[job] = None

    def _bring_up(self, name: str, now_s: float) -> None:
        """Let a node's jobs run up to now."""
        node = self.nodes[name]
        seconds = now_s - node.now_s
        if seconds <= 0:
            return
        copies = {job: self.jobs[job] for job in node.jobs}
        run = run_fairly(node.cores, [copy.load for copy in copies.values()], seconds)
        for (job, copy), end, used in zip(copies.items(), run.ends, run.used, strict=True):
            copy.used += used
            if end <= seconds:
                self.roomier = True
                copy.end_s = copy.forecast_s = node.now_s + end
                del node.jobs[job]
                node.allocated -= copy.requests
                if copy.over:
                    self._forget(job)
        node.now_s = now_s

    def _find_next(self, name: str) -> None:
        node = self.nodes[name]
        ends = [self.jobs[job].forecast_s for job in node.jobs]
        node.next_s = min((end for end in ends if end is not None), default=math.inf)

    def _forecast(self, name: str) -> None:
        node = self.nodes[name]
        if not node.stale:
            return
        copies = [self.jobs[job] for job in node.jobs]
        run = run_fairly(node.cores, [copy.load for copy in copies])
        for copy, end in zip(copies, run.ends, strict=True):
            copy.forecast_s = None if math.isinf(end) else node.now_s + end
        node.stale = False
        self._find_next(name)
