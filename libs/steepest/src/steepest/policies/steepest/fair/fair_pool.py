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

Replicas of jobs that are not managed have copies where they really are, from when they have a place: they take what they
reserve, and share the node with the others while they train.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from steepest.events.common import Resources
from steepest.policies.steepest.fair.fair_sharing import Load, fair_level, run_fairly
from steepest.view.nodes import allocation

LEAST_DEMAND = 0.01
"""Cores; a job that can use nothing would never end."""

SAME_SIZE = 0.01
"""Estimates that differ by less than this share are the same: the ends are not computed again."""

SAME_DEMAND = 0.01
"""Likewise demands, in cores."""


class FairJob(msgspec.Struct):
    """A job's fair copy. Times are seconds of counted time.

    Attributes:
        began_s: When the job came: its completion time counts from there.
        demand: Cores that it can use.
        used: Core-seconds that it has got here.
        size: Core-seconds of the whole job; None: unknown.
        end_s: When it ended here; None: it has not.
        forecast_s: When it will end if no other job comes; None: nothing says when.
        over: Whether the real job has ended.
        first_node: Where it has to begin; None: anywhere.
        placed: Whether the real job has a place, or had one.
        trains: Whether it has begun to train.
        ready_s: When the copy of a job without a place would have been launched.
    """

    node: str
    requests: Resources
    began_s: float
    demand: float
    used: float = 0.0
    size: float | None = None
    end_s: float | None = None
    forecast_s: float | None = None
    over: bool = False
    first_node: str | None = None
    placed: bool = False
    trains: bool = False
    ready_s: float = 0.0


class FairNode(msgspec.Struct):
    """A node under fair sharing.

    Attributes:
        now_s: Up to when its jobs have run.
        jobs: The copies that have not ended, and those that are on their way (``planned``).
        stale: Whether the forecasts must be made again.
        next_s: When the next of its copies ends, by the forecasts.
    """

    capacity: Resources
    now_s: float = 0.0
    jobs: dict[str, None] = {}
    planned: dict[str, None] = {}
    allocated: Resources = Resources()
    stale: bool = False
    next_s: float = math.inf

    @property
    def cores(self) -> float:
        """CPU that is shared."""
        return max(self.capacity.cpu_m / 1000, LEAST_DEMAND)

    @property
    def count(self) -> int:
        """How many jobs are here or on their way."""
        return len(self.jobs) + len(self.planned)


