"""Unsound logs about what becomes of jobs and decisions: one anomaly each, which its checker must find and point at."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.log_builder import LogBuilder, checkpoint
from tests.harness.scenarios.verdicts import broken, holds

from steepest.events import cluster as c
from steepest.events.received import ID, LOGIC, PREVIOUS
from steepest.invariants.checkers.accounting import Accounting
from steepest.invariants.checkers.decision_ids import DecisionIds
from steepest.invariants.checkers.steps_lost import StepsLost

# --- accounting -----------------------------------------------------------------------------------------------------


def test_every_job_is_listed_where_it_stands() -> None:
    """One job for each place that a job can be in when the log ends."""
    story = LogBuilder().opened(n1=9000, n2=9000)
    story.running("finished", "n1").exited("finished", "n1")
    story.running("failed", "n1").exited("failed", "n1", status=1)
    story.add(c.JobEnded(job="failed", outcome=c.Outcome.FAILED, exit_status=1))
    story.submitted("cancelled").add(c.JobCancelRequested(job="cancelled", request="x"))
    story.add(c.JobEnded(job="cancelled", outcome=c.Outcome.CANCELLED))
    story.submitted("rejected").add(c.JobRejected(job="rejected", request="request-rejected", reason="too large"))
    story.add(c.JobSubmitted(job="new", request="r", spec=c.JobSpec(command=("train",))))
    story.submitted("waiting").running("stopped", "n1").exited("stopped", "n1", status=1)
    story.running("again", "n1").exited("again", "n1", status=1)
    story.add(c.RetryPlanned(job="again", incarnation=1, charged=True, not_before_ms=0, reason="it failed"))
    story.submitted("starting").placement_planned("place", "starting", "n1")
    story.begun("place", c.Step.START, "starting", 1, "n1")
    story.running("running", "n1").running("moving", "n1").move_planned("move", "moving", "n1", "n2")
    story.saved("move", "moving", "n1").stopped("move", "moving", "n1")
    assert holds(Accounting, story) == (
        "1 finished, 1 failed, 1 cancelled, 1 rejected, 1 submitted (new), 2 waiting (waiting, again), "
        "1 starting (starting), 1 running (running), 1 moving (moving), 1 stopped (stopped)"
    )


def test_a_long_list_is_cut() -> None:
    """Five names and a number are enough for a table."""
    story = LogBuilder().opened(n1=9000)
    for number in range(7):
        story.submitted(f"job-{number}")
    assert holds(Accounting, story) == "7 waiting (job-0, job-1, job-2, job-3, job-4 and 2 more)"


def test_a_request_sent_twice_is_one_job() -> None:
    """The client repeats itself with the same request id."""
    story = LogBuilder().opened(n1=1000).submitted("a")
    story.add(c.JobSubmitted(job="a", request="request-a", spec=c.JobSpec(command=("train",))))
    assert holds(Accounting, story) == "1 waiting (a)"


@pytest.mark.parametrize(
    "event",
    [
        c.JobEnded(job="ghost", outcome=c.Outcome.FINISHED),
        c.JobRejected(job="ghost", request="r", reason="too large"),
    ],
)
def test_what_nobody_submitted_cannot_be_over(event: c.ClusterEvent) -> None:
    """The job has no account."""
    story = LogBuilder().opened(n1=1000).add(event)
    assert broken(Accounting, story)[0] == (story.end - 1,)


def test_a_job_is_not_over_by_the_word_of_another_node() -> None:
    """Only the node that has its process knows that it has ended."""
    story = LogBuilder().opened(n1=1000, cam7=100).running("a", "n1").exited("a", "cam7")
    assert broken(Accounting, story)[0][-1] == story.end - 1


def test_a_job_ends_in_one_way() -> None:
    """Finished is finished."""
    story = LogBuilder().opened(n1=1000).running("a", "n1").exited("a", "n1")
    story.add(c.JobEnded(job="a", outcome=c.Outcome.FAILED))
    assert broken(Accounting, story) == ((story.end - 2, story.end - 1), "job a was finished and then failed")


@pytest.mark.parametrize(
    "event",
    [
        c.JobEnded(job="a", outcome=c.Outcome.CANCELLED),
        c.JobRejected(job="a", request="request-a", reason="too large"),
    ],
)
def test_a_job_is_not_over_while_it_runs(event: c.ClusterEvent) -> None:
    """Its process was heard of, and nothing proves that it is gone."""
    story = LogBuilder().opened(n1=1000).running("a", "n1").add(event)
    evidence, message = broken(Accounting, story)
    assert evidence == (story.end - 4, story.end - 1)
    assert "incarnation 1 may run on n1" in message


# --- decision-ids ---------------------------------------------------------------------------------------------------


def test_a_decision_that_was_never_written_is_a_gap() -> None:
    """The third names the second, which is not in the log."""
    story = LogBuilder().opened(n1=1000)
    wanted = {ID: "placer/e/cluster/0/7/0", PREVIOUS: "placer/e/cluster/0/5/0"}
    story.add(c.JobAdmitted(job="a", request="r"), headers={ID: "placer/e/cluster/0/3/0"})
    story.add(c.JobAdmitted(job="b", request="r"), headers=wanted)
    evidence, message = broken(DecisionIds, story)
    assert evidence == (story.end - 2, story.end - 1)
    assert "placer/e/cluster/0/5/0" in message


def test_another_logic_may_name_what_never_counted() -> None:
    """Where two logics decide beside each other, one names a decision of its own whose id the other one took."""
    story = LogBuilder().opened(n1=1000)
    ours = {ID: "placer/e/cluster/0/7/0", PREVIOUS: "placer/e/cluster/0/5/0", LOGIC: "2"}
    story.add(c.JobAdmitted(job="a", request="r"), headers={ID: "placer/e/cluster/0/6/0", LOGIC: "1"})
    story.add(c.JobAdmitted(job="b", request="r"), headers=ours)
    assert holds(DecisionIds, story) == "decisions: 4, streams: 2"


def test_a_logic_that_comes_back_goes_on_from_the_log() -> None:
    """And one that was there all the while from its own: of two of the same logic one names a decision further back."""

    def decided(position: int, after: int | None, logic: str) -> dict[str, str]:
        before = {} if after is None else {PREVIOUS: f"placer/e/cluster/0/{after}/0"}
        return {ID: f"placer/e/cluster/0/{position}/0", LOGIC: logic, **before}

    def story(*headers: dict[str, str]) -> LogBuilder:
        made = LogBuilder().opened(n1=1000)
        for number, each in enumerate(headers):
            made.add(c.JobAdmitted(job=f"j{number}", request="r"), headers=each)
        return made

    mixed = (decided(3, None, "1"), decided(4, 3, "2"), decided(5, 4, "1"))

    holds(DecisionIds, story(*mixed, decided(7, 3, "1")))
    assert "/6/0" in broken(DecisionIds, story(*mixed, decided(7, 6, "1")))[1]
    assert "/3/0" in broken(DecisionIds, story(decided(3, None, "1"), decided(5, 3, "1"), decided(7, 3, "1")))[1]


def test_the_first_decision_of_a_stream_follows_nothing() -> None:
    """One that names another before it shows that the beginning is missing."""
    headers = {ID: "placer/e/cluster/0/7/0", PREVIOUS: "placer/e/cluster/0/5/0"}
    story = LogBuilder().opened(n1=1000).add(c.JobAdmitted(job="a", request="r"), headers=headers)
    assert broken(DecisionIds, story)[0] == (story.end - 1,)


def test_streams_are_counted_each_for_itself() -> None:
    """Two partitions of loss make two streams of the categorizer, which interleave."""
    story = LogBuilder().add(c.LogOpened(epoch="e"))
    growth = c.GrowthMeasured(
        job="a", interval=1, total=1, count=1, largest=1, first_ms=1, last_ms=1, category=c.Category.PROGRESSING
    )
    before = holds(DecisionIds, story)
    for partition in (0, 1):
        story.add(growth, headers={ID: f"categorizer/e/loss/{partition}/3/0"})
    for partition in (0, 1):
        headers = {ID: f"categorizer/e/loss/{partition}/9/0", PREVIOUS: f"categorizer/e/loss/{partition}/3/0"}
        story.add(growth, headers=headers)
    assert before == "decisions: 0, streams: 0"
    assert holds(DecisionIds, story) == "decisions: 4, streams: 2"


# --- steps-lost -----------------------------------------------------------------------------------------------------


def moved(stopped_at: int, restored: int | None, steps_lost: int) -> LogBuilder:
    """A move that says how many steps it lost."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.saved("move", "a", "n1").stopped("move", "a", "n1", step=stopped_at)
    story.started("move", "a", "n2", 2, None if restored is None else checkpoint(restored))
    return story.verified("move", "a", "n2", 2).finished("move", "a", "n2", steps_lost)


