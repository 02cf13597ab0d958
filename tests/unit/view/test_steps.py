"""How a plan walks through its steps: begun, done, failed, taken over, turned back."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import (
    FoldedPool,
    cancelled,
    checkpoint,
    migration,
    placement,
    submitted,
    success,
)

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.parameters import MoveLimits, PoolParameters
from steepest.view.plans import FAILURES, RETRY_HOLD_MS
from steepest.view.state import Heading, Phase, PlanStatus

CC = c.Category.CONVERGED
ON_REQUEST, ON_STOP = CheckpointMode.ON_REQUEST, CheckpointMode.ON_STOP
STEPS = {
    ON_REQUEST: [c.Step.CHECKPOINT, c.Step.STOP, c.Step.START, c.Step.VERIFY],
    ON_STOP: [c.Step.STOP, c.Step.START, c.Step.VERIFY],
}


def moving(mode: CheckpointMode = ON_REQUEST, before: c.Step | None = None, **limits: int) -> FoldedPool:
    """A job moves from w1 to w2, its plan carried out until ``before`` is due."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.fold(c.PoolConfigured(parameters=PoolParameters(limits=MoveLimits(**limits))))
    pool.run("job", "w1", CC, mode=mode)
    if mode is ON_STOP:
        pool.fold(c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint(50)))
    assert pool.fold(migration("job", "w1", "w2", plan="m"))
    if before is not None:
        pool.carry_out("job", before=before)
        assert pool.plan_of("job").step is before
    return pool


@pytest.mark.parametrize("mode", [ON_REQUEST, ON_STOP])
def test_a_move_takes_its_steps_in_order(mode: CheckpointMode) -> None:
    """A job that saves on request is asked first; one that saves when stopped is just stopped."""
    pool = moving(mode)
    taken = []
    while (action := pool.act("job")) and isinstance(action, c.StepBegun):
        taken.append((action.step, action.attempt, action.incarnation, action.node))
    places = {c.Step.CHECKPOINT: (1, "w1"), c.Step.STOP: (1, "w1"), c.Step.START: (2, "w2"), c.Step.VERIFY: (2, "w2")}
    assert taken == [(step, number, *places[step]) for number, step in enumerate(STEPS[mode], 1)]


def test_a_move_that_works_leaves_the_job_at_its_target_and_nothing_at_its_source() -> None:
    """Its old place is free only when the move is concluded."""
    pool = moving(before=c.Step.VERIFY)
    assert pool.allocated() == {"w1": 100, "w2": 100}
    pool.act("job")
    assert pool.allocated() == {"w1": 100, "w2": 100}
    job = pool.carry_out("job")
    assert pool.allocated() == {"w2": 100}
    assert pool.counts() == {"w2": [0, 0, 1]}
    assert (job.node, job.incarnation, job.alive, job.moves, job.plan) == ("w2", 2, True, 1, None)
    assert pool.view.plan("m").status is PlanStatus.FINISHED  # type: ignore[union-attr]


def test_a_beginning_that_is_not_the_next_one_does_not_count() -> None:
    """Another step, attempt, incarnation or node than is due, another job or an unknown plan is refused."""
    pool = moving(before=c.Step.START)
    pool.run("other", "w1")
    right = c.StepBegun(plan="m", step=c.Step.START, attempt=3, job="job", incarnation=2, node="w2")
    wrong = [
        ("step", c.Step.VERIFY),
        ("attempt", 2),
        ("attempt", 4),
        ("incarnation", 1),
        ("incarnation", 3),
        ("node", "w1"),
        ("job", "other"),
        ("job", "unknown"),
        ("plan", "m-2"),
    ]
    before = pool.view.snapshot()
    for field, value in wrong:
        fields = {name: getattr(right, name) for name in right.__struct_fields__} | {field: value}
        assert pool.fold(c.StepBegun(**fields)) is False, (field, value)
    pool.view.state.position -= len(wrong)
    assert pool.view.snapshot() == before
    assert pool.fold(right)


def test_a_beginning_for_another_incarnation_does_not_count() -> None:
    """Of every step, or an old process would be saved or stopped in place of the one that runs."""
    for step in STEPS[ON_REQUEST]:
        pool = moving(before=step)
        due = pool.next_action("job")
        assert isinstance(due, c.StepBegun)
        for wrong in (due.incarnation - 1, due.incarnation + 1):
            fields = {name: getattr(due, name) for name in due.__struct_fields__} | {"incarnation": wrong}
            assert pool.fold(c.StepBegun(**fields)) is False, (step, wrong)


