"""How long a job runs, and how much of that is left: the best method for which enough is known.

A reconstruction; the paper's abstract names the traffic, the database and the four profiled jobs. In this order:

1. its own epochs, where at least one was seen: the epochs that are left, times their mean length;
2. the time model of its model, where enough jobs of it were profiled;
3. the pace of the profiled jobs, where they are fewer;
4. announced totals, and the pace of the last minutes (:func:`steepest.view.progress.time_left`);
5. nothing.

How many epochs there are is what its user announced, else what finished jobs of the same model had, else what the process
states. What a process states counts last: a job may lie, and its traffic does not.
"""

from __future__ import annotations

from steepest.describe.units import count
from steepest.events.cluster import PredictedSpan, PredictionMethod, RunTimePredicted
from steepest.events.common import bounded_millis
from steepest.policies.pickyman.profiles import ProfileDatabase, comparable
from steepest.policies.pickyman.time_model import TrainingSetting
from steepest.view.folds.fold_forecasts import epochs_done
from steepest.view.progress import MOST_EPOCHS, time_left
from steepest.view.state import Job

ONE_EPOCH_ERROR = 0.1
"""Relative half-width of the interval after one epoch; it falls with the root of the epochs that were seen."""

LEAST_ERROR = 0.02

HISTORY_ERROR = 0.5
"""Likewise where the profiles are too few for the time model."""


def predict(job: Job, database: ProfileDatabase, enough: int, at_ms: int) -> RunTimePredicted:
    """The prediction of a job's run time at a record's time; ``enough``: profiles for which the time model is used.

    Work: O(profiles of its model).
    """
    profiles = database.of(job.spec.model) if job.spec.model else ()
    known = comparable(profiles)
    epochs = _epochs(job, known["epochs"])
    loads = [one.load_ms for one in profiles if one.load_ms is not None]
    seen = job.epochs_seen
    load_ms = round(sum(loads) / len(loads)) if loads else None
    if seen is not None and seen.load_ms is not None:
        load_ms = seen.load_ms
    found = _epoch_time(job, database, enough, known["bytes_ms"])
    if found is None or epochs is None:
        return _by_totals(job)
    method, epoch_ms, error = found
    done = epochs_done(job, at_ms)
    left = max(epochs - done, 0.0)
    if not job.alive:
        error = min(error, 0.9)
    load = load_ms or 0
    return RunTimePredicted(
        job=job.name,
        incarnation=job.incarnation,
        method=method,
        total=_span(epochs * epoch_ms + load, error),
        remaining=_span(left * epoch_ms + (0 if job.alive else load), error),
        model=job.spec.model,
        profiles=0 if method is PredictionMethod.EPOCHS else len(profiles),
        epochs=epochs,
        epoch_ms=max(round(epoch_ms), 1),
        load_ms=load_ms,
    )


def unpredicted(job: Job, database: ProfileDatabase, enough: int) -> str:
    """What is missing for a prediction of a job that has not trained yet, for people; it decides nothing."""
    model, profiles = job.spec.model, database.of(job.spec.model) if job.spec.model else ()
    if not model:
        return f"it names no --model, of which {count(enough, 'profiled job')} would predict it"
    if not profiles:
        why = [f"no job of {model} is profiled yet, 1 gives an estimate and {enough} give the time model"]
    else:
        more = f", {enough - len(profiles)} more would give the time model" if len(profiles) < enough else ""
        why = [f"{count(len(profiles), 'job')} of {model} profiled{more}"]
    if _epochs(job, comparable(profiles)["epochs"]) is None:
        why.append("it announces no --epochs, and no profiled job of its model has finished")
    if job.spec.data_bytes is None and len(dict.fromkeys(one.epoch_bytes for one in profiles)) > 1:
        why.append("it announces no --data-bytes, and those jobs read different amounts")
    return "; ".join(why)


def _epoch_time(
    job: Job, database: ProfileDatabase, enough: int, bytes_ms: float
) -> tuple[PredictionMethod, float, float] | None:
    """The method, the length of an epoch in milliseconds, and the relative half-width of its interval."""
    seen = job.epochs_seen
    if seen is not None and seen.epoch_ms > 0:
        return PredictionMethod.EPOCHS, seen.epoch_ms, max(ONE_EPOCH_ERROR / max(seen.epochs, 1) ** 0.5, LEAST_ERROR)
    model = database.time_model(job.spec.model) if job.spec.model else None
    profiles = database.of(job.spec.model) if job.spec.model else ()
    if model is None or not profiles:
        return None
    data = job.spec.data_bytes
    sizes = dict.fromkeys(one.epoch_bytes for one in profiles)
    if data is None:
        if len(sizes) > 1:
            return None
        data = next(iter(sizes))
    setting = TrainingSetting(_as_read(data, job, database), float(job.spec.batch_size or 1), max(job.spec.world, 1))
    if len(profiles) >= enough:
        epoch_ms = model.epoch_ms(setting)
        if epoch_ms > 0:
            return PredictionMethod.TIME_MODEL, epoch_ms, model.relative_error(setting)
    if bytes_ms <= 0:
        return None
    return PredictionMethod.HISTORY, setting.data / setting.workers / bytes_ms, HISTORY_ERROR


def _as_read(data: int, job: Job, database: ProfileDatabase) -> float:
    """What an epoch of an announced size reads: protocols add to it, and caches take from it, as for the profiled jobs."""
    ratios = [one.epoch_bytes / one.data_bytes for one in database.of(job.spec.model) if one.data_bytes]
    return data * sum(ratios) / len(ratios) if ratios else float(data)


def _epochs(job: Job, of_others: float) -> float | None:
    if job.spec.epochs is not None:
        return float(job.spec.epochs)
    if of_others > 0:
        return of_others
    stated = job.progress.epochs
    return stated if stated is not None and 0 < stated < MOST_EPOCHS else None


def _by_totals(job: Job) -> RunTimePredicted:
    left = time_left(job)
    if left is None:
        return RunTimePredicted(
            job=job.name, incarnation=job.incarnation, method=PredictionMethod.UNKNOWN, model=job.spec.model
        )
    remaining = PredictedSpan(
        bounded_millis(min(max(left.p50, left.low), left.high)), bounded_millis(left.low), bounded_millis(left.high)
    )
    return RunTimePredicted(
        job=job.name,
        incarnation=job.incarnation,
        method=PredictionMethod.TOTALS,
        remaining=remaining,
        model=job.spec.model,
    )


def _span(ms: float, error: float) -> PredictedSpan:
    return PredictedSpan(bounded_millis(ms), bounded_millis(ms * (1 - error)), bounded_millis(ms * (1 + error)))
