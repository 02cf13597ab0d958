"""What a pool's metrics count: each plan, step, move and job once, from the log alone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.harness.scenarios.folded_pool import (
    FoldedPool,
    cancelled,
    category,
    migration,
    placement,
    stay,
    submitted,
    transition,
)
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.forecasts import PredictedSpan
from steepest.events.parameters import PoolParameters, PreemptionLimits
from steepest.events.received import Received
from steepest.pool_metrics.counters import PoolCounters
from steepest.pool_metrics.effector import PoolMetrics
from steepest.pool_metrics.gauges import PoolGauges

POOL = "blue"


class CountedPool(FoldedPool):
    """A pool whose every record is counted."""

    def __init__(self, **nodes_cpu_m: int) -> None:
        self.registry = CollectorRegistry()
        self.metrics = PoolMetrics(PoolCounters(self.registry), PoolGauges(self.registry), POOL)
        super().__init__(**nodes_cpu_m)
        self.metrics.caught_up(self.view)

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """Fold a record and count it."""
        accepted = super().take_in(received)
        self.metrics.observe(self.view, received, accepted=accepted)
        return accepted

    def value(self, name: str, **labels: str) -> float | None:
        """A sample of the registry; None: there is no such series."""
        return self.registry.get_sample_value(f"steepest_{name}", {"pool": POOL, **labels})


@pytest.fixture
def pool() -> CountedPool:
    """Two nodes."""
    return CountedPool(w1=1_000, w2=1_000)


def test_a_move_counts_once_with_its_steps(pool: CountedPool) -> None:
    """A plan that finished, its steps with their durations, and the move by its rule."""
    pool.run("a", "w1")
    pool.fold(migration("a", "w1", "w2"))
    pool.act("a")
    pool.now_ms += 2_000
    pool.carry_out("a")

    assert pool.value("plans_total", kind="migrate", outcome="finished") == 1
    assert pool.value("plans_total", kind="place", outcome="finished") == 1
    assert pool.value("moves_total", rule="reallocation") == 1
    assert pool.value("moves_back_total", rule="reallocation") == 0
    assert pool.value("plan_step_seconds_count", kind="migrate", step="verify") == 1
    assert pool.value("plan_seconds_sum", kind="migrate") == 2
    assert pool.value("plan_pause_seconds_count", kind="migrate") == 1


def test_a_move_to_where_the_job_came_from_is_a_move_back(pool: CountedPool) -> None:
    """To and fro by two rules: the second move is one back."""
    pool.run("a", "w1")
    pool.fold(migration("a", "w1", "w2"))
    pool.carry_out("a")
    pool.fold(migration("a", "w2", "w1", incarnation=2, kind=c.MoveKind.REBALANCE))
    pool.carry_out("a")

    assert pool.value("moves_total", rule="rebalance") == 1
    assert pool.value("moves_back_total", rule="rebalance") == 1


def test_a_failed_step_has_its_code_and_a_failed_plan_its_outcome(pool: CountedPool) -> None:
    """A checkpoint that fails for good ends the move, which is no move then."""
    pool.run("a", "w1")
    pool.fold(migration("a", "w1", "w2"))
    while pool.plan_of("a").steps:
        pool.fail("a", "refused")
    pool.carry_out("a")

    assert pool.value("plan_step_failures_total", kind="migrate", step="checkpoint", code="refused") == 2
    assert pool.value("plans_total", kind="migrate", outcome="failed") == 1
    assert pool.value("moves_total", rule="reallocation") == 0


def test_codes_of_failures_are_bounded(pool: CountedPool) -> None:
    """An adapter may invent codes without end: the labels end."""
    pool.run("a", "w1")
    pool.fold(migration("a", "w1", "w2"))
    for number in range(200):
        pool.fail("a", f"code-{number}", definite=False)

    codes = {
        sample.labels["code"]
        for metric in pool.registry.collect()
        for sample in metric.samples
        if sample.name == "steepest_plan_step_failures_total"
    }
    assert len(codes) == 31
    assert pool.value("plan_step_failures_total", kind="migrate", step="checkpoint", code="other") == 170


def test_a_void_plan_has_the_code_of_its_refusal(pool: CountedPool) -> None:
    """A plan for a job that does not exist, and a second one for a job that has a place."""
    pool.run("a", "w1")
    pool.feed(placement("unknown", "w1"), placement("a", "w2", plan="again"))

    assert pool.value("plans_total", kind="place", outcome="void") == 2
    assert pool.value("plans_void_total", kind="place", refusal="not-waiting") == 2


def test_a_suspension_and_a_resumption(pool: CountedPool) -> None:
    """The kinds of plans are labels: a suspension is a plan like others, and a placement may be a resumption."""
    pool.run("a", "w1")
    parameters = PoolParameters(preemption=PreemptionLimits(min_run_ms=0))
    pool.fold(c.PoolConfigured(parameters=parameters))
    pool.fold(transition("a", c.Transition.SUSPEND, ["w1"]))
    pool.carry_out("a")
    pool.now_ms += 1_000
    pool.fold(placement("a", "w2", incarnation=1))
    pool.carry_out("a")

    assert pool.value("plans_total", kind="suspend", outcome="finished") == 1
    assert pool.value("resumptions_total") == 1
    assert pool.value("job_wait_seconds_count", queue="default") == 1  # the first start alone


def test_a_cancelled_job(pool: CountedPool) -> None:
    """The view makes the plan of a cancel; it counts as any other, and the job ends as cancelled."""
    pool.run("a", "w1")
    pool.fold(cancelled("a"))
    pool.carry_out("a")
    pool.now_ms += 5_000
    pool.fold(c.JobEnded(job="a", outcome=c.Outcome.CANCELLED))

    assert pool.value("plans_total", kind="cancel", outcome="finished") == 1
    assert pool.value("job_completion_seconds_sum", outcome="cancelled") == 5


def test_a_rejected_job_leaves_nothing_and_is_no_completion(pool: CountedPool) -> None:
    """It learned, failed, and waits for room that there is not any more."""
    pool.run("a", "w1")
    pool.feed(grown("a", 1, 0.5), pool.stopped("a", 1))
    pool.fold(c.RetryPlanned(job="a", incarnation=1, charged=True, not_before_ms=0, reason="status 1"))
    assert list(pool.metrics._courses) == ["a"]
    assert pool.fold(c.JobRejected(job="a", request=pool.job("a").request, reason="too large"))

    assert pool.metrics._courses == {}
    assert not pool.value("job_completion_seconds_count", outcome="failed")


def test_what_was_learned_by_another_metric_is_left_out(pool: CountedPool) -> None:
    """The share of its learning that a job has done is of the metric that it is judged by."""
    pool.run("a", "w1")
    for interval, mean in enumerate((2_000.0, 1_000.0), 1):
        pool.fold(grown("a", interval, mean))
    before = pool.metrics._courses["a"]
    pool.fold(msgspec.structs.replace(grown("a", 2, 0.5), metric="loss"))

    assert pool.metrics._courses["a"] is not before


def test_a_plan_that_ends_with_its_node(pool: CountedPool) -> None:
    """An operator's word ends plans that it does not name."""
    pool.feed(submitted("a"), placement("a", "w1"))
    pool.begin("a")
    pool.feed(c.NodeLost(node="w1", silent_ms=20_000), c.NodeGone(node="w1"))

    ended = [pool.value("plans_total", kind="place", outcome=outcome) or 0 for outcome in ("abandoned", "failed")]
    assert sum(ended) == 1


