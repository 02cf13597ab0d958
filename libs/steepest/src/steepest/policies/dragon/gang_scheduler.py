"""The gang-scheduler: places the waiting jobs by DRAGON's rules, and scales running gangs with the load.

Where DRAGON is on, it places all jobs, those of one replica too, and the placer none; the placer still admits jobs and says
when they are over. It decides in *passes*: after a record by which a job or a process has changed, and after every period.

A pass of version 0.9 (``scheduling.go`` of NTHU-LSALAB/DRAGON):

1. The first job in the queue *starves* once it has waited for 30 s: running gangs give up workers until it has room with
   its fewest, or none does where that is not enough.
2. The queue in its order: the first job that has room starts, and those that have none are passed over.
3. Where nothing was done for 60 s, running gangs grow into what is free.

A pass of the paper's era (``pkg/controller/controller.go`` of ChanYiLin/tf-operator-Dragon): of the jobs that starve, the
one with the fewest workers, which was not the last one, has others scaled down, and nothing starts in that pass; where none
starves, 2 and 3.

A job that says which nodes it may run on is placed there, and gangs give up workers for it there. DRAGON knows no such jobs.
Labels and taints may keep one waiting without end: it starves only where it can be helped, so that it never blocks others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from steepest.events import cluster as c
from steepest.events.dragon_parameters import DragonGeneration, DragonParameters
from steepest.events.received import Received
from steepest.policies.decider import EVERY, SWITCHES
from steepest.policies.dragon.packing import pack
from steepest.policies.dragon.rooms import Made, Want, grown, has_room, least, make_room, make_room_by_count
from steepest.policies.dragon.running_gangs import DragonState, RunningGangs
from steepest.policies.dragon.scaling import Shape
from steepest.policies.placement.preemption import scaling
from steepest.policies.placement.queue_walk import QueueWalk, read_back, walk_of
from steepest.policies.placement.rejection import why_never_placed
from steepest.policies.queueing.wish import wish_of
from steepest.view.cluster_view import ClusterView
from steepest.view.places.queue_limits import is_limited
from steepest.view.state import Job

CHANGES = (
    c.JobSubmitted,
    c.JobPlaced,
    c.ReplicaStopped,
    c.JobStopped,
    c.JobEnded,
    c.JobSuspended,
    c.RetryPlanned,
    c.TransitionFinished,
    c.TransitionFailed,
    c.PlanAbandoned,
    c.NodeJoined,
    c.NodeGone,
)
"""Records after which there is a pass."""

WHILE_OFF = SWITCHES | {c.PlacementPlanned, c.TransitionPlanned, c.JobRejected, c.TransitionFailed, c.JobEnded}
"""Records that change what it remembers, with DRAGON on or off."""

LOOKED_AT = 100
"""Jobs that are looked at for one that starves, or that could be helped."""

ON_ONE = "dragon: all replicas on one node"
ON_SEVERAL = "dragon: parameter servers first, on the fewest nodes"
SPREAD = "dragon without locality: each replica on the emptiest node"
AFTER = "dragon: a job starved, and others give up workers for it"
STARVES = "dragon: job {job} has waited for {seconds} s and has no room"
IDLE = "dragon: nothing was done for {seconds} s, and there is room"


class GangScheduler:
    """DRAGON over one pool."""

    name = "gang-scheduler"
    logic = 2
    state_type = DragonState

    def __init__(self, state: DragonState | None = None) -> None:
        """A gang-scheduler; ``state``: what it remembers."""
        self.reads = EVERY
        self.state = state or DragonState()
        self._walk: QueueWalk | None = None
        self._index: RunningGangs | None = None

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: what a job still needs is decided in the next pass."""
        match event:
            case c.PlacementPlanned(plan=plan) | c.TransitionPlanned(plan=plan):
                self._read_back(plan)
            case c.JobRejected(job=job):
                self.state.announced.pop(job, None)
                if self._walk is not None:
                    self._walk.is_back(job)

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record."""
        event = received.event
        self._take_in(view, event)
        is_on = view.parameters.dragon.on
        self.reads = EVERY if is_on else WHILE_OFF
        if not is_on:
            self._index = None  # jobs end unseen meanwhile
            return ()
        if view.touched is not None:
            self._gangs_in(view).refresh(view.touched.name)
        self._gangs_in(view).look()
        passed_ms = view.counted_ms - self.state.passed_counted_ms
        if isinstance(event, CHANGES) or (isinstance(event, c.Tick) and passed_ms >= view.parameters.dragon.period_ms):
            return list(self._pass(view, received.offset))
        return ()

    def _take_in(self, view: ClusterView, event: c.ClusterEvent) -> None:
        match event:
            case c.PlacementPlanned(plan=plan) | c.TransitionPlanned(plan=plan):
                self._read_back(plan)
            case c.TransitionFailed(job=job):
                self.state.failed[job] = self.state.failed.get(job, 0) + 1
            case c.JobEnded(job=job) | c.JobRejected(job=job):
                self.state.announced.pop(job, None)
                if view.jobs.is_over(job):
                    self.state.failed.pop(job, None)

    def _read_back(self, plan: str) -> None:
        made = self.state.plans.get(plan)
        read_back(self._walk, self.state, plan)
        if made is not None and self._index is not None:
            self._index.refresh(made.job)

    # --- a pass -------------------------------------------------------------------------------------------------------

    def _pass(self, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        rules, state, now = view.parameters.dragon, self.state, view.counted_ms
        walk = self._walk = walk_of(self._walk, view, self.state)
        paper_era = rules.generation is DragonGeneration.PAPER_ERA
        state.passed_counted_ms = now
        may_start = True
        job = self._starving(view, walk) if rules.scaling else None
        if job is not None and (why := why_never_placed(view, job)):
            yield self._reject(job, why)  # it would starve, and with it all behind it, without end
        elif job is not None:
            made = self._room_for(view, walk, job)
            may_start = made is None if paper_era else made is not None or not rules.head_blocks
            if rules.starving_stops_growth or (made is not None and (made.shapes or paper_era)):
                state.acted_counted_ms = now
            if made is not None:
                state.served = job.name
                yield from self._give_up(view, walk, job, made, offset)
        if may_start:
            for event in self._start_waiting(view, walk, offset):
                if isinstance(event, c.PlacementPlanned):
                    state.acted_counted_ms = now
                yield event
        if rules.scaling and now - state.acted_counted_ms >= rules.idle_ms:
            if paper_era or rules.starving_stops_growth or not self._could_help(view, walk):
                yield from self._grow(view, walk, offset)
            state.acted_counted_ms = now

    # --- those that starve --------------------------------------------------------------------------------------------

    def _starving(self, view: ClusterView, walk: QueueWalk) -> Job | None:
        """The job that others are to be scaled down for, if any."""
        rules = view.parameters.dragon
        if rules.generation is DragonGeneration.PAPER_ERA:
            starving = [job for job in self._first(view, walk) if _waited_ms(view, job) >= rules.starving_ms]
            starving = [job for job in starving if job.name != self.state.served]
            return min(starving, key=lambda job: sum(role.replicas for role in _want(job, rules).judged), default=None)
        for job in self._first(view, walk):
            if _waited_ms(view, job) >= rules.starving_ms:
                return job
            if rules.head_blocks:
                break
        return None

    def _can_be_helped(self, view: ClusterView, want: Want) -> bool:
        """Whether there would be room for a job if all gangs were as small as they may be."""
        return has_room(want, self._gangs_in(view).most_for(want.rule), view.parameters.dragon)

    def _could_help(self, view: ClusterView, walk: QueueWalk) -> bool:
        """Whether a job that waits would have room if all gangs were as small as they may be: then none grows now."""
        wants = dict.fromkeys(_want(job, view.parameters.dragon) for job in self._first(view, walk))
        return any(self._can_be_helped(view, want) for want in wants)

    def _first(self, view: ClusterView, walk: QueueWalk) -> Iterator[Job]:
        """The jobs at the head of the queue that are not decided about yet and that their queues' limits allow.

        Without those that cannot be helped, and so all that ask for the same; with ``head_blocks`` only where they say which
        nodes they may run on.
        """
        rules = view.parameters.dragon
        for job in islice(walk.heads(self._awaits, LOOKED_AT), LOOKED_AT):
            is_free = job.node_rule is None
            is_helped = self._can_be_helped(view, _want(job, rules))
            is_first = is_helped or (is_free and rules.head_blocks)
            walk.tried(placed=is_first and not view.parameters.queueing.blocking)
            if is_first:
                yield job

    def _room_for(self, view: ClusterView, walk: QueueWalk, job: Job) -> Made | None:
        rules, gangs, free = view.parameters.dragon, self._gangs_in(view), walk.room.slots_for(wish_of(job)).free
        if rules.generation is DragonGeneration.PAPER_ERA:
            return make_room_by_count(_want(job, rules), gangs, free)
        return make_room(_want(job, rules), gangs, free, rules)

    def _give_up(
        self, view: ClusterView, walk: QueueWalk, job: Job, made: Made, offset: int
    ) -> Iterator[c.ClusterEvent]:
        """Scale gangs down for a job, and start it after that, unless it is left to a later pass."""
        rule = STARVES.format(job=job.name, seconds=_waited_ms(view, job) // 1000)
        plans = [
            self._scale(view, view.jobs[name], shape, offset, rule=rule, room_for=job.name)
            for name, shape in made.shapes.items()
        ]
        yield from plans
        rules = view.parameters.dragon
        if not plans or rules.freed_is_left:
            return
        want = _want(job, rules)
        found = pack(want.roles, made.free, rules, first_node=want.first_node)
        if found is not None:
            after = tuple(plan.plan for plan in plans)
            yield self.state.place(f"place-{offset}-{job.name}", job, found, c.Because(rule=AFTER), after)
            walk.room.was_taken(view.nodes[name] for name in dict.fromkeys(found.nodes))

    # --- those that start ---------------------------------------------------------------------------------------------

    def _start_waiting(self, view: ClusterView, walk: QueueWalk, offset: int) -> Iterator[c.ClusterEvent]:
        started = False
        for job in walk.jobs(self._awaits):
            if started and view.parameters.dragon.one_start:
                wish = walk.order.wish(job.name)
                walk.room.reopen(() if wish is None else (wish,))
                walk.tried(placed=False)
                continue
            made = list(self._try(view, walk, job, offset))
            yield from made
            placed = any(isinstance(event, c.PlacementPlanned) for event in made)
            started = started or placed
            walk.tried(placed=placed, rejected=bool(made) and not placed)

    def _try(self, view: ClusterView, walk: QueueWalk, job: Job, offset: int) -> Iterator[c.ClusterEvent]:
        """Start a job, or reject it where it never can be started."""
        wish = walk.order.wish(job.name) or wish_of(job)
        rules = view.parameters.dragon
        found = None
        if walk.room.may_have(wish):
            found = pack(
                job.spec.all_roles,
                walk.room.slots_for(wish),
                rules,
                first_node=wish.first_node,
                allows=lambda sizes: walk.excess(job, sizes) is None,
            )
        if found is not None:
            single = ON_ONE if len(dict.fromkeys(found.nodes)) == 1 else ON_SEVERAL
            because = c.Because(rule=single if rules.locality else SPREAD)
            yield self.state.place(f"place-{offset}-{job.name}", job, found, because)
            walk.room.was_taken(view.nodes[name] for name in dict.fromkeys(found.nodes))
            return
        walk.room.found_none(wish)
        if why := why_never_placed(view, job):
            yield self._reject(job, why)

    def _reject(self, job: Job, why: str) -> c.JobRejected:
        self.state.announced[job.name] = None
        return c.JobRejected(job=job.name, request=job.request, reason=why)

    # --- those that grow ----------------------------------------------------------------------------------------------

    def _grow(self, view: ClusterView, walk: QueueWalk, offset: int) -> Iterator[c.ClusterEvent]:
        """Let running gangs grow; those of queues with limits stay as they are."""
        rules = view.parameters.dragon
        jobs = [job for job in self._gangs_in(view).in_order() if not is_limited(view, job)]
        rule = IDLE.format(seconds=(view.counted_ms - self.state.acted_counted_ms) // 1000)
        for job, shape in list(grown(jobs, walk.room.free_for, rules)):
            yield self._scale(view, job, shape, offset, rule=rule)
            walk.room.was_taken(view.nodes[name] for name in dict.fromkeys(shape.places.nodes))

    def _scale(
        self, view: ClusterView, job: Job, shape: Shape, offset: int, *, rule: str, room_for: str | None = None
    ) -> c.TransitionPlanned:
        name, because = f"scale-{offset}-{job.name}", c.Because(rule=rule)
        plan = scaling(job, shape.places, room_for, name, because, leaving=_surplus(job, shape))
        self.state.add_scaling(plan.plan, job, shape.places)
        self._gangs_in(view).refresh(job.name)
        return plan

    # --- what it looks at ---------------------------------------------------------------------------------------------

    def _gangs_in(self, view: ClusterView) -> RunningGangs:
        if self._index is None or not self._index.is_of(view, self.state):
            self._index = RunningGangs(view, self.state)
        return self._index

    def _awaits(self, job: Job) -> bool:
        return self.state.concerns(job) or job.name in self.state.announced


def _want(job: Job, rules: DragonParameters) -> Want:
    return least(job.spec.all_roles, rules, wish_of(job).first_node, job.node_rule)


def _surplus(job: Job, shape: Shape) -> tuple[int, ...]:
    """The replicas that may leave a gang, and so bring it to a smaller shape without a restart; empty where none may."""
    leaving = shape.leaving(job)
    may = all(job.spec.all_roles[job.replicas[index].role].may_leave for index in leaving)
    return leaving if may and 0 not in leaving and job.saver not in leaving else ()


def _waited_ms(view: ClusterView, job: Job) -> int:
    """Counted time since a job was submitted, suspended, or let go after a failure."""
    return view.counted_ms - max(job.submitted_counted_ms, job.suspended_counted_ms, job.not_before_counted_ms)
