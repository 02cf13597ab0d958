"""A job that waits without a prediction is explained: what is missing, and what would predict it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver
from tests.unit.pickyman.test_preemption_planner import pool_of

from steepest.events import cluster as c
from steepest.events.parameters import PreemptionRule
from steepest.read_models.job_timeline import TimelineCollector
from steepest.view.cluster_view import ClusterView

NO_WAY = "its run time is not predicted, so that no running job gives way to it: "
NO_EPOCHS = "it announces no --epochs, and no profiled job of its model has finished"
NO_SIZE = "it announces no --data-bytes, and those jobs read different amounts"


def pool_with(*profiled: int, rule: PreemptionRule = PreemptionRule.PICKYMAN) -> DeciderDriver:
    """A pool whose node is full, in which a job of model m was profiled for each of these sizes, and has not finished."""
    pool = pool_of(rule, n1=1_000)
    for number, data_bytes in enumerate(profiled or (1,)):
        name = f"run-{number}"
        pool.feed(submitted(name, 1_000 // max(len(profiled), 1), model="m" if profiled else "other"))
        pool.carry_out(name)
        pool.tick(10_000)
        pool.feed(
            c.EpochMeasured(
                job=name,
                incarnation=1,
                epoch=1,
                epoch_ms=10_000,
                epoch_bytes=data_bytes,
                read_bytes=data_bytes,
                ended_ms=pool.now_ms,
            )
        )
    return pool


def last_line(pool: DeciderDriver, **spec: Any) -> str:
    """What ``explain`` says of a job that is submitted then, behind why it waits."""
    pool.feed(submitted("new", 1_000, **spec))
    view, collector = ClusterView(), TimelineCollector("new")
    for received in pool.log:
        collector.hear(view, received, accepted=view.fold(received))
    before, _, why = collector.timeline(view).now.partition("; its run time")
    assert before.startswith("new is queued: ")
    return f"its run time{why}" if why else ""


@pytest.mark.parametrize(
    ("profiled", "spec", "why"),
    [
        ((), {}, "it names no --model, of which 4 profiled jobs would predict it"),
        ((), {"model": "m", "epochs": 3}, "no job of m is profiled yet, 1 gives an estimate and 4 give the time model"),
        (
            (5,),
            {"model": "m"},
            f"1 job of m profiled, 3 more would give the time model; {NO_EPOCHS}",
        ),
        (
            (5, 6),
            {"model": "m", "epochs": 3},
            f"2 jobs of m profiled, 2 more would give the time model; {NO_SIZE}",
        ),
        (
            (5, 6, 7, 8),
            {"model": "m", "epochs": 3},
            f"4 jobs of m profiled; {NO_SIZE}",
        ),
    ],
    ids=["no model", "no profile", "no epochs", "no data", "no data, but profiles enough"],
)
def test_what_is_missing_is_said(profiled: tuple[int, ...], spec: dict[str, Any], why: str) -> None:
    """How many profiled jobs, and what its user could announce."""
    assert last_line(pool_with(*profiled), **spec) == NO_WAY + why


def test_a_job_that_is_predicted_needs_no_reason() -> None:
    """One profile of its model and its epochs are enough for an estimate; where PickyMan is off, nothing is predicted."""
    assert last_line(pool_with(5, 5), model="m", epochs=3) == ""
    assert last_line(DeciderDriver(n1=500), model="m") == ""


def test_under_a_rule_that_needs_no_prediction_nothing_follows_from_its_absence() -> None:
    """Tiresias looks at what a job has had."""
    found = last_line(pool_with(rule=PreemptionRule.TIRESIAS))
    assert found == "its run time is not predicted: it names no --model, of which 4 profiled jobs would predict it"
