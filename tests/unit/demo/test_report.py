"""The report says what the log says, to people and to programs."""

from __future__ import annotations

import msgspec
from tests.unit.demo.run import story

from steepest.demo.comparison import compare, comparison_table, verdict
from steepest.demo.report import job_table, move_table, result, summary, timeline
from steepest.demo.run_timeline import JobStory, RunTimeline
from steepest.demo.workload import parameters
from steepest.events import cluster as c
from steepest.testing.scenarios.log_builder import LogBuilder as Log

PC, WC, CC = c.Category


def test_summary_has_the_figures_that_programs_read() -> None:
    """Counts of jobs, moves, stays and lost steps, the length of the run, and where its recording is."""
    timeline = story()
    figures = msgspec.to_builtins(summary(timeline, "state/log", "state"))

    assert {name: figures[name] for name in ("jobs", "finished", "failed", "cancelled")} == {
        "jobs": 4, "finished": 1, "failed": 1, "cancelled": 0,
    }  # fmt: skip
    assert (figures["migrations"], figures["stays"], figures["rebalances"], figures["steps_lost"]) == (1, 1, 0, 0)
    assert figures["seconds"] == (timeline.now_ms - timeline.began_ms) / 1000
    assert figures["recording"] == "state/log"
    assert [job["job"] for job in figures["per_job"]] == ["mover", "stayer", "broken", "late"]
    assert figures["per_job"][0]["nodes"] == ["n1", "n2"]
    assert [move["target"] for move in figures["moves"]] == ["n2"]


def test_result_is_a_sentence() -> None:
    """Everything that counts is in one line, failures too."""
    assert result(story()).startswith("1 of 4 jobs finished, 1 failed in ")
    assert result(story()).endswith(": 1 move, 1 stay, no step lost")


def test_limits_are_told_where_flowcon_is_on() -> None:
    """How often one came in force, of all jobs and of each; a limit that is taken away is no limit."""
    log = Log().opened(n1=600).add(c.PoolConfigured(reads=2, parameters=parameters("flowcon"))).running("a", "n1")
    for plan, cpu_m in (("p", 200), ("q", None)):
        limit = c.JobLimit("a", 1, c.GrowthList.COMPLETING, cpu_m)
        because = c.LimitsBecause(rule="written by hand")
        log.add(
            c.LimitsPlanned(plan=plan, node="n1", limits=(limit,), because=because),
            c.LimitsApplied(plan=plan, node="n1", job="a", incarnation=1, cpu_m=cpu_m),
        )
    timeline = RunTimeline.of(log.records)
    figures = summary(timeline, "", "")

    assert result(timeline).endswith("no step lost, 1 limit set")
    assert figures.limits == 1
    assert [cpu_m for cpu_m, _ in figures.per_job[0].limits] == [200, None]


def test_comparison_names_the_policy() -> None:
    """What the first run was under, by the parameters in its log."""
    first, second = ended_after({"a": 10}), ended_after({"a": 16})
    first.view.state.parameters = parameters("specon+flowcon")

    compared = compare(first, second, "")

    assert compared.policy == "SpeCon and FlowCon"
    assert comparison_table(compared)[0][1] == "#with SpeCon and FlowCon"
    assert verdict(compared).startswith("with SpeCon and FlowCon 1 job took less time")


def test_job_table_has_a_row_for_each_job() -> None:
    """The mover's way and outcome; the job that waits has no times; the broken one says why."""
    columns, rows = job_table(story())
    table = [dict(zip(columns, row, strict=True)) for row in rows]

    assert [row["job"] for row in table] == ["mover", "stayer", "broken", "late"]
    assert (table[0]["nodes"], table[0]["outcome"]) == ("n1 → n2", "finished")
    assert table[2]["outcome"] == "failed: it exited with status 3"
    assert (table[3]["#waited"], table[3]["#completion"], table[3]["outcome"]) == ("", "", "not over")


def test_move_table_has_the_cost_of_each_move() -> None:
    """By which algorithm, how long in all, how long paused, and how many steps lost."""
    columns, [row] = move_table(story())
    move = dict(zip(columns, row, strict=True))

    assert (move["job"], move["from"], move["to"], move["by"]) == ("mover", "n1", "n2", "Algorithm 4")
    assert (move["#took"], move["#paused"], move["#steps lost"], move["outcome"]) == ("0.0 s", "0.0 s", "0", "done")


def test_timeline_tells_each_category_in_seconds_of_the_jobs_life() -> None:
    """From the job's start on; the last one lasts to its end."""
    job = JobStory(name="a", model="", submitted_ms=0, started_ms=1_000, ended_ms=80_000)
    job.categories = [(1_000, PC), (7_000, WC), (9_400, CC)]

    assert timeline(job) == "PC 0-6s > WC 6-8s > CC 8-79s"


def test_timeline_of_a_job_that_runs_is_open() -> None:
    """The last category has no end yet."""
    job = JobStory(name="a", model="", submitted_ms=0, started_ms=0, categories=[(0, PC)])

    assert timeline(job) == "PC 0-"


def test_long_timeline_keeps_its_ends() -> None:
    """A job that goes to and fro shows how it began and where it ended, and how much lies between."""
    job = JobStory(name="a", model="", submitted_ms=0, started_ms=0, ended_ms=9_000)
    job.categories = [(0, PC), (1_000, WC), (2_000, PC), (3_000, WC), (4_000, PC), (5_000, WC)]

    assert timeline(job) == "PC 0-1s > WC 1-2s > 3 more > WC 5-9s"


def ended_after(seconds: dict[str, int]) -> RunTimeline:
    """A run in which each job ended so long after the submission of the first."""
    timeline = RunTimeline()
    for name, end_s in seconds.items():
        timeline.jobs[name] = JobStory(name=name, model="", submitted_ms=0, ended_ms=1_000 * end_s)
    timeline.now_ms = 1_000 * max(seconds.values())
    return timeline


def test_comparison_says_what_came_out_also_where_it_is_worse() -> None:
    """Times stand side by side; one job took less with moves, one more, and on the whole it was longer."""
    compared = compare(ended_after({"a": 10, "b": 30}), ended_after({"a": 16, "b": 20}), "second/log")
    _, rows = comparison_table(compared)

    assert rows == [
        ["a", "10.0 s", "16.0 s", "-6.0 s"],
        ["b", "30.0 s", "20.0 s", "+10.0 s"],
        ["mean of the jobs", "20.0 s", "18.0 s", "+2.0 s"],
        ["the whole run", "30.0 s", "20.0 s", "+10.0 s"],
    ]
    assert (compared.shorter, compared.longer) == (1, 1)
    assert "1 job took less time and 1 more; the mean completion time was 2.0 s longer" in verdict(compared)


def test_comparison_leaves_out_what_did_not_end() -> None:
    """A job that ended in one run only is shown with what there is, and is in no mean."""
    without = ended_after({"a": 16, "b": 20})
    without.jobs["b"].ended_ms = None

    compared = compare(ended_after({"a": 10, "b": 30}), without, "")

    assert comparison_table(compared)[1][1] == ["b", "30.0 s", "", ""]
    assert (compared.mean_with_moves_s, compared.mean_without_moves_s) == (10.0, 16.0)


def test_nothing_at_all_can_be_reported() -> None:
    """A run that was interrupted before its first job has empty tables and zeros."""
    timeline = RunTimeline.of(Log().opened(n1=600).records)

    assert job_table(timeline)[1] == move_table(timeline)[1] == []
    assert summary(timeline, "", "").jobs == 0
