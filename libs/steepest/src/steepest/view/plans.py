"""Plans: which are valid, and how each one moves on.

Rules: all that moves a plan lives in this file, and the file does not know who carries a plan out.

Theory. A plan is *valid* if, where it stands in the log, the incarnation that it names is the job's current one, no other
plan is in flight for the job, its algorithm has not decided about the job before, and its requests fit what is free at its
target. The first in log order wins. A valid plan
holds its target's place at once and is *in flight* until the event that concludes it; a void one keeps its reason.

A plan in flight walks through steps. Each step is *due*, then *begun* (``StepBegun``), then done (its outcome) or failed
(``StepFailed``). ``attempt`` numbers the beginnings: a step begun again (after a failure, or because whoever began it is
gone) outdates all that its earlier beginning may still report. A step whose effect is unclear is due again after a hold,
for as long as it takes. A step that failed definitely ``tries`` times is given up, which turns a migration that has stopped
its job already onto the way *back* to the job's old node. When no step is left the
plan is *done* (or *failed*), and waits only for its conclusion.

::

    kind      heading   steps
    place     forward   START
    migrate   forward   CHECKPOINT → STOP → START → VERIFY     a job that saves on request
    migrate   forward   STOP → START → VERIFY                  a job that saves when stopped
    migrate   back      START → VERIFY
    cancel    forward   STOP

A job that ends by itself or is cancelled *dooms* its plan: the plan is abandoned as soon as no step is under way, and no
further step may begin. Only a START whose effect is unclear is begun again first, or a process might run that nobody knows
of. STOP is the step that cannot be undone; before it, a migration that fails leaves its job as it was.

Where an operator says that a node is gone for good, a plan that has nowhere else to go is over at once; a migration loses
that node from its ``sources`` or ``targets``, and goes on or back with the other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from steepest.events.cluster import MigrationPlanned, MoveKind, PlacementPlanned, Step, StepBegun
from steepest.events.common import CheckpointMode
from steepest.events.parameters import MoveLimits
from steepest.view.movable import why_immovable
from steepest.view.nodes import Nodes, in_words
from steepest.view.state import Heading, Job, Node, Phase, Plan, PlanKind, PlanStatus

STEPS: Mapping[tuple[PlanKind, Heading, CheckpointMode | None], tuple[Step, ...]] = {
    (PlanKind.PLACE, Heading.FORWARD, None): (Step.START,),
    (PlanKind.MIGRATE, Heading.FORWARD, CheckpointMode.ON_REQUEST): (
        Step.CHECKPOINT,
        Step.STOP,
        Step.START,
        Step.VERIFY,
    ),
    (PlanKind.MIGRATE, Heading.FORWARD, CheckpointMode.ON_STOP): (Step.STOP, Step.START, Step.VERIFY),
    (PlanKind.MIGRATE, Heading.BACK, None): (Step.START, Step.VERIFY),
    (PlanKind.CANCEL, Heading.FORWARD, None): (Step.STOP,),
}

RETRY_HOLD_MS = 1_000
"""Counted time before a step whose effect is unclear is begun again; doubles up to 32 times this."""


# --- validity -------------------------------------------------------------------------------------------------------


def why_void_placement(event: PlacementPlanned, job: Job | None, nodes: Nodes) -> str:
    """Why a placement is void where it stands; empty if it is valid."""
    if job is None or job.phase is not Phase.WAITING:
        return "the job does not wait for a place"
    if why := _why_outdated(event, job):
        return why
    if len(event.nodes) != job.spec.replicas or not event.nodes:
        return f"it places {len(event.nodes)} replicas of {job.spec.replicas}"
    wanted = Counter(event.nodes).items()
    return next((why for name, count in wanted if (why := why_no_room(job, nodes.get(name), name, count))), "")


def why_void_migration(event: MigrationPlanned, job: Job | None, nodes: Nodes) -> str:
    """Why a migration is void where it stands; empty if it is valid."""
    if job is None or job.phase is not Phase.RUNNING:
        return "the job does not run"
    if why := _why_outdated(event, job) or why_immovable(job) or why_not_again(job, event.kind):
        return why
    if job.node != event.source or event.source == event.target:
        return f"the job is on {job.node}, and the plan moves it from {event.source} to {event.target}"
    source = nodes.get(event.source)
    if source is None or source.lost:
        return f"node {event.source} is lost, and nobody there would save and stop the job"
    return why_no_room(job, nodes.get(event.target), event.target)


def _why_outdated(event: PlacementPlanned | MigrationPlanned, job: Job) -> str:
    if event.incarnation != job.incarnation:
        return f"it names incarnation {event.incarnation}, and the job's is {job.incarnation}"
    if job.cancel:
        return "the job is cancelled"
    return f"plan {job.plan} is in flight" if job.plan else ""


def why_not_again(job: Job, kind: MoveKind) -> str:
    """Why an algorithm must not move a job any more; empty if it may."""
    match kind:
        case MoveKind.REALLOCATION if job.migrated:
            return "Algorithm 4 has decided about it already"
        case MoveKind.REBALANCE if job.rebalanced:
            return "Algorithm 5 has moved it already"
    return ""


def why_no_room(job: Job, node: Node | None, name: str, replicas: int = 1) -> str:
    """Why that many more replicas of ``job`` have no place on a node; empty if they have."""
    if node is None:
        return f"there is no node {name}"
    if node.lost:
        return f"node {name} is lost"
    if not node.takes_jobs:
        return f"node {name} only reports, and takes no jobs"
    wanted = job.spec.requests
    for _ in range(replicas - 1):
        wanted += job.spec.requests
    if not wanted.fits(node.free):
        return f"node {name} has not enough free: {in_words(node.free)}, and {in_words(wanted)} is asked for"
    return ""


# --- the machine ----------------------------------------------------------------------------------------------------


def begin_walk(plan: Plan, mode: CheckpointMode) -> None:
    """Set the steps of a new plan or of a new heading."""
    wanted = mode if (plan.kind, plan.heading) == (PlanKind.MIGRATE, Heading.FORWARD) else None
    _due(plan, STEPS[plan.kind, plan.heading, wanted])


def turn_back(plan: Plan) -> None:
    """The job is stopped and cannot go on at its target: it is started again where it was."""
    plan.heading = Heading.BACK
    plan.next_incarnation = 0
    begin_walk(plan, CheckpointMode.NONE)


def _due(plan: Plan, steps: tuple[Step, ...]) -> None:
    plan.steps = steps
    plan.begun = False
    plan.failures = plan.unclear = plan.not_before_counted_ms = 0


def may_begin(plan: Plan, event: StepBegun, job: Job) -> bool:
    """Whether a ``StepBegun`` counts where it stands: the plan still holds, and it is the next beginning."""
    return (
        plan.status is PlanStatus.IN_FLIGHT
        and event.step is plan.step
        and event.attempt == plan.attempt + 1
        and (plan.begun or not must_give_up(plan, job))
        and _acts_on_the_right_one(plan, event, job)
    )


def _acts_on_the_right_one(plan: Plan, event: StepBegun, job: Job) -> bool:
    if event.step is not Step.START:
        return event.incarnation == job.incarnation
    return event.incarnation == incarnation_to_start(plan, job) and event.node == plan.destination


def must_give_up(plan: Plan, job: Job) -> str:
    """Why no further step of the plan may begin; empty if one may."""
    if plan.kind is PlanKind.CANCEL or (plan.unclear and plan.step is Step.START):
        return ""
    return plan.doomed or ("cancelled" if job.cancel else "")


def incarnation_to_start(plan: Plan, job: Job) -> int:
    """The number that the plan's START gives: one more than any before, and the same again for a repeated attempt."""
    return plan.next_incarnation or job.incarnation + 1


