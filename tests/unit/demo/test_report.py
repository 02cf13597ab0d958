"""The report says what the log says, to people and to programs."""

from __future__ import annotations

import io

import msgspec
import pytest
from tests.harness.scenarios.log_builder import LogBuilder as Log
from tests.unit.demo.run import story

from steepest.cli.live.colours import CATEGORIES, GAIN, LOSS, OUTCOMES
from steepest.cli.live.headline import headline_of, t90_ms
from steepest.cli.printing.output import console
from steepest.cli.printing.tables import drawn
from steepest.events import cluster as c
from steepest.read_models.run_timeline import RunTimeline, TimelineJob
from steepest_lab.demo.beside.comparison import Pair, compare, comparison_table, verdicts
from steepest_lab.demo.report import JOBS_GIVE_WAY, course, job_table, move_table, result, summary
from steepest_lab.demo.workload import parameters

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
    log = Log().opened(n1=600).add(c.PoolConfigured(parameters=parameters("flowcon"))).running("a", "n1")
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

    compared = compare([Pair(first, second)], [])

    assert compared.policy == "SpeCon and FlowCon"
    assert comparison_table(compared)[0][1] == "#with SpeCon and FlowCon"


def test_job_table_has_a_row_for_each_job() -> None:
    """The mover's way and outcome; the job that waits has no times; the broken one says why."""
    columns, rows = job_table(story())
    table = [dict(zip(columns, row, strict=True)) for row in rows]

    assert [row["job"] for row in table] == ["mover", "stayer", "broken", "late"]
    assert (table[0]["nodes"], table[0]["outcome"]) == ("n1 → n2", ("finished", OUTCOMES[c.Outcome.FINISHED]))
    assert table[2]["outcome"] == ("failed: it exited with status 3", OUTCOMES[c.Outcome.FAILED])
    assert (table[3]["#waited"], table[3]["#completion"], table[3]["outcome"]) == ("", "", "not over")


def test_move_table_has_the_cost_of_each_move() -> None:
    """By which algorithm, how long in all, how long paused, and how many steps lost."""
    columns, [row] = move_table(story())
    move = dict(zip(columns, row, strict=True))

    assert (move["job"], move["from"], move["to"], move["by"]) == ("mover", "n1", "n2", "Algorithm 4")
    assert (move["#took"], move["#paused"], move["#steps lost"], move["outcome"]) == (
        "0.0 s",
        "0.0 s",
        "0",
        ("done", GAIN),
    )


def test_timeline_tells_each_category_in_seconds_of_the_jobs_life() -> None:
    """From the job's start on; the last one lasts to its end."""
    job = TimelineJob(name="a", model="", submitted_ms=0, started_ms=1_000, ended_ms=80_000)
    job.categories = ((1_000, PC), (7_000, WC), (9_400, CC))

    assert text(course(job)) == "PC 0-6s > WC 6-8s > CC 8-79s"
    assert [style for _, style in course(job)] == [CATEGORIES[PC], "", CATEGORIES[WC], "", CATEGORIES[CC]]


def test_timeline_of_a_job_that_runs_is_open() -> None:
    """The last category has no end yet."""
    job = TimelineJob(name="a", model="", submitted_ms=0, started_ms=0, categories=((0, PC),))

    assert text(course(job)) == "PC 0-"


def test_long_timeline_keeps_its_ends() -> None:
    """A job that goes to and fro shows how it began and where it ended, and how much lies between."""
    job = TimelineJob(name="a", model="", submitted_ms=0, started_ms=0, ended_ms=9_000)
    job.categories = ((0, PC), (1_000, WC), (2_000, PC), (3_000, WC), (4_000, PC), (5_000, WC))

    assert text(course(job)) == "PC 0-1s > WC 1-2s > 3 more > WC 5-9s"


@pytest.mark.parametrize("width", [80, 200])
def test_a_row_of_the_report_is_a_line_of_any_terminal(width: int) -> None:
    """With the categories, the completion time and the outcome; a wide one has everything."""
    job = TimelineJob(
        name="factorisation-1", model="matrix factorisation", submitted_ms=0, started_ms=1_900, ended_ms=119_000
    )
    job.categories = ((1_900, PC), (7_000, WC), (9_400, PC), (20_000, WC), (99_400, CC))
    job.first_node, job.outcome = "n1", c.Outcome.FINISHED
    timeline = RunTimeline()
    timeline.jobs[job.name] = job
    columns, rows = job_table(timeline)
    written = io.StringIO()
    terminal = console(file=written, width=width)
    terminal.print(drawn(columns, rows, JOBS_GIVE_WAY, width))
    _, *lines = written.getvalue().splitlines()

    assert len(lines) == 1
    assert len(lines[0]) <= width
    assert all(part in lines[0] for part in ("factorisation-1", "PC 0-5s > WC 5-7s", "1 min 59 s", "finished"))
    assert ("matrix factorisation" in lines[0]) is (width == 200)