def grown(job: str, interval: int, mean: float) -> c.GrowthMeasured:
    """An interval of a job with this mean."""
    return c.GrowthMeasured(
        job=job,
        interval=interval,
        total=2 * mean,
        count=2,
        largest=1.0,
        first_ms=0,
        last_ms=0,
        growth=0.1,
        category=c.Category.PROGRESSING,
    )


def test_time_to_learn(pool: CountedPool) -> None:
    """T90 is counted for a job that finished and whose loss fell, with the interval in which 90 % was done."""
    pool.run("a", "w1")
    for interval, mean in enumerate((1.0, 0.5, 0.09, 0.05, 0.0), 1):
        pool.now_ms += 10_000
        pool.fold(grown("a", interval, mean))
    pool.end("a")

    assert pool.value("job_t90_seconds_count") == 1
    assert pool.value("job_t90_seconds_sum") == 30


def test_a_job_whose_beginning_was_not_seen_has_no_time_to_learn(pool: CountedPool) -> None:
    """Unknown is not counted."""
    pool.run("a", "w1")
    for interval, mean in enumerate((0.5, 0.1), 7):
        pool.fold(grown("a", interval, mean))
    pool.end("a")

    assert pool.value("job_t90_seconds_count") == 0


def test_limits_by_what_the_engine_answered(pool: CountedPool) -> None:
    """A limit that was applied, and one that was refused."""
    pool.run("a", "w1")
    because = c.LimitsBecause(rule="a test says so", jobs=(c.GrowthSeen("a", c.GrowthList.NEW, efficiency=0.2),))
    for number, cpu_m in enumerate((50, 60)):
        limits = (c.JobLimit(job="a", incarnation=1, cpu_m=cpu_m),)
        pool.fold(c.LimitsPlanned(plan=f"limits-{number}", node="w1", limits=limits, because=because))
    answer: dict[str, Any] = {"plan": "limits-1", "node": "w1", "job": "a", "incarnation": 1}
    pool.fold(c.LimitsRefused(**answer, code="busy", definite=False, message="not now"))
    pool.fold(c.LimitsApplied(**answer, cpu_m=60))

    assert pool.value("limits_total", outcome="applied") == 1
    assert pool.value("limits_total", outcome="unclear") == 1
    assert pool.value("growth_efficiency_ratio_count", list="NL") == 2


