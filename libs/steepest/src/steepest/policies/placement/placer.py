"""The placer: admits jobs, gives those that wait their node, starts failed ones again, and says when a job is over.

It decides about a job when a record concerns it, and goes through the queue when a record may have made room. Which
node a job gets is the placement policy's business. Where DRAGON is on, the gang-scheduler places instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from steepest.describe import ENDED_BY_USER
from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.received import Received
from steepest.policies.decider import EVERY
from steepest.policies.pending import Pending
from steepest.policies.placement.gangs import GangPlaces, choose
from steepest.policies.placement.policies import PlacementPolicy, placement
from steepest.policies.placement.preemption import Candidate, preempt, suspendable
from steepest.policies.placement.queue_walk import QueueWalk, read_back, walk_of
from steepest.policies.placement.rejection import why_never_placed, why_not_taken
from steepest.policies.placement.releases import (
    Request,
    after_end,
    after_hold,
    after_submission,
    overdue,
    suspended_by_users,
)
from steepest.policies.queueing.ranks import rule_for
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.policies.steepest.devices.which_jobs import has_devices, is_in_force
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Node, Phase

LEFT = 85
"""Exit status of a process that saved and left; outside a plan it is started again."""

READS = EVERY - {c.NodeUsage}
"""All but the most frequent ones, which say nothing of where a job stands."""

MAKE_ROOM = frozenset(
    {
        c.Tick,
        c.NodeJoined,
        c.ReplicaStopped,
        c.JobStopped,
        c.JobEnded,
        c.RetryPlanned,
        c.MigrationFinished,
        c.MigrationFailed,
        c.PlanAbandoned,
        c.JobSuspended,
        c.JobChangeRequested,
        c.TrialJudged,
        c.NodeDrainRequested,
        c.TransitionFinished,
        c.TransitionFailed,
    }
)
"""Events after which a job that waits may fit."""

DECIDED = frozenset(
    {
        c.TransitionPlanned,
        c.PlacementPlanned,
        c.RetryPlanned,
        c.JobRejected,
        c.JobEnded,
        c.JobCancelRequested,
        c.JobChangeRequested,
    }
)
"""What the placer decides and waits to read back."""

ENDS = (c.JobEnded, c.JobRejected)
HELD = (c.JobChangeRequested, c.TrialJudged, c.JobSuspended, c.RetryPlanned)
"""Events after which a job may wait that is held."""

NODES_SEEN = 16
"""Nodes that a plan names in its reasons."""

GANG_ON_ONE = "gang: the emptiest node that has room for all replicas"
GANG_ON_SEVERAL = "gang: the fewest nodes, those with room for most replicas first"

HOPELESS = frozenset({c.StepFailure.NO_SUCH_PROGRAM.value, c.StepFailure.NO_SUCH_JOB.value})
"""Codes of failed starts that no retry can mend."""

CHECKPOINT_TRIES = 8
"""Retries in a row after which a job whose checkpoint cannot be read has failed: its volume has had some minutes to return.
It is not started without the checkpoint, which would lose its work without a word."""


class PlacerState(Pending):
    """What the placer waits to read back.

    Attributes:
        announced: The jobs of which it decided that they have ended or wait again.
        again: The jobs about which it is to decide at the next record, because the log has other than it said.
        asked: The jobs for which it has made a request in place of their users.
    """

    announced: dict[str, None] = msgspec.field(default_factory=dict)
    again: dict[str, None] = msgspec.field(default_factory=dict)
    asked: dict[str, None] = msgspec.field(default_factory=dict)


class Placer:
    """The life of a job outside its moves."""

    name = "placer"
    logic = 3
    state_type = PlacerState

    def __init__(self, state: PlacerState | None = None, policy: PlacementPolicy | None = None) -> None:
        """A placer.

        Args:
            state: What it waits to read back.
            policy: The placement policy, if it is one that needs more than a pool's log holds; None: the one that the
                pool's parameters name.
        """
        self.reads = EVERY
        self.state = state or PlacerState()
        self._given = policy
        self._walk: QueueWalk | None = None

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: a job that waits is placed when the queue is gone through next."""
        match event:
            case c.PlacementPlanned(plan=plan) | c.TransitionPlanned(plan=plan):
                read_back(self._walk, self.state, plan)
            case c.JobCancelRequested(job=job) | c.JobChangeRequested(job=job):
                self.state.asked.pop(job, None)
                self.state.again[job] = None
                self.reads = EVERY
            case c.JobAdmitted(job=job) | c.JobRejected(job=job) | c.RetryPlanned(job=job) | c.JobEnded(job=job):
                self.state.announced.pop(job, None)
                self.state.again[job] = None
                self.reads = EVERY

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record."""
        event, job = received.event, view.touched
        self.reads = READS
        if type(event) in DECIDED:
            self._note_decided(event)
        decided: list[c.ClusterEvent] = []
        if self.state.again:
            decided.extend(self._decide_again(view, received.offset))
        if isinstance(event, c.NodeGone):
            decided.extend(self._announce_stopped(view))
        elif isinstance(event, c.JobSubmitted) and job is not None:
            decided.extend(_admission(view, job, event.request))
            decided.extend(self._ask(after_submission(view, job, received.offset, self.state.asked)))
            decided.extend(self._place_at_once(job, view, received.offset))
        elif job is not None and job.name not in self.state.announced:
            decided.extend(self._announce(job, _verdict(view, job)))
        if isinstance(event, ENDS) and job is not None and job.phase is Phase.ENDED:
            decided.extend(self._ask(after_end(view, job, received.offset, self.state.asked)))
        elif isinstance(event, HELD) and job is not None:
            decided.extend(self._ask(after_hold(view, job, received.offset, self.state.asked)))
        if isinstance(event, c.Tick):
            decided.extend(self._stop_running(view, received.offset))
        if type(event) in MAKE_ROOM and view.jobs.queue.any_ready and not self._awaits_return(view):
            decided.extend(self._place_waiting(view, received.offset))
            if isinstance(event, c.Tick) and view.parameters.queueing.preempt:
                decided.extend(self._preempt(view, received.offset))
        return decided

    def _ask(self, requests: Iterable[Request]) -> Iterator[c.ClusterEvent]:
        for request in requests:
            self.state.asked[request.job] = None
            yield request

    def _stop_running(self, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        """At a tick: stop the jobs whose time is over, and suspend those that their users hold."""
        yield from self._ask(overdue(view, offset, self.state.asked))
        for plan in suspended_by_users(view, offset):
            if not self._awaits(view.jobs[plan.job]):
                self.state.add_suspension(plan.plan, view.jobs[plan.job])
                yield plan

    def _note_decided(self, event: c.ClusterEvent) -> None:
        match event:
            case c.TransitionPlanned(plan=plan) | c.PlacementPlanned(plan=plan):
                read_back(self._walk, self.state, plan)
            case c.RetryPlanned() | c.JobRejected() | c.JobEnded():
                self.state.announced.pop(event.job, None)
                self.state.asked.pop(event.job, None)
            case c.JobCancelRequested() | c.JobChangeRequested():
                self.state.asked.pop(event.job, None)

    def _decide_again(self, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        names, self.state.again = self.state.again, {}
        for job in [view.jobs[name] for name in names if name in view.jobs]:
            if job.phase is Phase.WAITING:
                yield from _admission(view, job, job.request)
                yield from self._ask(after_submission(view, job, offset, self.state.asked))
            if job.name not in self.state.announced:
                yield from self._announce(job, _verdict(view, job))

    def _announce_stopped(self, view: ClusterView) -> Iterator[c.ClusterEvent]:
        for job in [each for each in view.jobs if each.phase is Phase.STOPPED]:
            if job.name not in self.state.announced:
                yield from self._announce(job, _verdict(view, job))

    def _announce(self, job: Job, verdict: c.ClusterEvent | None) -> Iterator[c.ClusterEvent]:
        if verdict is not None:
            self.state.announced[job.name] = None
            yield verdict

    def _awaits_return(self, view: ClusterView) -> bool:
        """Whether a job that lost its process is about to wait again: once that is read back, the queue is gone through."""
        return any(name in view.jobs and _is_lost(view.jobs[name]) for name in self.state.announced)

    def _place_at_once(self, job: Job, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        """Place a job that was just submitted, regardless of the others that wait unless the queue blocks."""
        if view.parameters.dragon.on:
            return
        if view.parameters.queueing.blocking:
            yield from self._place_waiting(view, offset)
        elif _may_place(view, job) and not self._leaves(view)(job):
            self._walk_in(view).room.look()
            yield from self._try(job, view, offset)

    def _place_waiting(self, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        """Go through the queue in order. A job that does not fit blocks those behind it, or is passed over."""
        if view.parameters.dragon.on:
            return
        walk = self._walk_in(view)
        for job in walk.jobs(self._leaves(view)):
            made = list(self._try(job, view, offset))
            yield from made
            placed = any(isinstance(event, c.PlacementPlanned) for event in made)
            walk.tried(placed=placed, rejected=bool(made) and not placed)

    def _preempt(self, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        """At a tick: make room for the first job in the queue for which suspensions make any."""
        if view.parameters.dragon.on or view.parameters.queueing.policy != "priority":
            return
        walk = self._walk_in(view)
        candidates: Sequence[Candidate] | None = None
        for job in walk.heads(self._leaves(view)):
            wish = walk.allowed(job)
            if candidates is None:  # the first one is the most urgent
                candidates = list(suspendable(view, job, offset, self._awaits))
            found = preempt(job, wish, walk.room.slots_for(wish).free, candidates)
            if found is not None:
                for plan in found.suspensions:
                    self.state.add_suspension(plan.plan, view.jobs[plan.job])
                    yield plan
                yield self._plan(view, job, found.places, offset, after=tuple(plan.plan for plan in found.suspensions))
                walk.room.was_taken(view.nodes[name] for name in dict.fromkeys(found.places.nodes))
                return
            walk.tried(placed=False)

    def _try(self, job: Job, view: ClusterView, offset: int) -> Iterator[c.ClusterEvent]:
        """Place a job that may be placed, or reject it where it never can be."""
        walk = self._walk_in(view)
        wish = walk.order.wish(job.name) or wish_of(job)
        if not walk.may_be_tried(job):
            return
        found = self._places(view, job, wish, walk) if walk.room.may_have(wish) else None
        if found is not None:
            yield self._plan(view, job, found, offset)
            walk.room.was_taken(view.nodes[name] for name in dict.fromkeys(found.nodes))
            return
        walk.room.found_none(wish)
        if why := why_never_placed(view, job):
            yield from self._announce(job, c.JobRejected(job=job.name, request=job.request, reason=why))

    def _walk_in(self, view: ClusterView) -> QueueWalk:
        self._walk = walk_of(self._walk, view, self.state)
        return self._walk

    def _leaves(self, view: ClusterView) -> Callable[[Job], bool]:
        """Which waiting jobs it leaves alone: those that await a decision, and those with devices that are planned for."""
        planned = is_in_force(view.parameters)
        return lambda job: self._awaits(job) or (planned and has_devices(job))

    def _awaits(self, job: Job) -> bool:
        return self.state.concerns(job) or job.name in self.state.announced

    def _places(self, view: ClusterView, job: Job, wish: Wish, walk: QueueWalk) -> GangPlaces | None:
        """Where a job's replicas would be; of a gang, as many as there is room for and its queue may have."""
        if wish.roles:
            return choose(
                wish.roles,
                walk.room.slots_for(wish),
                first_node=wish.first_node,
                allows=lambda sizes: walk.excess(job, sizes) is None,
            )
        node = self._node(view, job)
        return None if node is None else GangPlaces((node.name,), ())

    def _node(self, view: ClusterView, job: Job) -> Node | None:
        pinned = _first_node(job)
        if pinned is None:
            return self._policy(view).choose(view, job, self.state)
        node = view.nodes.get(pinned)
        return None if node is None or self.state.no_room(job, node) else node

    def _policy(self, view: ClusterView) -> PlacementPolicy:
        return self._given or placement(view.parameters.placement)

    def _plan(
        self, view: ClusterView, job: Job, found: GangPlaces, offset: int, after: tuple[str, ...] = ()
    ) -> c.PlacementPlanned:
        nodes = [view.nodes[name] for name in dict.fromkeys(found.nodes)]
        seen = [
            c.NodeScore(node=node.name, score=0.0, used_cpu_m=node.used.cpu_m, replicas=self.state.count(node))
            for node in nodes[:NODES_SEEN]
        ]
        if job.spec.is_gang:
            rule = GANG_ON_ONE if len(nodes) == 1 else GANG_ON_SEVERAL
        else:
            rule = "its user names the first node" if _first_node(job) else self._policy(view).rule
        if view.parameters.queueing.policy != "fifo":
            rule = f"{rule}; {rule_for(view, job)}"
        because = c.Because(rule=rule, nodes=tuple(seen))
        return self.state.place(f"place-{offset}-{job.name}", job, found, because, after)


