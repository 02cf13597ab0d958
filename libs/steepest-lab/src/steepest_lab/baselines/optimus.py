"""``optimus``: each further GPU goes to the job whose completion time it reduces most (Optimus, EuroSys 2018, §4).

Every 600 s each job gets one unit, and then unit after unit goes to the job with the greatest reduction of its predicted
remaining time. Small jobs are placed first.

The paper's units are parameter servers and workers, and a job's gain is divided by the share of its dominant resource;
with one resource that is the number of added units. The paper gets the remaining iterations from a fit of the loss, and the
speed from a fit of some probed configurations; here both are known to the simulation (:attr:`ActiveJob.predicted_left`,
:attr:`ActiveJob.step_s_with`), which bounds what fits could achieve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from steepest_lab.baselines.greedy import Rounds, RoundsParameters, RoundsState, share_out
from steepest_lab.baselines.policy import ActiveJob, ServiceOrder


class OptimusParameters(RoundsParameters, frozen=True, kw_only=True):
    """The paper's interval."""

    round_s: float = 600.0


class Optimus(Rounds):
    """Each further GPU goes to the job whose completion time it reduces most (Optimus, EuroSys 2018)."""

    name: ClassVar[str] = "optimus"
    reads_losses: ClassVar[bool] = False

    def __init__(self, parameters: OptimusParameters | None = None, state: RoundsState | None = None) -> None:
        self.parameters = parameters or OptimusParameters()
        self.state = state or RoundsState()

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """At a round, new shares for all jobs, the smallest first; between rounds, the current shares."""
        jobs = self.state.update(arrived, ended)
        if not self.is_due(now_s):
            running = [job for job in jobs if job.units]
            return ServiceOrder(jobs=running, units=[job.units for job in running])
        shares = sorted(share_out(jobs, capacity, sooner), key=lambda share: share[1])
        return ServiceOrder(jobs=[job for job, _ in shares], units=[units for _, units in shares])


def sooner(job: ActiveJob, before: int, after: int) -> float:
    """Reduction of the remaining time in seconds, for each unit added."""
    return (job.step_s_with(before) - job.step_s_with(after)) * job.predicted_left / (after - before)
