"""At which share of their runs the jobs of this pool had learned most: what the next job of the same model will do.

While a job runs, some of its losses are kept; when it has finished, the share of its steps at which it had 90 % of the
reduction of its loss is known. Jobs of a model that has finished before get the shares of that model. Others get one
share: with the distribution over all real trainings (:data:`~steepest.policies.steepest.learning.SHARES`) the value of
learning is spread so thinly that the shortest remaining time is always first, and jobs learn later than under fair
sharing (``benchmarks/policies.py`` measured it).
"""

from __future__ import annotations

import math
import statistics

import msgspec

MOST_POINTS = 64
"""Losses kept of a job; where there are more, every second one goes."""

FEWEST_POINTS = 8
"""Fewer losses do not show where a job had learned most."""

SMOOTHED = 2
"""Losses on each side over which the median is taken."""

LEARNED = 0.9
UNKNOWN = (0.27,)
"""The share of a job whose model never finished here: two of five real trainings have learned most by then."""

MODELS_KEPT = 256
OF_A_MODEL = 5


class LossCourse(msgspec.Struct):
    """Some losses of a running job.

    Attributes:
        points: Step and loss, by rising step.
        every: One report in so many is kept.
        seen: Reports since the last one that was kept.
        step: The newest step that counted.
        loss: Its loss; a job that repeats it has not reported another one.
    """

    points: list[tuple[int, float]] = []
    every: int = 1
    seen: int = 0
    step: int = 0
    loss: float | None = None

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

    def learned_at(self, steps: int) -> float | None:
        """The share of all steps at which it had learned most; None: it does not show, or the loss did not fall."""
        losses = [loss for _, loss in self.points]
        if len(losses) < FEWEST_POINTS or steps <= 0:
            return None
        smooth = [statistics.median(losses[max(0, at - SMOOTHED) : at + SMOOTHED + 1]) for at in range(len(losses))]
        first = losses[0]
        goal = first - LEARNED * (first - min(smooth))
        if first <= min(smooth):
            return None
        step = next(step for (step, _), loss in zip(self.points, smooth, strict=True) if loss <= goal)
        return min(max(step / steps, 0.0), 1.0)


class LearningHistory(msgspec.Struct):
    """The shares of finished jobs, the newest last.

    Attributes:
        models: By model; the model that finished longest ago comes first.
    """

    models: dict[str, list[float]] = {}

    def add(self, model: str, share: float) -> None:
        """A job has finished."""
        if model:
            self.models[model] = [*self.models.pop(model, []), share][-OF_A_MODEL:]
            if len(self.models) > MODELS_KEPT:
                del self.models[next(iter(self.models))]

    def shares(self, model: str) -> tuple[float, ...]:
        """Equally likely shares of a job that runs, ascending."""
        return tuple(sorted(self.models[model])) if model in self.models else UNKNOWN
