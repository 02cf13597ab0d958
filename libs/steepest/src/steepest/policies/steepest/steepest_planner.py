"""The steepest-planner: limits, moves and suspensions, so that jobs learn and end early, and none later than fairly shared.

It decides when a node is planned, by what was measured (:mod:`steepest.policies.steepest.planner_fold`); the rules are in
:mod:`~steepest.policies.steepest.node_plan`, :mod:`~steepest.policies.steepest.moves` and
:mod:`~steepest.policies.steepest.room_maker`. It is part of the limit-planner's service: both write limits, and only one of
them is on at a time, so that a pool needs one process for both.

* A node is planned at the first tick after a job on it starts, stops or moves, else every ``plan_every_ms`` of counted time.
  One that is lost stays due, and is planned once it is back.
* A plan has the limits that change by enough. For each job the newest plan holds.
* A job that is moved is not limited until it has moved: a slow step would delay its checkpoint.
* Gangs take part in the plans of their nodes (:mod:`~steepest.policies.steepest.gangs.gang_part`); one that is on several is
  limited by the plan of its first one. What jobs with GPUs use of a node's CPU is not divided.

Work: O(n log n) for each plan of a node with n jobs. A tick that plans a node also looks for moves and suspensions, among
the fullest and the emptiest nodes alone. Of a node that is not planned, a tick compares the time of its next plan. A fact of
a node costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from steepest.events import cluster as c
from steepest.events.parameters import SteepestParameters
from steepest.events.received import Received
from steepest.policies.decider import EVERY, SWITCHES
from steepest.policies.lifted_limits import lifted, still_limited
from steepest.policies.steepest.gangs.gang_part import divide, limit_of, limit_together, part_of, take_part
from steepest.policies.steepest.job_facts import facts_of
from steepest.policies.steepest.managed_job import ManagedJob
from steepest.policies.steepest.moves import MoveChoice, MoveSearch
from steepest.policies.steepest.node_plan import LEAST_LIMIT_M, JobOnNode, keep_limits, plan_node
from steepest.policies.steepest.planner_fold import begin, fold, is_here, run_fair_pool
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.policies.steepest.residences import Residence, Residences
from steepest.policies.steepest.room_maker import RoomMaker
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable
from steepest.view.state import Job, Node

PLANS = (c.MigrationPlanned, c.PlacementPlanned, c.TransitionPlanned)

WHILE_OFF = SWITCHES.union(PLANS)
"""Records that change what it remembers, switched on or off."""

LAGS = 0.05
"""The limit of a job of unknown size is planned again where it differs by this share of itself, and by ``LEAST_LIMIT_M``:
it has nothing else to catch up with."""

LEAST_CORES = 0.1
"""Of a node, where jobs that are not managed use all of it."""


class SteepestPlanner:
    """Plans limits, moves and suspensions."""

    name = "steepest-planner"
    logic = 6
    state_type = SteepestPlannerState

    def __init__(self, state: SteepestPlannerState | None = None) -> None:
        self.reads = EVERY
        self.state = state or SteepestPlannerState()
        self._residences = Residences(self.state.residences)
        self._room_maker = RoomMaker(self.state, self._residences)

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the next plan of the node is written even if nothing changes."""
        match event:
            case c.MigrationPlanned() | c.PlacementPlanned() | c.TransitionPlanned():
                self._room_maker.read_back(event.plan)
            case c.LimitsPlanned():
                for limit in event.limits:
                    if not self.state.on:
                        self.state.unlifted[limit.job] = None
                        self.reads = EVERY
                    elif limit.job in self.state.running or limit.job in self.state.unmanaged:
                        self.state.limited(limit.job).planned = False

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record: at ticks the plans that are due, else nothing."""
        state = self.state
        if isinstance(received.event, PLANS):
            self._room_maker.read_back(received.event.plan)
        is_on = view.parameters.steepest.on
        self.reads = EVERY if is_on else WHILE_OFF
        if not is_on:
            return self._lift_all(view, received.offset) if state.on or state.unlifted else ()
        if isinstance(received.event, c.Tick):
            state.tick_ms = received.at_ms
        now_s = state.time_s(view.counted_ms, received.at_ms, view.parameters.tick_ms)
        if not state.on:
            begin(state, view, now_s)
        fold(state, view, received.event, now_s)
        if isinstance(received.event, c.Tick):
            return tuple(self._plan(view, received))
        return ()

    # --- plans -------------------------------------------------------------------------------------------------------

    def _plan(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        """Plan the nodes that are due, then the moves."""
        state, parameters = self.state, view.parameters.steepest
        run_fair_pool(state, view)
        due = sorted(name for name, at_s in state.due.items() if at_s <= state.now_s and not view.nodes.is_lost(name))
        for name in due:
            node = view.nodes[name]
            state.residences.pop(name, None)
            self._residences.note(name)
            state.due[name] = state.now_s + parameters.plan_every_ms / 1000
            yield from self._plan_limits(view, node, received)
            if not node.jobs:
                del state.due[name]
        if due:
            yield from self._plan_moves(view, received)
            yield from self._room_maker.plan(view, received)

    def _plan_limits(
        self, view: ClusterView, node: Node, received: Received[c.ClusterEvent]
    ) -> Iterator[c.LimitsPlanned]:
        state, parameters = self.state, view.parameters.steepest
        cores = max(state.fair.nodes[node.name].gives, LEAST_CORES)
        jobs = {
            name: facts_of(state, parameters, view.jobs[name], cores)
            for name in node.jobs
            if is_here(state, name, node.name) and view.jobs[name].alive
        }
        gangs = take_part(state, view, node.name)
        parts = {name: part_of(state, parameters, view.jobs[name], one, cores) for name, one in gangs.items()}
        for one in jobs.values():
            one.fair_rate = self._fair_rate(one)
        planned = parts | jobs
        for name, one in planned.items():
            one.steady = self._is_moving(view.jobs[name]) or state.now_s < state.limited(name).unlimited_until_s
        self.divide(cores, list(planned.values()), parameters)
        if state.now_s < state.stays.get(node.name, 0.0):
            now_m = {name: state.running[name].limit_m for name in jobs} | {
                name: limit_together(state, view.jobs[name], replicas) for name, replicas in gangs.items()
            }
            keep_limits(cores, list(planned.values()), now_m, state.now_s)
        for name, one in jobs.items():
            state.running[name].rate = one.rate
        for name, replicas in gangs.items():
            divide(view.jobs[name], replicas, parts[name])
        state.residences[node.name] = self._residence(view, node, cores, jobs)
        state.residences[node.name].jobs += parts.values()
        limits = {name: one.limit_m for name, one in jobs.items()} | self._limits_of(view, node, gangs)
        least_m = min(parameters.least_change * node.capacity.cpu_m, 1000 * cores / (2 * max(len(planned), 1)))
        changed = {
            name: limit
            for name, limit in limits.items()
            if _differs(state.limited(name), limit, least_m, known=planned[name].left is not None)
        }
        if changed:
            state.stays[node.name] = state.now_s + parameters.stay_ms / 1000
            standing = tuple(one.standing(received.at_ms, state.now_s) for one in planned.values())
            for name, limit_m in changed.items():
                known = state.limited(name)
                known.limit_m, known.planned = limit_m, True
            yield c.LimitsPlanned(
                plan=f"steepest-{received.offset}-{node.name}",
                node=node.name,
                limits=tuple(c.JobLimit(name, view.jobs[name].incarnation, cpu_m=m) for name, m in changed.items()),
                because=c.LimitsBecause(
                    rule="what fair ends leave to spare, where it is worth most", standing=standing
                ),
            )

    def divide(self, cores: float, jobs: Sequence[JobOnNode], parameters: SteepestParameters) -> None:
        """Plan a node's jobs; other orders than this policy's do it otherwise."""
        plan_node(cores, jobs, parameters, self.state.now_s)

    def _limits_of(self, view: ClusterView, node: Node, gangs: Iterable[str]) -> dict[str, int | None]:
        """The limits of the gangs whose first node this is; those of the others are planned there, soon if they change."""
        state, limits = self.state, {}
        for name in gangs:
            first, limit_m = view.jobs[name].nodes[0], limit_of(state, name)
            if first == node.name:
                limits[name] = limit_m
            elif first in state.unmanaged[name] and (there := view.nodes.get(first)) is not None:  # it may be gone
                least_m = view.parameters.steepest.least_change * there.capacity.cpu_m
                if _differs(state.limited(name), limit_m, least_m):
                    state.due[first] = 0.0
        return limits

    def _is_moving(self, job: Job) -> bool:
        return job.plan is not None or self.state.concerns(job)

    # --- moves -------------------------------------------------------------------------------------------------------

    def _residence(self, view: ClusterView, node: Node, cores: float, jobs: Mapping[str, JobOnNode]) -> Residence:
        """A node for moves: its jobs but for those that leave, and those that come."""
        state, residence = self.state, Residence(node.name, cores, [])
        for name in node.jobs:
            job = view.jobs[name]
            plan = view.plan_of(job)
            comes = plan is not None and bool(plan.sources) and plan.targets[:1] == (node.name,)
            if name in jobs and plan is None:
                residence.jobs.append(jobs[name])
            elif comes and name in state.running:
                residence.jobs.append(facts_of(state, view.parameters.steepest, job, cores))
                residence.awaits = True
        for one in residence.jobs:
            job, one.fair_rate = view.jobs[one.name], self._fair_rate(one)
            one.free = (
                not self._is_moving(job)
                and immovable(job) is None
                and job.moves_failed < view.parameters.limits.moves_failed
                and view.counted_ms >= job.dwells_until_counted_ms
            )
        return residence

    def _fair_rate(self, job: JobOnNode) -> float | None:
        """What the fair copy of a job of unknown size gets now; None: it has none."""
        fair = self.state.fair
        return None if job.left is not None or job.name not in fair.jobs else fair.rate(job.name)

    def _plan_moves(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        state = self.state
        self._residences.look(view.nodes)

        def fits(job: str, node: str) -> bool:
            return state.no_room(view.jobs[job], view.nodes[node]) is None

        def takes_s(job: str, source: str, target: str) -> float:
            predicted_ms = view.move_ms(view.jobs[job], source, target) or 0
            return max(predicted_ms, view.parameters.steepest.move_cost_ms) / 1000

        search = MoveSearch(self._residences, view.parameters.steepest, fits, takes_s, state.now_s)
        for number, move in enumerate(search.moves()):
            yield from self._move(view, move, received, number)

    def _move(
        self, view: ClusterView, move: MoveChoice, received: Received[c.ClusterEvent], number: int
    ) -> Iterator[c.ClusterEvent]:
        """Lift the job's limit, so that its next step ends soon, and move it."""
        state, job = self.state, view.jobs[move.job.name]
        lifting = f"steepest-{received.offset}-{move.source}-{number}"
        yield from state.lift(job, move.source, lifting, "it moves, and saves after its next step")
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
                rule=move.reason,
                standing=facts.standing(received.at_ms, state.now_s),
                gain_ms=round(move.gain_s * 1000),
                move_ms=view.move_ms(job, move.source, move.target),
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
        names = [name for name in (*state.running, *state.unmanaged) if state.limited(name).limit_m is not None]
        places = still_limited(view, dict.fromkeys([*sorted(names), *sorted(state.unlifted)]))
        self.state = SteepestPlannerState(**state.under_way)
        self._residences = Residences(self.state.residences)
        self._room_maker = RoomMaker(self.state, self._residences)
        return lifted("steepest", offset, places, "the policy steepest is switched off: nothing is limited")


def _differs(running: ManagedJob, after: int | None, least_m: float, *, known: bool = True) -> bool:
    """Whether a job's limit must be planned again."""
    before = running.limit_m
    if before is None or after is None or not running.planned:
        return before != after or not running.planned
    return abs(before - after) > (least_m if known else min(least_m, max(LAGS * after, LEAST_LIMIT_M)))
