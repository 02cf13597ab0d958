"""What acts in a simulated pool: the migrator's saga and the resizer, on simulated nodes.

It owns when an act happens. What is to be done next is :func:`steepest.sagas.next_action.next_action`, what became of it is
:mod:`steepest.sagas.task`: the same functions as in the live migrator, which wraps them in tasks, retries and lookups that
a cluster needs whose calls can fail without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from steepest.cluster.port import ReplicaId
from steepest.cluster.simulated.nodes import SimulatedNodes
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.sagas.next_action import begin, next_action
from steepest.sagas.task import (
    Task,
    failed,
    looked_up,
    may_have_been_done,
    placed,
    replica_spec,
    resumed,
    saved,
    step_wanted,
    stopped,
    task,
)
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Plan, PlanKind

T = TypeVar("T")


class Hands:
    """Carries out plans and limits."""

    def __init__(self, nodes: SimulatedNodes, tell: Callable[[c.ClusterEvent], None], act_s: float) -> None:
        """Hands on some nodes.

        Args:
            nodes: On which to act.
            tell: Appends an event.
            act_s: Seconds that a stop or a start of a move takes beside what the process does.
        """
        self._nodes = nodes
        self._tell = tell
        self._act_s = act_s
        self._sent: dict[str, dict[int, None]] = {}

    def take_over(self, view: ClusterView, now_ms: int) -> None:
        """Go on with what somebody else has begun: a step under way is begun anew."""
        for plan in list(view.in_flight.values()):
            if plan.begun:
                self._tell(begin(plan, view.jobs[plan.job]))
            else:
                self._move_on(view, plan, now_ms)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """A record was folded: begin what follows from it."""
        event = received.event
        match event:
            case c.StepBegun() if accepted:
                job, plan = view.jobs[event.job], view.in_flight[event.plan]
                self._act(task(event, job, plan, view.parameters.limits), plan)
            case c.Tick():
                for plan in list(view.in_flight.values()):
                    self._move_on(view, plan, received.at_ms)
            case c.LimitsPlanned() if accepted:
                for limit in event.limits:
                    self._limit(event, view.jobs[limit.job])
            case c.JobEnded() if accepted:
                self._nodes.forget(event.job)
        if view.touched is not None and (touched := view.plan_of(view.touched)) is not None:
            self._move_on(view, touched, received.at_ms)
        over = getattr(event, "plan", None)
        if over is not None and over not in view.in_flight:
            self._sent.pop(over, None)

    def _move_on(self, view: ClusterView, plan: Plan, now_ms: int) -> None:
        action = next_action(view, plan, now_ms)
        if action is None:
            return
        number = action.attempt if isinstance(action, c.StepBegun) else -1 - plan.attempt
        sent = self._sent.setdefault(plan.id, {})
        if number in sent:
            return
        sent[number] = None
        if isinstance(action, c.MigrationFailed | c.PlanAbandoned):
            self._release(view.jobs[plan.job])
        self._tell(action)

    def _release(self, job: Job) -> None:
        """A process that waits after its checkpoint trains on when its move is given up."""
        training = self._nodes.newest(ReplicaId(job.name))
        if training is not None and training.held is not None:
            training.release(training.held)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _act(self, step: Task, plan: Plan) -> None:
        slow = plan.kind is PlanKind.MIGRATE and step.begun.step in {c.Step.STOP, c.Step.START}
        if slow and self._act_s:
            now_s = self._nodes.timeline.now_s()
            self._nodes.timeline.call_at(now_s + self._act_s, lambda: self._do(step))
        else:
            self._do(step)

    def _do(self, step: Task) -> None:
        try:
            self._begin(step)
        except ClusterError as error:
            self._fail(step, error)

    def _begin(self, step: Task) -> None:
        begun, limits = step.begun, step.limits
        match begun.step:
            case c.Step.CHECKPOINT:
                self._nodes.checkpoint(
                    step.replica,
                    begun.incarnation,
                    request=step.request,
                    hold_s=limits.hold_ms / 1000,
                    timeout_s=limits.checkpoint_timeout_ms / 1000,
                    then=self._told(step, saved),
                )
            case c.Step.STOP:
                self._nodes.stop(
                    step.replica,
                    begun.incarnation,
                    grace_s=limits.stop_grace_ms / 1000,
                    then=self._told(step, stopped),
                )
            case c.Step.START:
                self._nodes.start(step.replica, begun.incarnation, begun.node, replica_spec(step.spec), step.restore)
                self._tell(placed(step))
            case c.Step.VERIFY:
                self._nodes.wait_for_step(
                    step.replica,
                    begun.incarnation,
                    at_least=step_wanted(step),
                    timeout_s=limits.verify_timeout_ms / 1000,
                    then=self._told(step, resumed),
                )

    def _told(self, step: Task, outcome: Callable[[Task, T], c.ClusterEvent]) -> Callable[[T | ClusterError], None]:
        def then(result: T | ClusterError) -> None:
            if isinstance(result, ClusterError):
                self._fail(step, result)
            else:
                self._tell(outcome(step, result))

        return then

    def _fail(self, step: Task, error: ClusterError) -> None:
        if may_have_been_done(step):
            self._tell(looked_up(step, self._nodes.lookup(step.replica), error))
        else:
            self._tell(failed(step, error))

    # --- limits ------------------------------------------------------------------------------------------------------

    def _limit(self, plan: c.LimitsPlanned, job: Job) -> None:
        """Set a limit that is wanted and not answered yet."""
        limit = job.limit
        if limit is None or limit.answered or limit.plan != plan.plan:
            return
        try:
            self._nodes.limit(ReplicaId(job.name), job.incarnation, limit.cpu_m)
        except ClusterError as error:
            self._tell(
                c.LimitsRefused(
                    plan=plan.plan,
                    node=plan.node,
                    job=job.name,
                    incarnation=job.incarnation,
                    code=error.code,
                    definite=error.definite,
                    message=str(error)[:2000],
                )
            )
            return
        self._tell(
            c.LimitsApplied(
                plan=plan.plan, node=plan.node, job=job.name, incarnation=job.incarnation, cpu_m=limit.cpu_m
            )
        )