@pytest.mark.parametrize("step", STEPS[ON_REQUEST])
@pytest.mark.parametrize("why", ["cancelled", "ended"])
def test_a_beginning_that_a_doom_came_before_does_not_count(step: c.Step, why: str) -> None:
    """It was on its way to the log when the job was cancelled or ended: no migrator may act on it."""
    pool = moving(before=step)
    due = pool.next_action("job")
    assert isinstance(due, c.StepBegun)
    pool.fold(cancelled("job") if why == "cancelled" else pool.stopped("job", 1))
    spared = why == "ended" and step in {c.Step.START, c.Step.VERIFY}  # it had ended before; or VERIFY will find out
    assert pool.fold(due) is spared


def test_an_outcome_counts_once_and_only_for_the_newest_beginning() -> None:
    """A migrator that takes a step over outdates its predecessor's late report."""
    pool = moving(before=c.Step.STOP)
    first = pool.begin("job")
    second = pool.begin("job")
    assert second.attempt == first.attempt + 1
    job = pool.job("job")
    assert pool.fold(success(first, job)) is False
    assert pool.fold(success(second, job)) is True
    assert pool.fold(success(second, job)) is False
    assert pool.plan_of("job").step is c.Step.START


def test_an_outcome_of_a_step_that_was_not_begun_does_not_count() -> None:
    """Due is not begun."""
    pool = moving(before=c.Step.STOP)
    due = c.StepBegun(plan="m", step=c.Step.STOP, attempt=1, job="job", incarnation=1, node="w1")
    assert pool.fold(success(due, pool.job("job"))) is False


def test_an_outcome_that_names_another_job_does_not_count() -> None:
    """A plan is its job's only."""
    pool = moving(before=c.Step.START)
    pool.run("other", "w1")
    begun = pool.begin("job")
    assert pool.fold(c.JobPlaced(plan="m", attempt=begun.attempt, job="other", incarnation=2, node="w2")) is False
    assert pool.job("other").node == "w1"


@pytest.mark.parametrize(("node", "incarnation"), [("w1", 2), ("w9", 2), ("w2", 1), ("w2", 3)])
def test_a_start_elsewhere_than_planned_does_not_count(node: str, incarnation: int) -> None:
    """Nothing is reserved there."""
    pool = moving(before=c.Step.START)
    begun = pool.begin("job")
    placed = c.JobPlaced(plan="m", attempt=begun.attempt, job="job", incarnation=incarnation, node=node)
    assert pool.fold(placed) is False
    assert pool.plan_of("job").begun


@pytest.mark.parametrize("conclusion", ["finished", "failed"])
def test_a_move_is_not_concluded_while_a_step_is_due(conclusion: str) -> None:
    """Only a plan whose steps are all done, or given up, is over."""
    pool = moving(before=c.Step.VERIFY)
    over = (
        c.MigrationFinished(plan="m", job="job", target="w2", steps_lost=0, took_ms=1, paused_ms=1)
        if conclusion == "finished"
        else c.MigrationFailed(plan="m", job="job", code="x", message="x")
    )
    assert pool.fold(over) is False
    assert pool.allocated() == {"w1": 100, "w2": 100}


def test_a_plan_is_not_abandoned_while_a_step_is_under_way() -> None:
    """The step's effect is not known yet."""
    pool = moving(before=c.Step.STOP)
    pool.begin("job")
    assert pool.fold(c.PlanAbandoned(plan="m", job="job", code="given-up")) is False


# --- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [c.Step.CHECKPOINT, c.Step.STOP])
def test_a_step_that_fails_before_the_stop_leaves_the_job_as_it_was(step: c.Step) -> None:
    """After ``tries`` definite failures the move is given up, and the job trains on at its source."""
    pool = moving(before=step, tries=2)
    pool.fail("job")
    assert pool.plan_of("job").step is step
    pool.fail("job")
    assert pool.plan_of("job").heading is Heading.FAILED
    job = pool.carry_out("job")
    assert (job.node, job.alive, job.phase, job.moves_failed) == ("w1", True, Phase.RUNNING, 1)
    assert pool.allocated() == {"w1": 100}
    assert pool.counts() == {"w1": [0, 0, 1]}
    assert not job.migrated


def test_a_step_that_works_starts_the_count_of_failures_anew() -> None:
    """``tries`` counts the failures of one step."""
    pool = moving(tries=2)
    pool.fail("job")
    pool.act("job")
    pool.fail("job")
    assert pool.plan_of("job").heading is Heading.FORWARD


