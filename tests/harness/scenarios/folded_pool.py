"""A pool to play with: short builders of its events, and a view that folds them as a test tells them.

It owns defaults: every builder's arguments but the ones that a test is about may be left out. It must never know a decider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, CheckpointRef, Resources
from steepest.events.received import Received
from steepest.sagas.next_action import begin, next_action
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_pool import PERIODS_COUNTED
from steepest.view.state import Job, Node, Phase, Plan

EPOCH = "e1"
START_MS = 1_700_000_000_000
"""Wall-clock time of the first record."""

BECAUSE = c.Because(rule="a test says so")

# --- events ---------------------------------------------------------------------------------------------------------


def joined(
    node: str, cpu_m: int = 1_000, memory_mib: int = 0, gpus: int = 0, *, takes_jobs: bool = True
) -> c.NodeJoined:
    """A node with this capacity."""
    return c.NodeJoined(node=node, capacity=Resources(cpu_m, memory_mib, gpus), takes_jobs=takes_jobs)


def used(node: str, cpu_m: int, **jobs_cpu_m: int) -> c.NodeUsage:
    """What a node and its jobs use."""
    return c.NodeUsage(node=node, used=Resources(cpu_m=cpu_m), jobs=jobs_cpu_m)


def submitted(
    job: str,
    cpu_m: int = 100,
    mode: CheckpointMode | None = CheckpointMode.ON_REQUEST,
    request: str = "",
    user: str = "",
    **spec: Any,
) -> c.JobSubmitted:
    """A job that asks for this much CPU; ``spec`` goes to :class:`JobSpec`."""
    requests = spec.pop("requests", Resources(cpu_m=cpu_m))
    asked = c.JobSpec(command=("train",), requests=requests, checkpoint_mode=mode, **spec)
    return c.JobSubmitted(job=job, request=request or f"request-{job}", spec=asked, user=user)


def cancelled(job: str) -> c.JobCancelRequested:
    """A user wants the job to stop."""
    return c.JobCancelRequested(job=job, request=f"cancel-{job}")


def placement(
    job: str,
    *nodes: str,
    plan: str = "",
    incarnation: int = 0,
    sizes: tuple[int, ...] = (),
    after: tuple[str, ...] = (),
) -> c.PlacementPlanned:
    """A plan to start a job; ``incarnation`` is the one before."""
    return c.PlacementPlanned(
        plan=plan or f"place-{job}-{incarnation}",
        job=job,
        incarnation=incarnation,
        nodes=nodes,
        sizes=sizes,
        after=after,
        because=BECAUSE,
    )


def transition(
    job: str,
    kind: c.Transition,
    sources: Sequence[str],
    *nodes: str,
    plan: str = "",
    incarnation: int = 1,
    sizes: tuple[int, ...] = (),
    after: tuple[str, ...] = (),
    room_for: str | None = None,
    leaving: tuple[int, ...] = (),
) -> c.TransitionPlanned:
    """A plan for a whole job."""
    return c.TransitionPlanned(
        plan=plan or f"{kind.value}-{job}-{incarnation}",
        job=job,
        incarnation=incarnation,
        kind=kind,
        sources=tuple(sources),
        nodes=nodes,
        sizes=sizes,
        after=after,
        room_for=room_for,
        leaving=leaving,
        because=BECAUSE,
    )


def migration(
    job: str,
    source: str,
    target: str,
    *,
    plan: str = "",
    incarnation: int = 1,
    kind: c.MoveKind = c.MoveKind.REALLOCATION,
) -> c.MigrationPlanned:
    """A plan to move a job."""
    return c.MigrationPlanned(
        plan=plan or f"move-{job}-{incarnation}",
        job=job,
        incarnation=incarnation,
        source=source,
        target=target,
        kind=kind,
        because=BECAUSE,
    )


def stay(job: str, node: str, incarnation: int = 1) -> c.StayDecided:
    """Algorithm 4 leaves a job where it is."""
    return c.StayDecided(job=job, incarnation=incarnation, node=node, because=BECAUSE)


def category(job: str, after: c.Category) -> c.CategoryChanged:
    """The job is of another category from here on."""
    return c.CategoryChanged(job=job, before=c.Category.PROGRESSING, after=after, growth=0.001)


def grown(job: str, of: c.Category = c.Category.PROGRESSING) -> c.GrowthMeasured:
    """An interval of the job has ended."""
    return c.GrowthMeasured(
        job=job, interval=1, total=1.0, count=1, largest=1.0, first_ms=0, last_ms=0, growth=0.1, category=of
    )


def requested(job: str) -> c.ReallocationRequested:
    """The job asks for another place."""
    return c.ReallocationRequested(job=job, growth=0.001, interval=4)


def checkpoint(step: int = 100, incarnation: int = 1) -> CheckpointRef:
    """A verified checkpoint of that step."""
    return CheckpointRef(f"step-{step:08}-i{incarnation:04}", step, f"sha256:{step}")


# --- the pool -------------------------------------------------------------------------------------------------------


class FoldedPool:
    """A view, and the log that it has folded.

    Attributes:
        log: Every record so far; a record's offset is its place in it.
        now_ms: Time of the next record.
    """

    def __init__(self, **nodes_cpu_m: int) -> None:
        """Open the log, with these nodes in it."""
        self.view = self.new_view()
        self.log: list[Received[c.ClusterEvent]] = []
        self.now_ms = START_MS
        self.fold(c.LogOpened(epoch=EPOCH))
        self.feed(*(joined(node, cpu_m) for node, cpu_m in nodes_cpu_m.items()))

    def new_view(self) -> ClusterView:
        """The view before the first record."""
        return ClusterView()

    # --- telling ---------------------------------------------------------------------------------------------------

    def fold(self, event: c.ClusterEvent, headers: Mapping[str, str] | None = None, at_ms: int | None = None) -> bool:
        """Append one record, fold it, and say whether it counts."""
        return self.take_in(self.append(event, headers, at_ms))

    def append(
        self, event: c.ClusterEvent, headers: Mapping[str, str] | None = None, at_ms: int | None = None
    ) -> Received[c.ClusterEvent]:
        """Append one record to the log."""
        received = Received(
            event=event,
            topic="cluster",
            partition=0,
            offset=len(self.log),
            at_ms=self.now_ms if at_ms is None else at_ms,
            key="pool",
            headers=headers or {},
        )
        self.log.append(received)
        return received

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """What happens with a record once it stands in the log."""
        return self.view.fold(received)

    def feed(self, *events: c.ClusterEvent) -> list[bool]:
        """Fold several events; of each, whether it counts."""
        return [self.fold(event) for event in events]

    def tick(self, ms: int = 1_000) -> bool:
        """Let time pass, on the wall and counted, by as many ticks as that takes."""
        most_ms = PERIODS_COUNTED * self.view.parameters.tick_ms
        while ms > most_ms:
            self.tick(most_ms)
            ms -= most_ms
        self.now_ms += ms
        return self.fold(c.Tick(counted_ms=self.view.counted_ms + ms))

    # --- bringing jobs to a state ------------------------------------------------------------------------------------

    def run(
        self,
        job: str,
        node: str,
        of: c.Category | None = None,
        cpu_m: int = 100,
        mode: CheckpointMode | None = CheckpointMode.ON_REQUEST,
        **spec: Any,
    ) -> Job:
        """Submit a job, place and start it, and give it a category; None: nothing was measured of it yet."""
        self.feed(submitted(job, cpu_m, mode, **spec), placement(job, node))
        self.carry_out(job)
        if of is not None:
            self.fold(grown(job, of))
            self.fold(category(job, of))
        return self.job(job)

    def end(self, job: str, exit_status: int | None = 0, outcome: c.Outcome = c.Outcome.FINISHED) -> None:
        """The process of a job ends, and the job with it."""
        self.feed(self.stopped(job, exit_status), c.JobEnded(job=job, outcome=outcome, exit_status=exit_status))

    def stopped(
        self,
        job: str,
        exit_status: int | None = 0,
        incarnation: int | None = None,
        saved: CheckpointRef | None = None,
        *,
        reason: str = "",
        replica: int = 0,
    ) -> c.ReplicaStopped:
        """The job's process does not run any more, or that of one of its replicas."""
        found = self.view.jobs.get(job)
        return c.ReplicaStopped(
            job=job,
            replica=replica,
            incarnation=incarnation if incarnation is not None else found.incarnation if found else 0,
            node=found.nodes[replica] if found and found.nodes else "w1",
            exit_status=exit_status,
            checkpoint=saved,
            reason=reason,
        )

    # --- carrying plans out, as the migrator would --------------------------------------------------------------------

    def begin(self, job: str) -> c.StepBegun:
        """Begin the step that is due, or take over the one under way."""
        begun = begin(self.plan_of(job), self.job(job))
        assert self.fold(begun), f"{begun} does not count"
        return begun

    def next_action(self, job: str) -> c.ClusterEvent | None:
        """What the migrator would do next."""
        return next_action(self.view, self.plan_of(job), self.now_ms)

    def act(self, job: str) -> c.ClusterEvent | None:
        """Do what the migrator would do next, successfully: a whole step, or the conclusion."""
        event = self.next_action(job)
        if event is None:
            return None
        assert self.fold(event), f"{event} does not count"
        if isinstance(event, c.StepBegun):
            found = self.job(job)
            leaving = self.plan_of(job).leaving
            exit_status = 85 if found.alive else found.exit_status
            self.fold(success(event, found, exit_status=exit_status, leaving=leaving))
        return event

    def carry_out(self, job: str, before: c.Step | None = None) -> Job:
        """Carry the plan in flight out to its end, or until ``before`` is due."""
        while (plan := self.view.plan_of(self.job(job))) is not None:
            if (before is not None and plan.step is before and not plan.begun) or self.act(job) is None:
                break
        return self.job(job)

    def fail(self, job: str, code: str = "refused", *, definite: bool = True, begun: c.StepBegun | None = None) -> bool:
        """Let the step that is due (or ``begun`` already) fail."""
        step = begun or self.begin(job)
        return self.fold(
            c.StepFailed(
                plan=step.plan,
                step=step.step,
                attempt=step.attempt,
                job=job,
                code=code,
                definite=definite,
                message=f"{code} it was",
            )
        )

    # --- looking ---------------------------------------------------------------------------------------------------

    def job(self, name: str) -> Job:
        """The job of that name."""
        return self.view.jobs[name]

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self.view.nodes[name]

    def plan_of(self, job: str) -> Plan:
        """The plan in flight for a job."""
        plan = self.view.plan_of(self.job(job))
        assert plan is not None, f"no plan is in flight for {job}"
        return plan

    def allocated(self) -> dict[str, int]:
        """CPU that is allocated on each node where any is."""
        return {node.name: node.allocated.cpu_m for node in self.view.nodes if node.allocated != Resources()}

    def counts(self) -> dict[str, list[int]]:
        """Replicas by category (PC, WC, CC) of each node that has any."""
        return {node.name: node.replicas for node in self.view.nodes if node.count}

    def active(self) -> list[Job]:
        """The jobs that are not over."""
        return [job for job in self.view.jobs if job.phase is not Phase.ENDED]


