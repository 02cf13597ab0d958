"""A run beside fair sharing that is simulated from its recording: how wrong that is, and what it then shows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.harness.system.rig import events_of
from tests.unit.demo.run import story as unfinished

from steepest.events import cluster as c
from steepest.invariants.checkers.fair_end import FairEnd
from steepest.invariants.folds import LogFolds
from steepest.log.files.file_log import FileLog
from steepest.read_models.run_timeline import RunTimeline, TimelineJob
from steepest_lab.demo.beside.lateness import in_words, lateness
from steepest_lab.demo.beside.what_if import DemoWhatIf, compared, what_if, what_if_table, what_if_words
from steepest_lab.demo.workload import parameters

GOLDEN = Path(__file__).parents[2] / "golden"


async def recorded(name: str) -> DemoWhatIf:
    """What is found for one of the golden recordings."""
    log = FileLog.open(GOLDEN / name, read_only=True)
    try:
        events = await events_of(log)
        return await what_if(log, events, RunTimeline.of(events))
    finally:
        await log.close()


def ended(policy: str = "steepest", **seconds: float) -> RunTimeline:
    """A run under a policy in which each job took so long."""
    timeline = RunTimeline()
    timeline.view.state.parameters = parameters(policy)
    for name, took_s in seconds.items():
        timeline.jobs[name] = TimelineJob(
            name=name, model="", submitted_ms=0, ended_ms=round(1000 * took_s), outcome=c.Outcome.FINISHED
        )
    return timeline


async def test_a_recording_is_compared_with_fair_sharing_and_says_how_well_it_is_simulated() -> None:
    """The demo under SpeCon: its simulation is near the run, and fair sharing differs."""
    found = await recorded("moves")
    figures = {figure.name: figure for figure in found.figures}

    assert (found.why_not, found.policy) == ("", "SpeCon")
    assert found.error is not None
    assert 0 < found.error <= 0.12
    assert set(figures) == {"completion_s", "median_s", "makespan_s", "t90_s"}
    assert figures["completion_s"].again_s == pytest.approx(figures["completion_s"].measured_s, rel=0.06)
    assert abs(figures["completion_s"].change) > 0.01
    assert all(figure.error >= found.error for figure in found.figures)
    assert found.late is not None
    assert found.late.of == 12


async def test_a_gang_that_gave_way_is_simulated_too() -> None:
    """It was suspended for an urgent one, resumed and scaled by hand, which is not repeated."""
    found = await recorded("gangs")

    assert found.why_not == ""
    assert found.late is not None
    assert found.late.of == 2


def test_a_change_shows_something_where_it_is_larger_than_the_error() -> None:
    """The error is that of the completion times, or that of the figure where that is larger."""
    real = ended(a=10, b=20, c=30)
    again = ended(a=11, b=22, c=33)
    half = compared(real, again, ended(a=22, b=44, c=66))
    tenth = compared(real, again, ended(a=12, b=24, c=36))

    assert half.error == pytest.approx(0.1)
    assert [(figure.name, figure.shows) for figure in half.figures] == [
        ("completion_s", True), ("median_s", True), ("makespan_s", True),
    ]  # fmt: skip
    assert half.figures[0].change == pytest.approx(-0.5)
    assert not any(figure.shows for figure in tenth.figures)
    assert [row[-1] for row in what_if_table(half)[1]] == ["sooner"] * 3
    assert [row[-1] for row in what_if_table(tenth)[1]] == ["nothing"] * 3


def test_errors_of_jobs_do_not_cancel() -> None:
    """One job a half too late and one a half too early: the means agree, and the error is a half all the same."""
    found = compared(ended(a=10, b=10), ended(a=15, b=5), ended(a=15, b=15))

    assert found.error == pytest.approx(0.5)
    assert not found.figures[0].shows


async def test_the_tail_is_the_one_that_check_measures() -> None:
    """From the recording alone, by the CPU that the nodes gave: one definition, and nothing of it is simulated."""
    log = FileLog.open(GOLDEN / "moves", read_only=True)
    checker = FairEnd(LogFolds())
    for event in await events_of(log):
        checker.feed(event)
    await log.close()
    found = await recorded("moves")

    assert found.late is not None
    assert found.late.of == 12
    assert found.late.worst == max(checker.later().values())


def test_a_tail_is_said_in_words() -> None:
    """How many are late, and which one most."""
    late = lateness({"a": 22, "b": 9}, {"a": 20, "b": 10})

    assert late is not None
    assert in_words(late) == (
        "Jobs more than 5 % later than under fair sharing: 1 of 2; the most delayed one is a, by 10 %"
    )
    assert lateness({"a": 1}, {"b": 1}) is None


def test_no_job_that_ends_sooner_is_called_delayed() -> None:
    """Where all end sooner, none is named."""
    late = lateness({"a": 5}, {"a": 10})

    assert late is not None
    assert in_words(late) == "Jobs more than 5 % later than under fair sharing: 0 of 1"


async def test_a_run_with_a_job_that_failed_is_not_compared() -> None:
    """It says why, and how else to find out."""
    log = FileLog.open(GOLDEN / "moves", read_only=True)
    try:
        found = await what_if(log, (), unfinished())
    finally:
        await log.close()

    assert found.figures == []
    assert what_if_words(found) == [
        "No comparison with fair sharing: it takes a run in which every job finished. `--compare` runs both for real."
    ]
    assert "why_not" in msgspec.to_builtins(found)