def text(parts: list[tuple[str, str]]) -> str:
    """A cell without its styles."""
    return "".join(part for part, _ in parts)


def ended_after(seconds: dict[str, int]) -> RunTimeline:
    """A run in which each job ended so long after the submission of the first."""
    timeline = RunTimeline()
    for name, end_s in seconds.items():
        timeline.jobs[name] = TimelineJob(
            name=name, model="", submitted_ms=0, ended_ms=1_000 * end_s, outcome=c.Outcome.FINISHED
        )
    timeline.now_ms = 1_000 * max(seconds.values())
    return timeline


def pairs_of(*ends_s: tuple[int, int]) -> list[Pair]:
    """Pairs of runs of one job, each by its completion times with moves and without."""
    return [Pair(ended_after({"a": first}), ended_after({"a": second})) for first, second in ends_s]


def test_a_difference_is_claimed_where_the_interval_leaves_zero_out() -> None:
    """Pairs that agree show it, in both directions."""
    sooner = compare(pairs_of((10, 20), (11, 20), (9, 20)), [])
    later = compare(pairs_of((20, 10), (20, 11), (20, 9)), [])

    assert [measure.shows for measure in sooner.measures] == [True, True, True]
    assert verdicts(sooner)[0].startswith("mean completion time: 10.0 s shorter with ")
    assert verdicts(later)[2].startswith("makespan: 10.0 s longer with ")


def test_no_verdict_where_the_interval_contains_zero() -> None:
    """Pairs that differ from each other as much as their arms do show nothing; nor do fewer than three."""
    compared = compare(pairs_of((10, 20), (20, 10), (15, 14)), [])

    assert [measure.shows for measure in compared.measures] == [False, False, False]
    assert verdicts(compared)[0].startswith(
        "mean completion time: no verdict, the interval contains zero (+0.3 s; 95 % "
    )
    assert verdicts(compare(pairs_of((10, 20), (10, 20)), []))[0].endswith("no verdict, from fewer than 3 pairs")


def test_a_comparison_ends_with_the_tail() -> None:
    """How many jobs end more than 5 % later in the mean of the pairs, and the one that does most."""
    pairs = [
        Pair(ended_after({"a": first, "b": 50, "c": 104}), ended_after({"a": 100, "b": 100, "c": 100}))
        for first in (110, 120, 130)
    ]
    late = compare(pairs, []).late

    assert late is not None
    assert (late.jobs, late.of, late.worst_job, round(late.worst, 6)) == (1, 3, "a", 0.2)
    assert verdicts(compare(pairs, []))[-1].startswith("Jobs more than 5 % later than under fair sharing: 1 of 3; ")


def test_comparison_lists_figures_and_jobs() -> None:
    """Means over the pairs; a job that never ended in one arm has no time there and no difference."""
    second = ended_after({"a": 16, "b": 20})
    second.jobs["b"].ended_ms = second.jobs["b"].outcome = None
    _, rows = comparison_table(compare([Pair(ended_after({"a": 10, "b": 30}), second)], []))

    assert rows[-2:] == [["a", "10.0 s", "16.0 s", ("-6.0 s", GAIN)], ["b", "30.0 s", "", ""]]
    assert rows[0] == ["mean completion time", "20.0 s", "16.0 s", ("+4.0 s", LOSS)]


@pytest.mark.parametrize(
    ("means", "t90"),
    [
        ([4.0, 2.0, 1.2, 1.0], 25_000),
        ([4.0, 1.0, 1.0], 15_000),
        ([1.0, 1.0], None),
        ([1.0, 2.0], None),
        ([1.0], None),
        ([], None),
        ([4.0, 1.1, 3.0, 1.0], 15_000),
    ],
)
def test_t90_is_when_most_of_the_loss_is_gone(means: list[float], t90: int | None) -> None:
    """From the submission to the first interval with 90 % of the job's own reduction; a loss that never fell has none."""
    times = [5_000 + 10_000 * place for place in range(len(means))]
    assert t90_ms(TimelineJob(name="a", model="", submitted_ms=0, means=means, measured_ms=times)) == t90


def test_headline_is_over_jobs_that_finished() -> None:
    """One that failed soon makes no mean better; before the first end there is no figure."""
    timeline = ended_after({"a": 10, "b": 30})
    timeline.jobs["b"].outcome = c.Outcome.FAILED
    figures = headline_of(timeline)

    assert (figures.t90_s, figures.completion_s, figures.median_s, figures.makespan_s) == (None, 10.0, 10.0, 10.0)
    assert headline_of(RunTimeline()).completion_s is None
    assert headline_of(ended_after({"a": 10, "b": 30, "c": 80})).median_s == 30.0


def test_nothing_at_all_can_be_reported() -> None:
    """A run that was interrupted before its first job has empty tables and zeros."""
    timeline = RunTimeline.of(Log().opened(n1=600).records)

    assert job_table(timeline)[1] == move_table(timeline)[1] == []
    assert summary(timeline, "", "").jobs == 0