def success(
    begun: c.StepBegun, job: Job, step: int = 100, exit_status: int | None = 85, leaving: tuple[int, ...] = ()
) -> c.ClusterEvent:
    """The outcome of a step that works; ``leaving``: the replicas that it stops, if not all."""
    match begun.step:
        case c.Step.CHECKPOINT:
            return c.CheckpointSaved(
                plan=begun.plan,
                attempt=begun.attempt,
                job=begun.job,
                incarnation=begun.incarnation,
                checkpoint=checkpoint(step, begun.incarnation),
            )
        case c.Step.STOP if leaving:
            return c.SurplusStopped(
                plan=begun.plan,
                attempt=begun.attempt,
                job=begun.job,
                incarnation=begun.incarnation,
                replicas=tuple(
                    c.ReplicaAnswer(index, exit_status=exit_status, step=step)
                    for index in leaving
                    if not job.replicas[index].ended
                ),
            )
        case c.Step.STOP:
            return c.JobStopped(
                plan=begun.plan,
                attempt=begun.attempt,
                job=begun.job,
                incarnation=begun.incarnation,
                exit_status=exit_status,
                step=step,
                checkpoint=job.checkpoint,
                replicas=tuple(
                    c.ReplicaAnswer(index, exit_status=exit_status, step=step)
                    for index, replica in enumerate(job.replicas)
                    if not replica.ended
                ),
            )
        case c.Step.START:
            return c.JobPlaced(
                plan=begun.plan,
                attempt=begun.attempt,
                job=begun.job,
                incarnation=begun.incarnation,
                node=begun.node,
                restore=job.checkpoint,
                nodes=begun.nodes,
                sizes=job.sizes,
            )
        case c.Step.VERIFY:
            return c.JobResumed(
                plan=begun.plan, attempt=begun.attempt, job=begun.job, incarnation=begun.incarnation, step=step
            )
