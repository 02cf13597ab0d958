"""The preemption planner and the predictor beside the placer, on a log in memory: who gives way to whom, and why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted, transition
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import (
    PickyManParameters,
    PoolParameters,
    PreemptionLimits,
    PreemptionRule,
    QueueLimits,
    QueueParameters,
)
from steepest.policies.pickyman.predictor import Predictor
from steepest.policies.pickyman.preemption_planner import PreemptionPlanner
from steepest.policies.pickyman.running import level
from steepest.policies.pickyman.under_way import UnderWay
from steepest.policies.placement.placer import CHECKPOINT_TRIES, Placer
from steepest.view.progress import attained_ms
from steepest.view.state import Phase

EPOCH_MS = 10_000


def pool_of(rule: PreemptionRule = PreemptionRule.PICKYMAN, queueing: str = "predicted", **nodes: int) -> DeciderDriver:
    """A pool under one rule, in which nothing protects a running job."""
    pool = DeciderDriver(Placer(), Predictor(), PreemptionPlanner(), **(nodes or {"n1": 1_000}))
    parameters = PoolParameters(
        pickyman=PickyManParameters(on=True, rule=rule, slice_ms=30_000),
        preemption=PreemptionLimits(min_run_ms=0),
        queueing=QueueParameters(policy=queueing, service_s=(60, 600)),
    )
    pool.feed(c.PoolConfigured(parameters=parameters))
    return pool


def submit(pool: DeciderDriver, job: str, epochs: int | None, cpu_m: int = 1_000, **spec: Any) -> None:
    """A job of model m whose epochs take ``EPOCH_MS`` each; it starts where there is room."""
    pool.feed(submitted(job, cpu_m, model="m", epochs=epochs, data_bytes=1_000_000, **spec))
    pool.carry_out(job)


def train(pool: DeciderDriver, job: str, number: int, epoch_ms: int = EPOCH_MS, *, after_ms: int | None = None) -> None:
    """An epoch of the job ends when it has taken its time, or after another time."""
    found = pool.job(job)
    pool.tick(epoch_ms if after_ms is None else after_ms)
    pool.feed(
        c.EpochMeasured(
            job=job,
            incarnation=found.incarnation,
            epoch=number,
            epoch_ms=epoch_ms,
            epoch_bytes=1_000_000,
            read_bytes=1_000_000 * number,
            ended_ms=pool.now_ms,
            load_ms=1_000,
        )
    )


def suspensions(pool: DeciderDriver) -> list[c.TransitionPlanned]:
    """The suspensions that were planned."""
    return [one for one in pool.decided if isinstance(one, c.TransitionPlanned)]


def last(pool: DeciderDriver, kind: type) -> Any:
    """The newest decision of a type."""
    return [one for one in pool.decided if isinstance(one, kind)][-1]


def test_a_prediction_stands_in_the_log_before_the_job_is_placed() -> None:
    """Also that nothing is known; and the order of records shows it."""
    pool = pool_of()
    submit(pool, "a", 5)
    kinds = [type(one.event) for one in pool.log if getattr(one.event, "job", "") == "a"]
    assert kinds.index(c.RunTimePredicted) < kinds.index(c.JobPlaced)
    assert last(pool, c.RunTimePredicted).method is c.PredictionMethod.UNKNOWN


def test_a_short_job_takes_the_place_of_a_long_one_and_the_long_one_comes_back() -> None:
    """One node, a job with 98 epochs left, and one with two; the plan says what it saves and costs."""
    pool = pool_of()
    submit(pool, "long", 100)
    train(pool, "long", 1)
    train(pool, "long", 2)
    submit(pool, "short", 2)
    assert pool.job("short").phase is Phase.WAITING
    pool.tick()
    (planned,) = suspensions(pool)
    weighed = planned.because.preemption
    assert (planned.job, planned.room_for) == ("long", "short")
    assert weighed is not None
    assert weighed.saves_ms > weighed.costs_ms > 0
    assert [one.job for one in weighed.victims] == ["long"]

    assert pool.job("short").plan is not None
    pool.now_ms += 9_500
    pool.carry_out("long")
    assert pool.job("long").phase is Phase.SUSPENDED
    pool.carry_out("short")
    assert pool.job("short").phase is Phase.RUNNING
    measured = last(pool, c.OverheadMeasured)
    assert (measured.kind, measured.job, measured.plan) == (c.Overhead.SUSPENSION, "long", planned.plan)

    pool.end("short")
    pool.tick()
    pool.carry_out("long")
    assert pool.job("long").phase is Phase.RUNNING
    assert last(pool, c.OverheadPredicted).kind is c.Overhead.RESUMPTION
    for after_ms, step in ((4_000, 101), (500, 102)):
        pool.now_ms += after_ms
        pool.feed(c.NodeUsage(node="n1", used=Resources(), progress=(c.ReplicaProgress("long", 2, step=step),)))
    measured = last(pool, c.OverheadMeasured)
    assert (measured.kind, measured.measured_ms, measured.readers) == (c.Overhead.RESUMPTION, 3_500, 1)


def suspended_for_a_short_one() -> DeciderDriver:
    """A long job was suspended, and the short one that took its place is over."""
    pool = pool_of()
    submit(pool, "long", 100)
    train(pool, "long", 1)
    train(pool, "long", 2)
    submit(pool, "short", 2)
    pool.tick()
    pool.now_ms += 9_500
    pool.carry_out("long")
    pool.carry_out("short")
    pool.end("short")
    pool.tick()
    assert pool.job("long").checkpoint is not None
    assert not pool.job("long").alive
    return pool


@pytest.mark.parametrize(("makes_room", "readers"), [(True, 3), (False, 2)])
def test_who_starts_beside_a_resumed_job(*, makes_room: bool, readers: int) -> None:
    """One that is starting already, and one that starts where another job is about to be suspended."""
    pool = suspended_for_a_short_one()
    (predictor,) = [one for one in pool.deciders if isinstance(one, Predictor)]
    predictor.state.starting["b"] = pool.now_ms
    predictor.state.under_way["other"] = UnderWay(
        plan="p",
        kind=c.Overhead.SUSPENSION,
        incarnation=1,
        began_ms=pool.now_ms - 900,
        predicted_ms=1_000,
        makes_room=makes_room,
    )
    pool.carry_out("long")
    predicted = last(pool, c.OverheadPredicted)

    assert (predicted.kind, predicted.job, predicted.readers) == (c.Overhead.RESUMPTION, "long", readers)


def refuse_starts(pool: DeciderDriver, job: str, times: int) -> int:
    """So many starts of a job fail, since its checkpoint is not there, or fewer if it is over; how many did."""
    failed = 0
    for _ in range(20 * times):
        found = pool.job(job)
        if found.phase is Phase.ENDED or failed == times:
            break
        action = None if found.plan is None else pool.next_action(job)
        if action is None:
            pool.tick(10_000)
        elif isinstance(action, c.StepBegun):
            pool.fail(job, "checkpoint-refused")
            failed += 1
        else:
            assert pool.fold(action)
    return failed


def test_a_suspended_job_whose_checkpoint_is_gone_has_failed_after_some_minutes() -> None:
    """Each failed start has its reason in the log, other jobs run meanwhile, and there is an end."""
    pool = suspended_for_a_short_one()
    began_ms = pool.view.counted_ms
    assert refuse_starts(pool, "long", 1_000) < 100
    assert pool.job("long").outcome is c.Outcome.FAILED
    assert last(pool, c.JobEnded).reason == "it could not be started: checkpoint-refused it was"
    assert pool.view.counted_ms - began_ms > 120_000
    assert all(one.reason for one in pool.decided if isinstance(one, c.RetryPlanned))
    submit(pool, "next", 2)
    assert pool.job("next").phase is Phase.RUNNING


def test_a_suspended_job_whose_checkpoint_comes_back_runs_again() -> None:
    """Its volume was away."""
    pool = suspended_for_a_short_one()
    assert refuse_starts(pool, "long", 3) == 3
    run_again(pool, "long")
    assert pool.job("long").steps_lost == 0


def run_again(pool: DeciderDriver, job: str) -> None:
    """It has its place again, after as long as a retry is held back."""
    for _ in range(20):
        pool.tick(10_000)
        pool.carry_out(job)
        if pool.job(job).phase is Phase.RUNNING and pool.job(job).alive:
            return
    raise AssertionError(f"{job} does not run")


def lose(pool: DeciderDriver, job: str) -> None:
    """Its process is gone."""
    found = pool.job(job)
    pool.feed(c.ReplicaStopped(job=job, incarnation=found.incarnation, node="n1", reason="lost"))


def test_earlier_retries_leave_a_lost_checkpoint_all_its_tries() -> None:
    """Those after lost processes, and those of a volume that came back, are another matter."""
    pool = suspended_for_a_short_one()
    run_again(pool, "long")
    for _ in range(CHECKPOINT_TRIES):
        lose(pool, "long")
        run_again(pool, "long")
    for plans in (3, CHECKPOINT_TRIES):
        lose(pool, "long")
        assert refuse_starts(pool, "long", 2 * plans) == 2 * plans, "each plan starts it twice"
        run_again(pool, "long")
    lose(pool, "long")
    assert refuse_starts(pool, "long", 1_000) == 2 * (CHECKPOINT_TRIES + 1)
    assert pool.job("long").outcome is c.Outcome.FAILED


def test_a_job_without_epochs_is_predicted_from_its_totals_once_it_has_a_pace() -> None:
    """A hundred steps, one a second: once, and not with each report."""
    pool = pool_of()
    submit(pool, "a", None, steps=100)
    for step in (5, 12, 19, 26):
        pool.tick(7_000)
        pool.feed(c.NodeUsage(node="n1", used=Resources(), progress=(c.ReplicaProgress("a", 1, step=step),)))
    said = [one for one in pool.decided if isinstance(one, c.RunTimePredicted)]
    assert [one.method for one in said] == [c.PredictionMethod.UNKNOWN, c.PredictionMethod.TOTALS]


def test_no_job_gives_way_where_that_costs_more_than_it_saves() -> None:
    """A job that is nearly done stays, although it has a little longer to go than the one that waits."""
    pool = pool_of()
    submit(pool, "nearly", 5)
    for number in (1, 2):
        train(pool, "nearly", number)
    submit(pool, "short", 2)
    pool.tick()
    assert suspensions(pool) == []


@pytest.mark.parametrize(("other_epochs", "gives_way"), [(3, False), (100, True)])
def test_no_job_gives_way_to_one_that_soon_has_room_anyway(*, other_epochs: int, gives_way: bool) -> None:
    """A job of 150 s waits; on the other node one has 10 s left, or as long as all."""
    pool = pool_of(n1=1_000, n2=1_000)
    submit(pool, "long", 100)
    submit(pool, "other", other_epochs)
    for number in (1, 2):
        train(pool, "long", number)
        train(pool, "other", number, after_ms=0)
    submit(pool, "waits", 15)
    pool.tick(1)
    assert bool(suspensions(pool)) is gives_way


def test_a_job_past_its_predicted_end_promises_no_room() -> None:
    """It may run for any time, and another one gives way."""
    pool = pool_of(n1=1_000, n2=1_000)
    submit(pool, "long", 100)
    submit(pool, "overdue", 3)
    for number in (1, 2):
        train(pool, "long", number)
        train(pool, "overdue", number, after_ms=0)
    pool.tick(EPOCH_MS)
    submit(pool, "waits", 15)
    pool.tick(1)
    assert [one.job for one in suspensions(pool)] == ["long"]


def test_srtf_takes_no_account_of_what_a_suspension_costs() -> None:
    """The same jobs under the rule that only compares remaining times."""
    pool = pool_of(PreemptionRule.SRTF)
    submit(pool, "nearly", 5)
    for number in (1, 2):
        train(pool, "nearly", number)
    submit(pool, "short", 2)
    pool.tick()
    assert [one.job for one in suspensions(pool)] == ["nearly"]


def test_of_two_victims_the_one_whose_epoch_ends_first_gives_way() -> None:
    """Both have equally long to go; the suspension of one would take longer."""
    pool = pool_of(n1=1_000, n2=1_000)
    submit(pool, "a", 50)
    submit(pool, "b", 100)
    train(pool, "b", 1)
    train(pool, "b", 2)
    train(pool, "a", 1, 2 * EPOCH_MS, after_ms=0)
    submit(pool, "short", 1)
    pool.tick(1_000)
    (planned,) = suspensions(pool)
    weighed = planned.because.preemption
    assert weighed is not None
    assert planned.job == "b"
    assert [one.job for one in weighed.others] == ["a"]


def test_a_gang_gives_way_and_comes_back_whole() -> None:
    """For a job that needs the place of one of its replicas, all stop; and none starts again without the other."""
    pool = pool_of(n1=1_000, n2=1_000)
    roles = (c.Role(name="worker", replicas=2, requests=Resources(cpu_m=1_000)),)
    submit(pool, "gang", 100, roles=roles)
    train(pool, "gang", 1)
    train(pool, "gang", 2)
    submit(pool, "short", 2)
    pool.tick()
    (planned,) = suspensions(pool)
    assert (planned.job, sorted(planned.sources), planned.nodes) == ("gang", ["n1", "n2"], ())

    pool.carry_out("gang")
    assert (pool.job("gang").phase, pool.job("gang").replicas) == (Phase.SUSPENDED, [])
    pool.carry_out("short")
    assert pool.job("gang").phase is Phase.SUSPENDED  # one node is free, and that is not enough
    pool.end("short")
    pool.tick()
    pool.carry_out("gang")
    assert pool.job("gang").phase is Phase.RUNNING
    assert sorted(pool.job("gang").running_on) == ["n1", "n2"]


def test_a_gang_gets_room_as_one() -> None:
    """Two jobs of one replica give way to a gang of two."""
    pool = pool_of(n1=1_000, n2=1_000)
    submit(pool, "a", 100)
    submit(pool, "b", 100)
    train(pool, "a", 1)
    train(pool, "b", 1)
    roles = (c.Role(name="worker", replicas=2, requests=Resources(cpu_m=1_000)),)
    submit(pool, "gang", 1, roles=roles)
    pool.tick(1)
    assert sorted(one.job for one in suspensions(pool)) == ["a", "b"]
    placed = last(pool, c.PlacementPlanned)
    assert (placed.job, sorted(placed.nodes), len(placed.after)) == ("gang", ["n1", "n2"], 2)


def test_a_more_urgent_job_never_gives_way_to_a_less_urgent_one() -> None:
    """However short the one that waits is."""
    pool = pool_of()
    submit(pool, "urgent", 100, priority=100)
    train(pool, "urgent", 1)
    submit(pool, "short", 1)
    pool.tick()
    assert suspensions(pool) == []


def test_a_time_slice_that_is_over_is_given_to_the_next_job() -> None:
    """Round robin needs no prediction; before its slice is over, no job gives way."""
    pool = pool_of(PreemptionRule.ROUND_ROBIN, "fifo")
    submit(pool, "a", None)
    submit(pool, "b", None)
    pool.tick(20_000)
    assert suspensions(pool) == []
    pool.tick(20_000)
    assert [one.job for one in suspensions(pool)] == ["a"]


def test_under_tiresias_a_job_gives_way_to_one_of_less_attained_service() -> None:
    """A core-minute is the first limit."""
    pool = pool_of(PreemptionRule.TIRESIAS, "tiresias")
    submit(pool, "a", None)
    submit(pool, "b", None)
    pool.tick(50_000)
    assert suspensions(pool) == []
    pool.tick(20_000)
    assert [one.job for one in suspensions(pool)] == ["a"]


@pytest.mark.parametrize("alike", [True, False])
def test_jobs_that_nothing_helps_keep_no_other_from_a_place_for_ever(*, alike: bool) -> None:
    """Forty of them stand before it, which ask for the same or for different things; nothing gives way to them."""
    pool = pool_of(PreemptionRule.ROUND_ROBIN, "fifo", n1=1_000)
    submit(pool, "fixed", None, 400, mode=CheckpointMode.NONE)
    submit(pool, "a", None, 600)
    for number in range(40):
        submit(pool, f"large-{number}", None, 700 if alike else 700 + number)
    submit(pool, "b", None, 600)
    for _ in range(10):
        pool.tick(20_000)
    assert [(one.job, one.room_for) for one in suspensions(pool)][:1] == [("a", "b")]


def test_a_more_urgent_job_behind_one_that_nothing_helps_gets_a_place() -> None:
    """Both ask for the same; what runs is more urgent than the first one alone."""
    pool = pool_of(PreemptionRule.ROUND_ROBIN, "fifo")
    submit(pool, "a", None, priority=5)
    submit(pool, "b", None)
    submit(pool, "urgent", None, priority=9)
    pool.tick(40_000)
    assert [(one.job, one.room_for) for one in suspensions(pool)] == [("a", "urgent")]


def test_an_elastic_gang_gets_as_many_places_as_its_queue_s_limit_leaves() -> None:
    """Its full size exceeds the limit; with fewer replicas it takes the place of a job."""
    pool = pool_of(PreemptionRule.ROUND_ROBIN, "fifo")
    queueing = msgspec.structs.replace(pool.view.parameters.queueing, limits=(QueueLimits(queue="paper", cpu_m=600),))
    parameters = msgspec.structs.replace(pool.view.parameters, queueing=queueing)
    pool.fold(c.PoolConfigured(parameters=parameters))
    submit(pool, "a", None)
    roles = (c.Role(name="worker", replicas=4, min=1, requests=Resources(cpu_m=250)),)
    submit(pool, "gang", None, roles=roles, queue="paper")
    pool.tick(40_000)
    placed = last(pool, c.PlacementPlanned)
    assert (placed.job, placed.nodes, placed.sizes, len(placed.after)) == ("gang", ("n1", "n1"), (2,), 1)


def test_the_service_of_a_gang_with_roles_is_that_of_all_its_replicas() -> None:
    """The same while it runs and once it is suspended: one server without a GPU, and eight workers with one each."""
    pool = FoldedPool()
    limits = PoolParameters(preemption=PreemptionLimits(min_run_ms=1_000))
    pool.feed(c.PoolConfigured(parameters=limits), joined("n", 64_000, gpus=8))
    roles = (
        c.Role(name="ps", replicas=1, requests=Resources(cpu_m=500)),
        c.Role(name="worker", replicas=8, requests=Resources(cpu_m=1_000, gpus=1)),
    )
    pool.feed(submitted("g", roles=roles), placement("g", *("n",) * 9))
    pool.carry_out("g")
    for _ in range(600):
        pool.tick(2_000)
    job, of_levels = pool.job("g"), limits.queueing.service_s
    running = (attained_ms(job, pool.view.counted_ms), level(job, pool.view.counted_ms, of_levels))
    assert running == (8 * 1_200_000, 2)
    pool.fold(transition("g", c.Transition.SUSPEND, ("n",) * 9))
    pool.carry_out("g")
    assert job.phase is Phase.SUSPENDED
    pool.tick(2_000)

    assert (attained_ms(job, pool.view.counted_ms), level(job, pool.view.counted_ms, of_levels)) == running


@pytest.mark.parametrize("lie", [1, 3, 10**6])
def test_what_a_process_states_of_its_epochs_changes_no_prediction_from_traffic(lie: int) -> None:
    """The user announced the epochs; the process states others, and steps that make no sense."""
    pool = pool_of()
    submit(pool, "a", 10)
    train(pool, "a", 1)
    before = pool.job("a").forecast
    pool.feed(
        c.NodeUsage(
            node="n1",
            used=Resources(),
            progress=(c.ReplicaProgress("a", 1, step=lie, total=lie, epoch=float(lie), epochs=float(lie)),),
        )
    )
    pool.tick(1)
    assert pool.job("a").forecast == before
    train(pool, "a", 2)
    assert pool.job("a").forecast == before
