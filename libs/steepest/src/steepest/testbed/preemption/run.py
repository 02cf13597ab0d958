"""Runs the experiments: predictions of other trainings, overheads under time slices, a cluster under three policies."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from steepest.demo.audience import NoAudience
from steepest.demo.play import Play
from steepest.demo.workload import DemoWorkload
from steepest.errors import ClusterError
from steepest.events.parameters import PickyManParameters, PoolParameters, PreemptionLimits, SpeConParameters
from steepest.policies.named import under
from steepest.testbed.preemption import trainings
from steepest.testbed.preemption.outcomes import (
    MeasuredOverhead,
    PredictedRun,
    Records,
    WaitingOfRun,
    overheads,
    predictions,
    waiting,
)

TICK_MS = 500
MIN_RUN_MS = 4_000
SLICE_MS = 20_000
"""Longer than an epoch, so that each slice brings a job further."""

COMPARED = {"fifo": "none", "srtf": "predicted-srtf", "pickyman": "pickyman"}
"""Name in the report to name of the policy."""

OVERHEADS_WANTED = 40
JOBS, GAP_S = 9, 12.0

OnStep = Callable[[str], None]
"""Is called with what was done."""


class RealPreemption(msgspec.Struct, frozen=True, kw_only=True):
    """What came out."""

    predictions: Sequence[PredictedRun]
    overheads: Sequence[MeasuredOverhead]
    waiting: Sequence[WaitingOfRun]


def parameters(policy: str) -> PoolParameters:
    """A pool's parameters under a policy, on the time scale of these trainings."""
    plain = PoolParameters(
        tick_ms=TICK_MS,
        specon=SpeConParameters(interval_ms=5_000),
        preemption=PreemptionLimits(min_run_ms=MIN_RUN_MS, max_suspensions=100),
        pickyman=PickyManParameters(slice_ms=SLICE_MS),
    )
    return under(policy, plain)


def reproduced(repetitions: int, folder: Path, on_step: OnStep, *, brief: bool = False) -> RealPreemption:
    """Run everything.

    Args:
        repetitions: Of the predictions and of the comparison; overheads are measured until there are enough.
        folder: For the recordings.
        on_step: Is called with what was done.
        brief: Fewer and smaller runs, which show that it works.

    Raises:
        InputError: There is no storage server.
        ClusterError: A job failed.
        KeyboardInterrupt: It was interrupted.
    """
    found: list[PredictedRun] = []
    measured: list[MeasuredOverhead] = []
    waited: list[WaitingOfRun] = []
    profiled, others = (trainings.PROFILED, trainings.OTHERS[:2] if brief else trainings.OTHERS)
    for number in range(repetitions):
        given = trainings.predicted_workload(number, profiled, others)
        ran = _ran(given, "predicted-sjf", folder / f"predictions-{number}")
        found += [one for one in predictions(ran) if one.job.startswith("other-")]
        on_step(f"run times predicted and measured: {len(found)}")
    rounds = 0
    while len(measured) < (2 if brief else OVERHEADS_WANTED):
        name = f"overheads-{rounds}"
        measured += overheads(name, _ran(_crowd(rounds, brief=brief), "round-robin", folder / name))
        rounds += 1
        on_step(f"suspensions and resumptions measured: {len(measured)}")
    for number in range(repetitions):
        names = list(COMPARED)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            ran = _ran(_crowd(100 + number, brief=brief), COMPARED[name], folder / f"{name}-{number}")
            waited.append(waiting(name, number, ran))
            on_step(f"{name}, repetition {number + 1}: mean waiting {waited[-1].mean_waiting_s:.1f} s")
    return RealPreemption(predictions=found, overheads=measured, waiting=waited)


def _crowd(seed: int, *, brief: bool) -> DemoWorkload:
    return trainings.crowded_workload(seed, 4 if brief else JOBS, GAP_S)


def _ran(given: DemoWorkload, policy: str, state: Path) -> Records:
    shutil.rmtree(state, ignore_errors=True)
    with trainings.with_storage(given) as (staged,):
        return asyncio.run(_played(Play(state, staged, parameters(policy))))


async def _played(play: Play) -> Records:
    await play.run(NoAudience())
    if play.interrupted.is_set():
        raise KeyboardInterrupt
    if play.failed:
        folder = play.recording.parent
        raise ClusterError(f"a job of {folder} failed", code="job-failed", hint=f"steepest jobs --state {folder}")
    return await play.recorded()
