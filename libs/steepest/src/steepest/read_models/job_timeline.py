"""The timeline of a job: the decisions about it, their inputs, and why it waits now.

It owns what belongs to the timeline. Pure: a function of the log and the view; printing is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from steepest.describe import (
    CATEGORIES,
    ENDED,
    count,
    cpu_limit,
    fair_ends,
    fair_standing,
    growth_seen,
    is_routine,
    node_seen,
    percent,
    sentence,
    span,
)
from steepest.describe.findings import FOUND
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.policies.flowcon.with_specon import NotYet
from steepest.policies.forecast import remaining
from steepest.policies.pickyman.profiles import ProfileDatabase, learn_from
from steepest.policies.pickyman.run_time import unpredicted
from steepest.policies.pickyman.running import BY_PREDICTION
from steepest.policies.placement.standing import Standing, Waits, standings
from steepest.policies.queueing.ranks import rule_for
from steepest.policies.specon.undecided import Undecided, undecided
from steepest.policies.steepest.gangs.unmanaged import is_divided, is_managed
from steepest.read_models.alternatives import Alternative, explained
from steepest.read_models.device_promise import device_promise
from steepest.read_models.job_progress import in_words
from steepest.trace_context import trace_id, trace_in
from steepest.view.cluster_view import ClusterView
from steepest.view.jobs import GRACE_INTERVALS
from steepest.view.movable import immovable_sentence
from steepest.view.places.node_rules import doubtful_places, why_not_allowed
from steepest.view.progress import checkpoint_step, steps_left
from steepest.view.state import Job, Node, Phase, Plan, PlanKind
from steepest.view.validity import NoRoom, no_room, room_sentence

PLANS = (c.PlacementPlanned, c.MigrationPlanned, c.TransitionPlanned)

STEPS = (
    c.StepBegun,
    c.CheckpointSaved,
    c.CheckpointModeDeclared,
    c.CheckpointVerified,
    c.JobStopped,
    c.SurplusStopped,
    c.JobResumed,
    c.ReplicaStarted,
    c.ReplicaStopped,
)
"""Events that carry a decision out, or say what a process does."""

OTHERS_SHOWN = 4
"""Number of other jobs of a divided node that are shown with a job."""


class TimelineEntry(msgspec.Struct, kw_only=True):
    """One event of the timeline.

    Attributes:
        details: What it was decided from, a line each.
        because: The same for programs.
        rule: The algorithm and branch that decided; empty where nothing was decided.
        formula: How the rule decides.
        inputs: What it was decided from, as in ``because``.
        alternatives: What else could have been decided.
        step: Whether it is a step of carrying a decision out, or a fact about a process: no decision, and no outcome.
        void: Why it had no effect; empty where it had one.
        refusal: The code of that.
        again: How often it came again right afterwards.
        trace: The id of the trace that it belongs to; empty: of none.
    """

    offset: int
    at_ms: int
    type: str
    sentence: str
    details: list[str]
    because: Any = None
    rule: str = ""
    formula: str = ""
    inputs: Mapping[str, Any] = {}
    alternatives: tuple[Alternative, ...] = ()
    step: bool = False
    void: str = ""
    refusal: str | None = None
    again: int = 0
    trace: str = ""


class JobTimeline(msgspec.Struct, kw_only=True):
    """A job's timeline.

    Attributes:
        now: What it does or waits for, and why.
        progress: How far it is, and how much time is left; empty where that is unknown, and once it is over.
        left_out: How many of its loss records were left out, because they were more than is taken of one job.
        stop_replica: The replica whose end was the end of the job: what that one printed tells why.
    """

    job: str
    phase: Phase
    outcome: c.Outcome | None
    entries: list[TimelineEntry]
    now: str
    progress: str = ""
    left_out: int = 0
    stop_replica: int = 0


class TimelineCollector:
    """Collects the timeline of one job while its pool's log is folded."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._entries: list[TimelineEntry] = []
        self._limit: c.JobLimit | None = None
        self._standing: c.FairStanding | None = None
        self._at_ms = 0
        self._profiles = ProfileDatabase()

    def hear(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Take in a record that ``view`` has folded."""
        event = received.event
        self._at_ms = received.at_ms
        if accepted:
            learn_from(self._profiles, view, event, received.at_ms, view.parameters.pickyman.profiles)
        if isinstance(event, c.LimitsPlanned):
            self._hear_limits(view, event, received)
            return
        if getattr(event, "job", None) != self._job or is_routine(event) or _of_a_namesake(view, event):
            return
        void = "" if accepted else why_void(view, received)
        if not accepted and not void:
            return
        last = self._entries[-1] if self._entries else None
        if last is not None and isinstance(event, c.ReallocationRequested) and last.type == type(event).__name__:
            last.again += 1
            last.details = [f"requested again {count(last.again, 'time')}"]
            return
        self._entries.append(_entry(view, received, void))

    def _hear_limits(self, view: ClusterView, event: c.LimitsPlanned, received: Received[c.ClusterEvent]) -> None:
        """A plan for a whole node is part of the timeline where the job's own limit or list is another one by it."""
        standing = next((one for one in event.because.standing if one.job == self._job), None)
        self._standing = standing or self._standing
        mine = next((limit for limit in event.limits if limit.job == self._job), None)
        if mine is not None and mine != self._limit:
            self._limit = mine
            self._entries.append(_limits_entry(view, event, mine, received))

    def timeline(self, view: ClusterView, left_out: int = 0) -> JobTimeline:
        """The job's timeline up to the view's position."""
        job = view.jobs[self._job]
        does = _does(view, job, _why_there(view, job, self._standing, self._at_ms))
        more = (*device_promise(view, job, self._at_ms), *_on_lost_nodes(view, job), *doubtful_places(job, view.nodes))
        return JobTimeline(
            job=job.name,
            phase=job.phase,
            outcome=job.outcome,
            entries=self._entries,
            now="; ".join([does, *more, *_why_unpredicted(view, job, self._profiles)]),
            progress="" if job.phase is Phase.ENDED else in_words(job, remaining(view, job, self._at_ms)),
            left_out=left_out,
            stop_replica=job.stop_replica,
        )


def _of_a_namesake(view: ClusterView, event: c.ClusterEvent) -> bool:
    """Whether a request, or its answer, was about another job that wanted the same name."""
    job = view.touched
    return (
        isinstance(event, c.JobSubmitted | c.JobAdmitted | c.JobRejected)
        and job is not None
        and event.request != job.request
    )


def why_void(view: ClusterView, received: Received[c.ClusterEvent]) -> str:
    """Why the plan that was just folded has no effect; empty where the record is none, or was delivered before."""
    if not isinstance(received.event, PLANS):
        return ""
    plan = view.plan(received.event.plan) if view.refused else None
    return "" if plan is None else plan.reason


def _entry(view: ClusterView, received: Received[c.ClusterEvent], void: str) -> TimelineEntry:
    event, refusal = received.event, view.refused
    seen = getattr(event, "because", None)
    because = seen if isinstance(seen, c.Because) else None
    details = [f"void ({refusal}): {void}"] if void else []
    return TimelineEntry(
        offset=received.offset,
        at_ms=received.at_ms,
        type=type(event).__name__,
        sentence=sentence(event),
        details=details + (list(_inputs(because, received.at_ms)) if because else []),
        because=because,
        step=isinstance(event, STEPS) and not (isinstance(event, c.CheckpointModeDeclared) and event.reason),
        **msgspec.structs.asdict(explained(view, event, getattr(event, "job", ""), void)),
        void=void,
        refusal=refusal,
        trace=trace_id(trace_in(received.headers)),
    )


def _limits_entry(
    view: ClusterView, event: c.LimitsPlanned, mine: c.JobLimit, received: Received[c.ClusterEvent]
) -> TimelineEntry:
    because = event.because
    listed = f"; now in {mine.growth_list}" if mine.growth_list else ""
    details = [f"considered {growth_seen(job)}" for job in because.jobs]
    details += _divided_among(because.standing, mine.job, received.at_ms)
    if because.jobs:
        details.append(
            f"ΣG = {because.total:.4g}, β = {because.beta:.3g}: no limit below {because.floor:.1%} of the node"
        )
    return TimelineEntry(
        offset=received.offset,
        at_ms=received.at_ms,
        type=type(event).__name__,
        sentence=f"{mine.job}: {cpu_limit(mine.cpu_m)} planned on {event.node}{listed} ({because.rule})",
        details=details,
        because=because,
        **msgspec.structs.asdict(explained(view, event, mine.job)),
        trace=trace_id(trace_in(received.headers)),
    )


def _divided_among(standing: Sequence[c.FairStanding], mine: str, at_ms: int) -> Iterator[str]:
    """The jobs that a node was divided among: the job itself, then those for which a core-second is worth most."""
    ordered = sorted(standing, key=lambda one: (one.job != mine, -(one.index or 0.0), one.job))
    shown = ordered[: 1 + OTHERS_SHOWN]
    yield from (f"considered {fair_standing(one, at_ms)}" for one in shown)
    if more := len(ordered) - len(shown):
        yield f"and {count(more, 'other job')} there"


def _inputs(because: c.Because, at_ms: int) -> Iterator[str]:
    for node in because.nodes:
        yield f"considered {node_seen(node)}"
    if because.growing is not None:
        yield f"{count(because.growing, 'growing job')} on its node (|PC| + |WC|)"
    if because.balance_factor is not None:
        yield f"the balance factor is {because.balance_factor}"
    if because.converged_ms is not None:
        yield f"it converged {span(because.converged_ms)} before"
    if because.standing is not None:
        yield f"considered {fair_standing(because.standing, at_ms)}"
    if because.gain_ms is not None:
        yield f"{span(because.gain_ms)} gained, after the cost of the move"
    if because.move_ms is not None:
        yield f"the move is predicted to take {span(because.move_ms)}"
    for other in because.alternatives:
        yield f"or {other.job} to {other.target}: {span(other.gain_ms)} gained"
    if because.preemption is not None:
        yield from _preemption(because.preemption)


def _preemption(seen: c.PreemptionSeen) -> Iterator[str]:
    yield f"{span(seen.saves_ms)} of waiting saved, {span(seen.costs_ms)} caused"
    for one in (*seen.victims, *seen.others):
        spared = f"spared: {one.spared}" if one.spared else "gives way"
        left = "an unknown time" if one.remaining_ms is None else span(one.remaining_ms)
        yield (
            f"{one.job}: {left} left, {span(one.suspension_ms)} to suspend, "
            f"{span(one.resumption_ms)} to resume; {spared}"
        )


BEING = {
    PlanKind.PLACE: "placed on",
    PlanKind.MIGRATE: "moved to",
    PlanKind.SUSPEND: "suspended on",
    PlanKind.SCALE: "scaled, to run on",
    PlanKind.MOVE: "moved to",
    PlanKind.SHED: "left by surplus replicas, to go on on",
    PlanKind.CANCEL: "cancelled on",
    PlanKind.CLEAR: "stopped, because a replica ended, on",
}
"""The effect of a plan in flight on its job, as a part of a sentence."""


def _does(view: ClusterView, job: Job, why_there: str) -> str:
    """The job's activity or the reason why it waits."""
    plan = view.plan_of(job)
    if job.phase is Phase.ENDED:
        return f"{job.name} has ended: {_how_over(job)}"
    if plan is not None:
        return _planned(view, plan)
    if job.cancel:
        waits = f"has reached its goal ({job.goal_reached}) and waits to be stopped" if job.goal_reached else ""
        return f"{job.name} {waits or 'waits to be cancelled'}"
    match job.phase:
        case Phase.WAITING | Phase.SUSPENDED:
            return f"{job.name} is {_queued(job)}: {'; '.join(_why_waiting(view, job))}"
        case Phase.RUNNING:
            wrong = "".join(f"; it {FOUND[kind]}: {found.why}" for kind, found in job.findings.items())
            return f"{job.name} runs on {job.node}{_limited(job)}{_growth(job)}; {why_there}{wrong}"
        case _:
            return f"{job.name} has stopped; whether it starts again is not decided yet"


def _queued(job: Job) -> str:
    if job.phase is Phase.WAITING:
        return "queued"
    return f"suspended at step {checkpoint_step(job) or 0}, and queued to resume"


def _how_over(job: Job) -> str:
    outcome = ENDED[job.outcome] if job.outcome else "outcome unknown"
    return f"{outcome}: {job.stop_reason}" if job.stop_reason and job.outcome is c.Outcome.FAILED else outcome


def _planned(view: ClusterView, plan: Plan) -> str:
    doing = f"{plan.job} is being {BEING[plan.kind]} {', '.join(dict.fromkeys(plan.targets or plan.sources))}"
    if plan.waits:
        return f"{doing}: it waits for the room that {', '.join(plan.waits)} will leave"
    if plan.step is None:
        return f"{doing}: all steps are done"
    hold = plan.not_before_counted_ms - view.counted_ms
    state = "under way" if plan.begun else (f"due again in {span(hold)}" if hold > 0 else "due")
    return f"{doing}: step “{plan.step}” is {state}"


def _why_waiting(view: ClusterView, job: Job) -> list[str]:
    if not job.admitted:
        return ["it is not admitted yet: the system does that once it runs"]
    hold = job.not_before_counted_ms - view.counted_ms
    if hold > 0:
        return [f"its next try is in {span(hold)}, after: {job.stop_reason or 'a failure'}"]
    if not list(view.nodes):
        return ["no node has joined"]
    standing = standings(view)[job.name]
    where = [*_position(standing), *([rule_for(view, job)] if view.parameters.queueing.policy == "fair" else [])]
    if standing.waits_for is not Waits.ROOM:
        return [standing.reason, *where]
    if job.spec.is_gang:
        return [standing.reason, *filter(None, (_why_not_allowed(node, job) for node in view.nodes)), *where]
    return [*filter(None, (_why_not_on(node, job) for node in view.nodes)), *where]


def _why_not_on(node: Node, job: Job) -> str:
    """Why a job of one replica has no place on a node; empty where it has."""
    wanted, rule = job.spec.chief_requests, job.node_rule
    refusal = no_room(wanted, node, rule)
    if refusal is NoRoom.NOT_ALLOWED:
        return _why_not_allowed(node, job)
    return "" if refusal is None else room_sentence(refusal, wanted, node, node.name)


def _why_not_allowed(node: Node, job: Job) -> str:
    """Why a job may not run on a node that takes jobs; empty if it may."""
    why = why_not_allowed(job.node_rule, node) if node.is_open else ""
    return f"the job may not run on node {node.name}: {why}" if why else ""


def _on_lost_nodes(view: ClusterView, job: Job) -> Iterator[str]:
    """What frees a job that is on a lost node."""
    plan = view.plan_of(job)
    planned = (*plan.sources, *plan.targets) if plan is not None else ()
    held = () if job.phase is Phase.ENDED else (*job.nodes, *planned)
    for name in dict.fromkeys(held):
        if view.nodes.is_lost(name):
            yield f"{name} is lost: if it never returns, `steepest nodes gone {name}` frees its jobs"


def _why_unpredicted(view: ClusterView, job: Job, profiles: ProfileDatabase) -> Iterator[str]:
    """Why PickyMan does not know how long a waiting job runs, and what that means for it."""
    parameters = view.parameters.pickyman
    is_known = job.forecast is not None and job.forecast.predicted.method is not c.PredictionMethod.UNKNOWN
    if parameters.on and not is_known and job.is_queued and job.plan is None and not job.cancel:
        so = ", so that no running job gives way to it" if parameters.rule in BY_PREDICTION else ""
        yield f"its run time is not predicted{so}: {unpredicted(job, profiles, parameters.profiles)}"


def _position(standing: Standing) -> Iterator[str]:
    if standing.waiting > 1:
        yield f"it is number {standing.position} of {standing.waiting} in the queue"
    if standing.start_ms is not None:
        yield f"it may start in {span(standing.start_ms)}, if running jobs end as estimated"


def _limited(job: Job) -> str:
    limit = job.limit
    if limit is None:
        return ""
    each = " each" if job.spec.is_gang and limit.in_force_m is not None else ""
    in_force = f" with {cpu_limit(limit.in_force_m)}{each}"
    if not limit.answered:
        return f"{in_force} ({cpu_limit(limit.cpu_m)} is requested)"
    return f"{in_force} ({cpu_limit(limit.cpu_m)} was refused: {limit.refused})" if limit.refused else in_force


def _growth(job: Job) -> str:
    if job.unknown:
        return f" (growth unknown: no loss was read in {GRACE_INTERVALS} intervals)"
    if job.growth is None:
        return " (no growth measured yet)"
    return f" and is {CATEGORIES[job.category]} (loss changed {percent(job.growth)} in the last interval)"


def _why_there(view: ClusterView, job: Job, standing: c.FairStanding | None, at_ms: int) -> str:
    """Why a running job is left where it is."""
    fixed = immovable_sentence(job, view.nodes.get(job.started_on))
    if view.parameters.steepest.on:
        stands = _under_steepest(job, standing, at_ms)
        return f"{stands}; it is not moved: {fixed}" if fixed else stands
    refusal = undecided(view, job)
    if refusal is Undecided.MOVES_OFF:
        return refusal.sentence
    if fixed:
        return f"it is not moved: {fixed}"
    if job.category is not c.Category.CONVERGED:
        return "jobs are moved once they have converged"
    if refusal is None:
        return "it requests another node after its next interval below α"
    waits = "its request for another place waits: " if isinstance(refusal, NotYet) else ""
    return f"{waits}{refusal.sentence}"


def _under_steepest(job: Job, standing: c.FairStanding | None, at_ms: int) -> str:
    """The job in the newest plan of its node."""
    if not is_managed(job) and not is_divided(job):
        return "it has its GPUs whole, and what it reserves of the CPU"
    if standing is None:
        return "its node has had enough CPU for all of its jobs since it began"
    if standing.due_ms is None and len(dict.fromkeys(job.nodes)) > 1:
        return "it is on several nodes, so that it keeps up with what fair sharing would give it"
    if standing.due_ms is None:
        unknown = "it is unknown how much is left of it, so it keeps up with what fair sharing would give it"
        return "all of its steps are done" if steps_left(job) == 0 else unknown
    can_use = f"{standing.demand_m}m CPU that it can use"
    cannot_wait = (
        f"{standing.must_m}m of the {can_use} cannot wait" if standing.must_m else f"all of the {can_use} may wait"
    )
    return f"it {' and '.join(fair_ends(standing, at_ms))}; {cannot_wait}"