def begun(plan: Plan, event: StepBegun) -> None:
    """A step begins."""
    plan.begun = True
    plan.attempt = event.attempt
    if event.step is Step.START:
        plan.next_incarnation = event.incarnation


def counts(plan: Plan | None, step: Step, attempt: int) -> bool:
    """Whether an outcome is the first one of the newest beginning of the step that is under way."""
    return (
        plan is not None
        and plan.status is PlanStatus.IN_FLIGHT
        and plan.begun
        and plan.step is step
        and plan.attempt == attempt
    )


def step_done(plan: Plan) -> None:
    """The step under way has its outcome: the next one is due."""
    _due(plan, plan.steps[1:])
    if plan.step is Step.START and not plan.targets:
        turn_back(plan)
    elif not plan.steps:
        plan.heading = Heading.FAILED if plan.heading is Heading.BACK else Heading.DONE


def step_failed(plan: Plan, job: Job, *, definite: bool, code: str, message: str, now: int, limits: MoveLimits) -> None:
    """The step under way failed: it is due again, or given up."""
    step = plan.step
    plan.begun = False
    if not definite:
        # It may have taken effect: only the same step again, which looks before it acts.
        plan.unclear += 1
        plan.not_before_counted_ms = now + _hold_ms(plan.unclear)
        return
    plan.unclear = 0
    plan.failures += 1
    if plan.kind is PlanKind.CANCEL and code not in NOT_RUNNING:  # a cancel is never given up
        plan.not_before_counted_ms = now + _hold_ms(plan.failures)
        return
    if code not in FINAL and plan.failures < limits.tries:
        return
    plan.code, plan.message = code, message
    stopped = plan.kind is PlanKind.MIGRATE and step in {Step.START, Step.VERIFY} and not job.alive
    if stopped and plan.heading is Heading.FORWARD and plan.sources:
        turn_back(plan)
    else:
        plan.heading = Heading.FAILED
        plan.steps = ()


def _hold_ms(failures: int) -> int:
    return int(RETRY_HOLD_MS * 2 ** min(failures - 1, 5))


NOT_RUNNING = frozenset({"ended", "unknown-incarnation"})
"""Codes of failures which say that the incarnation surely does not run."""

FINAL = NOT_RUNNING | {"no-such-program", "stale-incarnation", "unknown-node", "step-timeout"}
"""Codes of failures that trying the same step again cannot mend."""