@pytest.mark.parametrize("code", sorted(FAILURES))
def test_a_failure_that_cannot_be_mended_is_final_at_once(code: str) -> None:
    """No second try of the same."""
    pool = moving(before=c.Step.START, tries=5)
    pool.fail("job", code)
    assert pool.plan_of("job").heading is Heading.BACK


def test_a_start_that_fails_turns_the_move_back() -> None:
    """The job is stopped already: it is started again where it was, as a newer incarnation."""
    pool = moving(before=c.Step.START, tries=1)
    pool.fail("job")
    plan = pool.plan_of("job")
    assert (plan.heading, plan.steps) == (Heading.BACK, (c.Step.START, c.Step.VERIFY))
    begun = pool.next_action("job")
    assert isinstance(begun, c.StepBegun)
    assert (begun.step, begun.incarnation, begun.node) == (c.Step.START, 3, "w1")
    job = pool.carry_out("job")
    assert (job.node, job.incarnation, job.alive, job.phase) == ("w1", 3, True, Phase.RUNNING)
    assert pool.allocated() == {"w1": 100}
    assert pool.counts() == {"w1": [0, 0, 1]}
    assert pool.view.plan("m").status is PlanStatus.FAILED  # type: ignore[union-attr]


def test_a_job_that_ends_before_its_first_step_at_the_target_turns_the_move_back() -> None:
    """What ended may be the fault of the place; the job runs on where it did before."""
    pool = moving(before=c.Step.VERIFY)
    pool.fold(pool.stopped("job", 1))
    pool.fail("job", "ended")
    assert pool.plan_of("job").heading is Heading.BACK
    job = pool.carry_out("job")
    assert (job.node, job.alive) == ("w1", True)
    assert pool.allocated() == {"w1": 100}


def test_a_job_that_runs_but_shows_no_step_in_time_stays_at_the_target() -> None:
    """It is alive there: the move is no success, and the job counts where it is."""
    pool = moving(before=c.Step.VERIFY)
    pool.fail("job", "step-timeout")
    job = pool.carry_out("job")
    assert (job.node, job.alive, job.phase) == ("w2", True, Phase.RUNNING)
    assert pool.allocated() == {"w2": 100}
    assert pool.counts() == {"w2": [0, 0, 1]}


@pytest.mark.parametrize("step", [c.Step.START, c.Step.VERIFY])
def test_a_job_that_starts_nowhere_is_not_lost(step: c.Step) -> None:
    """Where also the way back fails the job holds nothing and is judged as one whose process is gone."""
    pool = moving(before=c.Step.START, tries=1)
    pool.fail("job")
    pool.carry_out("job", before=step)
    pool.fail("job", "ended" if step is c.Step.VERIFY else "refused")
    assert pool.plan_of("job").heading is Heading.FAILED
    job = pool.carry_out("job")
    assert (job.phase, job.alive, job.plan) == (Phase.STOPPED, False, None)
    assert job.exit_status is None  # the 85 of the stop says nothing of why it could not be started
    assert pool.allocated() == {}
    assert pool.counts() == {}


def test_a_job_that_is_moved_and_fails_too_often_is_left_where_it_is() -> None:
    """After ``moves_failed`` failed moves its algorithm does not move it again."""
    pool = moving(moves_failed=2, tries=1)
    pool.fail("job")
    pool.carry_out("job")
    assert not pool.job("job").migrated
    assert pool.fold(migration("job", "w1", "w2", plan="m2"))
    pool.fail("job")
    pool.carry_out("job")
    assert pool.job("job").migrated
    assert pool.fold(migration("job", "w1", "w2", plan="m3")) is False


# --- unclear effects --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS[ON_REQUEST])
def test_a_step_of_unclear_effect_is_due_again_after_a_hold_that_doubles(step: c.Step) -> None:
    """It is never counted as a failure: only the same step again can resolve it."""
    pool = moving(before=step, tries=1)
    holds = []
    for _ in range(8):
        pool.fail("job", "uncertain", definite=False)
        plan = pool.plan_of("job")
        assert (plan.step, plan.begun, plan.heading) == (step, False, Heading.FORWARD)
        holds.append(plan.not_before_counted_ms - pool.view.counted_ms)
        assert pool.next_action("job") is None
        pool.tick(holds[-1])
    assert holds == [RETRY_HOLD_MS * times for times in (1, 2, 4, 8, 16, 32, 32, 32)]
    assert pool.carry_out("job").node == "w2"


