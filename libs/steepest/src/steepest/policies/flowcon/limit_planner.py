"""The limit-planner: FlowCon's Algorithms 1 and 2, for each node by itself.

It owns when a node is looked at, and what a run makes of it. The reading, where the thesis is in doubt:

* *Algorithm 2.* A node is looked at the moment the set of processes on it is another one, by comparing sets and not
  their sizes: one that starts while another one stops is a change. That also sets the interval back to its first
  length. The authors' listener looks every ten seconds, and only while it is backed off.
* *Intervals* are multiples of the categorizer's, because progress is made of its buckets, and end with the first tick
  beyond. While all jobs of a node complete after a run, the interval to the next one doubles, up to a cap that is ours;
  the window that a run looks at does not. A newborn, which is listed as completing before anything was measured of it,
  does not let it double.
* *What a run looks at* is the last complete bucket of each job (:mod:`steepest.policies.flowcon.efficiency`); a job of
  which nothing new was measured keeps its list and its efficiency, and a job whose use nobody knows is no slow one.
* A process that was started anew is a new container: nothing of the one before counts. Only where SpeCon moves jobs
  too, one that it moves takes its place in CL along (:mod:`steepest.policies.flowcon.with_specon`).
* *Limits* are those of :mod:`steepest.policies.flowcon.limits`. CPU is the only resource that can be limited, and the
  only one whose use is measured for each job; others are left out of the efficiency, since unknown is not zero.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import FlowConParameters, PoolParameters, Resource
from steepest.events.received import Received
from steepest.events.registry import SINCE
from steepest.policies.flowcon import limits
from steepest.policies.flowcon.efficiency import Course, efficiency
from steepest.policies.flowcon.list_machine import Judgement, judge, move
from steepest.policies.flowcon.with_specon import goes_on_as
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Node, Phase

REGULAR, CHANGED = "an interval is over", "a job started or stopped"
"""Why a run comes."""


class Watched(msgspec.Struct):
    """A process that runs on a node.

    Attributes:
        judged: The newest bucket that a run has judged; −1 before the first run.
        efficiency: G as the newest run saw it.
        limit_m: The CPU limit planned last, in millicores; None: none.
        told: Whether any plan has named it, so that everybody knows its list.
    """

    node: str
    incarnation: int
    course: Course
    growth_list: c.GrowthList = c.GrowthList.NEW
    judged: int = -1
    efficiency: float | None = None
    limit_m: int | None = None
    told: bool = False


class Round(msgspec.Struct):
    """When a node is looked at.

    Attributes:
        ids: The processes on it at the newest run: names and incarnations, sorted.
        doublings: How often the interval was doubled since they changed.
        due_counted_ms: When the next run is due.
    """

    ids: tuple[tuple[str, int], ...] = ()
    doublings: int = 0
    due_counted_ms: int = 0


class LimitPlannerState(AwaitsDecisions):
    """All that the limit-planner remembers; nothing while FlowCon is off.

    Attributes:
        limiting: Whether FlowCon is on.
        jobs: The processes that run, by job.
        rounds: The nodes that have any.
        due: A heap of runs by the time they are due; one whose node has another time by now is void.
        moving: The list of jobs that were stopped to be moved.
        unlifted: The jobs that may still be limited although FlowCon is off, because the log has other than was decided.
    """

    limiting: bool = False
    jobs: dict[str, Watched] = msgspec.field(default_factory=dict)
    rounds: dict[str, Round] = msgspec.field(default_factory=dict)
    due: list[tuple[int, str]] = msgspec.field(default_factory=list)
    moving: dict[str, c.GrowthList] = msgspec.field(default_factory=dict)
    unlifted: dict[str, None] = msgspec.field(default_factory=dict)


class LimitPlanner:
    """Plans CPU limits. Work: O(jobs on a node) at each of its runs and measurements, O(1) at everything else."""

    name = "limit-planner"
    logic = 2
    state_type = LimitPlannerState

    def __init__(self, state: LimitPlannerState | None = None) -> None:
        self.state = state or LimitPlannerState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the next run on the node plans, whether anything changes or not."""
        if not isinstance(event, c.LimitsPlanned):
            return
        for limit in event.limits:
            if not self.state.limiting:
                self.state.unlifted[limit.job] = None
            elif (watched := self.state.jobs.get(limit.job)) is not None:
                watched.told = False

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record: the limits of each node that it makes us look at, where any changes."""
        if not _is_on(view):
            return self._lift_all(view, received.offset)
        event = received.event
        if not self.state.limiting:
            self.state.limiting, self.state.unlifted = True, {}
            return self._look_at([node.name for node in view.nodes], view, received)
        match event:
            case c.GrowthMeasured() if (watched := self.state.jobs.get(event.job)) is not None:
                watched.course.measure(event, 2 * _span(view.parameters))
            case c.NodeUsage():
                self._use(event, received.at_ms)
            case c.LimitsRefused() if event.definite:
                self._refused(view, event)
            case c.Tick():
                return self._due(view, received.offset)
            case c.NodeGone(node=node):
                return self._look_at([node], view, received)
        if view.touched is None:
            return ()
        if view.touched.phase is Phase.ENDED:
            self.state.moving.pop(view.touched.name, None)
        watched = self.state.jobs.get(view.touched.name)
        places = ([] if watched is None else [watched.node]) + [*view.touched.nodes]
        return self._look_at(list(dict.fromkeys(places)), view, received)

    # --- Algorithm 2: when to look -------------------------------------------------------------------------------------

    def _look_at(
        self, nodes: Sequence[str], view: ClusterView, received: Received[c.ClusterEvent]
    ) -> list[c.LimitsPlanned]:
        """Look at those of the nodes on which other processes run than before."""
        changed = [name for name in nodes if self._has_changed(view, name, received.at_ms)]
        return [plan for name in changed for plan in self._run(view, name, received.offset, regular=False)]

    def _has_changed(self, view: ClusterView, name: str, at_ms: int) -> bool:
        node = view.nodes.get(name)
        there = {} if node is None else {job.name: job for job in _running_on(view, node)}
        ids = tuple(sorted((job.name, job.incarnation) for job in there.values()))
        before = self.state.rounds.get(name, Round())
        if ids == before.ids:
            return False
        for job, _ in before.ids:
            self._leave(view, job, name, there.get(job))
        for job, _ in ids:
            self._arrive(view, there[job], name, at_ms)
        if ids:
            self.state.rounds[name] = Round(ids)
        else:
            self.state.rounds.pop(name, None)
        return bool(ids)

    def _leave(self, view: ClusterView, name: str, node: str, now: Job | None) -> None:
        watched = self.state.jobs.get(name)
        if watched is None or watched.node != node or (now is not None and now.incarnation == watched.incarnation):
            return
        del self.state.jobs[name]
        if (kept := goes_on_as(view, name, watched.growth_list)) is not None:
            self.state.moving[name] = kept

    def _arrive(self, view: ClusterView, job: Job, node: str, at_ms: int) -> None:
        watched = self.state.jobs.get(job.name)
        if watched is not None and (watched.node, watched.incarnation) == (node, job.incarnation):
            return
        arrived = self.state.jobs[job.name] = Watched(node, job.incarnation, Course(since_ms=at_ms))
        kept = self.state.moving.pop(job.name, None)
        if kept is not None and view.parameters.moves:
            arrived.growth_list, arrived.judged = kept, 0

    def _due(self, view: ClusterView, offset: int) -> list[c.LimitsPlanned]:
        """The runs whose time has come."""
        plans: list[c.LimitsPlanned] = []
        due = self.state.due
        while due and due[0][0] <= view.counted_ms:
            at, name = heapq.heappop(due)
            if name in self.state.rounds and self.state.rounds[name].due_counted_ms == at:
                plans.extend(self._run(view, name, offset, regular=True))
        return plans

    # --- Algorithm 1: a run --------------------------------------------------------------------------------------------

    def _run(self, view: ClusterView, name: str, offset: int, *, regular: bool) -> Iterator[c.LimitsPlanned]:
        """Measure, limit by the lists as they were, then move the jobs between the lists."""
        flowcon, node, round_ = view.parameters.flowcon, view.nodes[name], self.state.rounds[name]
        jobs = {job: self.state.jobs[job] for job, _ in round_.ids}
        seen = [self._look(view.parameters, node, job, watched) for job, watched in jobs.items()]
        grown = [(one.before, one.efficiency) for one in seen]
        total = limits.sum_of(grown, flowcon.alpha)
        shares = limits.shares(grown, flowcon.alpha)
        changed = False
        for watched, share, one in zip(jobs.values(), shares, seen, strict=True):
            before = (watched.growth_list, watched.limit_m)
            if share is not None:
                watched.limit_m = limits.millicores(share, node.capacity.cpu_m, flowcon.granularity_m)
            _pass_on(watched, one, flowcon, regular=regular)
            changed = changed or not watched.told or (watched.growth_list, watched.limit_m) != before
        self._wait(view, name, round_, jobs.values())
        if changed and not node.lost:
            for watched in jobs.values():
                watched.told = True
            yield c.LimitsPlanned(
                plan=f"limits-{offset}-{name}",
                node=name,
                limits=tuple(
                    c.JobLimit(job, watched.incarnation, watched.growth_list, watched.limit_m)
                    for job, watched in jobs.items()
                ),
                because=c.LimitsBecause(
                    rule=f"{REGULAR if regular else CHANGED}: {_rule(seen, total)}",
                    jobs=tuple(seen),
                    total=total,
                    beta=limits.beta(len(seen)),
                    floor=limits.floor(len(seen)),
                    interval_ms=_interval_ms(view.parameters) << round_.doublings,
                ),
            )

    def _look(self, parameters: PoolParameters, node: Node, name: str, watched: Watched) -> c.GrowthSeen:
        """G of one job over the last window."""
        course, flowcon, span = watched.course, parameters.flowcon, _span(parameters)
        capacity_m = max(node.capacity.cpu_m, 1)
        progress = course.progress(span, flowcon.per, _interval_ms(parameters)) if course.buckets else None
        use_m = course.mean_use_m(span) if Resource.CPU in flowcon.resources else None
        use = None if use_m is None else round(use_m / capacity_m, 9)
        watched.efficiency = efficiency(progress, use, 1 / capacity_m)
        return c.GrowthSeen(
            job=name, before=watched.growth_list, efficiency=watched.efficiency, progress=progress, use=use
        )

    def _wait(self, view: ClusterView, name: str, round_: Round, jobs: Iterable[Watched]) -> None:
        """The next run comes an interval later, or two, four, … while all complete, which must have been measured."""
        complete = c.GrowthList.COMPLETING
        if all(watched.growth_list is complete and watched.efficiency is not None for watched in jobs):
            round_.doublings = min(round_.doublings + 1, view.parameters.flowcon.most_doublings)
        round_.due_counted_ms = view.counted_ms + (_interval_ms(view.parameters) << round_.doublings)
        heapq.heappush(self.state.due, (round_.due_counted_ms, name))

    # --- what else there is to know ------------------------------------------------------------------------------------

    def _use(self, event: c.NodeUsage, at_ms: int) -> None:
        for job, cpu_m in event.jobs.items():
            watched = self.state.jobs.get(job)
            if watched is not None and watched.node == event.node:
                watched.course.use(at_ms, cpu_m, event.measured)

    def _refused(self, view: ClusterView, event: c.LimitsRefused) -> None:
        """What is in force is what was: the next run plans from there, and asks again."""
        watched, job = self.state.jobs.get(event.job), view.touched
        limit = job.limit if job is not None else None
        if watched is not None and limit is not None and watched.limit_m == limit.cpu_m:
            watched.limit_m = limit.in_force_m

    def _lift_all(self, view: ClusterView, offset: int) -> Sequence[c.LimitsPlanned]:
        """FlowCon is off: no job is limited any more, and nothing is remembered."""
        if not self.state.limiting and not self.state.unlifted:
            return ()
        places = {name: (one.node, one.incarnation) for name, one in self.state.jobs.items() if one.limit_m is not None}
        for name in self.state.unlifted:
            job = view.jobs.get(name)
            if job is not None and job.alive and job.limit is not None and job.limit.cpu_m is not None:
                places[name] = (job.nodes[0], job.incarnation)
        limited: dict[str, list[c.JobLimit]] = {}
        for name, (node, incarnation) in sorted(places.items()):
            limited.setdefault(node, []).append(c.JobLimit(name, incarnation, c.GrowthList.NEW))
        self.state = LimitPlannerState(unread=self.state.unread)
        because = c.LimitsBecause(rule="FlowCon is switched off: nothing is limited")
        return [
            c.LimitsPlanned(plan=f"limits-{offset}-{node}", node=node, limits=tuple(jobs), because=because)
            for node, jobs in limited.items()
        ]


def _is_on(view: ClusterView) -> bool:
    """Whether FlowCon is on, and every reader of the log knows its events."""
    return view.parameters.flowcon.on and view.state.reads >= SINCE[c.LimitsPlanned]


def _running_on(view: ClusterView, node: Node) -> Iterator[Job]:
    for name in node.jobs:
        job = view.jobs[name]
        if job.alive and node.name in job.nodes:
            yield job


def _span(parameters: PoolParameters) -> int:
    """Buckets of the categorizer in an interval of ours, at least one."""
    return -(-parameters.flowcon.interval_ms // parameters.specon.interval_ms)


def _interval_ms(parameters: PoolParameters) -> int:
    return _span(parameters) * parameters.specon.interval_ms


def _pass_on(watched: Watched, seen: c.GrowthSeen, flowcon: FlowConParameters, *, regular: bool) -> None:
    """The transition of one run. What was judged before is not judged again.

    A newborn whose reports do not span two windows is judged when it starts, and at the end of each interval in which
    it reported.
    """
    newest = watched.course.newest
    if watched.efficiency is None:
        newborn = seen.progress is None and seen.use is not None
        unjudged = watched.judged < 0 or (regular and newborn and newest > watched.judged)
        judgement = Judgement.BELOW if unjudged else Judgement.SILENT
        watched.judged = max(watched.judged, newest if regular else 0)
    elif newest == watched.judged:
        judgement = Judgement.SILENT
    else:
        judgement = judge(watched.efficiency, flowcon.alpha)
        watched.judged = newest
    watched.growth_list = move(watched.growth_list, judgement)


def _rule(seen: Sequence[c.GrowthSeen], total: float) -> str:
    if all(one.before is c.GrowthList.COMPLETING for one in seen):
        return "all complete, so all compete freely"
    if not total:
        return "no efficiency is known or above zero, so no limit changes"
    return "Algorithm 1: limits by growth efficiency"
