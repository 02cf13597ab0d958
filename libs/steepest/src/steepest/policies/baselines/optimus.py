"""``optimus``: each further GPU to the job whose end it brings nearest (Optimus, EuroSys 2018, §4).

Every 600 s each job gets one unit, and then unit after unit goes to the job with the greatest fall of its predicted
remaining time. Small jobs are placed first.

The paper's units are parameter servers and workers, and a job's gain is divided by the share of its dominant resource;
with one resource that is the units added. Its remaining iterations come from a fit of the loss, and its speed from one of
some probed configurations; here both are what the simulation knows (:attr:`ActiveJob.predicted_left`,
:attr:`ActiveJob.step_s_with`), which is a bound on what fits could reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from steepest.policies.baselines.greedy import Rounds, RoundsParameters, RoundsState, share_out
from steepest.policies.baselines.policy import ActiveJob, Order


class OptimusParameters(RoundsParameters, frozen=True, kw_only=True):
    """The paper's interval."""

    round_s: float = 600.0


class Optimus(Rounds):
    """Each further GPU to the job whose end it brings nearest (Optimus, EuroSys 2018)."""

    name: ClassVar[str] = "optimus"
    reads_losses: ClassVar[bool] = False

    def __init__(self, parameters: OptimusParameters | None = None, state: RoundsState | None = None) -> None:
        self.parameters = parameters or OptimusParameters()
        self.state = state or RoundsState()

    def order(self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int) -> Order:
        """At a round, all shares anew, least first; between rounds, what is."""
        jobs = self.state.update(arrived, ended)
        if not self.is_due(now_s):
            running = [job for job in jobs if job.units]
            return Order(jobs=running, units=[job.units for job in running])
        shares = sorted(share_out(jobs, capacity, sooner), key=lambda share: share[1])
        return Order(jobs=[job for job, _ in shares], units=[units for _, units in shares])


def sooner(job: ActiveJob, before: int, after: int) -> float:
    """Seconds by which the end comes nearer, for each unit added."""
    return (job.step_s_with(before) - job.step_s_with(after)) * job.predicted_left / (after - before)
