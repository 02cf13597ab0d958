"""How far a job is and how much time is left, as people and programs see it."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import migration
from tests.unit.view.test_progress import Trained

from steepest.cli.commands import jobs
from steepest.cli.live.picture import WITH_TIME_LEFT, picture
from steepest.cli.pool.stored_pool import StoredPool
from steepest.cli.printing.output import console
from steepest.cli.printing.tables import drawn
from steepest.events import cluster as c
from steepest.read_models.job_progress import in_words, interval, share_done, steps
from steepest.read_models.job_rows import job_row
from steepest.read_models.job_timeline import TimelineCollector
from steepest.read_models.run_timeline import RunTimeline
from steepest.view.progress import TimeLeft, time_left


def uneven(**spec: Any) -> Trained:
    """Job ``a`` at step 300, of which the first 100 took 5 s each ten, and the others an eighth of a second each."""
    pool = Trained(**spec)
    pool.train(*range(0, 101, 10), *range(140, 301, 40))
    return pool


def stored(pool: Trained) -> StoredPool:
    """The pool of a system that runs."""
    nowhere: Any = None
    return StoredPool(
        name="default", folder=nowhere, installation=nowhere, at=nowhere, view=pool.view, up=True, now_ms=pool.now_ms
    )


@pytest.mark.parametrize(
    ("spec", "said", "words"),
    [
        ({}, {}, ""),
        ({}, {"epoch": 2.0}, "epoch 2; how long it takes is unknown"),
        ({}, {"epoch": 2.5, "epochs": 10.0}, "epoch 2.5/10, 25 % done; its pace is not measured yet"),
        ({}, {"step": 40}, "step 40; how long it takes is unknown"),
        ({}, {"step": 40, "total": 20}, "step 40; how long it takes is unknown"),
        ({"steps": 200}, {"step": 40}, "step 40/200, 20 % done; its pace is not measured yet"),
    ],
)
def test_what_is_known_is_said_and_nothing_else(spec: dict[str, Any], said: dict[str, Any], words: str) -> None:
    """A total that cannot be right is not shown, and no time is made up."""
    job = Trained(**spec).report(**said)
    assert in_words(job, time_left(job)) == words


def test_a_job_whose_log_has_only_epochs_shows_these() -> None:
    """Its readings are counted as steps in the topic of losses; the newest epoch comes from there too."""
    pool = Trained()
    job = pool.report(epoch=2.0, epochs=10.0)

    assert steps(job) == "epoch 2/10"
    assert steps(job, 3, 3.0) == "epoch 3/10"
    pool.feed(pool.stopped("a", 0))
    pool.end("a")
    assert steps(pool.job("a"), 10, 10.0) == "epoch 10/10"


def test_a_job_that_goes_on_shows_the_total_that_it_had() -> None:
    """Until its new process states one: nothing is decided by the former, and it is not shown once the step is past it."""
    pool = Trained()
    pool.train(50, 100, total=300)
    pool.fold(migration("a", "w1", "w2"))
    pool.carry_out("a")
    assert (steps(pool.a), share_done(pool.a)) == ("100/300", "33 %")
    assert job_row(stored(pool), pool.a).steps_total == 300
    assert steps(pool.report("w2", step=110)) == "110/300"
    assert steps(pool.report("w2", step=120, total=400)) == "120/400"
    assert steps(pool.report("w2", step=500)) == "500"


def test_the_newest_epoch_is_shown_whoever_knows_it() -> None:
    """A job that is over before the pool hears of it has epochs, too; without a finite loss the pool knows the newer one."""
    assert steps(Trained(epochs=30).a, 30, 30.0) == "epoch 30/30"
    assert steps(Trained().report(epoch=52.0, epochs=60.0), 60, 6.0) == "epoch 52/60"


def test_the_time_left_has_an_interval() -> None:
    """The mean pace, the fastest and the slowest one."""
    job = uneven(steps=1_000).a
    assert in_words(job, time_left(job)) == "step 300/1000, 30 % done; about 2 min 36 s left (1 min 28 s – 5 min 50 s)"
    assert (steps(job, 305), share_done(job)) == ("305/1000", "30 %")
    assert interval(TimeLeft(p50=5_000, low=5_000, high=5_000)) == "5.0 s"


@pytest.mark.parametrize("width", [80, 140])
def test_a_terminal_shows_the_time_left(width: int) -> None:
    """Of 80 columns it has one; its interval needs a wider one."""
    pool = uneven(steps=1_000)
    row = jobs._cells(job_row(stored(pool), pool.a))
    written = io.StringIO()
    terminal = console(file=written, width=width)
    terminal.print(drawn(jobs.COLUMNS, [row], jobs.GIVING_WAY, width))
    head, line = written.getvalue().splitlines()

    assert max(len(head), len(line)) <= width
    assert "300/1000" in line
    assert "2 min 36 s" in line
    assert ("1 min 28 s – 5 min 50 s" in line) is (width == 140)


def test_programs_get_all_of_it() -> None:
    """In milliseconds; None where it is unknown."""
    pool = uneven(steps=1_000)
    known = msgspec.to_builtins(job_row(stored(pool), pool.a))
    assert (known["step"], known["steps_total"]) == (300, 1_000)
    assert known["remaining_ms"] == {"p50": 155_556, "low": 87_500, "high": 350_000}
    assert known["cpu_ms_left"] == 70_000
    pool = uneven()
    unknown = msgspec.to_builtins(job_row(stored(pool), pool.a))
    assert (unknown["steps_total"], unknown["remaining_ms"], unknown["cpu_ms_left"]) == (None, None, None)


def test_a_job_that_ended_by_its_goal_says_so_and_what_it_saved() -> None:
    """For programs, also once it has ended; any other job has reached none."""
    pool = Trained(goal=c.Goal(below=0.1), steps=1_000)
    before = msgspec.to_builtins(job_row(stored(pool), pool.a))
    reached = c.GoalReached(job="a", incarnation=1, reason="loss < 0.1", value=0.05, cpu_ms_saved=80_000)
    pool.fold(reached)
    pool.carry_out("a")
    pool.fold(c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=85, reason="goal reached: loss < 0.1"))
    after = msgspec.to_builtins(job_row(stored(pool), pool.a))

    assert (before["goal_reached"], before["cpu_ms_saved"]) == ("", None)
    assert (after["goal_reached"], after["cpu_ms_saved"]) == ("loss < 0.1", 80_000)
    assert (after["phase"], after["outcome"]) == ("ended", "finished")


@pytest.mark.parametrize(("width", "shown"), [(80, "30 %"), (WITH_TIME_LEFT, "30 %, 2 min 36 s left")])
def test_the_live_view_and_explain_show_it(width: int, shown: str) -> None:
    """For as long as the job is not over."""
    pool = uneven(steps=1_000)
    written = io.StringIO()
    console(file=written, width=width).print(picture(RunTimeline.of(pool.log), width, 30))
    assert shown in written.getvalue()
    assert TimelineCollector("a").timeline(pool.view).progress.startswith("step 300/1000")
    pool.end("a")
    assert TimelineCollector("a").timeline(pool.view).progress == ""
