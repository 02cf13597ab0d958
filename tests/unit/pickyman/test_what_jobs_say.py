"""From heartbeats to predictions: what a job says of itself changes none that is made from its traffic."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import START_MS, submitted
from tests.harness.system.driver import DeciderDriver
from tests.unit.pickyman.test_preemption_planner import pool_of

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.received import Received
from steepest.policies.monitor.facts import Facts
from steepest.policies.pickyman.profiler import Profiler

EPOCH_BYTES, READ_S, EPOCH_S = 8_000_000, 8, 10
TOTALS = {c.PredictionMethod.TOTALS, c.PredictionMethod.UNKNOWN}
"""Methods that do not look at the traffic."""


def heard(second: int, lie: dict[str, Any] | None, *, honest: bool) -> Received[NodeHeartbeat]:
    """A second of job a, which reads for 8 s and evaluates for 2 s; ten steps are an epoch."""
    said: dict[str, Any] = lie or {}
    if honest:
        said = {
            "step": second,
            "total": 8 * EPOCH_S,
            "epoch": second / EPOCH_S,
            "epochs": 8.0,
            "loss": 1 / (1 + second),
        }
    count = EPOCH_BYTES // READ_S * (second // EPOCH_S * READ_S + min(second % EPOCH_S, READ_S))
    running = ReplicaReport(job="a", incarnation=1, state=ReplicaState.RUNNING, read_bytes=count, **said)
    at_ms = START_MS + 1_000 * (second + 1)
    beat = NodeHeartbeat(
        node="n1",
        pool="pool",
        at_ms=at_ms,
        capacity=Resources(1_000),
        replicas=(running,),
        takes_jobs=True,
        progress_every_ms=1_000,
    )
    return Received(event=beat, topic="heartbeats", partition=0, offset=second, at_ms=at_ms)


def trained(lie: dict[str, Any] | None = None, *, honest: bool = False) -> DeciderDriver:
    """Six epochs of a job, beside which another one of its model waits."""
    pool, facts, profiler = pool_of(n1=1_000), Facts(), Profiler()
    pool.feed(submitted("a", 1_000, model="m", epochs=8, data_bytes=EPOCH_BYTES))
    pool.carry_out("a")
    pool.feed(submitted("b", 1_000, model="m", epochs=90, data_bytes=2 * EPOCH_BYTES))
    for second in range(6 * EPOCH_S):
        record = heard(second, lie, honest=honest)
        decided = [*facts.step(record), *profiler.step(record)]
        pool.tick()
        pool.feed(*(one.event for one in decided))
    return pool


def of_traffic(pool: DeciderDriver) -> list[c.ClusterEvent]:
    """The epochs that were measured, and the predictions that were made from them."""
    return [
        one.event
        for one in pool.log
        if isinstance(one.event, c.EpochMeasured)
        or (isinstance(one.event, c.RunTimePredicted) and one.event.method not in TOTALS)
    ]


@pytest.mark.parametrize(
    "lie",
    [
        None,
        {"step": 10**6, "total": 10**6 + 1, "epoch": 99.0, "epochs": 100.0, "loss": 0.0},
        {"step": 1, "total": 10**9, "epoch": 0.0, "epochs": 10.0**9, "loss": 5.0},
    ],
    ids=["silent", "says it is nearly done", "says it has hardly begun"],
)
def test_predictions_from_traffic_are_those_of_an_honest_job(lie: dict[str, Any] | None) -> None:
    """Its own, and that of a job of its model that waits: the same events in the same order."""
    honest, other = trained(honest=True), trained(lie)
    found = of_traffic(honest)
    assert {one.method for one in found if isinstance(one, c.RunTimePredicted)} >= {
        c.PredictionMethod.EPOCHS,
        c.PredictionMethod.HISTORY,
    }
    assert honest.job("a").progress != other.job("a").progress, "what it says reaches the pool"
    assert of_traffic(other) == found
