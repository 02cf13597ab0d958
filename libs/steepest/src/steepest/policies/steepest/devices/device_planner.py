"""The device planner: which gangs hold the GPUs of a pool, under the policy ``steepest``.

After anything has changed, and else every ``device_slot_ms``, it puts the gangs of each kind of devices in their order
(:mod:`~steepest.policies.steepest.devices.gang_order`) and gives them devices whole. A plan has two phases: the running
gangs that give way are suspended, and the one that they make room for starts when all of them have left. Jobs with devices
are placed by it alone; what they reserve of a node's CPU is theirs. What it promises, and every promise that it puts off, is
in the log.

Free devices let the gang grow that is worth most and may have more replicas, if it gains several times what its stop
and its start cost; it gives that back when a gang that waits has no room otherwise, before any is stopped.

Jobs that cannot be saved, that have just started or were suspended too often keep their devices. Jobs of unknown size go by
the service that they attained, in levels, and nothing is promised to them.

Work: O(1) a record. A decision is O(n log n) for n jobs with devices; where none waits, there is nothing to decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from steepest.describe.units import span
from steepest.events import cluster as c
from steepest.events.common import bounded_millis
from steepest.events.received import Received
from steepest.policies.decider import EVERY, SWITCHES
from steepest.policies.placement.preemption import scaling, suspension
from steepest.policies.placement.rejection import why_never_placed
from steepest.policies.steepest.devices.device_jobs import (
    capacity,
    end,
    kind_of,
    kinds,
    left_with,
    measure,
    startable,
    whole_gang,
    work_of,
)
from steepest.policies.steepest.devices.device_places import DevicePlaces
from steepest.policies.steepest.devices.device_state import DeviceJob, DevicePlannerState
from steepest.policies.steepest.devices.fair_devices import FairDevices
from steepest.policies.steepest.devices.gang_order import TIERS, Turn, WholeGang, divide, in_turn, promise, slot_of
from steepest.policies.steepest.devices.which_jobs import devices_of, has_devices, is_in_force
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import attained_ms, course
from steepest.view.state import Job, Node, Phase
from steepest.view.validity import void_transition

PLANS = (c.PlacementPlanned, c.TransitionPlanned)

WHILE_OFF = SWITCHES.union((*PLANS, c.PromiseRevised, c.JobRejected))
"""Records that change what it remembers, switched on or off."""

CHANGES = (
    c.JobSubmitted,
    c.JobAdmitted,
    c.JobPlaced,
    c.JobEnded,
    c.JobRejected,
    c.JobSuspended,
    c.JobChangeRequested,
    c.TrialJudged,
    c.ReplicaStopped,
    c.JobStopped,
    c.RetryPlanned,
    c.TransitionFailed,
    c.PlanAbandoned,
    c.PlacementPlanned,
    c.TransitionPlanned,
)
"""Events of a job with devices after which there is something to decide; also what nodes join, leave or drain."""

OF_NODES = (c.NodeJoined, c.NodeLost, c.NodeGone, c.NodeDrainRequested)

SAID_AGAIN = 0.2
"""A due time that moved by less than this share of the time until it is not said again."""

AHEAD_SHOWN = 4
"""Jobs before one that waits that a promise names."""


class GangDecision(NamedTuple):
    """A decision: the gangs, who has devices and why, where, and the order in which they took them."""

    gangs: Sequence[WholeGang]
    chosen: Mapping[int, Turn]
    places: DevicePlaces
    order: Sequence[int]


class DevicePlanner:
    """Plans placements and suspensions of jobs with devices, and says what is promised to them."""

    name = "device-planner"
    logic = 5
    state_type = DevicePlannerState

    def __init__(self, state: DevicePlannerState | None = None) -> None:
        self.reads = EVERY
        self.state = state or DevicePlannerState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: what is still wanted is decided at the next tick."""
        self.state.changed = True
        match event:
            case c.PlacementPlanned() | c.TransitionPlanned():
                self.state.read_back(event.plan)
            case c.JobRejected():
                self.state.rejected.pop(event.job, None)
            case c.PromiseRevised() if event.job in self.state.known:
                self.state.known[event.job].due_s = None

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record: at ticks what is due, else nothing."""
        state, event = self.state, received.event
        if isinstance(event, PLANS):
            state.read_back(event.plan)
        elif isinstance(event, c.JobRejected):
            state.rejected.pop(event.job, None)
        is_on = is_in_force(view.parameters)
        self.reads = EVERY if is_on else WHILE_OFF
        if not is_on:
            if state.on:
                self.state = DevicePlannerState(**state.under_way)
            return ()
        if not state.on:
            state.on = True
            for job in view.jobs:
                self._meet(job)
        self._fold(view, received)
        if isinstance(event, c.Tick):
            state.tick_ms = received.at_ms
            if state.known and (state.changed or view.counted_ms / 1000 >= state.decide_s):
                state.changed, state.decide_s = (
                    False,
                    (view.counted_ms + view.parameters.steepest.device_slot_ms) / 1000,
                )
                return tuple(self._decide(view, received))
        return ()

    # --- what happens ------------------------------------------------------------------------------------------------

    def _meet(self, job: Job) -> None:
        if job.phase is not Phase.ENDED and has_devices(job) and job.name not in self.state.known:
            self.state.known[job.name] = DeviceJob("", devices_of(job))
            self.state.changed = True

    def _fold(self, view: ClusterView, received: Received[c.ClusterEvent]) -> None:
        state, event, job = self.state, received.event, view.touched
        now_s = view.counted_ms / 1000
        if isinstance(event, OF_NODES):
            state.changed = True
        elif isinstance(event, c.NodeUsage):
            for progress in event.progress:
                if progress.job in state.known:
                    self._hear(view, view.jobs[progress.job], progress)
        if job is None or not isinstance(event, CHANGES):
            return
        self._meet(job)
        known = state.known.get(job.name)
        if known is None:
            return
        state.changed = True
        if view.jobs.is_over(job.name):
            end(state, job, now_s)
        elif isinstance(event, c.JobSuspended):
            plan = view.plan(event.plan)
            if plan is not None:
                state.overheads.learn_suspension(job.spec.model, None, max(received.at_ms - plan.made_ms, 0))

    def _hear(self, view: ClusterView, job: Job, progress: c.ReplicaProgress) -> None:
        known, (step, total) = self.state.known[job.name], course(job)
        if progress.incarnation != job.incarnation or not job.alive:
            return
        if progress.step is not None and known.trains != job.incarnation:
            known.trains = job.incarnation
            took_ms = view.counted_ms - job.placed_counted_ms
            self.state.overheads.learn_resumption(job.spec.model, 1, max(took_ms, 0))
        if step is not None and progress.loss is not None:
            known.losses.add(step if progress.step is None else progress.step, progress.loss)
            self.state.learned.report(job.spec.model, job.name, known.losses, step, total)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def _decide(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Iterator[c.ClusterEvent]:
        state, now_s = self.state, view.counted_ms / 1000
        by_kind = kinds(view.nodes)
        jobs: dict[str, list[Job]] = {}
        for name, known in list(state.known.items()):
            job = view.jobs[name]
            if job.phase is Phase.STOPPED or job.cancel:
                continue
            kind = kind_of(job, by_kind)
            if job.is_queued and (kind is None or why_never_placed(view, job)):
                yield from self._reject(view, job)
            if kind is not None:
                if known.kind != kind and (before := state.fair.get(known.kind)) is not None:
                    before.finish(name, 0.0, now_s)
                known.kind = kind
                jobs.setdefault(kind, []).append(job)
        for kind, fair in state.fair.items():
            if kind not in by_kind:
                fair.resize(0.0, now_s)
        for kind, nodes in by_kind.items():
            fair = state.fair.setdefault(kind, FairDevices(now_s=now_s))
            fair.resize(capacity(nodes.values()), now_s)
            may_start, there = startable(view, state, nodes), list[Job]()
            for job in jobs.get(kind, ()):
                is_kept_out = job.is_queued and not state.concerns(job) and not may_start(job)
                self._know(view, fair, job, now_s, is_kept_out=is_kept_out)
                if not is_kept_out and self._takes_part(view, job):
                    there.append(job)
            if jobs.get(kind):
                yield from self._decide_kind(view, received, nodes, there, fair)

    def _reject(self, view: ClusterView, job: Job) -> Iterator[c.ClusterEvent]:
        if job.name not in self.state.rejected and (why := why_never_placed(view, job)):
            self.state.rejected[job.name] = None
            yield c.JobRejected(job=job.name, request=job.request, reason=why)

    def _know(self, view: ClusterView, fair: FairDevices, job: Job, now_s: float, *, is_kept_out: bool) -> None:
        state, known = self.state, self.state.known[job.name]
        measure(state, job, now_s)
        used_s = attained_ms(job, view.counted_ms) / 1000
        start_s = 0.0 if known.trains else state.overheads.resumption_ms(job, 1) / 1000
        if not (job.hold or is_kept_out):
            fair.know(job.name, known.devices, work_of(known, job, used_s, start_s), now_s)
        elif job.is_queued and not job.incarnation:
            fair.finish(job.name, 0.0, now_s)  # its fair end counts from when it may start

    def _decide_kind(
        self,
        view: ClusterView,
        received: Received[c.ClusterEvent],
        nodes: dict[str, Node],
        there: Sequence[Job],
        fair: FairDevices,
    ) -> Iterator[c.ClusterEvent]:
        """Decide about the jobs that wait or run with one kind of devices."""
        state, now_s, parameters = self.state, view.counted_ms / 1000, view.parameters
        fair.look(now_s)
        gangs = [
            whole_gang(state, view, job, received.at_ms, now_s, pinned=not job.is_queued and self._is_pinned(view, job))
            for job in there
        ]
        if not any(job.is_queued for job in there):
            yield from self._promise(view, gangs, [one.tier for one in gangs], ())
            yield from self._grow(view, received, gangs, DevicePlaces(view, state, nodes, gangs, ()))
            return
        slot_s = slot_of(gangs, parameters.steepest.device_slot_ms / 1000, parameters.tick_ms / 1000)
        state.decide_s = min(state.decide_s, now_s + slot_s)
        promised = promise(gangs, fair.devices, slot_s, parameters.steepest.lateness)
        for hold in (False, True):
            turns = list(in_turn(gangs, promised, fair.devices, slot_s, hold=hold))
            last_first = [index for index, _ in reversed(turns) if gangs[index].runs]
            places = DevicePlaces(view, state, nodes, gangs, last_first)
            chosen = divide(gangs, turns, places.take)
            if not places.stopped:
                break
        order = [index for index, _ in turns]
        yield from self._promise(view, gangs, promised.tiers, order)
        yield from self._carry_out(view, received, GangDecision(gangs, chosen, places, order))
        if all(index in chosen or gangs[index].runs for index, turn in turns if turn is Turn.MUST):
            yield from self._grow(view, received, gangs, places)

    def _grow(
        self, view: ClusterView, received: Received[c.ClusterEvent], gangs: Sequence[WholeGang], places: DevicePlaces
    ) -> Iterator[c.TransitionPlanned]:
        """Let running gangs have what is left, the one that is worth most first, where that pays."""
        for gang in sorted(gangs, key=lambda one: (-one.priority, -one.rank)):
            job, known = view.jobs[gang.name], self.state.known[gang.name]
            if not gang.runs or gang.pinned or gang.left_s is None or self.state.concerns(job):
                continue
            grown = places.grow(job)
            if grown is None:
                continue
            saves_s = gang.left_s - left_with(self.state, job, known, gang.left_s, devices_of(job, grown.sizes))
            if saves_s <= view.parameters.steepest.pays * gang.stop_s:
                continue
            because = c.Because(rule=f"free devices end it {span(round(1000 * saves_s))} earlier")
            plan = scaling(job, grown.places, None, f"devices-{received.offset}-grow-{job.name}", because)
            if void_transition(plan, job, view) is None:
                places.keep(job, grown)
                self.state.add_scaling(plan.plan, job, grown.places)
                yield plan

    def _takes_part(self, view: ClusterView, job: Job) -> bool:
        if job.is_queued:
            return (
                job.admitted
                and not self.state.concerns(job)
                and job.name not in self.state.rejected
                and view.jobs.queue.find_ready(job.name) is job
            )
        plan = view.plan_of(job)
        return not self.state.concerns(job) and (plan is None or bool(plan.targets))

    def _is_pinned(self, view: ClusterView, job: Job) -> bool:
        """Whether it holds devices and keeps them: it may not be stopped, or ends before a stop would pay."""
        left_s = self.state.known[job.name].left_s
        cost_s = self.state.overheads.suspension_ms(job, 0) + self.state.overheads.resumption_ms(job, 1)
        if left_s is not None and 1000 * left_s <= view.parameters.steepest.pays * cost_s:
            return True
        return void_transition(suspension(job, None, "", c.Because(rule="")), job, view) is not None

    def _promise(
        self,
        view: ClusterView,
        gangs: Sequence[WholeGang],
        tiers: Sequence[int],
        order: Sequence[int],
    ) -> Iterator[c.PromiseRevised]:
        """What is promised to each gang, where the log does not say it yet, or says another time."""
        now_s, lateness = view.counted_ms / 1000, view.parameters.steepest.lateness
        for index, (gang, tier) in enumerate(zip(gangs, tiers, strict=True)):
            known, due_s = self.state.known[gang.name], gang.due_s(tier, lateness)
            if gang.fair_end_s is None:
                continue
            said_s = math.nan if known.due_s is None else known.due_s - now_s
            is_near = math.isinf(due_s) or abs(said_s - due_s) <= SAID_AGAIN * max(due_s - gang.came_s, 1.0)
            if tier == known.tier and known.due_s is not None and is_near:
                continue
            put_off = known.due_s is not None and tier > known.tier
            known.tier, known.due_s = tier, now_s + due_s
            yield c.PromiseRevised(
                job=gang.name,
                tier=tier,
                fair_in_ms=bounded_millis(1000 * gang.fair_end_s),
                due_in_ms=None if math.isinf(due_s) else bounded_millis(1000 * due_s),
                ahead=() if gang.runs else tuple(_ahead(gangs, index, order)),
                reason="the promises cannot all be kept at the same time" if put_off else "",
            )

    def _carry_out(
        self,
        view: ClusterView,
        received: Received[c.ClusterEvent],
        decided: GangDecision,
    ) -> Iterator[c.ClusterEvent]:
        """Suspend those that give way, and place the others after them."""
        state, offset = self.state, received.offset
        gangs, chosen, places, order = decided
        stands = {index: place for place, index in enumerate(order, 1)}
        for index, (found, victims) in places.starts.items():
            job, after = view.jobs[gangs[index].name], []
            for victim in victims:
                gang = gangs[victim.index]
                one = view.jobs[gang.name]
                if victim.stays is None:
                    rule = f"{job.name} comes before it: {chosen[index]}"
                    because = c.Because(rule=rule, standing=self._standing(received, view, gang, stands[victim.index]))
                    plan = suspension(one, job.name, f"devices-{offset}-suspend-{one.name}", because)
                    state.add_suspension(plan.plan, one)
                else:
                    because = c.Because(rule=f"{job.name} has no room, and it has grown")
                    plan = scaling(one, victim.stays.places, job.name, f"devices-{offset}-shrink-{one.name}", because)
                    state.add_scaling(plan.plan, one, victim.stays.places)
                after.append(plan.plan)
                yield plan
            standing = self._standing(received, view, gangs[index], stands[index])
            because = c.Because(rule=str(chosen[index]), standing=standing)
            yield state.place(f"devices-{offset}-{job.name}", job, found, because, tuple(after))

    def _standing(
        self, received: Received[c.ClusterEvent], view: ClusterView, gang: WholeGang, place: int
    ) -> c.FairStanding:
        def wall_ms(seconds: float | None) -> int | None:
            return None if seconds is None or math.isinf(seconds) else bounded_millis(received.at_ms + 1000 * seconds)

        tier = self.state.known[gang.name].tier
        return c.FairStanding(
            job=gang.name,
            cpu_m=0,
            left_ms=None if gang.left_s is None else bounded_millis(1000 * gang.left_s),
            fair_end_ms=wall_ms(gang.fair_end_s),
            due_ms=wall_ms(gang.due_s(min(tier, len(TIERS)), view.parameters.steepest.lateness)),
            index=round(gang.index, 9),
            devices_m=round(1000 * gang.devices),
            tier=tier,
            place=place,
        )


def _ahead(gangs: Sequence[WholeGang], index: int, order: Sequence[int]) -> Iterator[c.GangAhead]:
    """Who holds the devices before a gang that waits, and for how long."""
    before = order[: order.index(index)] if index in order else ()
    running = [one for one in gangs if one.pinned] + [gangs[one] for one in before if gangs[one].runs]
    for one in sorted(running, key=lambda one: (one.left_s is None, one.left_s or 0.0, one.name))[:AHEAD_SHOWN]:
        yield c.GangAhead(one.name, None if one.left_s is None else bounded_millis(1000 * one.left_s))
