"""A job as the engine keeps it: what policies see of it, and what only the engine knows.

It owns how a workload's job becomes one. It must never know a policy.
"""

from __future__ import annotations

import math

from steepest.errors import InputError
from steepest.policies.baselines.policy import ActiveJob
from steepest.sim.losses.training import Training
from steepest.sim.result import JobResult
from steepest.sim.rules import Rules
from steepest.sim.workload import SimJob

Place = tuple[tuple[int, int], ...]
"""Where a share lies: a node's index and units there, in the order in which they were taken."""


class RunningJob(ActiveJob, kw_only=True, eq=False):
    """A job of a run.

    Attributes:
        sim: The workload's job.
        pieces: Into how many equal parts its share may be divided; 0: into single units.
        step_s: Seconds of an iteration with all it asks for.
        rate_s: Seconds of an iteration with what it has, where it is.
        overhead_s: What a start, or under other rules an event, costs it.
        end_s: When it ends if nothing happens to it.
        turn: Number of the last decision that gave it its share.
        training: What its loss does; None: nobody asks for it.
    """

    sim: SimJob
    pieces: int
    step_s: float
    rate_s: float = 0.0
    overhead_s: float = 0.0
    place: Place = ()
    start_s: float | None = None
    end_s: float = math.inf
    finished_s: float | None = None
    rejected: bool = False
    preemptions: int = 0
    migrations: int = 0
    turn: int = -1
    training: Training | None = None

    def report(self) -> None:
        """Report the loss, if somebody asks and there has been an iteration since the last report."""
        if self.training is None:
            return
        done = math.floor(self.iterations - self.left)
        if done > (self.losses[-1][0] if self.losses else 0):
            self.losses.append((done, self.training.loss(done)))

    def result(self) -> JobResult:
        """What became of it."""
        outcome = "waiting" if self.start_s is None else "running"
        if self.finished_s is not None:
            outcome = "finished"
        elif self.rejected:
            outcome = "rejected"
        return JobResult(
            name=self.name,
            submit_s=self.submit_s,
            start_s=self.start_s,
            end_s=self.finished_s,
            outcome=outcome,
            migrations=self.migrations,
            preemptions=self.preemptions,
        )


def make_job(sim: SimJob, number: int, rules: Rules, *, share_gpus: bool) -> RunningJob:
    """A job that has not been submitted yet.

    Args:
        sim: The workload's.
        number: Its place there.
        rules: Say how long an iteration takes.
        share_gpus: Whether a unit is a GPU, or a millicore: a job asks for all the CPU that it can use, because these
            policies give away what nobody else may touch.

    Raises:
        InputError: It has no work, or the column that the rules read is no number.
    """
    step_s = _step_s(sim, rules)
    usable_m = sim.demand_cpu_m or sim.requests.cpu_m
    asked = sim.gpus if share_gpus else usable_m * sim.replicas
    quantum = 1 if share_gpus else min(1000, usable_m) * sim.replicas
    return RunningJob(
        number=number,
        name=sim.name,
        submit_s=sim.submit_s,
        asked=asked,
        quantum=quantum,
        most=asked,
        work_s=sim.work_s,
        iterations=sim.iterations,
        step_s_with=lambda units: step_s * asked / units,
        left=float(sim.iterations),
        remaining_s=sim.iterations * step_s,
        predicted_left=float(sim.iterations),
        losses=[],
        sim=sim,
        pieces=0 if share_gpus else sim.replicas,
        step_s=step_s,
    )


def _step_s(sim: SimJob, rules: Rules) -> float:
    """Seconds of one iteration with all that the job asks for."""
    step_s = sim.work_s / sim.iterations if sim.iterations > 0 else math.nan
    if rules.step_column and rules.step_column in sim.details:
        said = sim.details[rules.step_column]
        try:
            step_s = float(said) * rules.step_factor / 1000
        except ValueError:
            raise InputError(f"job {sim.name}, {rules.step_column}: {said!r} is no number of milliseconds") from None
    else:
        step_s *= rules.step_factor
    if not 0 < step_s < math.inf or not math.isfinite(sim.submit_s):
        raise InputError(
            f"job {sim.name}: its work, iterations and submission must be finite, and the first two above 0",
            hint="Give each job a duration and at least one iteration.",
        )
    return step_s
