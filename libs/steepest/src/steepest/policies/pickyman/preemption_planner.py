"""The preemption planner: gives waiting jobs the places of running ones, where that saves more waiting than it costs.

At a tick it looks at the first waiting jobs in the queue's order that have no room, and divides the running ones between
them (:mod:`steepest.policies.pickyman.division`). Each block is planned as suspensions and a placement after them, so that
what they free is promised to the waiting job. A plan is made only if its gain is positive; ``because`` has what it saves and
costs.

Other rules run in its place, so that it can be compared with them on the same cluster at the same costs: ``srtf`` looks at
remaining times alone, ``tiresias`` at levels of attained service (Tiresias, NSDI 2019, §3.2), ``round-robin`` at time slices
(Gandiva, OSDI 2018, §3). They are reconstructions too.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import PickyManParameters, PreemptionRule
from steepest.events.received import Received
from steepest.policies.decider import EVERY, SWITCHES
from steepest.policies.pending import Pending
from steepest.policies.pickyman.because import RULES, because_of
from steepest.policies.pickyman.division import (
    EndingJob,
    Victim,
    VictimBlock,
    Wanted,
    Worth,
    best_block,
    room_in_ms,
    saved_and_cost,
)
from steepest.policies.pickyman.overheads import Overheads
from steepest.policies.pickyman.running import BY_PREDICTION, RunningJobs, level, remaining_ms
from steepest.policies.placement.preemption import suspension
from steepest.policies.placement.queue_walk import QueueWalk, read_back, walk_of
from steepest.policies.placement.room import has_room
from steepest.policies.queueing.wish import Wish
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job
from steepest.view.validity import void_transition

CANDIDATES = 32
"""Running jobs that are weighed for one waiting job: those that the rule looks at first."""

LOOKED_AT = 4 * CANDIDATES
"""The number of candidates for which running jobs are searched."""

ENDING = LOOKED_AT
"""Running jobs that end first, among which it is looked for those that leave room."""

PLANS = (c.PlacementPlanned, c.TransitionPlanned)
OVERHEADS = (c.OverheadPredicted, c.OverheadMeasured)
"""Records that change what it remembers, switched on or off. As tuples they are built once; a union is at each use."""

WHILE_OFF = SWITCHES.union(PLANS, OVERHEADS)


class PreemptionPlannerState(Pending):
    """What the preemption planner remembers.

    Attributes:
        overheads: The calibration of suspensions and resumptions, from what was measured.
        asked: What was left of the epoch when a suspension was predicted, by plan.
    """

    overheads: Overheads = msgspec.field(default_factory=Overheads)
    asked: dict[str, int | None] = msgspec.field(default_factory=dict)


class PreemptionPlanner:
    """Plans suspensions, and the placements that they make room for."""

    name = "preemption-planner"
    logic = 2
    state_type = PreemptionPlannerState

    def __init__(self, state: PreemptionPlannerState | None = None) -> None:
        self.reads = EVERY
        self.state = state or PreemptionPlannerState()
        self._walk: QueueWalk | None = None
        self._running: RunningJobs | None = None

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: what is still worth it is planned at the next tick."""
        if isinstance(event, c.PlacementPlanned | c.TransitionPlanned):
            read_back(self._walk, self.state, event.plan)

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record. Work: O(log n); at a tick, O(``CANDIDATES``) for each of the first waiting jobs."""
        event, parameters = received.event, view.parameters.pickyman
        self.reads = EVERY if parameters.on else WHILE_OFF
        if isinstance(event, PLANS):
            read_back(self._walk, self.state, event.plan)
        elif isinstance(event, OVERHEADS):
            self._calibrate(view, event, received.at_ms)
        elif parameters.on:
            self.state.overheads.observe(view, event, received.at_ms)
        is_on = parameters.on and parameters.rule is not PreemptionRule.NONE
        if not is_on:
            self._running = None
            return ()
        if self._running is None or not self._running.is_of(view, parameters.rule):
            self._running = RunningJobs(view, parameters.rule)
        elif view.touched is not None:
            self._running.look_at(view.touched)
        if not isinstance(event, c.Tick) or not len(view.jobs.queue):
            return ()
        return tuple(self._plan(view, received))

    def _calibrate(self, view: ClusterView, event: c.OverheadPredicted | c.OverheadMeasured, at_ms: int) -> None:
        """Learn from the predictor's measurements what it learns."""
        job = view.jobs.get(event.job)
        if job is None:
            return
        overheads, asked = self.state.overheads, self.state.asked
        match event:
            case c.OverheadPredicted(kind=c.Overhead.SUSPENSION):
                asked[event.plan] = overheads.epoch_left_ms(job, at_ms)
                if len(asked) > len(view.in_flight) + CANDIDATES:
                    del asked[next(iter(asked))]
            case c.OverheadMeasured(kind=c.Overhead.SUSPENSION):
                overheads.learn_suspension(job.spec.model, asked.pop(event.plan, None), event.measured_ms)
            case c.OverheadMeasured():
                overheads.learn_resumption(job.spec.model, event.readers, event.measured_ms)
                overheads.trains_again(event.job, event.incarnation, at_ms)

    # --- plans -------------------------------------------------------------------------------------------------------

    def _plan(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        parameters = view.parameters.pickyman
        walk = self._walk = walk_of(self._walk, view, self.state)
        taken: dict[str, None] = {}
        hopeless: dict[Wish | None, int] = {}
        ending = list(self._ending(view)) if parameters.rule is PreemptionRule.PICKYMAN else []

        def is_passed_over(job: Job) -> bool:
            urgency = hopeless.get(walk.order.wish(job.name)) if hopeless else None
            is_hopeless = urgency is not None and job.spec.priority <= urgency
            return is_hopeless or self.state.concerns(job) or self._left_ms(view, job) is None

        # Where nothing is worth it for a job, nothing is for those behind it that ask for the same: they run longer.
        is_sorted = parameters.rule in BY_PREDICTION or view.parameters.queueing.blocking
        for job in islice(walk.heads(is_passed_over, parameters.waiting), parameters.waiting):
            wish = walk.allowed(job)
            walk.tried(placed=False)
            if has_room(wish, walk.room.slots_for(wish)):
                continue
            wanted = Wanted(job.name, float(self._left_ms(view, job) or 0), wish)
            free = walk.room.slots_for(wish).free
            within = free if wish.rule is not None else None  # those that run elsewhere leave nothing that helps it
            candidates = list(self._candidates(view, job, wanted, received, taken, within=within))
            on_nodes: dict[str, list[Victim]] = {}
            for one in candidates:
                for node in one.leaves:
                    on_nodes.setdefault(node, []).append(one)
            if candidates:
                wanted = msgspec.structs.replace(wanted, room_in_ms=room_in_ms(wanted, free, ending))
            block = best_block(wanted, free, on_nodes, self._worth(parameters))
            walk.tried(placed=block is not None or not is_sorted)
            if block is None:
                hopeless[walk.order.wish(job.name)] = job.spec.priority
                continue
            taken.update(dict.fromkeys(one.name for one in block.victims))
            because = because_of(parameters.rule, wanted, block, candidates)
            yield from self._carry_out(view, job, block, because, received.offset)
            walk.room.was_taken(view.nodes[name] for name in dict.fromkeys(block.places.nodes))

    def _left_ms(self, view: ClusterView, job: Job) -> int | None:
        """The remaining time of a job; None where the rule goes by predictions, and there is none."""
        left = remaining_ms(job, view.counted_ms)
        return 0 if left is None and view.parameters.pickyman.rule not in BY_PREDICTION else left

    def _candidates(
        self,
        view: ClusterView,
        job: Job,
        wanted: Wanted,
        received: Received[c.ClusterEvent],
        taken: Mapping[str, None],
        *,
        within: Container[str] | None,
    ) -> Iterator[Victim]:
        """Running jobs that may give way to a waiting one; ``within``: one of their nodes is among these; None: any."""
        parameters, found = view.parameters.pickyman, 0
        for looked, one in enumerate(self._running or ()):
            left = remaining_ms(one, view.counted_ms)
            if found == CANDIDATES or looked == LOOKED_AT:
                return
            if parameters.rule in BY_PREDICTION and (left is None or left <= wanted.remaining_ms):
                return  # those behind it end sooner
            if one.name in taken or self.state.concerns(one) or one.spec.priority > job.spec.priority:
                continue
            if not _is_due(parameters, view, job, one):
                continue
            if within is not None and not any(node in within for node in one.holds):
                continue
            plan = suspension(one, job.name, _plan_of(one, received.offset), c.Because(rule=RULES[parameters.rule]))
            if void_transition(plan, one, view) is None:
                found += 1
                yield self._victim(view, one, left, received.at_ms)

    def _ending(self, view: ClusterView) -> Iterator[EndingJob]:
        """The running jobs that end first; one that is past its predicted end may run for any time, and is left out."""
        if self._running is None:
            return
        for job in islice(self._running.ending(), ENDING):
            if left := remaining_ms(job, view.counted_ms):
                yield EndingJob(remaining_ms=left, leaves={node: view.nodes.held(job, node) for node in job.holds})

    def _victim(self, view: ClusterView, job: Job, left: int | None, at_ms: int) -> Victim:
        overheads, storage = self.state.overheads, view.parameters.pickyman.storage_bytes_s
        return Victim(
            name=job.name,
            remaining_ms=float(left or 0),
            suspension_ms=float(overheads.suspension_ms(job, at_ms)),
            resumption_ms=float(overheads.resumption_ms(job, 1, storage)),
            leaves={node: view.nodes.held(job, node) for node in job.holds},
        )

    def _worth(self, parameters: PickyManParameters) -> Worth:
        def weighed(wanted: Wanted, victims: Sequence[Victim]) -> float:
            saves, costs = saved_and_cost(wanted, victims)
            return saves - parameters.pays * costs

        def longest(wanted: Wanted, victims: Sequence[Victim]) -> float:
            return min(one.remaining_ms for one in victims) - wanted.remaining_ms

        def fewest(_: Wanted, victims: Sequence[Victim]) -> float:
            return 1 / len(victims)

        if parameters.rule is PreemptionRule.PICKYMAN:
            return weighed
        return longest if parameters.rule is PreemptionRule.SRTF else fewest

    def _carry_out(
        self, view: ClusterView, job: Job, block: VictimBlock, because: c.Because, offset: int
    ) -> Iterator[c.ClusterEvent]:
        plans = []
        for one in block.victims:
            victim = view.jobs[one.name]
            plan = suspension(victim, job.name, _plan_of(victim, offset), because)
            self.state.add_suspension(plan.plan, victim)
            plans.append(plan.plan)
            yield plan
        yield self.state.place(f"preempt-{offset}-{job.name}", job, block.places, because, tuple(plans))


def _plan_of(victim: Job, offset: int) -> str:
    return f"suspend-{offset}-{victim.name}"


def _is_due(parameters: PickyManParameters, view: ClusterView, waiting: Job, running: Job) -> bool:
    """Whether the rule lets a running job give way to this one; by predictions, that is a question of remaining times."""
    now_ms = view.counted_ms
    match parameters.rule:
        case PreemptionRule.TIRESIAS:
            limits = view.parameters.queueing.service_s
            return level(running, now_ms, limits) > level(waiting, now_ms, limits)
        case PreemptionRule.ROUND_ROBIN:
            return now_ms - running.placed_counted_ms >= parameters.slice_ms
    return True
