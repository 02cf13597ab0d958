"""``slaq``: each further core goes to the job whose loss it reduces most (SLAQ, SoCC 2017).

Quality-driven: the gain is the reduction of the loss until the next decision, divided by the largest reduction that the job
has shown so far, so that losses of different scales are comparable. The reduction is predicted from the reported losses
(:mod:`steepest_lab.baselines.loss_fit`).

Reconstructed, because the paper's formulas are known here only from summaries: each job first gets one core, in the order of
submission; a job with too few reports for a fit gets only that one; and the fit itself. The paper decides every few hundred
milliseconds to seconds, in a system where changing a share is free; here a change may be a restart, so a round is a minute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest_lab.baselines.greedy import Rounds, RoundsParameters, RoundsState, share_out
from steepest_lab.baselines.loss_fit import FEWEST, FittedCurve, fit
from steepest_lab.baselines.policy import ActiveJob, ServiceOrder

DEFAULT_ROUND_S = 60.0


class SlaqParameters(RoundsParameters, frozen=True, kw_only=True):
    """Parameters of this reconstruction.

    Attributes:
        points: Number of reports used for a fit, evenly spread over all.
        again_at: A curve is fitted again when the number of reports has grown by this factor.
    """

    round_s: float = DEFAULT_ROUND_S
    points: int = 20
    again_at: float = 1.25


class LossHistory(msgspec.Struct):
    """The state of one job's loss.

    Attributes:
        reports: Number of reports processed.
        largest: The largest reduction from one report to the next.
        fit_at: Number of reports at which it is fitted next.
    """

    reports: int = 0
    largest: float = 0.0
    curve: FittedCurve | None = None
    fit_at: int = FEWEST


class SlaqState(RoundsState):
    """Attributes: ``known``, by a job's number."""

    known: dict[int, LossHistory] = msgspec.field(default_factory=dict)


class Slaq(Rounds):
    """Each further core goes to the job whose loss it reduces most (SLAQ, SoCC 2017, a reconstruction)."""

    name: ClassVar[str] = "slaq"
    reads_losses: ClassVar[bool] = True

    def __init__(self, parameters: SlaqParameters | None = None, state: SlaqState | None = None) -> None:
        self.parameters: SlaqParameters = parameters or SlaqParameters()
        self.state: SlaqState = state or SlaqState()

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """At a round, new shares for all jobs; between rounds, the current shares."""
        jobs = self.state.update(arrived, ended)
        for job in ended:
            self.state.known.pop(job.number, None)
        if not self.is_due(now_s):
            running = [job for job in jobs if job.units]
            return ServiceOrder(jobs=running, units=[job.units for job in running])
        for job in jobs:
            self._look(job)
        shares = share_out(jobs, capacity, self._gain)
        return ServiceOrder(jobs=[job for job, _ in shares], units=[units for _, units in shares])

    def _look(self, job: ActiveJob) -> None:
        """Process a job's reports since the last round."""
        known, reports = self.state.known.setdefault(job.number, LossHistory()), job.losses
        for place in range(max(known.reports, 1), len(reports)):
            known.largest = max(known.largest, reports[place - 1][1] - reports[place][1])
        known.reports = len(reports)
        if known.reports >= known.fit_at:
            points = min(self.parameters.points, known.reports)
            known.curve = fit([reports[(known.reports - 1) * place // (points - 1)] for place in range(points)])
            known.fit_at = math.ceil(known.reports * self.parameters.again_at)

    def _gain(self, job: ActiveJob, before: int, after: int) -> float:
        """Reduction of the loss in a round for each unit added, divided by the largest reduction so far."""
        known = self.state.known[job.number]
        if known.curve is None or known.largest <= 0:
            return 0.0
        seconds = self.parameters.round_s or DEFAULT_ROUND_S
        at = job.losses[-1][0]
        less, more = (min(at + seconds / job.step_s_with(units), job.iterations) for units in (before, after))
        fall = known.curve.at(less) - known.curve.at(more)
        return fall / known.largest / (after - before) if math.isfinite(fall) else 0.0
