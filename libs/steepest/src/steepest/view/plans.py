"""Plans: which are valid, and how each one moves on.

Rules: all that moves a plan lives in this file, and the file does not know who carries a plan out.

Theory. A plan is *valid* if, where it stands in the log, the incarnation that it names is the job's current one, no other
plan is in flight for the job, and its requests fit what is free at its target. The first in log order wins. A valid plan
holds its target's place at once and is *in flight* until the event that concludes it; a void one keeps its reason.

A plan in flight walks through steps. Each step is *due*, then *begun* (``StepBegun``), then done (its outcome) or failed
(``StepFailed``). ``attempt`` numbers the beginnings: a step begun again (after a failure, or because whoever began it is
gone) outdates all that its earlier beginning may still report. A step that failed definitely ``tries`` times is given up,
which turns a migration that has stopped its job already onto the way *back* to the job's old node. When no step is left the
plan is *done* (or *failed*), and waits only for its conclusion.

::

    kind      heading   steps
    place     forward   START
    migrate   forward   CHECKPOINT → STOP → START → VERIFY     a job that saves on request
    migrate   forward   STOP → START → VERIFY                  a job that saves when stopped
    migrate   back      START → VERIFY
    cancel    forward   STOP

A job that ends by itself or is cancelled *dooms* its plan: the plan is abandoned as soon as no step is under way, and no
further step may begin. STOP is the step that cannot be undone; before it, a migration that fails leaves its job as it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from steepest.events.cluster import MigrationPlanned, PlacementPlanned, Step, StepBegun
from steepest.events.common import CheckpointMode
from steepest.events.parameters import MoveLimits
from steepest.view.nodes import Nodes
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
"""Counted time before a step whose outcome is uncertain is looked at again; doubles up to 32 times this."""


# --- validity -------------------------------------------------------------------------------------------------------


def why_void_placement(event: PlacementPlanned, job: Job | None, nodes: Nodes) -> str:
    """Why a placement is void where it stands; empty if it is valid."""
    if job is None or job.phase is not Phase.WAITING:
        return "the job does not wait for a place"
    if event.incarnation != job.incarnation:
        return f"it names incarnation {event.incarnation}, and the job's is {job.incarnation}"
    if job.plan or job.cancel:
        return "the job is cancelled" if job.cancel else f"plan {job.plan} is in flight"
    if len(event.nodes) != job.spec.replicas:
        return f"it places {len(event.nodes)} replicas of {job.spec.replicas}"
    return next((why for name in event.nodes if (why := why_no_room(job, nodes.get(name), name))), "")


def why_void_migration(event: MigrationPlanned, job: Job | None, nodes: Nodes) -> str:
    """Why a migration is void where it stands; empty if it is valid."""
    if job is None or job.phase is not Phase.RUNNING:
        return "the job does not run"
    if event.incarnation != job.incarnation:
        return f"it names incarnation {event.incarnation}, and the job's is {job.incarnation}"
    if job.plan or job.cancel:
        return "the job is cancelled" if job.cancel else f"plan {job.plan} is in flight"
    if why := why_immovable(job):
        return why
    if job.node != event.source or event.source == event.target:
        return f"the job is on {job.node}, and the plan moves it from {event.source} to {event.target}"
    return why_no_room(job, nodes.get(event.target), event.target)


def why_immovable(job: Job) -> str:
    """Why a job must not be moved whatever the target; empty if it may be."""
    if not job.alive:
        return "no process of it runs"
    match job.mode:
        case CheckpointMode.NONE:
            return "it cannot be checkpointed"
        case CheckpointMode.ON_STOP if job.checkpoint is None:
            return "it saves when it is stopped, and has not proven yet that it can"
    return ""


def why_no_room(job: Job, node: Node | None, name: str) -> str:
    """Why one more replica of ``job`` has no place on a node; empty if it has."""
    if node is None:
        return f"there is no node {name}"
    if node.lost:
        return f"node {name} is lost"
    if not job.spec.requests.fits(node.free):
        return f"node {name} has not enough free: {node.free.cpu_m}m of CPU, {job.spec.requests.cpu_m}m asked for"
    return ""


# --- the machine ----------------------------------------------------------------------------------------------------


def begin_walk(plan: Plan, mode: CheckpointMode) -> None:
    """Set the steps of a new plan or of a new heading."""
    wanted = mode if (plan.kind, plan.heading) == (PlanKind.MIGRATE, Heading.FORWARD) else None
    plan.steps = STEPS[plan.kind, plan.heading, wanted]
    plan.begun = False
    plan.failures = 0


def may_begin(plan: Plan, event: StepBegun, job: Job) -> bool:
    """Whether a ``StepBegun`` counts where it stands: the plan still holds, and it is the next beginning."""
    return (
        plan.status is PlanStatus.IN_FLIGHT
        and event.step is plan.step
        and event.attempt == plan.attempt + 1
        and (plan.begun or not must_give_up(plan, job))
        and (event.step is not Step.START or event.incarnation == incarnation_to_start(plan, job))
    )


def must_give_up(plan: Plan, job: Job) -> str:
    """Why no further step of the plan may begin; empty if one may."""
    if plan.kind is PlanKind.CANCEL:
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
    plan.steps = plan.steps[1:]
    plan.begun = False
    plan.failures = 0
    plan.not_before_counted_ms = 0
    if not plan.steps:
        plan.heading = Heading.FAILED if plan.heading is Heading.BACK else Heading.DONE


def step_failed(plan: Plan, job: Job, *, definite: bool, code: str, message: str, now: int, limits: MoveLimits) -> None:
    """The step under way failed: it is due again, or given up."""
    step = plan.step
    plan.begun = False
    plan.failures += 1
    cancelling = plan.kind is PlanKind.CANCEL and code not in FINAL
    if not definite or cancelling:
        # It may have taken effect (and a cancel is never given up): only the same step again, which looks before it acts.
        plan.not_before_counted_ms = now + RETRY_HOLD_MS * 2 ** min(plan.failures, 5)
        return
    final = code in FINAL or plan.failures >= limits.tries
    if not final:
        return
    plan.code, plan.message = code, message
    stopped = plan.kind is PlanKind.MIGRATE and step in {Step.START, Step.VERIFY} and not job.alive
    if stopped and plan.heading is Heading.FORWARD:
        plan.heading = Heading.BACK
        plan.next_incarnation = 0
        begin_walk(plan, job.mode)
    else:
        plan.heading = Heading.FAILED
        plan.steps = ()


FINAL = frozenset(
    {"no-such-program", "stale-incarnation", "unknown-node", "unknown-incarnation", "ended", "step-timeout"}
)
"""Codes of failures that trying the same step again cannot mend."""
