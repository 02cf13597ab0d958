"""A job of a preemption run: its epochs, what it reloads, and what can be predicted of it.

No trace of Philly's jobs says how long their epochs are or what they read. These are drawn from the seed: assumptions.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Sequence

import msgspec

from steepest_lab.sim.workload import SimJob

MODELS = 12
"""Models among which the jobs of a trace without models are divided."""

EPOCH_S = (60.0, 1_800.0)
"""Length of an epoch, log-uniform; a job has at least one."""

DATA_GIB = (1.0, 150.0)
"""Data that a start of a model reads, log-uniform: CIFAR-10's are 0.2 GiB, ImageNet's 140."""

LAUNCH_S = 5.0
"""Duration of a start without its reading: the longest that SpeCon measured for a move."""

KNOWN_ERROR, UNKNOWN_ERROR, SEEN_ERROR = 0.05, 0.5, 0.02
"""Scale of the relative error of a predicted run time: of a model with enough profiles, of another, and of a job that has
trained for an epoch (the paper: most are below 10 %)."""

ENOUGH = 4
"""Profiled jobs of a model."""


class PreemptionPhase(enum.StrEnum):
    """The phase of a job."""

    COMING = "coming"
    WAITING = "waiting"
    LOADING = "loading"
    TRAINING = "training"
    STOPPING = "stopping"  # its epoch ends first
    DONE = "done"


class PreemptibleJob(msgspec.Struct, kw_only=True, eq=False):
    """A job of a run; times are seconds.

    Attributes:
        epoch_s: Length of its epochs.
        load_gib: What each of its starts reads.
        luck: What its predictions are off by, in units of their scale.
        done_s: Trained so far.
        since_s: When its present phase began.
        left_gib: Of a load.
        waited_s: In all.
        attained_s: For how long it held its GPUs.
        reserved: GPUs that others left to it.
        room_from: The jobs that give way to it.
        launched_s: When its reading begins.
        stops_s: When it leaves its GPUs to another job.
        asked_s: When it was asked to.
        predicted_s: What its suspension or start under way was predicted to take.
    """

    name: str
    model: str
    submit_s: float
    gpus: int
    work_s: float
    epoch_s: float
    load_gib: float
    luck: float
    phase: PreemptionPhase = PreemptionPhase.COMING
    done_s: float = 0.0
    since_s: float = 0.0
    left_gib: float = 0.0
    launched_s: float = 0.0
    waited_s: float = 0.0
    attained_s: float = 0.0
    reserved: int = 0
    room_from: list[str] = []
    room_for: str = ""
    stops_s: float = math.inf
    asked_s: float = 0.0
    predicted_s: float = 0.0
    suspensions: int = 0
    starts: int = 0
    end_s: float | None = None

    def left_s(self, now_s: float) -> float:
        """Training that is left."""
        return self.work_s - self.trained_s(now_s)

    def trained_s(self, now_s: float) -> float:
        """Training that is done."""
        trains = self.phase in {PreemptionPhase.TRAINING, PreemptionPhase.STOPPING}
        return min(self.done_s + (now_s - self.since_s if trains else 0.0), self.work_s)

    def epoch_left_s(self, now_s: float) -> float:
        """Until the epoch under way ends, or the job."""
        trained = self.trained_s(now_s)
        return min(self.epoch_s - trained % self.epoch_s, self.work_s - trained)

    def predicted_left_s(self, now_s: float, profiled: int) -> float:
        """Training that is predicted to be left."""
        trained = self.trained_s(now_s)
        scale = SEEN_ERROR if trained >= self.epoch_s else KNOWN_ERROR if profiled >= ENOUGH else UNKNOWN_ERROR
        return max(self.work_s * math.exp(scale * self.luck) - trained, 0.0)


def jobs_of(sims: Sequence[SimJob], seed: int) -> list[PreemptibleJob]:
    """The jobs of a workload, with what it does not say drawn from the seed."""
    lengths: dict[str, tuple[float, float]] = {}
    jobs = []
    for number, sim in enumerate(sims):
        drawn = random.Random(f"{seed}/{number}")  # noqa: S311 - a simulation
        model = sim.model or f"model-{drawn.randrange(MODELS)}"
        if model not in lengths:
            of_model = random.Random(f"{seed}/{model}")  # noqa: S311
            lengths[model] = (_log_uniform(of_model, *EPOCH_S), _log_uniform(of_model, *DATA_GIB))
        epoch_s, load_gib = lengths[model]
        jobs.append(
            PreemptibleJob(
                name=sim.name,
                model=model,
                submit_s=sim.submit_s,
                gpus=max(sim.gpus, 1),
                work_s=sim.work_s,
                epoch_s=min(epoch_s, sim.work_s),
                load_gib=load_gib,
                luck=drawn.gauss(0.0, 1.0),
                room_from=[],
            )
        )
    return jobs


def _log_uniform(drawn: random.Random, least: float, most: float) -> float:
    return math.exp(drawn.uniform(math.log(least), math.log(most)))
