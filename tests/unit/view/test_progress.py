"""How far a job has come and how much of it is left, folded from what its nodes report."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool, checkpoint, migration, placement, submitted

from steepest.events import cluster as c
from steepest.events.common import LARGEST, Resources
from steepest.events.parameters import QueueParameters
from steepest.policies.forecast import remaining
from steepest.policies.queueing.ranks import QUEUE_POLICIES
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import (
    MOST_STEPS,
    TimeLeft,
    course,
    cpu_ms_before_steps,
    cpu_ms_left,
    cpu_ms_per_step,
    shown_total,
    steps_left,
    time_left,
    total_steps,
)
from steepest.view.state import Job

COUNTS = st.none() | st.integers(0, 50) | st.sampled_from([10**9, 10**12, LARGEST])
EPOCHS = st.none() | st.floats(0, 20) | st.sampled_from([1e12, 1e300])
FACTS = st.builds(
    c.ReplicaProgress,
    job=st.just("a"),
    incarnation=st.sampled_from([0, 1, 1, 1, 2]),
    replica=st.sampled_from([0, 0, 0, 1, 7]),
    step=COUNTS,
    total=COUNTS,
    epoch=EPOCHS,
    epochs=EPOCHS,
    cpu_ms=COUNTS,
    loss=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)


class Trained(FoldedPool):
    """A pool in which job ``a`` runs on node ``w1``."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(w1=1_000, w2=1_000)
        self.run("a", "w1", **spec)

    @property
    def a(self) -> Job:
        """The job."""
        return self.job("a")

    def report(self, node: str = "w1", **progress: Any) -> Job:
        """A node reports progress of the job's current incarnation."""
        found = c.ReplicaProgress(**{"job": "a", "incarnation": self.a.incarnation, **progress})
        self.fold(c.NodeUsage(node=node, used=Resources(), progress=(found,)))
        return self.a

    def train(self, *steps: int, every_ms: int = 5_000, cpu_ms: int = 100, **progress: Any) -> Job:
        """Reports of these steps, each of which used ``cpu_ms`` of CPU time after 1 s for the imports."""
        for step in steps:
            self.tick(every_ms // 2)
            self.tick(every_ms - every_ms // 2)
            self.report(step=step, cpu_ms=1_000 + cpu_ms * step, **progress)
        return self.a


class Gang(Trained):
    """A pool in which job ``a`` has three replicas, the first one on node ``w1`` and the others on ``w2``."""

    def run(self, job: str, node: str, *_: Any, **spec: Any) -> Job:
        """Submit it, place it and start it."""
        self.feed(submitted(job, **spec), placement(job, node, "w2", "w2"))
        return self.carry_out(job)


def test_progress_is_what_the_node_reported_last() -> None:
    """What a report leaves out stays as it was."""
    pool = Trained()
    pool.tick(2_000)
    pool.report(step=3, total=100, epoch=0.5, epochs=10.0, cpu_ms=400, loss=2.5)
    pool.tick(1_000)
    found = pool.report(step=4, cpu_ms=500).progress
    assert (found.step, found.total, found.epoch, found.epochs) == (4, 100, 0.5, 10.0)
    assert (found.cpu_ms, found.loss, found.seen_counted_ms) == (500, 2.5, 3_000)


@pytest.mark.parametrize(
    ("node", "said"), [("w2", {}), ("w1", {"incarnation": 0}), ("w1", {"incarnation": 2}), ("w1", {"replica": 1})]
)
def test_a_report_counts_only_of_a_replica_that_the_node_has(node: str, said: dict[str, Any]) -> None:
    """Another node, another incarnation, another replica: nothing is taken over."""
    pool = Trained()
    assert pool.report(node, step=5, total=10, cpu_ms=3, **said).progress == Trained().a.progress


def test_a_moved_job_continues_from_its_checkpoint_and_its_cpu_time_adds_up() -> None:
    """Steps do not restart, CPU time is of both incarnations, and the start-up of neither is part of a step's."""
    pool = Trained()
    pool.train(10, 50, 100, total=300)
    assert pool.a.progress.cpu_ms == 11_000
    pool.fold(migration("a", "w1", "w2"))
    pool.carry_out("a")
    assert pool.a.checkpoint == checkpoint(100)
    assert (pool.a.progress.step, pool.a.progress.cpu_ms) == (100, 11_000)
    assert total_steps(pool.a) is None, "the new process has not stated its total"
    assert shown_total(pool.a) == 300, "people see the one that the process before has stated"
    pool.report("w2", step=101, cpu_ms=2_000, total=300)
    pool.report("w2", step=111, cpu_ms=3_000)
    assert (pool.a.progress.step, pool.a.progress.cpu_ms) == (111, 14_000)
    assert cpu_ms_per_step(pool.a) == (90 * 100 + 10 * 100) / 100
    assert steps_left(pool.a) == 189


def test_a_few_recent_steps_change_a_pace_only_by_more_than_a_report_may_be_off() -> None:
    """A report is seen up to a step after it was reached; a job whose steps really take twice as long shows it."""
    pool = Trained()
    for step, cpu_ms in ((1, 1_900), (2, 2_100), (10, 10_000), (11, 11_950), (14, 14_050)):
        pool.tick(6_000)
        pool.report(step=step, cpu_ms=cpu_ms)
    assert cpu_ms_per_step(pool.a) == (14_050 - 1_900) / 13
    for step in range(15, 40):
        pool.tick(6_000)
        pool.report(step=step, cpu_ms=14_050 + 2_000 * (step - 14))
    assert cpu_ms_per_step(pool.a) == 2_000


def test_a_job_that_ignores_its_checkpoint_is_where_its_process_is() -> None:
    """The first report of an incarnation counts, also if it is behind the checkpoint."""
    pool = Trained(steps=300)
    pool.train(100)
    pool.fold(migration("a", "w1", "w2"))
    pool.carry_out("a")
    assert steps_left(pool.report("w2", step=1)) == 299


@pytest.mark.parametrize(
    ("spec", "reports", "total"),
    [
        ({}, [{"step": 5, "total": 100}], 100),
        ({"steps": 70}, [{"step": 5, "total": 100}], 100),
        ({"steps": 70}, [{"step": 5}], 70),
        ({"steps": 70}, [{"step": 5, "total": 0}], 70),
        ({"steps": 70}, [{"step": 5, "total": 10**12}], 70),
        ({"steps": 70}, [{"step": 71}], None),
        ({}, [{"step": 5}], None),
        ({}, [{"step": 5, "total": 0}], None),
        ({}, [{"step": 5, "total": MOST_STEPS}], None),
        ({}, [{"step": 5, "total": 5}], 5),
        ({}, [{"step": 6, "total": 5}], None),
        ({}, [{"step": 1, "total": 100}, {"step": 2, "total": 90}, {"step": 3, "total": 110}], 110),
        ({}, [{"step": 1, "total": 100}, {"step": 2, "total": 49}], None),
        ({}, [{"step": 1, "total": 100}, {"step": 2, "total": 201}], None),
        ({}, [{"step": n, "total": 100 + 30 * n} for n in range(9)], None),
        ({}, [{"step": 1, "total": 100}, {"step": 2, "total": 999}, {"step": 3, "total": 100}], None),
        ({"steps": 70}, [{"step": 1, "total": 100}, {"step": 2, "total": 999}], 70),
        ({}, [{"step": 90, "total": 100}, {"step": 3, "total": 100}], None),
        ({"steps": 70}, [{"step": 60}, {"step": 3}], None),
        ({}, [{"step": 90, "total": 100}, {"step": 80, "total": 100}], 100),
    ],
)
def test_which_total_is_believed(spec: dict[str, Any], reports: list[dict[str, Any]], total: int | None) -> None:
    """What cannot be right is unknown: the next source counts, or none."""
    pool = Trained(**spec)
    for one in reports:
        pool.report(**one)
    assert total_steps(pool.a) == total
    assert steps_left(pool.a) == (None if total is None else total - max(one["step"] for one in reports))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("announced", [True, False])
def test_epochs_give_a_total_once_the_steps_of_one_were_seen(first: int, announced: bool) -> None:  # noqa: FBT001
    """Epochs counted from 0 or 1, stated by the process or announced by the user."""
    pool = Trained(**({"epochs": 10} if announced else {}))
    said: dict[str, Any] = {} if announced else {"epochs": 10.0}
    totals = [total_steps(pool.train(step, epoch=float(first + step // 20), **said)) for step in range(5, 61, 5)]
    assert totals[:7] == [None] * 7
    assert set(totals[7:]) == {200}


def test_a_report_an_epoch_and_fractions_of_epochs_give_totals() -> None:
    """One report at each epoch's end, and reports with fractions, as Hugging Face prints them."""
    pool = Trained(epochs=3)
    for epoch in range(3):
        pool.train(500 * (epoch + 1), epoch=float(epoch))
    assert (total_steps(pool.a), steps_left(pool.a)) == (1_500, 0)
    pool = Trained(epochs=3)
    pool.train(*range(0), epoch=0.0)
    for step in (100, 200, 300):
        pool.train(step, epoch=step / 1_000)
    assert total_steps(pool.a) == 3_000


def test_cpu_time_of_a_step_needs_two_steps_and_a_measurement() -> None:
    """Without CPU time, or with one step only, nothing is known of it."""
    pool = Trained(steps=100)
    assert cpu_ms_per_step(pool.report(step=1)) is None
    assert cpu_ms_per_step(pool.report(step=2)) is None
    assert cpu_ms_per_step(pool.report(step=3, cpu_ms=1_000)) is None
    assert cpu_ms_per_step(pool.report(step=5, cpu_ms=1_500)) == 250
    assert cpu_ms_left(pool.a) == 95 * 250
    assert cpu_ms_per_step(pool.report(step=5, cpu_ms=9_000)) == 250, "a step under way is no step yet"


def test_what_a_job_uses_before_its_first_step_is_known_with_the_second_report() -> None:
    """The step under way is none of it, and one that used less than its steps take used nothing before them."""
    pool = Trained()
    assert cpu_ms_before_steps(pool.train(5)) == 0
    assert cpu_ms_before_steps(pool.train(15)) == 1_000 - 100

    quick = Trained()
    quick.report(step=10, cpu_ms=100)
    assert cpu_ms_before_steps(quick.report(step=20, cpu_ms=1_100)) == 0


def test_cpu_time_never_falls() -> None:
    """An agent that counts from 0 again adds nothing until it is beyond what was known."""
    pool = Trained()
    found = [pool.report(cpu_ms=used).progress.cpu_ms for used in (100, 300, 20, 250, 350)]
    assert found == [100, 300, 300, 300, 350]


def test_the_time_left_is_that_of_the_last_minutes_with_the_spread_of_their_pace() -> None:
    """Steady work has a narrow interval; a pace that varies has a wider one, and the mean lies in it."""
    pool = Trained(steps=1_000)
    assert time_left(pool.train(0)) is None
    pool.train(*range(10, 101, 10))
    assert time_left(pool.a) == TimeLeft(p50=450_000, low=450_000, high=450_000)
    pool.train(*range(140, 301, 40))
    left = time_left(pool.a)
    assert left is not None
    assert (left.low, left.high) == (700 * 125, 700 * 500)
    assert left.low < left.p50 < left.high


def test_the_time_left_of_a_young_job_follows_from_its_steps_so_far() -> None:
    """Three steps suffice: a job of half a minute would have ended before the pace of five seconds is known."""
    pool = Trained()
    pool.train(5, 6, 7, total=100, every_ms=1_000)
    assert remaining(pool.view, pool.a, pool.view.counted_ms) is None
    job = pool.train(15, total=100, every_ms=1_000)
    assert time_left(job) is None
    assert remaining(pool.view, job, pool.view.counted_ms) == TimeLeft(25_500, 23_182, 28_333)


def test_a_job_that_does_not_run_has_no_time_left() -> None:
    """Its pace says nothing of when it is started again."""
    pool = Trained(steps=1_000)
    pool.train(10, 20, 30)
    pool.fold(pool.stopped("a", 1))
    assert time_left(pool.a) is None
    assert steps_left(pool.a) == 970


def test_an_ended_job_keeps_its_result_and_no_course() -> None:
    """Ten thousand jobs that are over are remembered: nothing is kept of them that is not shown."""
    pool = Trained()
    pool.train(10, 20, total=20, loss=0.5)
    pool.end("a")
    pool.report(step=5_000, cpu_ms=LARGEST)
    found = pool.a.progress
    assert (found.step, found.total, found.loss, found.cpu_ms) == (20, 20, 0.5, 3_000)
    assert found.history == Trained().a.progress.history


def test_a_gang_is_where_its_chief_is_and_uses_what_all_replicas_use() -> None:
    """As long as the chief reports no step, it is where the furthest replica is."""
    pool = Gang(steps=100, replicas=3)
    assert pool.report("w2", replica=1, step=40, cpu_ms=10).progress.step == 40
    assert pool.report("w2", replica=2, step=50, cpu_ms=20).progress.step == 50
    assert pool.report("w2", replica=1, step=41, cpu_ms=20).progress.step == 50
    assert pool.report("w2", replica=0, step=99).progress.step == 50, "replica 0 is on w1"
    assert pool.report("w1", replica=0, step=4, cpu_ms=5, loss=1.0).progress.step == 4
    assert pool.report("w2", replica=2, step=60, cpu_ms=120, loss=9.0).progress.step == 4
    found = pool.report("w1", replica=0, step=5, cpu_ms=25).progress
    assert (found.step, found.loss, found.cpu_ms) == (5, 1.0, 165)
    assert (cpu_ms_per_step(pool.a), steps_left(pool.a)) == (120.0, 95)


def test_a_waiting_job_has_what_was_announced_left() -> None:
    """As long as it was never started."""
    pool = FoldedPool()
    pool.fold(c.JobSubmitted(job="b", request="r", spec=c.JobSpec(command=("x",), steps=40)))
    assert steps_left(pool.job("b")) == 40
    assert cpu_ms_left(pool.job("b")) is None


@given(st.lists(st.tuples(st.sampled_from(["w1", "w1", "w1", "w2"]), FACTS, st.integers(0, 9_000)), max_size=30))
def test_any_reports_fold_and_no_answer_is_impossible(facts: list[tuple[str, c.ReplicaProgress, int]]) -> None:
    """Steps left are from 0 to the total, times are ordered, CPU time grows, and a snapshot is equal."""
    pool = Trained(steps=40)
    used = 0
    for node, found, ms in facts:
        pool.tick(ms)
        pool.fold(c.NodeUsage(node=node, used=Resources(), progress=(found,)))
        total, left, job_ms = total_steps(pool.a), steps_left(pool.a), time_left(pool.a)
        _, counted = course(pool.a)
        assert total is None or 0 < total < MOST_STEPS
        assert left is None or (counted is not None and 0 <= left <= counted)
        assert (cpu_ms_per_step(pool.a) or 1) > 0
        assert job_ms is None or 0 <= job_ms.low <= job_ms.p50 <= job_ms.high
        assert (pool.a.progress.cpu_ms or 0) >= used
        used = pool.a.progress.cpu_ms or 0
        assert len(pool.a.progress.history.recent) <= 13
    assert ClusterView.restore(pool.view.snapshot()).snapshot() == pool.view.snapshot()


@given(st.integers(2, 200), st.integers(1, 500), st.integers(1, 1_000), st.integers(0, 5_000))
def test_a_regular_job_is_measured_exactly(total: int, cpu_ms: int, stride: int, imports_ms: int) -> None:
    """Steps of equal cost: pace and rest are exact, for any start-up time and any number of reports."""
    pool = Trained()
    for step in range(0, total, stride):
        pool.report(step=step, total=total, cpu_ms=imports_ms + step * cpu_ms)
    pool.report(step=total - 1, total=total, cpu_ms=imports_ms + (total - 1) * cpu_ms)
    assert steps_left(pool.a) == 1
    assert cpu_ms_left(pool.a) == cpu_ms


@pytest.mark.parametrize(("said", "spec"), [({"epochs": 50.0}, {}), ({}, {"epochs": 50})])
def test_a_log_with_only_epochs_has_a_pace_and_a_rest(said: dict[str, Any], spec: dict[str, Any]) -> None:
    """Whether its log or its user says how many there are; its steps stay unknown."""
    pool = Trained(**spec)
    for epoch in range(1, 11):
        pool.tick(5_000)
        pool.report(epoch=float(epoch), cpu_ms=1_000 + 2_000 * epoch, **said)
    assert course(pool.a) == (10_000, 50_000)
    assert (cpu_ms_left(pool.a), cpu_ms_before_steps(pool.a)) == (80_000, 0)
    assert time_left(pool.a) == TimeLeft(200_000, 200_000, 200_000)
    assert (pool.a.progress.step, total_steps(pool.a)) == (None, None)


def test_a_log_with_only_epochs_that_is_past_its_last_one_has_no_rest() -> None:
    """Neither has one that says no last one."""
    pool = Trained()
    for epoch in range(1, 5):
        pool.tick(5_000)
        pool.report(epoch=float(epoch), epochs=3.0, cpu_ms=1_000 * epoch)
    assert course(pool.a) == (4_000, None)
    assert (cpu_ms_left(pool.a), time_left(pool.a)) == (None, None)


def test_what_was_measured_in_epochs_does_not_continue_in_steps() -> None:
    """The first step begins the measurement again."""
    pool = Trained()
    for epoch in range(1, 4):
        pool.tick(5_000)
        pool.report(epoch=float(epoch), epochs=10.0, cpu_ms=1_000 * epoch)
    assert cpu_ms_per_step(pool.report(step=40, total=100, epoch=4.0, cpu_ms=4_000)) is None
    assert cpu_ms_per_step(pool.train(50, cpu_ms=200)) == (11_000 - 4_000) / 10
    assert course(pool.a) == (50, 100)


def test_the_pace_is_that_of_recent_steps() -> None:
    """The first steps come in a burst, because a script counts its imports as training; a later phase is slower."""
    pool = Trained()
    pool.report(step=2, total=100, cpu_ms=3_640)
    pool.tick(1_000)
    pool.report(step=7, cpu_ms=3_700)
    for step in range(8, 12):
        pool.tick(6_000)
        pool.report(step=step, cpu_ms=3_700 + 500 * (step - 7))
    assert cpu_ms_left(pool.a) == 89 * 500
    for step in range(12, 27):
        pool.tick(6_000)
        pool.report(step=step, cpu_ms=5_700 + 1_000 * (step - 11))
    assert cpu_ms_left(pool.a) == 74 * 1_000


def test_the_queue_ranks_by_the_time_that_is_left() -> None:
    """By the pace of the last minutes, in steps as in epochs."""
    pool, epochs = Trained(), Trained()
    pool.train(*range(1, 13), total=100, every_ms=10_000)
    for epoch in range(1, 13):
        epochs.tick(10_000)
        epochs.report(epoch=float(epoch), epochs=100.0, cpu_ms=1_000 + 100 * epoch)
    ranks = [QUEUE_POLICIES["srtf"].rank(one.a, QueueParameters()) for one in (pool, epochs)]
    assert ranks == [(0, 880_000)] * 2
