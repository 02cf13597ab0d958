"""``slaq``: each further core to the job whose loss it lowers most (SLAQ, SoCC 2017).

Quality-driven: what counts is the fall of the loss until the next decision, over the largest fall that the job has shown
so far, so that losses of different scales compare. The fall is predicted from the reported losses
(:mod:`steepest.policies.baselines.loss_fit`).

Reconstructed, as the paper's formulas are known here from summaries only: each job gets one core first, in the order of
submission; a job that has reported fewer losses than a fit needs gets that one and no more; the fit itself. The paper
decides every few hundred milliseconds to seconds in a system where a share changes at no cost; here a change may be a
restart, so a round is a minute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest.policies.baselines.greedy import Rounds, RoundsParameters, RoundsState, share_out
from steepest.policies.baselines.loss_fit import FEWEST, Curve, fit
from steepest.policies.baselines.policy import ActiveJob, Order

DEFAULT_ROUND_S = 60.0


class SlaqParameters(RoundsParameters, frozen=True, kw_only=True):
    """Parameters of this reconstruction.

    Attributes:
        points: How many reports a fit looks at, evenly spread over all.
        again_at: A curve is fitted anew when the reports have become more by this factor.
    """

    round_s: float = DEFAULT_ROUND_S
    points: int = 20
    again_at: float = 1.25


class Known(msgspec.Struct):
    """What is known of one job's loss.

    Attributes:
        reports: How many have been looked at.
        largest: The largest fall from one report to the next.
        fit_at: Reports at which it is fitted next.
    """

    reports: int = 0
    largest: float = 0.0
    curve: Curve | None = None
    fit_at: int = FEWEST


class SlaqState(RoundsState):
    """Attributes: ``known``, by a job's number."""

    known: dict[int, Known] = msgspec.field(default_factory=dict)


class Slaq(Rounds):
    """Each further core to the job whose loss it lowers most (SLAQ, SoCC 2017, a reconstruction)."""

    name: ClassVar[str] = "slaq"
    reads_losses: ClassVar[bool] = True

    def __init__(self, parameters: SlaqParameters | None = None, state: SlaqState | None = None) -> None:
        self.parameters: SlaqParameters = parameters or SlaqParameters()
        self.state: SlaqState = state or SlaqState()

    def order(self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int) -> Order:
        """At a round, all shares anew; between rounds, what is."""
        jobs = self.state.update(arrived, ended)
        for job in ended:
            self.state.known.pop(job.number, None)
        if not self.is_due(now_s):
            running = [job for job in jobs if job.units]
            return Order(jobs=running, units=[job.units for job in running])
        for job in jobs:
            self._look(job)
        shares = share_out(jobs, capacity, self._gain)
        return Order(jobs=[job for job, _ in shares], units=[units for _, units in shares])

    def _look(self, job: ActiveJob) -> None:
        """Take in what a job has reported since the last round."""
        known, reports = self.state.known.setdefault(job.number, Known()), job.losses
        for place in range(max(known.reports, 1), len(reports)):
            known.largest = max(known.largest, reports[place - 1][1] - reports[place][1])
        known.reports = len(reports)
        if known.reports >= known.fit_at:
            points = min(self.parameters.points, known.reports)
            known.curve = fit([reports[(known.reports - 1) * place // (points - 1)] for place in range(points)])
            known.fit_at = math.ceil(known.reports * self.parameters.again_at)

    def _gain(self, job: ActiveJob, before: int, after: int) -> float:
        """Fall of the loss in a round by the units added, for each of them, over the largest fall so far."""
        known = self.state.known[job.number]
        if known.curve is None or known.largest <= 0:
            return 0.0
        seconds = self.parameters.round_s or DEFAULT_ROUND_S
        at = job.losses[-1][0]
        less, more = (min(at + seconds / job.step_s_with(units), job.iterations) for units in (before, after))
        fall = known.curve.at(less) - known.curve.at(more)
        return fall / known.largest / (after - before) if math.isfinite(fall) else 0.0
