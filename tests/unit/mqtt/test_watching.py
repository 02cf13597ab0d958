"""Which losses may go to the log, and what the bridge says about a job by itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.mqtt.messages import loss, said

from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched, JobWatched
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.mqtt.payload import Message, RefusedMessageError, parse
from steepest.mqtt.watching import Watching
from steepest.testing.scenarios.folded_pool import FoldedPool


def message(event: dict[str, Any], **more: Any) -> Message:
    """What a device said about a loss."""
    return parse("steepest", "default", "steepest/edge-1/loss", said(event, **more))


@pytest.fixture
def pool() -> FoldedPool:
    """A pool whose job ``job`` runs as incarnation 1."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    return pool


def test_a_job_is_watched_before_its_first_report(pool: FoldedPool) -> None:
    """Once, with the parameters in force; and again under another name, or for another incarnation."""
    watching = Watching("default", {})
    first = watching.before(pool.view, message(loss(metric="train_loss")))

    assert first == JobWatched(
        job="job", pool="default", incarnation=1, metric="train_loss", parameters=pool.view.parameters.specon
    )
    assert watching.before(pool.view, message(loss(metric="train_loss"))) is None
    assert watching.before(pool.view, message(loss(metric="val_loss", split="eval"))) is None
    assert watching.watched == {"job": 1}
    for _ in range(10):
        renamed = watching.before(pool.view, message(loss(metric="loss")))
    assert renamed is not None
    assert renamed.metric == "loss"


def test_parameters_put_in_force_are_said_once_before_the_next_report(pool: FoldedPool) -> None:
    """A job that runs is judged by them from there on, as one whose files a log-collector reads."""
    watching = Watching("default", {})
    watching.before(pool.view, message(loss()))
    parameters = SpeConParameters(interval_ms=10_000, alpha=0.5)
    pool.feed(c.PoolConfigured(parameters=PoolParameters(specon=parameters)))
    again = watching.before(pool.view, message(loss()))

    assert again is not None
    assert (again.incarnation, again.parameters) == (1, parameters)
    assert watching.before(pool.view, message(loss())) is None


def test_a_job_is_said_to_be_watched_every_day(pool: FoldedPool) -> None:
    """Before its next report: one of which nothing was heard for long may be forgotten."""
    watching = Watching("default", {})
    first = watching.before(pool.view, message(loss()))
    pool.tick(86_399_999)
    assert watching.before(pool.view, message(loss())) is None
    pool.tick(1)

    assert watching.before(pool.view, message(loss())) == first
    assert watching.before(pool.view, message(loss())) is None


def test_what_diverges_is_watched_as_well(pool: FoldedPool) -> None:
    """A training whose first loss is no number is a training all the same."""
    event = {"type": "LossDiverged", "job": "job", "incarnation": 1, "value": "nan"}

    assert isinstance(Watching("default", {}).before(pool.view, message(event)), JobWatched)


def test_a_collector_says_itself_what_it_watches(pool: FoldedPool) -> None:
    """Its events name their source, and get nothing put before them."""
    watching = Watching("default", {})

    assert watching.before(pool.view, message(loss(), source="job.1.reports", number="5")) is None
    assert watching.watched == {}


def test_when_a_watched_job_ends_it_is_said_once(pool: FoldedPool) -> None:
    """Later reports are let through, and decide nothing, because nobody watches them any more."""
    watching = Watching("default", {})
    watching.before(pool.view, message(loss()))
    assert watching.ended(pool.view) == []
    pool.end("job")

    assert watching.ended(pool.view) == ["job"]
    assert watching.over("job") == JobUnwatched(job="job")
    assert watching.over("job") is None
    assert watching.before(pool.view, message(loss())) is None
    assert watching.before(pool.view, message({"type": "JobUnwatched", "job": "job"})) is None
    assert Watching("default", {"forgotten": 1}).ended(pool.view) == ["forgotten"]


@pytest.mark.parametrize(
    "event",
    [
        loss(job="nobody"),
        loss(incarnation=2),
        {"type": "JobUnwatched", "job": "job"},
        {"type": "LossDiverged", "job": "job", "incarnation": 9, "value": "nan"},
    ],
)
def test_nobody_fences_or_ends_what_runs(pool: FoldedPool, event: dict[str, Any]) -> None:
    """An unknown job, an incarnation that was never placed, and the end of what runs are refused by name."""
    with pytest.raises(RefusedMessageError) as refused:
        Watching("default", {}).before(pool.view, message(event))

    assert refused.value.code == "job"
    assert "job" in str(refused.value)