class FairPool(msgspec.Struct):
    """The pool under fair sharing.

    Attributes:
        nodes: By name.
        jobs: Copies of the jobs that run, and of those that have ended but would not yet under fair sharing.
        planned: Copies that have a place and do not train yet.
        waiting: Copies that wait for room, in the order in which their jobs came.
        roomier: Whether any of them may have room now that had none.
    """

    nodes: dict[str, FairNode] = {}
    jobs: dict[str, FairJob] = {}
    planned: dict[str, FairJob] = {}
    waiting: dict[str, FairJob] = {}
    roomier: bool = False

    # --- what happens ------------------------------------------------------------------------------------------------

    def join(self, name: str, capacity: Resources, now_s: float) -> None:
        """A node is here, or has another capacity now."""
        node = self.nodes.get(name)
        if node is None:
            self.nodes[name] = FairNode(capacity, now_s)
        elif node.capacity != capacity:
            self._bring_up(name, now_s)
            node.capacity, node.stale = capacity, True
        self.roomier = True

    def leave(self, name: str, now_s: float) -> None:
        """A node is gone for good: its jobs continue on the others, where there are any."""
        if name not in self.nodes:
            return
        self._bring_up(name, now_s)
        self.roomier = True  # for those that had to be placed there first
        node = self.nodes.pop(name)
        for job in [*node.jobs, *node.planned]:
            copy = self.jobs.get(job) or self.planned[job]
            target = self._choose(copy.requests)
            if target is None:
                self.jobs.pop(job, None)
                self.planned.pop(job, None)
                continue
            self._bring_up(target, now_s)
            copy.node = target
            self._enter(job, copy, running=job in self.jobs)

    def come(self, job: str, requests: Resources, first_node: str | None, now_s: float) -> None:
        """A job is here; ``first_node``: where it must be placed first."""
        if job in self.jobs or job in self.planned or job in self.waiting or not self.nodes:
            return
        self.waiting[job] = FairJob("", requests, now_s, 1.0, first_node=first_node)
        self.roomier = True
        self.admit(now_s)

    def place(self, job: str) -> None:
        """A job has a place: its copy trains when it does."""
        if (copy := self.planned.get(job) or self.waiting.get(job)) is not None:
            copy.placed = True

    def admit(self, now_s: float) -> None:
        """Give those places that wait for one, where there is room.

        Work: O(nodes), and as much for each thing that is asked for by any of them, once something has become free.
        """
        if not self.waiting:
            return
        for name in self.nodes:
            self._let_end(name, now_s)
        if not self.roomier:
            return
        self.roomier = False
        in_vain: dict[tuple[Resources, str | None], None] = {}
        for job, copy in list(self.waiting.items()):
            asked = (copy.requests, copy.first_node)
            node = None if asked in in_vain else self._room_for(copy)
            if node is None:
                in_vain[asked] = None
                continue
            del self.waiting[job]
            copy.node = node
            if copy.trains:
                self._bring_up(node, now_s)
            (self.jobs if copy.trains else self.planned)[job] = copy
            self._enter(job, copy, running=copy.trains)

    def to_launch(self, launch_s: float, now_s: float) -> dict[str, FairJob]:
        """The copies of jobs without a place that would train by now."""
        due = {}
        for job, copy in self.planned.items():
            if not copy.placed:
                copy.ready_s = copy.ready_s or now_s + launch_s
                if copy.ready_s <= now_s:
                    due[job] = copy
        return due

    def start(self, job: str, demand: float, now_s: float, used: float = 0.0) -> None:
        """A planned job trains from here on; ``used``: core-seconds that it has got already."""
        copy = self.planned.pop(job, None) or self.waiting.get(job)
        if copy is None:
            return
        copy.demand, copy.used, copy.trains = max(demand, LEAST_DEMAND), used, True
        if job in self.waiting:
            return
        del self.nodes[copy.node].planned[job]
        self.nodes[copy.node].allocated -= copy.requests
        self._bring_up(copy.node, now_s)
        self.jobs[job] = copy
        self._enter(job, copy, running=True)

    def pin(self, replica: str, node: str, requests: Resources, now_s: float, *, trains: bool) -> None:
        """A replica that is not managed holds a place on a node; ``trains``: and computes there."""
        if node not in self.nodes:
            return
        self._bring_up(node, now_s)
        copy = FairJob(node, requests, now_s, 1.0, placed=True, trains=trains)
        (self.jobs if trains else self.planned)[replica] = copy
        self._enter(replica, copy, running=trains)

    def unpin(self, replica: str, now_s: float) -> None:
        """It holds that place no longer."""
        copy = self.jobs.get(replica) or self.planned.get(replica)
        if copy is None:
            return
        self._bring_up(copy.node, now_s)
        node = self.nodes[copy.node]
        if replica in node.jobs or replica in node.planned:
            node.allocated -= copy.requests
        for copies in (self.jobs, self.planned, node.jobs, node.planned):
            copies.pop(replica, None)
        node.stale, self.roomier = True, True

    def know(self, job: str, size: float | None, demand: float, now_s: float) -> None:
        """What is known of a job's size and demand now; a copy that ended by too small a size goes on."""
        copy = self.jobs.get(job)
        if copy is None or (copy.end_s is not None and not _outlives(copy, size)):
            return
        demand = max(demand, LEAST_DEMAND)
        if copy.end_s is not None:
            copy.end_s = copy.forecast_s = None
            self._bring_up(copy.node, now_s)
            self._enter(job, copy, running=True)
        if _is_same(copy.size, size) and abs(copy.demand - demand) < SAME_DEMAND:
            return
        self._bring_up(copy.node, now_s)
        if copy.end_s is None:
            copy.size, copy.demand = size, demand
            self.nodes[copy.node].stale = True

    def finish(self, job: str, size: float, now_s: float) -> None:
        """The real job has ended after ``size`` core-seconds."""
        if (waiting := self.waiting.get(job)) is not None:
            waiting.size, waiting.over = size, True
            if size <= 0:
                del self.waiting[job]
            return
        if (planned := self.planned.pop(job, None)) is not None:
            del self.nodes[planned.node].planned[job]
            self.nodes[planned.node].allocated -= planned.requests
            self.roomier = True
        copy = self.jobs.get(job)
        if copy is None:
            return
        self.know(job, size, copy.demand, now_s)
        copy.over = True
        if job not in self.nodes[copy.node].jobs:
            del self.jobs[job]

    # --- what is asked -----------------------------------------------------------------------------------------------

    def look(self, job: str, now_s: float) -> FairJob | None:
        """Bring a job's copy up to date, with its end or the forecast of it."""
        copy = self.jobs.get(job)
        if copy is not None and copy.end_s is None:
            self._bring_up(copy.node, now_s)
            self._forecast(copy.node)
        return copy

    def course(self, job: str, until_s: Sequence[float]) -> list[float]:
        """Core-seconds that a copy will have got by each of some times, if no other job comes; none of them is past."""
        copy = self.jobs.get(job)
        if copy is None or copy.end_s is not None:
            return []
        node = self.nodes[copy.node]
        at, loads = list(node.jobs).index(job), [_load(self.jobs[name]) for name in node.jobs]
        return [copy.used + run_fairly(node.cores, loads, end_s - node.now_s).used[at] for end_s in until_s]

    def rate(self, job: str) -> float:
        """Cores that a job's copy gets now; 0 once it has ended."""
        copy = self.jobs.get(job)
        if copy is None or copy.end_s is not None:
            return 0.0
        node = self.nodes[copy.node]
        return min(copy.demand, fair_level(node.cores, [self.jobs[name].demand for name in node.jobs]))

    # --- how it runs -------------------------------------------------------------------------------------------------

    def _choose(self, requests: Resources) -> str | None:
        """The node that ``spread`` would take (:mod:`steepest.policies.placement.spread`), whether there is room or not."""

        def fullness(name: str) -> tuple[bool, float, int, str]:
            node = self.nodes[name]
            after = node.allocated + requests
            return (not after.fits(node.capacity), allocation(after, node.capacity), node.count, name)

        return min(self.nodes, key=fullness, default=None)

    def _room_for(self, copy: FairJob) -> str | None:
        """The node that a copy gets now."""
        name = copy.first_node if copy.first_node in self.nodes else self._choose(copy.requests)
        if name is None:
            return None
        node = self.nodes[name]
        return name if (node.allocated + copy.requests).fits(node.capacity) else None

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
        run = run_fairly(node.cores, [_load(copy) for copy in copies.values()], seconds)
        for (job, copy), end, used in zip(copies.items(), run.ends, run.used, strict=True):
            copy.used += used
            if end <= seconds:
                self.roomier = True
                copy.end_s = copy.forecast_s = node.now_s + end
                del node.jobs[job]
                node.allocated -= copy.requests
                if copy.over:
                    del self.jobs[job]
        node.now_s = now_s

    def _let_end(self, name: str, now_s: float) -> None:
        """Bring a node up to date if one of its copies has ended by now."""
        self._forecast(name)
        if self.nodes[name].next_s <= now_s:
            self._bring_up(name, now_s)
            self._find_next(name)

    def _find_next(self, name: str) -> None:
        node = self.nodes[name]
        ends = [self.jobs[job].forecast_s for job in node.jobs]
        node.next_s = min((end for end in ends if end is not None), default=math.inf)

    def _forecast(self, name: str) -> None:
        node = self.nodes[name]
        if not node.stale:
            return
        copies = [self.jobs[job] for job in node.jobs]
        run = run_fairly(node.cores, [_load(copy) for copy in copies])
        for copy, end in zip(copies, run.ends, strict=True):
            copy.forecast_s = None if math.isinf(end) else node.now_s + end
        node.stale = False
        self._find_next(name)


def _load(copy: FairJob) -> Load:
    return Load(None if copy.size is None else max(copy.size - copy.used, 0.0), copy.demand)


def _outlives(copy: FairJob, size: float | None) -> bool:
    """Whether a copy that has ended would not have, had the size been known."""
    return size is None or size > (1 + SAME_SIZE) * copy.used


def _is_same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= SAME_SIZE * one
