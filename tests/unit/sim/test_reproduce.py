"""Reproductions: how a figure is judged by hand cases, what a report holds, and that it is the same wherever it is made."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from steepest.cli.commands.reproduce import PAPER_NAMES
from steepest.cli.main import main
from steepest.sim.clusters import open_cluster
from steepest.sim.reproduce import papers, run
from steepest.sim.reproduce.course import Course
from steepest.sim.reproduce.experiment import Paper
from steepest.sim.reproduce.flowcon import FLOWCON
from steepest.sim.reproduce.measures import MEASURES, Pair, pair_of
from steepest.sim.reproduce.placement import first_nodes
from steepest.sim.reproduce.report import FILES, assumptions, figure
from steepest.sim.reproduce.specon import SPECON
from steepest.sim.reproduce.verdict import Estimate, Unit, Verdict, estimate, slack, verdict
from steepest.sim.result import JobResult, SimulationResult
from steepest.sim.workloads.read import open_workload

SMALL = msgspec.structs.replace(SPECON, experiments=(SPECON.experiments[0], FLOWCON.experiments[2]))
"""Twenty jobs with SpeCon and five with FlowCon."""

SCRIPT = """
import sys
from pathlib import Path
from tests.unit.sim.test_reproduce import SMALL
from steepest.sim.reproduce import report, run
if __name__ == "__main__":
    results = list(run.done(run.tasks(SMALL, 3), int(sys.argv[2])))
    report.write(run.reproduction(SMALL, 3, results), Path(sys.argv[1]))