def test_categories_and_stays(pool: CountedPool) -> None:
    """Each change of category, and each request that was answered with stay."""
    pool.run("a", "w1")
    pool.feed(category("a", c.Category.CONVERGED), stay("a", "w1"))

    assert pool.value("category_changes_total", before="PC", after="CC") == 1
    assert pool.value("stays_total") == 1


def test_goals_that_were_reached_and_what_they_saved(pool: CountedPool) -> None:
    """CPU time of those whose announced end is known; the others count as reached alone."""
    for job in "ab":
        pool.run(job, "w1")
    reached: dict[str, Any] = {"incarnation": 1, "reason": "enough", "value": 0.05}
    assert pool.value("goals_saved_cpu_seconds_total") == 0
    pool.feed(c.GoalReached(job="a", **reached, cpu_ms_saved=80_000), c.GoalReached(job="b", **reached))

    assert pool.value("goals_reached_total") == 2
    assert pool.value("goals_saved_cpu_seconds_total") == 80


def test_a_predicted_run_time_beside_its_outcome(pool: CountedPool) -> None:
    """The first prediction counts, against the time for which the job held a place, once it has finished."""
    pool.run("a", "w1")
    for middle in (6_000, 4_000):
        predicted = PredictedSpan(p50=middle, low=1_000, high=9_000)
        pool.fold(c.RunTimePredicted(job="a", incarnation=1, method=c.PredictionMethod.EPOCHS, total=predicted))
    pool.tick(4_000)
    pool.end("a")

    assert pool.value("prediction_error_ratio_count", of="run_time") == 1
    assert pool.value("prediction_error_ratio_sum", of="run_time") == 0.5


def test_a_predicted_overhead_that_was_measured(pool: CountedPool) -> None:
    """The error is a share of what was measured; what was not predicted has none."""
    pool.run("a", "w1")
    measured: dict[str, Any] = {"plan": "p", "job": "a", "incarnation": 1, "kind": c.Overhead.RESUMPTION}
    pool.fold(c.OverheadMeasured(**measured, measured_ms=2_000, predicted_ms=3_000))
    pool.fold(c.OverheadMeasured(**measured, measured_ms=2_000))

    assert pool.value("prediction_error_ratio_count", of="resumption") == 1
    assert pool.value("prediction_error_ratio_sum", of="resumption") == 0.5


async def test_a_pool_that_is_given_back_shows_nothing(pool: CountedPool) -> None:
    """Another process counts it now; what this one counted would be there twice."""

    async def send(*_: Any, **__: Any) -> None: ...

    pool.run("a", "w1")
    running = asyncio.ensure_future(pool.metrics.run(send))
    await until(lambda: pool.value("jobs", phase="running") == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert [sample for metric in pool.registry.collect() for sample in metric.samples] == []


OPEN = {"plans_void", "plan_step_failures", "steps_lost", "category_changes", "notifications"}
"""Counters whose labels are not known beforehand: refusals, codes and pairs of them; the notifier begins its own."""


def test_counts_are_shown_from_zero_on() -> None:
    """Of every counter whose labels are known: a series that begins at 1 has never risen for Prometheus."""
    counters = PoolCounters(CollectorRegistry())
    counters.begin(POOL)
    described = [family for one in counters.collectors for family in one.collect()]

    assert {family.name for family in described if not family.samples} == {f"steepest_{name}" for name in OPEN}