@pytest.mark.parametrize(
    ("stopped_at", "restored", "lost"), [(100, 100, 0), (107, 100, 7), (107, 90, 17), (107, None, 107)]
)
def test_steps_lost_are_those_between_checkpoint_and_stop(stopped_at: int, restored: int | None, lost: int) -> None:
    """What the move says holds, and one step more or less than that does not."""
    assert holds(StepsLost, moved(stopped_at, restored, lost)) == f"moves: 1, steps lost: {lost}"
    story = moved(stopped_at, restored, lost + 1)
    evidence, message = broken(StepsLost, story)
    assert evidence == (story.end - 7, story.end - 1)
    assert f"stopped at step {stopped_at} and continues from {restored or 0}" in message


def test_an_outcome_that_comes_again_brings_no_old_checkpoint_back() -> None:
    """The stop of the move before is on the log a second time, after the job has saved again."""
    story = moved(100, 100, 0)
    again = c.JobStopped(plan="move", attempt=2, job="a", incarnation=1, step=100, checkpoint=checkpoint(100))
    newer = c.CheckpointVerified(job="a", incarnation=2, node="n2", checkpoint=checkpoint(120))
    story.add(newer, again).move_planned("back", "a", "n2", "n1", 2).begun("back", c.Step.STOP, "a", 2, "n2")
    story.add(c.JobStopped(plan="back", attempt=1, job="a", incarnation=2, step=124))
    story.add(c.MigrationFailed(plan="back", job="a", code="refused", message="no", steps_lost=4))

    assert holds(StepsLost, story) == "moves: 2, steps lost: 4"