@pytest.mark.parametrize("then", ["done", "given up"])
def test_the_step_after_an_unclear_one_waits_for_nothing(then: str) -> None:
    """The hold was that step's."""
    pool = moving(before=c.Step.STOP if then == "done" else c.Step.START, tries=1)
    for _ in range(4):
        pool.fail("job", "uncertain", definite=False)
    if then == "done":
        pool.fold(success(pool.begin("job"), pool.job("job")))
    else:
        pool.fail("job")
    due = pool.next_action("job")
    assert isinstance(due, c.StepBegun)
    assert due.step is c.Step.START


def test_unclear_effects_do_not_count_as_tries() -> None:
    """``tries`` counts definite failures only."""
    pool = moving(before=c.Step.CHECKPOINT, tries=2)
    pool.fail("job", "uncertain", definite=False)
    pool.fail("job")
    assert pool.plan_of("job").heading is Heading.FORWARD


def test_a_start_of_unclear_effect_is_looked_at_again_before_a_cancel_counts() -> None:
    """An unknown process may run: giving the plan up would leave it running."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("job"), placement("job", "w1"))
    pool.fail("job", "uncertain", definite=False)
    pool.fold(cancelled("job"))
    plan = pool.plan_of("job")
    assert pool.fold(c.PlanAbandoned(plan=plan.id, job="job", code="given-up")) is False
    pool.tick()
    again = pool.next_action("job")
    assert isinstance(again, c.StepBegun)
    assert (again.step, again.incarnation) == (c.Step.START, 1)
    pool.act("job")
    assert pool.plan_of("job").kind == "cancel"
    pool.carry_out("job")
    assert (pool.job("job").phase, pool.allocated()) == (Phase.STOPPED, {})


def test_a_start_that_surely_did_not_work_gives_way_to_a_cancel() -> None:
    """Once the effect is clear the plan is given up."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("job"), placement("job", "w1"))
    pool.fail("job", "uncertain", definite=False)
    pool.fold(cancelled("job"))
    pool.fail("job", "refused")
    assert isinstance(pool.next_action("job"), c.PlanAbandoned)


@pytest.mark.parametrize("reported", ["during the step", "after it failed unclearly"])
def test_an_end_that_is_seen_before_the_start_is_not_missed(reported: str) -> None:
    """The node reports each end once, maybe before the start was reported; the job must not count as alive afterwards."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("job"), placement("job", "w1"))
    if reported == "during the step":
        begun = pool.begin("job")
    else:
        pool.fail("job", "uncertain", definite=False)
    assert pool.fold(pool.stopped("job", 3, reason="it fell over"))
    if reported != "during the step":
        begun = pool.begin("job")
    pool.fold(success(begun, pool.job("job")))
    job = pool.job("job")
    assert (job.phase, job.alive, job.exit_status, job.stop_reason) == (Phase.STOPPED, False, 3, "it fell over")
    assert pool.allocated() == {}


def test_an_end_of_an_older_incarnation_says_nothing_about_the_one_that_starts() -> None:
    """Incarnations fence."""
    pool = moving(before=c.Step.START)
    begun = pool.begin("job")
    assert pool.fold(pool.stopped("job", 1, incarnation=1)) is False
    pool.fold(success(begun, pool.job("job")))
    assert pool.job("job").alive


# --- cancels --------------------------------------------------------------------------------------------------------


def test_a_cancel_of_a_running_job_stops_it() -> None:
    """The view makes the plan itself: there is nothing to decide about it."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    pool.fold(cancelled("job"))
    plan = pool.plan_of("job")
    assert (plan.kind, plan.steps) == ("cancel", (c.Step.STOP,))
    job = pool.carry_out("job")
    assert (job.phase, job.alive, job.exit_status) == (Phase.STOPPED, False, 85)
    assert pool.allocated() == {}


@pytest.mark.parametrize("definite", [True, False])
def test_a_cancel_is_never_given_up(*, definite: bool) -> None:
    """However often the stop fails, it is tried again after a hold."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    pool.fold(cancelled("job"))
    for _ in range(5):
        pool.fail("job", "refused", definite=definite)
        assert pool.plan_of("job").step is c.Step.STOP
        assert pool.next_action("job") is None
        pool.tick(60_000)
    assert pool.carry_out("job").phase is Phase.STOPPED


@pytest.mark.parametrize("code", ["ended", "unknown-incarnation"])
def test_a_cancel_of_what_surely_does_not_run_is_done(code: str) -> None:
    """The stop is refused because there is nothing to stop."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    pool.fold(cancelled("job"))
    pool.fail("job", code)
    job = pool.carry_out("job")
    assert (job.phase, job.plan) == (Phase.STOPPED, None)
    assert pool.allocated() == {}


