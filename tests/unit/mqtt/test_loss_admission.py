"""Which losses are appended to the log, and which event the bridge appends before them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool
from tests.unit.mqtt.messages import envelope, loss

from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched, JobWatched
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.mqtt.loss_admission import LossAdmission
from steepest.mqtt.payload import DeviceMessage, RefusedMessageError, parse


def message(event: dict[str, Any], **more: Any) -> DeviceMessage:
    """A message of a device on ``loss``."""
    return parse("steepest", "default", "steepest/edge-1/loss", envelope(event, **more))


@pytest.fixture
def pool() -> FoldedPool:
    """A pool whose job ``job`` runs as incarnation 1."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    return pool


def test_a_job_is_watched_before_its_first_report(pool: FoldedPool) -> None:
    """Once, with the parameters in force; and again for another metric or another incarnation."""
    admission = LossAdmission("default", {})
    first = admission.admit(pool.view, message(loss(metric="train_loss")))

    assert first == JobWatched(
        job="job", pool="default", incarnation=1, metric="train_loss", parameters=pool.view.parameters.specon
    )
    assert admission.admit(pool.view, message(loss(metric="train_loss"))) is None
    assert admission.admit(pool.view, message(loss(metric="val_loss", split="eval"))) is None
    assert admission.watched == {"job": 1}
    for _ in range(10):
        renamed = admission.admit(pool.view, message(loss(metric="loss")))
    assert renamed is not None
    assert renamed.metric == "loss"


def test_changed_parameters_are_announced_once_before_the_next_report(pool: FoldedPool) -> None:
    """A running job is judged by them from then on, as one whose files a log-collector reads."""
    admission = LossAdmission("default", {})
    admission.admit(pool.view, message(loss()))
    parameters = SpeConParameters(interval_ms=10_000, alpha=0.5)
    pool.feed(c.PoolConfigured(parameters=PoolParameters(specon=parameters)))
    again = admission.admit(pool.view, message(loss()))

    assert again is not None
    assert (again.incarnation, again.parameters) == (1, parameters)
    assert admission.admit(pool.view, message(loss())) is None


def test_a_job_is_announced_every_day(pool: FoldedPool) -> None:
    """Before its next report, because readers may forget a job that was silent for long."""
    admission = LossAdmission("default", {})
    first = admission.admit(pool.view, message(loss()))
    pool.tick(86_399_999)
    assert admission.admit(pool.view, message(loss())) is None
    pool.tick(1)

    assert admission.admit(pool.view, message(loss())) == first
    assert admission.admit(pool.view, message(loss())) is None


def test_what_diverges_is_watched_as_well(pool: FoldedPool) -> None:
    """A job whose first loss is not a number is announced too."""
    event = {"type": "LossDiverged", "job": "job", "incarnation": 1, "value": "nan"}

    assert isinstance(LossAdmission("default", {}).admit(pool.view, message(event)), JobWatched)


def test_a_collector_announces_what_it_watches(pool: FoldedPool) -> None:
    """Its events name their source, and the bridge puts nothing before them."""
    admission = LossAdmission("default", {})

    assert admission.admit(pool.view, message(loss(), source="job.1.reports", number="5")) is None
    assert admission.watched == {}


def test_the_end_of_a_watched_job_is_announced_once(pool: FoldedPool) -> None:
    """Later reports are admitted and decide nothing, because the job is watched no more."""
    admission = LossAdmission("default", {})
    admission.admit(pool.view, message(loss()))
    assert admission.ended(pool.view) == []
    pool.end("job")

    assert admission.ended(pool.view) == ["job"]
    assert admission.unwatch("job") == JobUnwatched(job="job")
    assert admission.unwatch("job") is None
    assert admission.admit(pool.view, message(loss())) is None
    assert admission.admit(pool.view, message({"type": "JobUnwatched", "job": "job"})) is None
    assert LossAdmission("default", {"forgotten": 1}).ended(pool.view) == ["forgotten"]


@pytest.mark.parametrize(
    "event",
    [
        loss(job="unknown"),
        loss(incarnation=2),
        {"type": "JobUnwatched", "job": "job"},
        {"type": "LossDiverged", "job": "job", "incarnation": 9, "value": "nan"},
    ],
)
def test_no_device_fences_or_ends_a_running_job(pool: FoldedPool, event: dict[str, Any]) -> None:
    """An unknown job, an incarnation that was never placed, and the end of what runs are refused by name."""
    with pytest.raises(RefusedMessageError) as refused:
        LossAdmission("default", {}).admit(pool.view, message(event))

    assert refused.value.code == "job"
    assert "job" in str(refused.value)