def test_what_is_lost_at_the_target_is_not_lost_by_the_stop() -> None:
    """The first restore counts: that the job saved more at the target, before it went back, changes nothing."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.saved("move", "a", "n1").stopped("move", "a", "n1", step=107).started("move", "a", "n2", 2, checkpoint(100))
    story.begun("move", c.Step.VERIFY, "a", 2, "n2").failed("move", c.Step.VERIFY, "a", "ended")
    story.started("move", "a", "n1", 3, checkpoint(105)).verified("move", "a", "n1", 3)
    story.add(c.MigrationFailed(plan="move", job="a", code="ended", message="no", node="n1", steps_lost=7))
    assert holds(StepsLost, story) == "moves: 1, steps lost: 7"


def test_a_move_that_failed_tells_the_truth_as_well() -> None:
    """It stopped nothing, so nothing was lost; after a stop without a new place the newest checkpoint counts."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.begun("move", c.Step.CHECKPOINT, "a", 1, "n1").failed("move", c.Step.CHECKPOINT, "a")
    story.add(c.MigrationFailed(plan="move", job="a", code="refused", message="no", node="n1", steps_lost=3))
    assert "it stopped nothing" in broken(StepsLost, story)[1]
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.saved("move", "a", "n1").stopped("move", "a", "n1", step=104)
    story.add(c.MigrationFailed(plan="move", job="a", code="refused", message="no", steps_lost=4))
    assert holds(StepsLost, story) == "moves: 1, steps lost: 4"
