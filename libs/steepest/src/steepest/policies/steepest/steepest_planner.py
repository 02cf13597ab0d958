"""The steepest-planner: limits and moves so that jobs learn and end early, and none later than under fair sharing.

It decides when a node is planned and folds what was measured; the rules are in :mod:`steepest.policies.steepest.node_plan`
and :mod:`steepest.policies.steepest.moves`. It is part of the limit-planner's service: both write limits, and only one of
them is on at a time, so that a pool needs one process for both.

* A node is planned at the first tick after a job on it starts, stops or moves, else every ``plan_every_ms`` of counted time.
* A plan is written where a limit changes by more than ``least_change`` of the node. For each job the newest plan holds.
* A job that is moved is not limited until it has moved: a slow step would delay its checkpoint.
* Jobs of several replicas and jobs with GPUs are not managed: they are neither limited nor moved, and what they use of a
  node's CPU is not divided.
* A pool in which no job's size is known is left as it is: no limits, no moves.

Work: O(n log n) for each plan of a node with n jobs; each tick that plans a node also compares the nodes for moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received
from steepest.events.registry import SINCE
from steepest.policies.steepest.job_facts import JobFacts, facts_of
from steepest.policies.steepest.managed_job import ManagedJob, measure_node
from steepest.policies.steepest.moves import MoveChoice, Residence, Resident, choose_moves
from steepest.policies.steepest.node_plan import JobShare, plan_node
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable
from steepest.view.progress import total_steps
from steepest.view.state import Job, Node

LEAST_CORES = 0.1
"""Of a node, where jobs that are not managed use all of it."""

REFUSED_S = 60.0
"""Counted seconds for which no limit is planned for a job whose limit was refused."""

CHANGES = (
    c.ReplicaStopped,
    c.JobStopped,
    c.JobEnded,
    c.JobResumed,
    c.MigrationFinished,
    c.MigrationFailed,
    c.PlanAbandoned,
)
"""Events after which the nodes of their job are planned at the next tick."""


class SteepestPlanner:
    """Plans limits and moves."""

    name = "steepest-planner"
    logic = 2
    state_type = SteepestPlannerState

    def __init__(self, state: SteepestPlannerState | None = None) -> None:
        self.state = state or SteepestPlannerState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the next plan of the node is written even if nothing changes."""
        match event:
            case c.MigrationPlanned():
                self.state.read_back(event.plan)
            case c.LimitsPlanned():
                for limit in event.limits:
                    if not self.state.on:
                        self.state.unlifted[limit.job] = None
                    elif (running := self.state.running.get(limit.job)) is not None:
                        running.planned = False

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record: at ticks the plans that are due, else nothing."""
        state = self.state
        if isinstance(received.event, c.MigrationPlanned):
            state.read_back(received.event.plan)
        if not view.parameters.steepest.on or view.state.reads < SINCE[c.LimitsPlanned]:
            return self._lift_all(view, received.offset)
        if isinstance(received.event, c.Tick):
            state.tick_ms = received.at_ms
        now_s = state.time_s(view.counted_ms, received.at_ms, view.parameters.tick_ms)
        if not state.on:
            self._begin(view, now_s)
        self._fold(view, received.event, now_s)
        if isinstance(received.event, c.Tick):
            return tuple(self._plan(view, received))
        return ()

    # --- what happens ------------------------------------------------------------------------------------------------

    def _begin(self, view: ClusterView, now_s: float) -> None:
        """The policy is switched on: fair sharing begins here, for the jobs that run already too."""
        state = self.state
        state.on, state.unlifted = True, {}
        for node in view.nodes:
            if node.takes_jobs:
                self._join(node.name, node.capacity, now_s)
        for job in view.jobs:
            if job.alive and _is_managed(job):
                self._place(job, now_s)
                self._train(view, job, now_s)

    def _fold(self, view: ClusterView, event: c.ClusterEvent, now_s: float) -> None:
        state, job = self.state, view.touched
        match event:
            case c.NodeJoined() if event.takes_jobs:
                self._join(event.node, event.capacity, now_s)
            case c.NodeGone():
                state.fair.leave(event.node, now_s)
                state.residences.pop(event.node, None)
                state.other.pop(event.node, None)
                state.due.pop(event.node, None)
            case c.PlacementPlanned() if job is not None and job.plan == event.plan and _is_managed(job):
                self._place(job, now_s)
            case c.CheckpointModeDeclared() if job is not None:
                self._train(view, job, now_s)
            case c.NodeUsage():
                self._measure(view, event, now_s)
            case c.LimitsApplied() if (running := state.running.get(event.job)) is not None:
                if running.incarnation == event.incarnation:
                    running.limit(event.cpu_m)
            case c.LimitsRefused() if event.definite and (running := state.running.get(event.job)) is not None:
                running.limit_m, running.unlimited_until_s = running.in_force_m, now_s + REFUSED_S
            case c.JobEnded() if job is not None:
                self._end(job, now_s)
        if isinstance(event, CHANGES) and job is not None:
            self._plan_soon(job)

    def _join(self, node: str, capacity: Resources, now_s: float) -> None:
        self.state.fair.join(node, capacity, now_s)
        self.state.largest = max(self.state.largest, capacity.cpu_m / 1000)

    def _place(self, job: Job, now_s: float) -> None:
        self.state.fair.plan(job.name, job.spec.chief_requests, job.spec.first_node, now_s)

    def _train(self, view: ClusterView, job: Job, now_s: float) -> None:
        """An incarnation trains from here on, if that is not known yet."""
        node, known = job.node, self.state.running.get(job.name)
        if not job.alive or node is None or not _is_managed(job):
            return
        if known is not None and (known.incarnation, known.node) == (job.incarnation, node):
            return
        fresh = ManagedJob(node, job.incarnation, now_s, now_s, now_s)
        if known is not None:
            fresh.began_s, fresh.used, fresh.used_reported = known.began_s, known.used, known.used
            fresh.size, fresh.left = known.size, known.left
            fresh.most, fresh.demand, fresh.losses = known.most, known.demand, known.losses
        if job.limit is not None:
            fresh.limit_m = job.limit.cpu_m
            fresh.limit(job.limit.in_force_m)
        self.state.running[job.name] = fresh
        self.state.fair.start(job.name, self.state.demand(fresh, view.nodes[node].capacity.cpu_m / 1000), now_s)
        self.state.due[node] = 0.0

    def _measure(self, view: ClusterView, event: c.NodeUsage, now_s: float) -> None:
        state, node = self.state, view.nodes.get(event.node)
        if node is None:
            return
        for name, cpu_m in event.jobs.items():
            job = view.jobs.get(name)
            if cpu_m and job is not None and job.node == event.node:
                self._train(view, job, now_s)
        uses_m = {name: cpu_m for name, cpu_m in event.jobs.items() if self._is_here(name, event.node)}
        state.other[event.node] = sum(cpu_m for name, cpu_m in event.jobs.items() if name not in uses_m) / 1000
        here = {name: state.running[name] for name in uses_m}
        for demand in measure_node(here, event.jobs, node.capacity.cpu_m, now_s):
            state.learn_demand(demand)
        for progress in event.progress:
            if (running := here.get(progress.job)) is not None and progress.incarnation == running.incarnation:
                running.used_reported = running.used
                if progress.step is not None and progress.loss is not None:
                    running.losses.add(progress.step, progress.loss)

    def _is_here(self, name: str, node: str) -> bool:
        running = self.state.running.get(name)
        return running is not None and running.node == node

    def _end(self, job: Job, now_s: float) -> None:
        running = self.state.running.pop(job.name, None)
        if running is None:
            self.state.fair.finish(job.name, 0.0, now_s)
            return
        steps = job.stop_step or job.progress.step
        size = steps * running.step_ms / 1000 if steps and running.step_ms else running.used_by(now_s)
        self.state.fair.finish(job.name, size, now_s)
        if job.outcome is c.Outcome.FINISHED and steps and (share := running.losses.learned_at(steps)) is not None:
            self.state.learned.add(job.spec.model, share)
        self.state.due[running.node] = 0.0

    def _plan_soon(self, job: Job) -> None:
        for node in dict.fromkeys((*job.nodes, *job.holds)):
            self.state.due[node] = 0.0

    # --- plans -------------------------------------------------------------------------------------------------------

    def _plan(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        """Plan the nodes that are due, then the moves."""
        state, parameters = self.state, view.parameters.steepest
        due = sorted(name for name, at_s in state.due.items() if at_s <= state.now_s)
        for name in due:
            node = view.nodes.get(name)
            state.residences.pop(name, None)
            if node is None or node.lost:
                del state.due[name]
                continue
            state.due[name] = state.now_s + parameters.plan_every_ms / 1000
            yield from self._plan_limits(view, node, received)
            if not node.jobs:
                del state.due[name]
        if due:
            yield from self._plan_moves(view, received)

    def _plan_limits(
        self, view: ClusterView, node: Node, received: Received[c.ClusterEvent]
    ) -> Iterator[c.LimitsPlanned]:
        state, parameters = self.state, view.parameters.steepest
        cores = max(node.capacity.cpu_m / 1000 - state.other.get(node.name, 0.0), LEAST_CORES)
        facts = {
            name: facts_of(state, parameters, view.jobs[name], cores)
            for name in node.jobs
            if self._is_here(name, node.name) and view.jobs[name].alive
        }
        dues_s = [one.due_s for one in facts.values() if one.left is not None and one.due_s is not None]
        jobs = [
            one.on_node(
                state,
                state.running[name],
                young=self._is_young(view.jobs[name], one, parameters.young_ms / 1000),
                steady=self._is_moving(view.jobs[name]) or state.now_s < state.running[name].unlimited_until_s,
                dues_s=dues_s,
            )
            for name, one in facts.items()
        ]
        shares = plan_node(cores, jobs, parameters).shares
        for name, share in shares.items():
            state.running[name].rate = share.rate
        state.residences[node.name] = self._residence(view, node, cores, facts)
        least_m = parameters.least_change * node.capacity.cpu_m
        if not any(_differs(state.running[name], share, least_m) for name, share in shares.items()):
            return
        for name, share in shares.items():
            state.running[name].limit_m, state.running[name].planned = share.limit_m, True
        yield c.LimitsPlanned(
            plan=f"steepest-{received.offset}-{node.name}",
            node=node.name,
            limits=tuple(
                c.JobLimit(name, state.running[name].incarnation, cpu_m=share.limit_m) for name, share in shares.items()
            ),
            because=c.LimitsBecause(
                rule="what fair ends leave to spare, where it is worth most",
                standing=tuple(
                    facts[name].standing(share, received.at_ms, state.now_s) for name, share in shares.items()
                ),
            ),
        )

    def _is_young(self, job: Job, facts: JobFacts, young_s: float) -> bool:
        """Whether it runs ahead of the others until its speed and its demand were measured."""
        running = self.state.running[job.name]
        measured = facts.left is not None and running.demand is not None
        return total_steps(job) is not None and not measured and self.state.now_s - running.began_s < young_s

    def _is_moving(self, job: Job) -> bool:
        return job.plan is not None or self.state.concerns(job)

    # --- moves -------------------------------------------------------------------------------------------------------

    def _residence(self, view: ClusterView, node: Node, cores: float, facts: dict[str, JobFacts]) -> Residence:
        """A node for moves: its jobs but for those that leave, and those that come."""
        state, residence = self.state, Residence(node.name, cores, [])
        for name in node.jobs:
            job = view.jobs[name]
            plan = view.plan_of(job)
            comes = plan is not None and bool(plan.sources) and plan.targets[:1] == (node.name,)
            if name in facts and plan is None:
                residence.jobs.append(self._resident(view, job, facts[name]))
            elif comes and name in state.running:
                residence.jobs.append(self._resident(view, job, facts_of(state, view.parameters.steepest, job, cores)))
                residence.awaits = True
        return residence

    def _resident(self, view: ClusterView, job: Job, facts: JobFacts) -> Resident:
        running = self.state.running[job.name]
        free = (
            not self._is_moving(job)
            and immovable(job) is None
            and job.moves_failed < view.parameters.limits.moves_failed
            and view.counted_ms >= job.dwells_until_counted_ms
        )
        return Resident(
            name=job.name,
            left=facts.left,
            demand=self.state.demand(running, self.state.largest),
            rate=running.rate,
            claim=self.state.fair.rate(job.name) if facts.unknown and not facts.proved_wrong else 0.0,
            used=running.used,
            due_s=facts.due_s if facts.left is not None else None,
            index=facts.index,
            free=free,
        )

    def _plan_moves(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        state = self.state
        for node in view.nodes:
            if node.is_open and node.name not in state.residences and not node.jobs:
                state.residences[node.name] = Residence(node.name, node.capacity.cpu_m / 1000, [])
        open_ = [
            residence
            for name, residence in sorted(state.residences.items())
            if name in view.nodes and view.nodes[name].is_open
        ]

        def fits(job: str, node: str) -> bool:
            return state.no_room(view.jobs[job], view.nodes[node]) is None

        moves = choose_moves(open_, view.parameters.steepest, fits, state.now_s)
        for number, move in enumerate(moves):
            yield from self._move(view, move, received, number)

    def _move(
        self, view: ClusterView, move: MoveChoice, received: Received[c.ClusterEvent], number: int
    ) -> Iterator[c.ClusterEvent]:
        """Lift the job's limit, so that its next step ends soon, and move it."""
        state, job = self.state, view.jobs[move.job.name]
        running = state.running[job.name]
        if running.limit_m is not None:
            running.limit_m = None
            yield c.LimitsPlanned(
                plan=f"steepest-{received.offset}-{move.source}-{number}",
                node=move.source,
                limits=(c.JobLimit(job.name, job.incarnation),),
                because=c.LimitsBecause(rule="it moves, and saves after its next step"),
            )
        plan = f"steepest-{received.offset}-{number}"
        state.add(plan, job, move.source, move.target)
        cores = view.nodes[move.source].capacity.cpu_m / 1000
        facts = facts_of(state, view.parameters.steepest, job, cores)
        yield c.MigrationPlanned(
            plan=plan,
            job=job.name,
            incarnation=job.incarnation,
            source=move.source,
            target=move.target,
            kind=c.MoveKind.STEEPEST,
            because=c.Because(
                rule=str(move.reason),
                standing=facts.standing(JobShare(rate=move.job.rate), received.at_ms, state.now_s),
                gain_ms=round(move.gain_s * 1000),
                alternatives=tuple(
                    c.MoveOption(other.job.name, other.target, round(other.gain_s * 1000))
                    for other in move.alternatives
                ),
            ),
        )

    # --- switched off ------------------------------------------------------------------------------------------------

    def _lift_all(self, view: ClusterView, offset: int) -> Sequence[c.LimitsPlanned]:
        """The policy is off: remove all limits and forget everything but what is on its way."""
        state = self.state
        if not state.on and not state.unlifted:
            return ()
        names = [name for name, running in state.running.items() if running.limit_m is not None]
        limited: dict[str, list[c.JobLimit]] = {}
        for name in dict.fromkeys([*sorted(names), *sorted(state.unlifted)]):
            job = view.jobs.get(name)
            if job is not None and job.alive and job.limit is not None and job.limit.cpu_m is not None:
                limited.setdefault(job.nodes[0], []).append(c.JobLimit(name, job.incarnation))
        kept = SteepestPlannerState(unread=state.unread, plans=state.plans, jobs=state.jobs, nodes=state.nodes)
        self.state = kept
        because = c.LimitsBecause(rule="the policy steepest is switched off: nothing is limited")
        return [
            c.LimitsPlanned(plan=f"steepest-{offset}-{node}", node=node, limits=tuple(jobs), because=because)
            for node, jobs in limited.items()
        ]


def _is_managed(job: Job) -> bool:
    """Whether the job is one process that computes on CPUs."""
    spec = job.spec
    return not spec.is_gang and not any(role.requests.gpus or role.requests.gpu_m for role in spec.all_roles)


def _differs(running: ManagedJob, share: JobShare, least_m: float) -> bool:
    """Whether a job's limit must be planned again."""
    before, after = running.limit_m, share.limit_m
    if before is None or after is None or not running.planned:
        return before != after or not running.planned
    return abs(before - after) > least_m
