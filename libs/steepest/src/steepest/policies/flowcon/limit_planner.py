"""The limit-planner: FlowCon's Algorithms 1 and 2, applied to each node separately.

It owns when a node is evaluated (a *run*), and the plans of a run. Interpretation, where the thesis is ambiguous:

* *Algorithm 2.* A node is evaluated as soon as the set of processes on it changes. Sets are compared, not their sizes: a
  process that starts while another one stops is a change. It also resets the interval to its initial length. The authors'
  listener checks every ten seconds, and only while it is backed off.
* *Intervals* are multiples of the categorizer's, because progress is measured in its buckets, and end with the first tick
  after them. If all jobs of a node are completing after a run, the interval to the next run doubles, up to a cap that we
  added; the window that a run evaluates does not. A newborn, which may be listed as completing before it was measured,
  prevents doubling.
* *A run evaluates* the last complete bucket of each job (:mod:`steepest.policies.flowcon.efficiency`); a job without a new
  measurement keeps its list and its efficiency, and a job whose use is unknown does not count as slow.
* A run on a node that is lost waits until the node is back: nothing that it concludes could be planned.
* A process that is started again is a new container: it inherits nothing. The exception: with SpeCon, a job that is moved
  keeps its place in CL (:mod:`steepest.policies.flowcon.with_specon`).
* *Limits* come from :mod:`steepest.policies.flowcon.limits`. CPU is the only resource that can be limited, and the only one
  that is measured for each job; others are omitted from the efficiency, because unknown is not zero.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import FlowConParameters, PoolParameters, Resource
from steepest.events.received import Received
from steepest.policies.decider import EVERY, SWITCHES
from steepest.policies.flowcon import limits, shares
from steepest.policies.flowcon.efficiency import GrowthHistory, efficiency
from steepest.policies.flowcon.list_machine import Judgement, judge, move
from steepest.policies.flowcon.shares import UsedShare
from steepest.policies.flowcon.with_specon import goes_on_as
from steepest.policies.lifted_limits import lifted, still_limited
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Node, Phase

REGULAR, CHANGED = "an interval is over", "a job started or stopped"
"""The reasons for a run."""


class ManagedProcess(msgspec.Struct):
    """A process that runs on a node.

    Attributes:
        judged: The newest bucket that a run has judged; −1 before the first run.
        efficiency: G in the newest run.
        limit_m: The CPU limit planned last, in millicores; None: no limit.
        planned: Whether any plan has named it, so that its list is in the log.
    """

    node: str
    incarnation: int
    course: GrowthHistory
    growth_list: c.GrowthList = c.GrowthList.NEW
    judged: int = -1
    efficiency: float | None = None
    limit_m: int | None = None
    planned: bool = False


class RunSchedule(msgspec.Struct):
    """The schedule of a node's runs.

    Attributes:
        ids: The processes on the node at the newest run: names and incarnations, sorted.
        doublings: Number of times the interval was doubled since they changed.
        due_counted_ms: When the next run is due, in counted time.
    """

    ids: tuple[tuple[str, int], ...] = ()
    doublings: int = 0
    due_counted_ms: int = 0


class LimitPlannerState(AwaitsDecisions):
    """The state of the limit-planner; empty while FlowCon is off.

    Attributes:
        limiting: Whether FlowCon is on.
        jobs: The running processes, by job.
        rounds: The schedules of the nodes that have any.
        due: A heap of runs by due time; an entry is void if its node's schedule has another time.
        moving: The lists of jobs that were stopped to be moved.
        unlifted: Jobs that may still be limited although FlowCon is off, because the log differs from what was decided.
    """

    limiting: bool = False
    jobs: dict[str, ManagedProcess] = msgspec.field(default_factory=dict)
    rounds: dict[str, RunSchedule] = msgspec.field(default_factory=dict)
    due: list[tuple[int, str]] = msgspec.field(default_factory=list)
    moving: dict[str, c.GrowthList] = msgspec.field(default_factory=dict)
    unlifted: dict[str, None] = msgspec.field(default_factory=dict)


class LimitPlanner:
    """Plans CPU limits. Work: O(jobs on a node) for each of its runs and measurements, O(1) for all other events."""

    name = "limit-planner"
    logic = 1
    state_type = LimitPlannerState

    def __init__(self, state: LimitPlannerState | None = None) -> None:
        self.reads = EVERY
        self.state = state or LimitPlannerState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the node's next run makes a plan even if nothing changes."""
        if not isinstance(event, c.LimitsPlanned):
            return
        for limit in event.limits:
            if not self.state.limiting:
                self.state.unlifted[limit.job] = None
                self.reads = EVERY
            elif (watched := self.state.jobs.get(limit.job)) is not None:
                watched.planned = False

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Plan the limits of each node that a record triggers a run of, if any limit changes."""
        is_on = _is_on(view)
        self.reads = EVERY if is_on else SWITCHES
        if not is_on:
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
        """Run on those of the nodes whose set of processes has changed."""
        changed = [name for name in nodes if self._has_changed(view, name, received.at_ms)]
        return [plan for name in changed for plan in self._run(view, name, received.offset, regular=False)]

    def _has_changed(self, view: ClusterView, name: str, at_ms: int) -> bool:
        node = view.nodes.get(name)
        there = {} if node is None else {job.name: job for job in _running_on(view, node)}
        ids = tuple(sorted((job.name, job.incarnation) for job in there.values()))
        before = self.state.rounds.get(name, RunSchedule())
        if ids == before.ids:
            return False
        for job, _ in before.ids:
            self._leave(view, job, name, there.get(job))
        for job, _ in ids:
            self._arrive(view, there[job], name, at_ms)
        if ids:
            self.state.rounds[name] = RunSchedule(ids)
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
        arrived = self.state.jobs[job.name] = ManagedProcess(node, job.incarnation, GrowthHistory(since_ms=at_ms))
        kept = self.state.moving.pop(job.name, None)
        if kept is not None and view.parameters.moves:
            arrived.growth_list, arrived.judged = kept, 0

    def _due(self, view: ClusterView, offset: int) -> list[c.LimitsPlanned]:
        """Run on the nodes whose run is due."""
        plans: list[c.LimitsPlanned] = []
        due = self.state.due
        while due and due[0][0] <= view.counted_ms:
            at, name = heapq.heappop(due)
            if name in self.state.rounds and self.state.rounds[name].due_counted_ms == at:
                plans.extend(self._run(view, name, offset, regular=True))
        return plans

    # --- Algorithm 1: a run --------------------------------------------------------------------------------------------

    def _run(self, view: ClusterView, name: str, offset: int, *, regular: bool) -> Iterator[c.LimitsPlanned]:
        """Measure, limit by the lists before the run, then move the jobs between the lists."""
        flowcon, node, round_ = view.parameters.flowcon, view.nodes[name], self.state.rounds[name]
        if node.lost:
            round_.due_counted_ms = view.counted_ms + 1
            heapq.heappush(self.state.due, (round_.due_counted_ms, name))
            return
        jobs = {job: self.state.jobs[job] for job, _ in round_.ids}
        used = [watched.course.mean_use(_span(view.parameters)) for watched in jobs.values()]
        resources = shares.considered(flowcon.resources, used)
        seen = [
            _look(view.parameters, node, job, watched, shares.dominant(resources, node.capacity, used, at))
            for at, (job, watched) in enumerate(jobs.items())
        ]
        grown = [(one.before, one.efficiency) for one in seen]
        total = limits.sum_of(grown, flowcon.alpha)
        planned = limits.shares(grown, flowcon.alpha)
        changed = False
        for watched, share, one in zip(jobs.values(), planned, seen, strict=True):
            before = (watched.growth_list, watched.limit_m)
            if share is not None:
                watched.limit_m = limits.millicores(share, node.capacity.cpu_m, flowcon.granularity_m)
            _move_between_lists(watched, one, flowcon, regular=regular)
            changed = changed or not watched.planned or (watched.growth_list, watched.limit_m) != before
        self._wait(view, name, round_, jobs.values())
        if changed:
            for watched in jobs.values():
                watched.planned = True
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
                    resources=() if resources == (Resource.CPU,) else resources,
                ),
            )

    def _wait(self, view: ClusterView, name: str, round_: RunSchedule, jobs: Iterable[ManagedProcess]) -> None:
        """Schedule the next run: an interval later, or two, four, … while all jobs are measured and completing."""
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
                watched.course.use(at_ms, cpu_m, event.measured, event.others.get(job))

    def _refused(self, view: ClusterView, event: c.LimitsRefused) -> None:
        """A refused limit leaves the previous one in force: the next run plans from that, and requests it again."""
        watched, job = self.state.jobs.get(event.job), view.touched
        limit = job.limit if job is not None else None
        if watched is not None and limit is not None and watched.limit_m == limit.cpu_m:
            watched.limit_m = limit.in_force_m

    def _lift_all(self, view: ClusterView, offset: int) -> Sequence[c.LimitsPlanned]:
        """FlowCon is off: remove all limits and clear the state."""
        if not self.state.limiting and not self.state.unlifted:
            return ()
        places = {name: (one.node, one.incarnation) for name, one in self.state.jobs.items() if one.limit_m is not None}
        places |= still_limited(view, self.state.unlifted)
        self.state = LimitPlannerState(unread=self.state.unread)
        rule = "FlowCon is switched off: nothing is limited"
        return lifted("limits", offset, dict(sorted(places.items())), rule, c.GrowthList.NEW)


def _is_on(view: ClusterView) -> bool:
    """Whether FlowCon is on, and no other policy limits jobs."""
    parameters = view.parameters
    return parameters.flowcon.on and not parameters.steepest.on


def _running_on(view: ClusterView, node: Node) -> Iterator[Job]:
    for name in node.jobs:
        job = view.jobs[name]
        if job.alive and node.name in job.nodes and not job.spec.is_gang:
            yield job


def _span(parameters: PoolParameters) -> int:
    """Number of the categorizer's buckets in an interval of FlowCon, at least one."""
    return -(-parameters.flowcon.interval_ms // parameters.specon.interval_ms)


def _interval_ms(parameters: PoolParameters) -> int:
    return _span(parameters) * parameters.specon.interval_ms


def _look(parameters: PoolParameters, node: Node, name: str, watched: ManagedProcess, used: UsedShare) -> c.GrowthSeen:
    """G of one job over the last window."""
    course, per = watched.course, parameters.flowcon.per
    progress = course.progress(_span(parameters), per, _interval_ms(parameters)) if course.buckets else None
    watched.efficiency = efficiency(progress, used.share, shares.least(used.resource, node.capacity))
    resource = None if used.resource is Resource.CPU else used.resource
    return c.GrowthSeen(name, watched.growth_list, watched.efficiency, progress, used.share, resource)


def _move_between_lists(
    watched: ManagedProcess, seen: c.GrowthSeen, flowcon: FlowConParameters, *, regular: bool
) -> None:
    """Move a job between the lists after a run. A bucket is judged only once.

    A newborn, whose reports do not span two windows, is judged when it starts, and at the end of each interval in which it
    reported.
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
