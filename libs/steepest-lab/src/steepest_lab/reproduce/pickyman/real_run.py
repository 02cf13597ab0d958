"""Runs the experiments: predictions of other trainings, overheads under time slices, a cluster under three policies."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec

from steepest.events.parameters import PickyManParameters, PoolParameters, PreemptionLimits, SpeConParameters
from steepest.policies.named import under
from steepest_lab.demo.workload import DemoWorkload
from steepest_lab.reproduce.kept_runs import OnStep, run_once
from steepest_lab.reproduce.pickyman import trainings
from steepest_lab.reproduce.pickyman.outcomes import (
    MeasuredOverhead,
    PredictedRun,
    WaitingOfRun,
    overheads,
    predictions,
    waiting,
)

TICK_MS = 500
MIN_RUN_MS = 4_000
SLICE_MS = 175_000
"""Several epochs: three must end in an incarnation before the traffic shows how long they are."""

COMPARED = {"fifo": "spread", "srtf": "predicted-srtf", "pickyman": "pickyman"}
"""Name in the report to name of the policy."""

SLICES = "time slices"
"""Source of the overheads that the claim is judged by; others come from the comparison, under each policy's name."""

OVERHEADS_WANTED = 40
"""Suspensions and resumptions together."""


class RealPart(enum.StrEnum):
    """An experiment that runs alone."""

    RUN_TIMES = "run-times"
    OVERHEADS = "overheads"
    CLUSTER = "cluster"


class RealPreemption(msgspec.Struct, frozen=True, kw_only=True):
    """The results; empty for a part that has not run. Overheads are those of the time slices and of the comparison."""

    predictions: Sequence[PredictedRun] = ()
    overheads: Sequence[MeasuredOverhead] = ()
    waiting: Sequence[WaitingOfRun] = ()


def parameters(policy: str, storage_bytes_s: int | None = None) -> PoolParameters:
    """A pool's parameters under a policy, on the time scale of these trainings; None: its storage's bandwidth is unknown."""
    plain = PoolParameters(
        tick_ms=TICK_MS,
        specon=SpeConParameters(interval_ms=5_000),
        preemption=PreemptionLimits(min_run_ms=MIN_RUN_MS, max_suspensions=100),
        pickyman=PickyManParameters(slice_ms=SLICE_MS, storage_bytes_s=storage_bytes_s),
    )
    return under(policy, plain)


def reproduced(repetitions: int, folder: Path, on_step: OnStep, parts: Collection[RealPart]) -> RealPreemption:
    """Run the parts; a run whose recording in ``folder`` is complete is read from it.

    Args:
        repetitions: Of the predictions and of the comparison; overheads are measured until there are enough.
        folder: For the recordings.
        on_step: Is called with what was done.
        parts: Which experiments.

    Raises:
        InputError: There is no storage server.
        ClusterError: A job failed.
        RecordingError: A recording cannot be read.
        KeyboardInterrupt: It was interrupted.
    """
    run_times = _run_times(repetitions, folder, on_step) if RealPart.RUN_TIMES in parts else ()
    measured = _overheads(folder, on_step) if RealPart.OVERHEADS in parts else ()
    waited, of_policies = _compared(repetitions, folder, on_step) if RealPart.CLUSTER in parts else ((), ())
    return RealPreemption(predictions=run_times, overheads=(*measured, *of_policies), waiting=waited)


def _stored(bytes_s: int = trainings.STORAGE_BYTES_S) -> Callable[[DemoWorkload], AbstractContextManager[DemoWorkload]]:
    """A server for the data of a run's jobs, behind a link of limited bandwidth."""
    return partial(trainings.with_storage, bytes_s=bytes_s)


def _run_times(repetitions: int, folder: Path, on_step: OnStep) -> Sequence[PredictedRun]:
    found: list[PredictedRun] = []
    for number in range(repetitions):
        given = trainings.predicted_workload(number, trainings.PROFILED, trainings.OTHERS)
        ran = run_once(given, parameters("predicted-sjf"), folder / f"predictions-{number}", on_step, _stored())
        found += [one for one in predictions(ran) if one.job.startswith("other-")]
        on_step(f"run times predicted and measured: {len(found)}")
    return found


def _overheads(folder: Path, on_step: OnStep) -> Sequence[MeasuredOverhead]:
    measured: list[MeasuredOverhead] = []
    rounds, predicted = 0, 0
    while predicted < OVERHEADS_WANTED:  # few are missing after the first round
        epochs = trainings.SLICED_EPOCHS // 4 if rounds else trainings.SLICED_EPOCHS
        name, given = f"overheads-{rounds}", trainings.sliced_workload(rounds, epochs)
        bytes_s = trainings.SLICED_STORAGE_BYTES_S
        pool = parameters("round-robin", bytes_s)
        ran = run_once(given, pool, folder / name, on_step, _stored(bytes_s))
        measured += overheads(SLICES, name, ran)
        predicted = sum(one.predicted_ms is not None for one in measured)
        rounds += 1
        on_step(f"suspensions and resumptions measured: {len(measured)}, of which were predicted: {predicted}")
    return measured


def _compared(
    repetitions: int, folder: Path, on_step: OnStep
) -> tuple[Sequence[WaitingOfRun], Sequence[MeasuredOverhead]]:
    names, waited, measured = list(COMPARED), list[WaitingOfRun](), list[MeasuredOverhead]()
    bytes_s = trainings.CROWD_STORAGE_BYTES_S
    for number in range(repetitions):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            given = trainings.crowded_workload(100 + number)
            pool = parameters(COMPARED[name], bytes_s)
            ran = run_once(given, pool, folder / f"{name}-{number}", on_step, _stored(bytes_s))
            one = waiting(name, number, ran, {arrival.job for arrival in given.arrivals if arrival.after})
            on_step(f"{name}, repetition {number + 1}: mean waiting {one.mean_waiting_s:.1f} s")
            waited.append(one)
            measured += overheads(name, f"{name}-{number}", ran)
    return waited, measured
