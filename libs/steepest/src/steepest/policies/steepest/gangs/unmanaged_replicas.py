"""What the planner remembers of a job that it does not manage: its replicas on each node, and a gang's work."""

from __future__ import annotations

import msgspec

from steepest.events.common import Resources
from steepest.policies.steepest.learning_history import LossCourse
from steepest.policies.steepest.managed_job import ManagedJob
from steepest.view.progress import cpu_ms_before_steps, cpu_ms_per_step
from steepest.view.state import Job


class UnmanagedReplicas(msgspec.Struct):
    """The replicas of a job on one node.

    Attributes:
        count: How many.
        held: What they reserve, all together.
        trains: Whether any of them computes.
        use: What they use, all together; of the job's first node, the limit that was planned for each of its replicas.
        limit_m: The limit of each replica that the node's newest plan wants, in millicores; None: none.
    """

    incarnation: int
    count: int
    held: Resources
    trains: bool
    use: ManagedJob
    limit_m: int | None = None

    def limit(self, each_m: int | None) -> None:
        """This limit of each replica is in force from here on."""
        self.use.limit(None if each_m is None else each_m * self.count)

    def refuse(self, until_s: float) -> None:
        """A limit was refused: until then none is planned."""
        self.use.refuse(until_s)
        if self.use.limit_m is not None:
            self.use.limit_m //= self.count


class GangWork(msgspec.Struct):
    """The work of all replicas of a gang, in core-seconds.

    Attributes:
        start: Before the first step.
        step: Of a step, as measured last; None: it was not.
        losses: Some of its losses.
    """

    start: float = 0.0
    step: float | None = None
    losses: LossCourse = msgspec.field(default_factory=LossCourse)

    def measure(self, job: Job) -> None:
        """Take in what is known of the gang's steps now."""
        if (of_each := cpu_ms_per_step(job)) is not None:
            self.start = cpu_ms_before_steps(job) / 1000 or self.start
            self.step = of_each / 1000

    def size(self, steps: int | None) -> float | None:
        """The work of a training of so many steps; None: unknown."""
        return self.start + steps * self.step if steps and self.step is not None else None
