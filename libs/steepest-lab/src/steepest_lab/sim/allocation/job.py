"""A job of a run: the fields that policies see, and those that only the engine knows.

It owns the conversion from a workload's job. It must never know a policy.
"""

from __future__ import annotations

import math

from steepest.errors import InputError
from steepest_lab.baselines.policy import ActiveJob
from steepest_lab.sim.losses.training import JobLosses
from steepest_lab.sim.result import JobResult
from steepest_lab.sim.rules import Rules
from steepest_lab.sim.workload import SimJob

Place = tuple[tuple[int, int], ...]
"""The nodes of a share: each node's index and units, in the order in which they were taken."""


class RunningJob(ActiveJob, kw_only=True, eq=False):
    """A job of a run.

    Attributes:
        sim: The workload's job.
        pieces: Into how many equal parts its share may be divided; 0: into single units.
        step_s: Seconds of an iteration with all it requests.
        rate_s: Seconds of an iteration with its current share on its current nodes.
        overhead_s: Cost of a start in seconds; under other rules, of an event.
        end_s: Time at which it ends if its share does not change.
        turn: Number of the last decision that granted its share.
        training: Its loss curve; None: the policy does not read losses.
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
    training: JobLosses | None = None

    def report(self) -> None:
        """Report the loss if the policy reads losses and an iteration has completed since the last report."""
        if self.training is None:
            return
        done = math.floor(self.iterations - self.left)
        if done > (self.losses[-1][0] if self.losses else 0):
            self.losses.append((done, self.training.loss(done)))

    def result(self) -> JobResult:
        """The job's result."""
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
    """Create a job that has not been submitted yet.

    Args:
        sim: The workload's.
        number: Its index in the workload.
        rules: They define how long an iteration takes.
        share_gpus: Whether a unit is a GPU, or a millicore: a job asks for all the CPU that it can use, because these
            policies grant exclusive shares.

    Raises:
        InputError: It has no work, or the column that the rules read is not a number.
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
        step_s_with=lambda units: step_s * (asked / units) ** rules.scaling,
        left=float(sim.iterations),
        remaining_s=sim.iterations * step_s,
        predicted_left=float(sim.iterations),
        announced=sim.announced or 1.0,
        losses=[],
        sim=sim,
        pieces=0 if share_gpus else sim.replicas,
        step_s=step_s,
    )


def _step_s(sim: SimJob, rules: Rules) -> float:
    """Seconds of one iteration with all that the job requests."""
    step_s = sim.work_s / sim.iterations if sim.iterations > 0 else math.nan
    if rules.step_column and rules.step_column in sim.details:
        text = sim.details[rules.step_column]
        try:
            step_s = float(text) * rules.step_factor / 1000
        except ValueError:
            raise InputError(f"job {sim.name}, {rules.step_column}: {text!r} is not a number of milliseconds") from None
    else:
        step_s *= rules.step_factor
    if not 0 < step_s < math.inf or not math.isfinite(sim.submit_s):
        raise InputError(
            f"job {sim.name}: its work, iterations and submission must be finite, and the first two above 0",
            hint="Give each job a duration and at least one iteration.",
        )
    return step_s