def _admission(view: ClusterView, job: Job, request: str) -> Iterator[c.ClusterEvent]:
    if why := why_not_taken(view, job, request):
        yield c.JobRejected(job=job.name, request=request, reason=why)
    elif not job.admitted:
        yield c.JobAdmitted(job=job.name, request=request)


def _may_place(view: ClusterView, job: Job) -> bool:
    return view.jobs.queue.find_ready(job.name) is job


def _first_node(job: Job) -> str | None:
    return wish_of(job).first_node


def _verdict(view: ClusterView, job: Job) -> c.ClusterEvent | None:
    """A job without a process and without a plan: is it over, or does it wait again? None where there is nothing to say."""
    if job.phase is Phase.STOPPED and job.exit_status == 0:
        return c.JobEnded(job=job.name, outcome=c.Outcome.FINISHED, exit_status=0)
    if job.cancel and (job.is_queued or job.phase is Phase.STOPPED):
        if job.goal_reached:
            reason = f"goal reached: {job.goal_reached}"
            return c.JobEnded(job=job.name, outcome=c.Outcome.FINISHED, exit_status=job.exit_status, reason=reason)
        reason = job.cancel_reason or ENDED_BY_USER
        return c.JobEnded(job=job.name, outcome=c.Outcome.CANCELLED, exit_status=job.exit_status, reason=reason)
    if job.phase is not Phase.STOPPED:
        return None
    why = job.reaction or _why_stopped(job)
    charged = not job.reaction and _is_charged(job)
    is_hopeless = job.stop_code in HOPELESS
    is_lost = job.stop_code == c.StepFailure.CHECKPOINT_REFUSED and job.refusals >= CHECKPOINT_TRIES
    is_given_up = job.reaction and not job.restarts
    if is_given_up or is_lost or is_hopeless or (charged and job.retries_used >= job.spec.retries):
        return c.JobEnded(job=job.name, outcome=c.Outcome.FAILED, exit_status=job.exit_status, reason=why)
    return c.RetryPlanned(
        job=job.name,
        incarnation=job.incarnation,
        charged=charged,
        not_before_ms=_held_until(view, job),
        reason=why,
    )


