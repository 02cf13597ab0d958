"""What an allocation policy is: the jobs as it sees them, what it is asked, and what it answers.

It owns the interface between the policies of this package and whoever runs them. It must never know a cluster's nodes:
where a job's share lies is a placement rule's business.

At an event (an arrival, an end, or a time that the policy named itself) it is asked for an *order*: the jobs that may run,
first come first, and how much each is to get. Its asker gives every job in that order its share as long as it fits, and
takes it from whoever is not in the order or fits no more. Then it asks when to come again, at the latest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import msgspec


class ActiveJob(msgspec.Struct, kw_only=True, eq=False):
    """A job between its submission and its end. Whoever runs the policies keeps it; policies only read it.

    A *unit* is one GPU, or one millicore of CPU where the jobs ask for no GPU.

    Attributes:
        number: Its place in the workload: of two jobs, the one submitted first has the smaller one.
        asked: Units it asks for; at least 1.
        quantum: Units by which a share may grow; ``asked`` is the last step, whatever it is.
        most: Units beyond which it cannot use more.
        work_s: Seconds that the whole run takes with all it asks for.
        iterations: Of the whole run.
        step_s_with: Seconds that one iteration is predicted to take with so many units.
        left: Iterations still to do.
        remaining_s: Seconds still to run with all it asks for.
        predicted_left: Iterations still to do as far as anybody could know beforehand.
        attained_s: Seconds it has been running, whatever it did in them.
        units: What it has now; 0: it waits.
        losses: What it has reported: iteration and loss, in the order of time. Empty where its asker knows none.
    """

    number: int
    name: str
    submit_s: float
    asked: int
    quantum: int
    most: int
    work_s: float
    iterations: float
    step_s_with: Callable[[int], float]
    left: float
    remaining_s: float
    predicted_left: float
    attained_s: float = 0.0
    units: int = 0
    losses: list[tuple[float, float]] = []


class Order(msgspec.Struct, frozen=True, gc=False):
    """What a policy answers.

    Attributes:
        jobs: Those that may run, in the order in which they are served.
        units: What each is to get; None: what it asks for.
        stops: Whether a job that does not fit holds up all behind it, or is passed over.
    """

    jobs: Sequence[ActiveJob]
    units: Sequence[int] | None = None
    stops: bool = False


class AllocationPolicy(Protocol):
    """Decides who runs. Its state holds its queues, and nothing else does.

    Attributes:
        reads_losses: Whether jobs have to report theirs to it.
        state: All that it remembers.
    """

    name: ClassVar[str]
    reads_losses: ClassVar[bool]
    state: Any

    def order(self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int) -> Order:
        """Who may run from now on.

        Args:
            now_s: Virtual time.
            arrived: Jobs submitted since the last call, in order.
            ended: Jobs that have ended since then.
            capacity: Units of the whole cluster.
        """
        ...

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """When to ask again if nothing else happens before, now that ``running`` run, in the order's order.

        Infinity: only when something happens. It is later than ``now_s``.
        """
        ...


class Active(msgspec.Struct):
    """State of a policy that keeps the active jobs in one list.

    Attributes:
        jobs: Waiting and running, in the order of the last decision.
    """

    jobs: list[ActiveJob] = []

    def update(self, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob]) -> list[ActiveJob]:
        """Take in who came and who went."""
        for job in ended:
            self.jobs.remove(job)
        self.jobs.extend(arrived)
        return self.jobs


class EventDriven:
    """A policy that decides at arrivals and ends alone."""

    reads_losses: ClassVar[bool] = False

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """Never by itself."""
        del now_s, running
        return math.inf
