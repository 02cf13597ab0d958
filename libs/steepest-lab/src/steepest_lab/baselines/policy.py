"""The interface of an allocation policy: the jobs as it sees them, its decisions.

It owns the interface between the policies of this package and their runner (the simulation). It must never know a cluster's
nodes: placement rules decide on which nodes a job's share is.

At an event (an arrival, an end, or a time that the policy requested) the runner asks for an *order*: the jobs that may run,
by priority, and the share of each. It gives every job in that order its share as long as it fits, and preempts the jobs that
are not in the order or no longer fit. Then it asks for the latest time of the next decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import msgspec


class ActiveJob(msgspec.Struct, kw_only=True, eq=False):
    """A job between its submission and its end. The runner updates it; policies only read it.

    A *unit* is one GPU, or one millicore of CPU where the jobs ask for no GPU.

    Attributes:
        number: Its index in the workload, in the order of submission.
        asked: Requested units; at least 1.
        quantum: Units by which a share may grow; the last increment ends at ``asked``, even if it is smaller.
        most: Maximum units that it can use.
        work_s: Duration of the whole run with the requested units, in seconds.
        iterations: Iterations of the whole run.
        announced: The iterations that it announces, as a multiple of those; 1: it says the truth.
        step_s_with: Returns the predicted seconds per iteration with a number of units.
        left: Remaining iterations.
        remaining_s: Remaining duration with the requested units, in seconds.
        predicted_left: Remaining iterations as they could be predicted, without knowledge of the future.
        attained_s: Total seconds in which it held units, including overheads.
        units: Its current units; 0: it waits.
        losses: Its reports: iteration and loss, in the order of time. Empty if the runner does not provide them.
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
    announced: float = 1.0
    losses: list[tuple[float, float]] = []


class ServiceOrder(msgspec.Struct, frozen=True, gc=False):
    """A policy's decision.

    Attributes:
        jobs: The jobs that may run, in the order in which they are served.
        units: The units of each; None: the requested ones.
        stops: Whether a job that does not fit blocks all jobs behind it; otherwise it is skipped.
    """

    jobs: Sequence[ActiveJob]
    units: Sequence[int] | None = None
    stops: bool = False


class AllocationPolicy(Protocol):
    """Decides which jobs run. ``state`` has its complete state, such as queues.

    Attributes:
        reads_losses: Whether it needs the jobs' losses.
        state: Its complete state.
    """

    name: ClassVar[str]
    reads_losses: ClassVar[bool]
    state: Any

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """Decide which jobs may run from now on.

        Args:
            now_s: Virtual time.
            arrived: Jobs submitted since the last call, in order.
            ended: Jobs that have ended since then.
            capacity: Units of the whole cluster.
        """
        ...

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """The time of the next decision if no event comes before, given the jobs that run now, in the order's order.

        Infinity: only at the next event. It is later than ``now_s``.
        """
        ...


class Active(msgspec.Struct):
    """State of a policy that keeps the active jobs in one list.

    Attributes:
        jobs: Waiting and running jobs, in the order of the last decision.
    """

    jobs: list[ActiveJob] = []

    def update(self, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob]) -> list[ActiveJob]:
        """Add the arrived jobs and remove the ended ones."""
        for job in ended:
            self.jobs.remove(job)
        self.jobs.extend(arrived)
        return self.jobs


class EventDriven:
    """A policy that decides only at arrivals and ends."""

    reads_losses: ClassVar[bool] = False

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """Infinity: it requests no decisions of its own."""
        del now_s, running
        return math.inf
