"""What jobs teach about the next ones of their model: their size, the CPU that they use, and when they have learned most.

A job past its announced total is taken to exceed it as others of the pool did on average that exceeded theirs by more: a
mean residual life. Before its total that says nothing of a job, so that an honest one loses nothing by it.

A job that announces nothing is taken to be as large as the last ones of its model were, while it has used less than that. A
job whose demand has not shown yet is taken to have theirs.

While a job runs, some of its losses are kept; when it has finished, the share of its steps at which it had 90 % of the
reduction of its loss is known. Jobs of a model that has finished before get the shares of that model. While none has, they
get what the losses of the one of them say that is furthest ahead.

A job's losses so far say whether it still learns: it does while 90 % of the reduction so far was reached only lately
(:data:`LATELY`). Else it had learned most when it had these 90 %, or a little later (:data:`TO_COME`). When one that still
learns will have learned most follows from how much of its steps is done, and from how far its loss has fallen already
(:data:`OF_DONE`, :data:`OF_LOSS`). With the distribution over all real trainings
(:data:`~steepest.policies.steepest.learning.SHARES`) the value of learning is spread so thinly that the shortest remaining
time is always first; with one share for all jobs, those that learn longer are put back too early. In both cases jobs learn
later than under fair sharing (``benchmarks/policies.py``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

MOST_POINTS = 64
"""Losses kept of a job; where there are more, every second one goes."""

FEWEST_POINTS = 8
"""Fewer losses do not show where a job had learned most."""

SMOOTHED = 2
"""Losses on each side over which the median is taken."""

LEARNED = 0.9
"""Of the reduction of its loss, so much is most of it (T90)."""

LATELY = 0.7
"""A loss still falls if 90 % of its reduction so far was reached after this share of the steps so far. A loss that falls
exponentially has then 92 % of its whole reduction."""

OF_DONE, OF_LOSS = 0.4, 0.8
"""A job whose loss still falls is taken to have learned most at the share d^0.4 · r^0.8 of its steps, where d is the share
that is done, and r its lowest loss over its first one. On real trainings this is wrong by 31 %, and the same multiple of d
for all by 52 % (``benchmarks/learning.py --ahead --reports 200``). The exponents that fit them best are 0.4 and 0.6; with
the larger one jobs learn a little sooner in simulations, and end as soon."""

ONWARD = 1.1
"""And after this many times its steps so far at least."""

TO_COME = 3
"""A loss of which 90 % of the reduction up to the step s was reached at the step f falls on: of the whole reduction it has
90 % at about f · (1 + (f / s)^3), nearer to f the longer ago that was. It matters for the jobs of its model that come after
it: by f alone they would be put back just before they have learned most, and would in simulations gain nothing from it. The
power is near to what a loss does that falls exponentially (1.31 · f where f / s is 0.7). Real trainings, which often fall a
second time, are foreseen hardly better by it."""

LOWEST = 0.5
"""r of losses that are not all above 0."""

FIRST = 0.12
"""The share at which a job is taken to have learned most of whose losses nothing is known yet: more than one of ten real
trainings has by then. In simulations more makes small real trainings learn later, and less makes the thesis's jobs end
later."""

MODELS_KEPT = 256
OF_A_MODEL = 5
OVERRUNS_KEPT = 50


class LossCourse(msgspec.Struct):
    """Some losses of a running job.

    Attributes:
        points: Step and loss, by rising step.
        every: One report in so many is kept.
        seen: Reports since the last one that was kept.
        step: The newest step that counted.
        loss: Its loss; a job that repeats it has not reported another one.
        judged_step: The newest step of which a loss was kept.
        fallen_step: The step at which it had 90 % of the reduction up to then; None: it does not show.
        lowest: Its lowest loss up to then, as a share of its first one.
    """

    points: list[tuple[int, float]] = []
    every: int = 1
    seen: int = 0
    step: int = 0
    loss: float | None = None
    judged_step: int = 0
    fallen_step: int | None = None
    lowest: float = 1.0

    def add(self, step: int, loss: float) -> None:
        """A job reported a loss; steps that a restarted job repeats do not count again."""
        if not math.isfinite(loss) or step <= self.step or loss == self.loss:
            return
        self.step, self.loss = step, loss
        self.seen += 1
        if self.seen < self.every:
            return
        self.seen = 0
        self.points.append((step, loss))
        if len(self.points) > MOST_POINTS:
            self.points, self.every = self.points[::2], self.every * 2
        self.judged_step = step
        self._judge()

    @property
    def falls(self) -> bool:
        """Whether the loss is known to fall still."""
        return self.fallen_step is not None and self.fallen_step >= LATELY * self.judged_step

    def learned_at(self, steps: int) -> float | None:
        """The share of all steps at which it had learned most; None: it does not show, or the loss did not fall."""
        step = self.fallen_step
        return None if step is None or steps <= 0 else min(max(step / steps, 0.0), 1.0)

    def expected(self, step: int, steps: int) -> float:
        """The share of all steps at which a running job is taken to have learned most, by its own losses.

        Args:
            step: The newest step, up to ``steps``.
            steps: Of the whole job, above 0.
        """
        done = step / steps
        if self.fallen_step is None:
            return FIRST
        if not self.falls:
            return min(self.fallen_step / steps * (1 + (self.fallen_step / self.judged_step) ** TO_COME), 1.0)
        return min(max(math.pow(done, OF_DONE) * math.pow(self.lowest, OF_LOSS), ONWARD * done), 1.0)

    def _judge(self) -> None:
        """Where the reduction so far was reached, and how far the loss has fallen."""
        self.fallen_step = None
        losses = [loss for _, loss in self.points]
        if len(losses) < FEWEST_POINTS:
            return
        smooth = [sorted(losses[max(0, at - SMOOTHED) : at + SMOOTHED + 1]) for at in range(len(losses))]
        medians = [window[len(window) // 2] for window in smooth]
        first, least = losses[0], min(medians)
        if first <= least:
            return
        goal = max((1 - LEARNED) * first + LEARNED * least, least)
        self.fallen_step = next(step for (step, _), loss in zip(self.points, medians, strict=True) if loss <= goal)
        self.lowest = least / first if least > 0 else LOWEST


class JobAhead(msgspec.Struct, frozen=True):
    """The running job of a model that has done the largest share of its steps, of those whose losses say something.

    Attributes:
        done: Share of its steps that are done.
        share: That at which it is taken to have learned most.
    """

    job: str
    done: float
    share: float


class LearningHistory(msgspec.Struct):
    """What jobs teach about the next ones of their models, the newest last.

    Attributes:
        models: Shares of their steps at which they had learned most, by model; that which finished longest ago comes first.
        sizes: Core-seconds of the whole jobs, likewise.
        demands: Cores that they could use, likewise; also of jobs that still run.
        stops_s: Seconds from the plan of a suspension to the end of the last process, likewise; empty name: of all jobs.
        overruns: How many times their announced totals jobs did that did more than these, the newest last.
        ahead: The job furthest ahead, by model, of those that run.
    """

    models: dict[str, list[float]] = {}
    sizes: dict[str, list[float]] = {}
    demands: dict[str, list[float]] = {}
    stops_s: dict[str, list[float]] = {}
    overruns: list[float] = []
    ahead: dict[str, JobAhead] = {}

    def add_overrun(self, times: float) -> None:
        """A job has finished that did so many times the total that it announced."""
        self.overruns = [*self.overruns, times][-OVERRUNS_KEPT:]

    def add_stop(self, model: str, took_s: float) -> None:
        """Remember how many seconds the suspension of a job took."""
        for name in dict.fromkeys((model, "")):
            _keep(self.stops_s, name, took_s)

    def stop_s(self, model: str) -> float:
        """The expected duration of a suspension, in seconds; 0 while none was seen."""
        return usual(self.stops_s, model) or usual(self.stops_s, "") or 0.0

    def report(self, model: str, job: str, losses: LossCourse, step: int, steps: int | None) -> None:
        """A running job reported another loss.

        Args:
            model: As its user names it; empty: it speaks for no other.
            job: Its name.
            losses: Its own.
            step: The newest step, up to ``steps``.
            steps: Of the whole job, above 0; None: not known, or not believed, so that it speaks for no other.
        """
        if steps is None:
            self.leave(model, job)
            return
        if not model or losses.fallen_step is None:
            return
        leads = self.ahead.get(model)
        if leads is None or leads.job == job or step / steps > leads.done:
            self.ahead[model] = JobAhead(job, step / steps, losses.expected(step, steps))

    def leave(self, model: str, job: str) -> None:
        """A job speaks for no other any more."""
        leads = self.ahead.get(model)
        if leads is not None and leads.job == job:
            del self.ahead[model]

    def expected(self, model: str, losses: LossCourse, step: int, steps: int) -> float:
        """The share at which a running job is taken to have learned most, while none of its model has finished.

        The arguments are those of :meth:`report`, with known ``steps``.
        """
        leads = self.ahead.get(model)
        return losses.expected(step, steps) if leads is None or leads.done <= step / steps else leads.share

    def shares(self, model: str) -> tuple[float, ...] | None:
        """Equally likely shares of a job that runs, ascending; None: no job of that model has finished here."""
        return tuple(sorted(self.models[model])) if model in self.models else None

    def overrun(self, done: float) -> float | None:
        """How many times its total a job is taken to do that has done more than once that; None: none did more."""
        more = [times for times in self.overruns if times > done > 1]
        return statistics.fmean(more) if more else None


def usual(models: Mapping[str, Sequence[float]], model: str) -> float | None:
    """The median over the newest jobs of a model, which is an estimate for its next one; None: there is none yet."""
    return statistics.median(models[model]) if model in models else None


def remember(models: dict[str, list[float]], model: str, value: float) -> None:
    """A job teaches this to the next ones of its model; one without a model teaches nothing."""
    if model:
        _keep(models, model, value)


def _keep(models: dict[str, list[float]], name: str, value: float) -> None:
    models[name] = [*models.pop(name, []), value][-OF_A_MODEL:]
    if len(models) > MODELS_KEPT:
        del models[next(iter(models))]
