"""How often a sweep finds the best of its trials, and for how much of their computing.

Trials are drawn from 1,000 trainings of TaskSet (Metz et al., 2020), each with random settings and its validation loss at 51
points. The placer and the trial judge decide as in a pool with room for a number of trials; all run equally fast, and a
suspension costs nothing. *Found* is how often the best trial of all, by its last loss, has finished. *Steps* is the share of
all trials' steps that was made; *loss* is how much higher the last loss of the best that finished is. Trials of the mode
``none`` cannot be saved.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.frame.bench import data, each, figure, options
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.loss import LossReported
from steepest.events.requests import Rungs
from steepest.policies.placement.placer import Placer
from steepest.policies.sweep.climb import Climb
from steepest.policies.sweep.trial_judge import TrialJudge

CURVES = "taskset/FixedTextRNNClassification_imdb_patch128_LSTM128_bs64.json.gz"
REQUEST_M = 100


class Played(DeciderDriver):
    """A sweep over these curves, in rounds in which each running trial makes one point."""

    def __init__(self, curves: Sequence[Sequence[float]], rungs: Rungs, room: int, mode: CheckpointMode) -> None:
        super().__init__(Placer(), TrialJudge(), w1=room * REQUEST_M)
        self.curves = {f"t-{number}": curve for number, curve in enumerate(curves)}
        self.points = dict.fromkeys(self.curves, 0)
        self._rungs = rungs
        self._climbs = {name: Climb(at=rungs.first) for name in self.curves}
        self.feed(*(submitted(name, REQUEST_M, mode, array="t", rungs=rungs) for name in self.curves))

    def play(self) -> None:
        """Train until no trial runs or waits for room."""
        while any(job.outcome is None for job in self.view.jobs):
            self.tick()
            self.deliver(everything=True)
            for job in list(self.view.jobs):
                if job.plan is not None:
                    self.carry_out(job.name)
            self.deliver(everything=True)
            for job in [job for job in self.view.jobs if job.alive and job.plan is None]:
                self._train(job.name, job.incarnation)

    def _train(self, name: str, incarnation: int) -> None:
        self.points[name] += 1
        point, value = self.points[name], self.curves[name][self.points[name]]
        if point == len(self.curves[name]) - 1:
            self.feed(self.stopped(name, 0))
            return
        report = LossReported(
            job=name, incarnation=incarnation, step=point, value=value if math.isfinite(value) else 0.0
        )
        reached = self._climbs[name].add(report, value, self._rungs)
        if reached is not None:
            found = c.RungReached(
                job=name, incarnation=incarnation, rung=reached.rung, at=reached.at, value=reached.value
            )
            self.feed(found)

    def result(self) -> Mapping[str, float]:
        """Whether the best was found, the share of steps, and the loss that the best one's is better by."""
        last = {name: curve[-1] if math.isfinite(curve[-1]) else math.inf for name, curve in self.curves.items()}
        finished = [last[job.name] for job in self.view.jobs if job.outcome is c.Outcome.FINISHED]
        best, made = min(finished, default=math.inf), sum(self.points.values())
        return {
            "found": float(best <= min(last.values())),
            "steps": made / sum(len(curve) - 1 for curve in self.curves.values()),
            "loss": best - min(last.values()),
        }


def main() -> None:
    """Measure what the command line asks for."""
    asked = options(
        __doc__,
        draws=(1, 20, 200),
        trials=(9, 64, 64),
        room=((2,), (8,), (1, 8, 64)),
        first=(2, 2, 2),
        factor=(3, 3, 3),
    )
    with gzip.open(data(CURVES) / CURVES, "rt") as file:
        known = [[math.nan if x is None else x for x in run["valid"]["loss"]] for run in json.load(file)]
    rungs = Rungs(first=asked.first, factor=asked.factor)
    for mode, room in itertools.product((CheckpointMode.ON_REQUEST, CheckpointMode.NONE), asked.room):
        rows, name = [], f"{mode}, room for {room}"
        for draw in each(name, range(asked.draws)):
            chosen = random.Random(draw).sample(known, asked.trials)  # noqa: S311 - a simulation
            sweep = Played(chosen, rungs, room, mode)
            sweep.play()
            rows.append(sweep.result())
        losses = [row["loss"] for row in rows]
        figure(
            name,
            draws=asked.draws,
            found=round(statistics.fmean(row["found"] for row in rows), 3),
            steps=round(statistics.fmean(row["steps"] for row in rows), 3),
            loss_median=round(statistics.median(losses), 4),
            loss_mean=round(statistics.fmean(losses), 4),
        )


if __name__ == "__main__":
    main()