def _held_until(view: ClusterView, job: Job) -> int:
    """Counted time before which a stopped job does not start again. Each further stop doubles the hold.

    A process that was lost is no failure: its hold counts from its start, so that only one that is lost again and again
    waits. One that was stopped with the system, or with its node, goes on immediately.
    """
    hold = view.parameters.retry_hold_ms << min(job.retries_held, 6)
    begin = job.started_counted_ms if _is_lost(job) else view.counted_ms
    return min(max(begin + hold, view.counted_ms), LARGEST)


def _is_lost(job: Job) -> bool:
    """Whether its process is gone, and neither by itself nor by a plan or a reaction."""
    is_gone = job.phase is Phase.STOPPED and job.stopped_incarnation == job.incarnation
    return is_gone and job.exit_status is None and not job.reaction


def _is_charged(job: Job) -> bool:
    """Whether a stop counts against the job's retries: its own failures do; a lost process or place does not.

    Leaving with 85 outside a plan is free only with a new checkpoint to show, or a job could do so for ever.
    """
    if job.exit_status == LEFT:
        return not job.saved_since_start
    return job.exit_status is not None


def _why_stopped(job: Job) -> str:
    reason = f": {job.stop_reason}" if job.stop_reason else ""
    if job.exit_status is None:
        gone = job.stopped_incarnation == job.incarnation
        return f"its process is gone{reason}" if gone else f"it could not be started{reason}"
    if job.exit_status == LEFT:
        return f"it left with status 85 outside a plan{reason}"
    if job.exit_status < 0:
        return f"it was killed by signal {-job.exit_status}{reason}"
    return f"it exited with status {job.exit_status}{reason}"