"""


# --- figures ----------------------------------------------------------------------------------------------------------


def test_an_estimate_by_hand() -> None:
    """Of 1, 2 and 3: mean 2, deviation 1, and t(0.975; 2) = 4.302653 times 1/√3 to both sides."""
    assert estimate([1.0, 2.0, 3.0]) == Estimate(2.0, -0.484138, 4.484138, 1.0)
    assert estimate([5.0]) == Estimate(5.0, 5.0, 5.0, 0.0)
    assert estimate([4.0, 4.0]) == Estimate(4.0, 4.0, 4.0, 0.0)


@pytest.mark.parametrize(
    ("published", "unit", "expected"),
    [
        (100.0, Unit.SECONDS, Verdict.WITHIN),
        (114.5, Unit.SECONDS, Verdict.WITHIN),  # 110 + 5 % of 114.5 is 115.7
        (116.0, Unit.SECONDS, Verdict.BETTER),  # … and 115.8 does not reach 116
        (86.0, Unit.SECONDS, Verdict.WITHIN),
        (85.0, Unit.SECONDS, Verdict.WORSE),
        (115.0, Unit.PERCENT, Verdict.WITHIN),
        (115.1, Unit.PERCENT, Verdict.BETTER),
        (85.0, Unit.PERCENT, Verdict.WITHIN),
        (84.9, Unit.PERCENT, Verdict.WORSE),
        (111.0, Unit.JOBS, Verdict.WITHIN),  # of 20 jobs, 5 % are one
        (112.0, Unit.JOBS, Verdict.WORSE),
        (88.0, Unit.JOBS, Verdict.BETTER),
        (None, Unit.SECONDS, Verdict.UNPUBLISHED),
    ],
)
def test_verdicts_by_hand(published: float | None, unit: Unit, expected: Verdict) -> None:
    """Ours is 100, with an interval from 90 to 110. More jobs are better, less of anything else."""
    assert verdict(Estimate(100.0, 90.0, 110.0, 20.0), published, unit, 20) is expected


def test_the_slack_is_the_spread_of_published_runs() -> None:
    """The thesis prints −8.0 % and −3.2 % for one setting: each is within an interval around the other."""
    assert slack(-8.0, Unit.PERCENT, 20) == pytest.approx(5.0)
    assert verdict(Estimate(-8.0, -8.0, -8.0, 0.0), -3.2, Unit.PERCENT, 20) is Verdict.WITHIN


PAIR = Pair([100.0, 200.0, 50.0, 80.0], [50.0, 220.0, 50.0, 60.0], 400.0, 300.0)

BY_HAND: Mapping[str, float] = {
    "default-mean": 107.5,
    "mean": 95.0,
    "mean-change": 100 * (95 / 107.5 - 1),
    "default-makespan": 400,
    "makespan": 300,
    "makespan-change": -25,
    "faster": 2,
    "not-slower": 3,
    "winners": -37.5,
    "losers": 5,
    "best": -50,
    "worst": 10,
    "default-median": 90,
    "median": 55,
    "default-p90": 200,
    "p90": 220,
    "default-early": 150,
    "early": 135,
    "default-late": 65,
    "late": 55,
    "default-last": 80,
    "last": 60,
    "last-change": -25,
}


@pytest.mark.parametrize("name", MEASURES)
def test_measures_by_hand(name: str) -> None:
    """Four jobs: two gain 50 and 25 %, one loses 10 %, one nothing."""
    assert MEASURES[name].of(PAIR) == pytest.approx(BY_HAND[name])


def test_the_45th_of_fifty() -> None:
    """Counted from one, of the sorted ones."""
    fifty = [float(number) for number in range(50, 0, -1)]

    assert MEASURES["p90"].of(Pair(fifty, fifty, 1.0, 1.0)) == 45


def test_where_nobody_loses_the_losers_lose_nothing() -> None:
    """And no mean is taken of none."""
    assert MEASURES["losers"].of(Pair([2.0, 2.0], [1.0, 1.0], 2.0, 1.0)) == 0
    assert MEASURES["winners"].of(Pair([1.0, 1.0], [2.0, 2.0], 1.0, 2.0)) == 0


def test_a_job_that_did_not_finish_makes_no_pair() -> None:
    """A figure that leaves it out would be better than it is."""
    one = SimulationResult(
        policy="spread",
        seed=0,
        jobs=[JobResult(name="a", submit_s=0.0, start_s=0.0, outcome="running")],
        used=0.0,
        capacity=1.0,
        events=0,
        wall_seconds=0.0,
    )

    with pytest.raises(ValueError, match="has not ended"):
        pair_of(one, one)


# --- experiments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paper", papers.PAPERS.values(), ids=lambda paper: paper.name)
def test_papers(paper: Paper) -> None:
    """Names are told apart, everything that is compared can be measured, and assumptions are sentences."""
    names = [one.name for one in paper.experiments]

    assert tuple(papers.PAPERS) == PAPER_NAMES
    assert len({*names}) == len(names)
    for experiment in paper.experiments:
        assert open_workload(experiment.workload, seed=0).jobs
        assert open_cluster(experiment.nodes).nodes
        for arm in experiment.arms:
            assert {name for name, _ in arm.published} <= {*MEASURES}
        assert len({arm.setting for arm in experiment.arms}) == len(experiment.arms)
    assert all(text.endswith(".") for text in paper.assumptions)


def test_first_nodes_are_drawn_for_each_job_and_seed() -> None:
    """All nodes are drawn about equally often; the same seed draws the same."""
    workload, cluster = open_workload("thesis:mixed-20", seed=0), open_cluster("4x8cpu")
    drawn = [first_nodes(workload, cluster, seed) for seed in range(100)]
    counts = [sum([*one.values()].count(node.name) for one in drawn) for node in cluster.nodes]

    assert sum(counts) == 2_000
    assert min(counts) > 400
    assert drawn[0] == first_nodes(workload, cluster, 0)
    assert drawn[0] != drawn[1]
    assert {*drawn[0]} == {job.name for job in workload.jobs}


def test_both_runs_of_a_pair_begin_alike() -> None:
    """Jobs start on the nodes that were drawn, with SpeCon and without; only with it any of them moves."""
    experiment = SPECON.experiments[0]
    courses = [
        Course({node.name: node.capacity.cpu_m for node in open_cluster("4x8cpu").nodes}, lists=False) for _ in "12"
    ]
    for arm, course in zip((None, experiment.arms[0]), courses, strict=True):
        run._run(experiment, arm, 0, course.notice)
    before, after = courses
    drawn = first_nodes(open_workload(experiment.workload, seed=0), open_cluster(experiment.nodes), 0)

    for course in courses:
        assert {job: places[0][1] for job, places in course.places.items()} == drawn
    assert not before.moves
    assert after.moves
    assert {job for job, places in after.places.items() if len(places) > 1} == {move.job for move in after.moves}
    assert {name for spells in after.categories.values() for _, name in spells} == {"PC", "WC", "CC"}
    assert all(value > 0 for line in after.efficiency.values() for _, value in line)


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_report_is_the_same_wherever_it_is_made(tmp_path: Path) -> None:
    """One process and two, under other hash seeds, write the same bytes; the report is what it promises to be."""
    root = Path(__file__).parents[3]
    for workers, hash_seed in ((1, "1"), (2, "2718")):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / str(workers)), str(workers)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)}
        subprocess.run(command, cwd=root, env=environment, check=True, timeout=110)
    for name in FILES:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name

    rows = json.loads((tmp_path / "1" / "results.json").read_bytes())
    with (tmp_path / "1" / "results.csv").open(newline="") as file:
        table = [*csv.DictReader(file)]
    assert [row["metric"] for row in rows] == [row["metric"] for row in table]
    assert len(rows) == sum(len(arm.published) for one in SMALL.experiments for arm in one.arms)
    for row in rows:
        assert {"experiment", "metric", "published", "ours", "low", "high", "verdict"} <= {*row}
        assert row["low"] <= row["ours"] <= row["high"]
    markdown = (tmp_path / "1" / "report.md").read_text()
    html = (tmp_path / "1" / "report.html").read_text()
    for text in assumptions(run.Reproduction(SMALL, 3, [], [])):
        assert f"- {text}\n" in markdown
    assert markdown.count("\n| ") == len(rows) + 1  # and the header
    assert html.count("<tr><td>") == len(rows)
    assert html.count("<svg") == len(SMALL.experiments)


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--json`` prints the rows and nothing else; the page asks nobody for anything."""
    small = msgspec.structs.replace(FLOWCON, experiments=FLOWCON.experiments[2:3])
    monkeypatch.setattr(papers, "PAPERS", {"flowcon": small})
    arguments = ["reproduce", "flowcon", "--repetitions", "2", "--jobs", "1", "--out", str(tmp_path)]
    printed = CliRunner().invoke(main, [*arguments, "--json"])
    shown = CliRunner().invoke(main, arguments)

    assert (printed.exit_code, shown.exit_code) == (0, 0), printed.output + shown.output
    assert printed.stdout_bytes == (tmp_path / "results.json").read_bytes()
    assert "flowcon-5" in shown.stdout
    assert "report.html" in shown.stdout.splitlines()[-1]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(FILES)
    html = (tmp_path / "report.html").read_text()
    assert {*re.findall(r"https?://[^\s\"'<>]+", html)} == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"<script|<link|<img|@import|url\((?!#)|src=", html)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """It is said before anything runs."""
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["reproduce", "specon", "--out", str(tmp_path / "file" / "below")])

    assert result.exit_code == 2
    assert "--out" in result.stderr


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything runs, in one line."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    result = CliRunner().invoke(main, ["reproduce", "specon", "--out", str(tmp_path)])

    assert result.exit_code == 2
    assert "matplotlib" in result.stderr
    assert "steepest[simulate]" in result.stderr


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (-14.74, Unit.PERCENT, "−14.7 %"),
        (8.1, Unit.PERCENT, "+8.1 %"),
        (1260.0, Unit.SECONDS, "1,260.0 s"),
        (11.0, Unit.JOBS, "11.0"),
        (None, Unit.JOBS, "–"),
    ],
)
def test_figures_as_people_write_them(value: float | None, unit: Unit, shown: str) -> None:
    """With a true minus, and a sign where it is a change."""
    assert figure(value, unit) == shown
