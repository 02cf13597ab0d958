"""The profile database: what was measured of jobs that have trained, by the name of what they train.

It is a fold over the pool's log, and bounded. ``steepest profiles`` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.policies.pickyman.time_model import TimeModel, TrainingSetting, fit
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_forecasts import epochs_done
from steepest.view.state import Job

MODELS_KEPT = 500
"""Models that are remembered; beyond that, the one that was profiled least recently is forgotten."""

PROFILES_KEPT = 24
"""Profiles of a model that are remembered, the newest ones."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose epochs were measured.

    Attributes:
        epoch_ms: Mean length of its epochs.
        epoch_bytes: Bytes that it read in one.
        measured: How many epochs that is the mean of.
        epochs: Epochs of the whole training; None: it has not finished.
        data_bytes: Size of its data set, as announced; None: it was not.
        batch_size: Examples a step; None: it was not announced.
        workers: How many replicas trained.
        load_ms: From a start to the first epoch; None: unknown.
        load_bytes: Bytes read meanwhile; None: unknown.
    """

    job: str
    epoch_ms: float
    epoch_bytes: int
    measured: int
    epochs: float | None = None
    data_bytes: int | None = None
    batch_size: int | None = None
    workers: int = 1
    load_ms: int | None = None
    load_bytes: int | None = None

    @property
    def setting(self) -> TrainingSetting:
        """What its epoch's time depends on; the traffic says how large its data set is."""
        return TrainingSetting(float(self.epoch_bytes), float(self.batch_size or 1), self.workers)


class ModelProfiles(msgspec.Struct):
    """The profiled jobs of a model, the oldest first, and the time model that was fitted to them."""

    profiles: list[Profile] = []
    fitted: TimeModel | None = None


class ProfileDatabase(msgspec.Struct):
    """Profiles by model, the model that was profiled last at the end."""

    models: dict[str, ModelProfiles] = {}

    def of(self, model: str) -> Sequence[Profile]:
        """The profiled jobs of a model, the oldest first."""
        found = self.models.get(model)
        return () if found is None else found.profiles

    def time_model(self, model: str) -> TimeModel | None:
        """The time model of a model, fitted to all its profiles."""
        found = self.models.get(model)
        return None if found is None else found.fitted

    def learn(self, model: str, profile: Profile) -> None:
        """Take in a profile; a newer one of the same job takes the place of the one before. Work: O(profiles kept)."""
        known = self.models.pop(model, None) or ModelProfiles()
        others = [one for one in known.profiles if one.job != profile.job]
        known.profiles = [*others[1 - PROFILES_KEPT :], profile]
        known.fitted = fit([(one.setting, one.epoch_ms) for one in known.profiles])
        self.models[model] = known
        if len(self.models) > MODELS_KEPT:
            del self.models[next(iter(self.models))]


def profile_of(job: Job, at_ms: int, *, finished: bool) -> Profile | None:
    """What a job's epochs say so far; None where none was measured, or its user gives no model.

    Args:
        job: The job.
        at_ms: The record's time.
        finished: Whether its training is complete, so that the number of its epochs is known.
    """
    seen = job.epochs_seen
    if seen is None or not seen.epochs or not job.spec.model:
        return None
    whole = float(max(round(epochs_done(job, at_ms)), 1)) if finished else None
    return Profile(
        job=job.name,
        epoch_ms=seen.epoch_ms,
        epoch_bytes=seen.epoch_bytes,
        measured=seen.epochs,
        epochs=whole,
        data_bytes=job.spec.data_bytes,
        batch_size=job.spec.batch_size,
        workers=max(sum(job.spec.counts(job.sizes)), 1),
        load_ms=seen.load_ms,
        load_bytes=seen.load_bytes,
    )


def learn_from(
    database: ProfileDatabase, view: ClusterView, event: c.ClusterEvent, at_ms: int, enough: int
) -> str | None:
    """Take in what a record that counts says of a job's epochs; the model of which more is known, if any.

    A job that has finished is a profile; while its model has fewer than ``enough``, a job that trains is one as well.
    """
    job = view.jobs.get(event.job) if isinstance(event, c.EpochMeasured | c.JobEnded) else None
    if job is None:
        return None
    if isinstance(event, c.JobEnded):
        finished = job.outcome is c.Outcome.FINISHED
        profile = profile_of(job, at_ms, finished=not job.cancel) if finished else None
    else:
        known = database.of(job.spec.model)
        is_wanted = len(known) < enough or any(one.job == job.name for one in known)
        profile = profile_of(job, at_ms, finished=False) if is_wanted else None
    if profile is None:
        return None
    database.learn(job.spec.model, profile)
    return job.spec.model


def comparable(profiles: Sequence[Profile]) -> Mapping[str, float]:
    """The mean of what profiles measured: ``epochs`` (0: none is known) and bytes a millisecond of a worker."""
    known = [one.epochs for one in profiles if one.epochs is not None]
    pace = [one.epoch_bytes / one.workers / one.epoch_ms for one in profiles]
    return {
        "epochs": sum(known) / len(known) if known else 0.0,
        "bytes_ms": sum(pace) / len(pace) if pace else 0.0,
    }