def test_what_one_witness_of_a_stop_does_not_know_the_other_may() -> None:
    """A job that finished while it was cancelled has finished, also where the stop could not see its status."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    pool.fold(cancelled("job"))
    begun = pool.begin("job")
    pool.fold(pool.stopped("job", 0))
    pool.fold(success(begun, pool.job("job"), exit_status=None))
    assert pool.job("job").exit_status == 0


@pytest.mark.parametrize("reported_status", [0, None])
def test_a_job_that_finished_while_it_was_stopped_is_not_started_again(reported_status: int | None) -> None:
    """Whether the stop saw the status, or only the node did."""
    pool = moving(before=c.Step.STOP)
    begun = pool.begin("job")
    if reported_status is None:
        pool.fold(pool.stopped("job", 0))
    pool.fold(success(begun, pool.job("job"), exit_status=reported_status))
    assert isinstance(pool.next_action("job"), c.PlanAbandoned)
    assert pool.carry_out("job").exit_status == 0


def test_a_job_that_finished_while_its_stop_was_unclear_is_not_stopped_again() -> None:
    """There is nothing left to stop or to move."""
    pool = moving(before=c.Step.STOP)
    begun = pool.begin("job")
    pool.fold(pool.stopped("job", 0))
    pool.fail("job", "uncertain", definite=False, begun=begun)
    assert isinstance(pool.next_action("job"), c.PlanAbandoned)


def test_why_a_process_is_gone_is_not_explained_away_by_its_plan() -> None:
    """What the node said of it is what people must read, not that a plan was given up."""
    pool = moving(before=c.Step.CHECKPOINT)
    pool.fold(pool.stopped("job", None, reason="the node was rebooted"))
    job = pool.carry_out("job")
    assert (job.phase, job.stop_reason, job.stop_code) == (Phase.STOPPED, "the node was rebooted", "")


def test_a_failure_is_judged_once() -> None:
    """A job that was tried again, and whose new place was given up before it started, has not failed a second time."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1", retries=1)
    pool.feed(
        pool.stopped("job", 1),
        c.RetryPlanned(job="job", incarnation=1, charged=True, not_before_ms=0, reason="x"),
        placement("job", "w1", incarnation=1),
        c.PlanAbandoned(plan="place-job-1", job="job", code="given-up", message="it is Friday"),
    )
    job = pool.job("job")
    assert (job.phase, job.exit_status, job.stop_reason) == (Phase.STOPPED, None, "it is Friday")


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_the_steps_lost_are_those_since_the_checkpoint() -> None:
    """Of a job that saves when stopped and did not: what it did since its last checkpoint is done again."""
    pool = moving(ON_STOP, before=c.Step.STOP)
    begun = pool.begin("job")
    pool.fold(success(begun, pool.job("job"), step=80))
    pool.carry_out("job")
    assert pool.job("job").steps_lost == 30


def test_the_steps_lost_are_those_since_the_checkpoint_that_it_really_resumes_from() -> None:
    """A newer one may be reported between the stop and the start."""
    pool = moving(ON_STOP, before=c.Step.STOP)
    begun = pool.begin("job")
    pool.fold(success(begun, pool.job("job"), step=80))
    pool.fold(c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint(75)))
    pool.carry_out("job")
    assert pool.job("job").steps_lost == 5


def test_a_first_checkpoint_that_is_told_late_does_not_replace_a_newer_one() -> None:
    """Else the job would be restored from the older one and lose what it did since."""
    pool = moving(before=c.Step.STOP)
    assert pool.fold(c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint(40))) is False
    assert pool.job("job").checkpoint == checkpoint(100)


def test_what_an_older_incarnation_says_does_not_count() -> None:
    """Its checkpoint and its declaration are history."""
    pool = moving()
    pool.carry_out("job")
    assert pool.feed(
        c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint(900)),
        c.CheckpointModeDeclared(job="job", incarnation=1, node="w1", mode=CheckpointMode.NONE),
        pool.stopped("job", 1, incarnation=1),
    ) == [False, False, False]
    assert pool.job("job").alive
