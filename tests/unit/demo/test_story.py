"""The story of a run says what its log says."""

from __future__ import annotations

from tests.unit.demo.run import log, story

from steepest.events import cluster as c
from steepest.read_models.run_timeline import RunTimeline


def test_story_tells_the_course_of_a_job() -> None:
    """Where it began, what it learned by, each category in order, and how it ended."""
    mover = story().jobs["mover"]

    assert mover.first_node == "n1"
    assert mover.means == [4.0, 2.0, 1.0]
    assert [category for _, category in mover.categories] == list(c.Category)
    assert mover.outcome is c.Outcome.FINISHED
    assert mover.completion_ms is not None
    assert mover.waited_ms is not None
    assert 0 < mover.waited_ms < mover.completion_ms


def test_story_tells_what_a_move_cost() -> None:
    """A move has its ends, its cost and its lost steps, and is done once its job trains at the new place."""
    [move] = story().moves

    assert (move.job, move.source, move.target, move.kind) == ("mover", "n1", "n2", c.MoveKind.REALLOCATION)
    assert (move.done, move.took_ms, move.paused_ms, move.steps_lost, move.failed) == (True, 1, 1, 0, "")


def test_move_under_way_is_not_done() -> None:
    """A plan counts as a move only once it has arrived."""
    records = log().records
    planned = next(place for place, record in enumerate(records) if isinstance(record.event, c.MigrationPlanned))

    [move] = RunTimeline.of(records[: planned + 1]).moves

    assert not move.done


def test_void_plan_is_no_move() -> None:
    """A plan that the view refuses leaves no trace among the moves."""
    built = log().move_planned("again", "stayer", "n1", "n2")

    assert [move.job for move in RunTimeline.of(built.records).moves] == ["mover"]


def test_failed_move_says_why() -> None:
    """A move that did not work out is not done, and keeps its reason."""
    built = log().running("second", "n1", 50).move_planned("vain", "second", "n1", "n3")
    for _ in range(2):
        built.begun("vain", c.Step.CHECKPOINT, "second", 1, "n1").failed("vain", c.Step.CHECKPOINT, "second")
    built.add(c.MigrationFailed(plan="vain", job="second", code="refused", message="no room", node="n1"))

    move = RunTimeline.of(built.records).moves[-1]

    assert (move.done, move.failed) == (False, "no room")


def test_stays_and_ends_are_counted() -> None:
    """One job stayed, one finished, one failed and says why, two are not over."""
    timeline = story()

    assert timeline.stays == timeline.jobs["stayer"].stays == 1
    assert (timeline.ended(), timeline.ended(c.Outcome.FINISHED), timeline.ended(c.Outcome.FAILED)) == (2, 1, 1)
    assert timeline.jobs["broken"].reason == "it exited with status 3"
    assert timeline.steps_lost == 0


def test_measurements_are_not_printed() -> None:
    """Ticks, usage and growth are folded, and not printed."""
    built = log()
    fold = RunTimeline()

    news = [type(record.event) for record in built.records if fold.fold(record)]

    assert c.GrowthMeasured not in news
    assert c.Tick not in news
    assert news.count(c.MigrationPlanned) == news.count(c.MigrationFinished) == news.count(c.StayDecided) == 1
