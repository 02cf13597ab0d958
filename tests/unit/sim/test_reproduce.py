"""Reproductions: verdicts by hand cases, the content of a report, and equal bytes in any process."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import json
import math
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from steepest.cli.main import main
from steepest_lab.commands.reproduce import PAPER_NAMES, _show
from steepest_lab.reproduce import papers
from steepest_lab.reproduce.experiments import run
from steepest_lab.reproduce.experiments.course import Course
from steepest_lab.reproduce.experiments.experiment import Experiment, Paper
from steepest_lab.reproduce.experiments.flowcon import FLOWCON
from steepest_lab.reproduce.experiments.forest import forest
from steepest_lab.reproduce.experiments.measures import DEFAULTS, MEASURES, BeforeAfter, pair_of
from steepest_lab.reproduce.experiments.placement import Start, first_nodes
from steepest_lab.reproduce.experiments.plots import drawn
from steepest_lab.reproduce.experiments.report import FILES, assumptions, figure, tables, tally, write
from steepest_lab.reproduce.experiments.run import Part, Reproduction
from steepest_lab.reproduce.experiments.specon import SPECON
from steepest_lab.reproduce.verdict import BAND, Agreement, Unit, verdict
from steepest_lab.sim.estimate import Estimate, estimate
from steepest_lab.sim.losses.thesis import CONTENTION
from steepest_lab.sim.result import JobResult, SimulationResult

FIXED_20, FLOWCON_3 = SPECON.experiments[0], FLOWCON.experiments[0]

ONE_SETTING = msgspec.structs.replace(FLOWCON_3, arms=FLOWCON_3.arms[1:2], drawn=0)

BOTH_STARTS = msgspec.structs.replace(FIXED_20, pattern=FLOWCON_3.pattern, cluster="4x8cpu")

SMALL = msgspec.structs.replace(FLOWCON, experiments=(ONE_SETTING,), sensitivity=(BOTH_STARTS,))
"""Three jobs with FlowCon on one node; beside them, not judged nor pictured, with SpeCon on four nodes from both starts."""

REPETITIONS = 2

SCRIPT = """
import sys
from pathlib import Path
import msgspec
from steepest_lab.reproduce.experiments import report, run
from steepest_lab.reproduce.experiments.flowcon import FLOWCON
from steepest_lab.reproduce.experiments.specon import SPECON
if __name__ == "__main__":
    three = FLOWCON.experiments[0]
    three = msgspec.structs.replace(three, arms=three.arms[1:2], drawn=0)
    both = msgspec.structs.replace(SPECON.experiments[0], pattern="flowcon-3", cluster="4x8cpu")
    small = msgspec.structs.replace(FLOWCON, experiments=(three,), sensitivity=(both,))
    results = list(run.done(run.tasks(small, 2), 2))
    report.write(run.reproduction(small, 2, results), Path(sys.argv[1]))
"""
"""The same, on two processes; it imports nothing of the tests."""


class Made(msgspec.Struct):
    """A reproduction and the files that it leaves behind."""

    reproduction: Reproduction
    folder: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """That of the small paper, made once, in this process."""
    results = list(run.done(run.tasks(SMALL, REPETITIONS), 1))
    reproduction = run.reproduction(SMALL, REPETITIONS, results)
    folder = tmp_path_factory.mktemp("report")
    write(reproduction, folder)
    return Made(reproduction, folder)


# --- figures ----------------------------------------------------------------------------------------------------------


def test_an_estimate_by_hand() -> None:
    """Of 1, 2 and 3: mean 2, deviation 1, and t(0.975; 2) = 4.302653 times 1/√3 to both sides."""
    assert estimate([1.0, 2.0, 3.0]) == Estimate(2.0, -0.484138, 4.484138, 1.0)
    assert estimate([4.0, 4.0]) == Estimate(4.0, 4.0, 4.0, 0.0)


def test_one_repetition_says_nothing() -> None:
    """Its interval has no bounds, so that no effect is within."""
    assert estimate([5.0]) == Estimate(5.0, -math.inf, math.inf, 0.0)
    assert verdict(estimate([5.0]), 5.0, Unit.PERCENT, 20) is Agreement.INCONCLUSIVE


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-15.9, -8.1, Agreement.WITHIN),  # the band around −12 is −16 to −8
        (-16.1, -8.1, Agreement.INCONCLUSIVE),
        (-9.0, 5.0, Agreement.INCONCLUSIVE),
        (-20.0, 2.0, Agreement.INCONCLUSIVE),  # as wide as any effect
        (-18.0, -17.0, Agreement.BETTER),
        (-24.9, -23.0, Agreement.BETTER),
        (-25.0, -24.0, Agreement.OVERSHOOTS),
        (-7.0, -5.0, Agreement.WORSE),
        (-7.0, 1.0, Agreement.WORSE),
        (-1.0, 3.0, Agreement.WORSE),  # the other sign, and zero is in the interval
        (0.1, 3.0, Agreement.OPPOSITE),
    ],
)
def test_verdicts_on_a_cut_by_hand(low: float, high: float, expected: Agreement) -> None:
    """−12 % was published."""
    assert verdict(Estimate((low + high) / 2, low, high, 1.0), -12.0, Unit.PERCENT, 20) is expected


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (9.0, Agreement.WITHIN),
        (4.0, Agreement.BETTER),
        (15.0, Agreement.WORSE),
        (19.0, Agreement.OVERSHOOTS),
        (-1.0, Agreement.OPPOSITE),
    ],
)
def test_verdicts_on_a_rise_by_hand(ours: float, expected: Agreement) -> None:
    """+9 % was published: less is better, but a fall is another effect."""
    assert verdict(Estimate(ours, ours - 0.1, ours + 0.1, 1.0), 9.0, Unit.PERCENT, 20) is expected


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (15.0, Agreement.WITHIN),
        (16.5, Agreement.WITHIN),
        (17.0, Agreement.BETTER),
        (13.0, Agreement.WORSE),
        (9.0, Agreement.OPPOSITE),
        (20.1, Agreement.OVERSHOOTS),
    ],
)
def test_verdicts_on_numbers_of_jobs_by_hand(ours: float, expected: Agreement) -> None:
    """15 of 20 are faster: 5 beyond the half that are so without any effect, and more is better."""
    assert verdict(Estimate(ours, ours, ours, 0.0), 15.0, Unit.JOBS, 20) is expected


def test_a_printed_range_is_the_band() -> None:
    """−1 to −5 % over all settings."""
    assert verdict(Estimate(-4.8, -4.9, -4.7, 0.1), -3.0, Unit.PERCENT, 5, 2.0) is Agreement.WITHIN
    assert verdict(Estimate(-5.2, -5.3, -5.1, 0.1), -3.0, Unit.PERCENT, 5, 2.0) is Agreement.BETTER


EFFECTS = st.floats(0.5, 100).flatmap(lambda size: st.sampled_from((size, -size)))


@given(published=EFFECTS, mean=st.floats(-200, 200), half=st.floats(0, 100), more=st.floats(0, 100))
def test_a_wider_interval_is_never_more_within(published: float, mean: float, half: float, more: float) -> None:
    """And one that is as wide as the effect is not within at all."""
    intervals = [Estimate(mean, mean - width, mean + width, 1.0) for width in (half, half + more)]
    narrow, wide = (verdict(ours, published, Unit.PERCENT, 20) for ours in intervals)

    assert wide is not Agreement.WITHIN or narrow is Agreement.WITHIN
    assert wide in {narrow, Agreement.INCONCLUSIVE, *_WEAKER.get(narrow, ())}
    if 2 * half >= abs(published):
        assert narrow is not Agreement.WITHIN


_WEAKER = {Agreement.OPPOSITE: (Agreement.WORSE, Agreement.BETTER)}
"""What is left of a verdict when zero comes into the interval."""


@given(published=EFFECTS)
def test_no_effect_is_never_within(published: float) -> None:
    """The slack is in proportion to the effect, however small that is."""
    assert verdict(Estimate(0.0, 0.0, 0.0, 0.0), published, Unit.PERCENT, 20) is not Agreement.WITHIN


STUDIES = 150


def _share_within(repetitions: int, true: float, draws: random.Random) -> float:
    """How often an effect of −10, of which single runs deviate by 4, is within, where ours is truly ``true``."""
    verdicts = []
    for _ in range(STUDIES):
        ours = estimate([draws.gauss(true, 4.0) for _ in range(repetitions)])
        verdicts.append(verdict(ours, -10.0, Unit.PERCENT, 20))
    return verdicts.count(Agreement.WITHIN) / len(verdicts)


@pytest.mark.parametrize("true", [-10.0, -9.0, -8.0])
def test_fewer_repetitions_are_less_often_within(true: float) -> None:
    """Where ours is truly in the band; but for what the studies leave to chance."""
    draws = random.Random(1)
    shares = [_share_within(count, true, draws) for count in (2, 3, 5, 10, 30, 100)]

    assert all(more > fewer - 0.03 for fewer, more in itertools.pairwise(shares))
    assert shares[0] < 0.1
    assert shares[-1] > 0.8


@pytest.mark.parametrize("true", [-16.0, -6.0, 0.0])
def test_what_is_not_so_is_rarely_within_with_any_number_of_repetitions(true: float) -> None:
    """Where ours is truly out of the band: of all studies, at most one in twenty."""
    draws = random.Random(2)

    assert abs(true + 10) > 10 * BAND
    assert all(_share_within(count, true, draws) < 0.05 for count in (2, 3, 5, 10, 30))


PAIR = BeforeAfter([100.0, 200.0, 50.0, 80.0], [50.0, 220.0, 50.0, 60.0], 400.0, 300.0)

BY_HAND: Mapping[str, float] = {
    "mean-change": 100 * (95 / 107.5 - 1),
    "median-change": 100 * (55 / 90 - 1),
    "p90-change": 10,
    "early-change": -10,
    "late-change": 100 * (55 / 65 - 1),
    "last-change": -25,
    "makespan-change": -25,
    "faster": 2.5,
    "winners": -37.5,
    "losers": 10,
    "winners-s": -35,
    "losers-s": 20,
    "best": -50,
    "worst": 10,
}

DEFAULT_BY_HAND: Mapping[str, float] = {
    "mean": 107.5,
    "median": 90,
    "p90": 200,
    "early": 150,
    "late": 65,
    "last": 80,
    "makespan": 400,
}


@pytest.mark.parametrize("name", MEASURES)
def test_measures_by_hand(name: str) -> None:
    """Four jobs: two gain 50 and 25 %, one loses 10 %, one nothing, which counts half."""
    assert MEASURES[name].of(PAIR) == pytest.approx(BY_HAND[name])


@pytest.mark.parametrize("name", DEFAULTS)
def test_figures_of_the_default_run_by_hand(name: str) -> None:
    """They do not depend on the policy."""
    assert DEFAULTS[name].of(PAIR) == pytest.approx(DEFAULT_BY_HAND[name])


def test_the_45th_of_fifty() -> None:
    """Counted from one, of the sorted ones."""
    fifty = [float(number) for number in range(50, 0, -1)]

    assert DEFAULTS["p90"].of(BeforeAfter(fifty, fifty, 1.0, 1.0)) == 45


def test_without_losers_the_losers_lose_nothing() -> None:
    """The mean over no losers is 0."""
    assert MEASURES["losers"].of(BeforeAfter([2.0, 2.0], [1.0, 1.0], 2.0, 1.0)) == 0
    assert MEASURES["winners"].of(BeforeAfter([1.0, 1.0], [2.0, 2.0], 1.0, 2.0)) == 0


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


@pytest.mark.parametrize("paper", papers.SIMULATED.values(), ids=lambda paper: paper.name)
def test_papers(paper: Paper) -> None:
    """Names differ, everything that is compared can be measured and has an effect, and assumptions are sentences."""
    experiments = [*paper.experiments, *paper.sensitivity]

    assert tuple(papers.SIMULATED) == PAPER_NAMES
    assert len({one.name for one in experiments}) == len(experiments)
    for experiment in experiments:
        workload = experiment.jobs(experiment.starts[0], 0)
        assert {one.measure for one in experiment.default} <= {*DEFAULTS}
        for arm in experiment.arms:
            for one in arm.published:
                nothing = len(workload.jobs) / 2 if MEASURES[one.measure].unit is Unit.JOBS else 0
                assert one.value is None or one.value != nothing
        assert len({arm.setting for arm in experiment.arms}) == len(experiment.arms)
    assert all(text.endswith(".") for text in paper.assumptions)


def test_the_nodes_of_an_experiment() -> None:
    """They contend as the three jobs show it; SpeCon's give their jobs 80 % of their CPU."""
    for paper, usable in ((SPECON, 0.8), (FLOWCON, 1.0)):
        for experiment in paper.experiments:
            assert {(node.contention, node.usable) for node in experiment.nodes().nodes} == {(CONTENTION, usable)}


def test_every_experiment_on_several_nodes_is_run_from_both_starts() -> None:
    """And those on one node from the only one there is."""
    for experiment in (*SPECON.experiments, *FLOWCON.experiments):
        several = len(experiment.nodes().nodes) > 1
        assert experiment.starts == ((Start.EVEN, Start.UNEVEN) if several else (Start.ONE_NODE,))


def _counts(experiment: Experiment, start: Start, seed: int) -> list[int]:
    nodes = experiment.nodes()
    placed = [*first_nodes(experiment.jobs(start, seed), nodes, start, seed).values()]
    return [placed.count(node.name) for node in nodes.nodes]


def test_starts() -> None:
    """Even: node after node. Uneven: as the thesis' 6, 3, 2 and 2, which jobs being drawn."""
    mixed_50 = SPECON.experiments[-1]
    workload, nodes = FIXED_20.jobs(Start.UNEVEN, 0), FIXED_20.nodes()
    uneven = [first_nodes(workload, nodes, Start.UNEVEN, seed) for seed in (0, 0, 1)]

    assert _counts(FIXED_20, Start.EVEN, 0) == [5, 5, 5, 5]
    assert _counts(FIXED_20, Start.UNEVEN, 0) == [10, 4, 3, 3]
    assert _counts(mixed_50, Start.UNEVEN, 0) == _counts(mixed_50, Start.UNEVEN, 1)
    assert uneven[0] == uneven[1] != uneven[2]
    assert {*uneven[0]} == {job.name for job in workload.jobs}


def test_both_runs_of_a_pair_begin_alike() -> None:
    """Jobs start on the nodes that they are dealt to, with SpeCon and without; only with it any of them moves."""
    experiment, start = FIXED_20, Start.UNEVEN
    courses = [Course({node.name: node.capacity.cpu_m for node in experiment.nodes().nodes}, lists=False) for _ in "12"]
    for arm, course in zip((None, experiment.arms[0]), courses, strict=True):
        run.ran(experiment, arm, start, 0, course.notice)
    before, after = courses
    dealt = first_nodes(experiment.jobs(start, 0), experiment.nodes(), start, 0)

    for course in courses:
        assert {job: places[0][1] for job, places in course.places.items()} == dealt
    assert not before.moves
    assert after.moves
    assert {job for job, places in after.places.items() if len(places) > 1} == {move.job for move in after.moves}
    assert {name for spells in after.categories.values() for _, name in spells} == {"PC", "WC", "CC"}
    assert all(value > 0 for line in after.efficiency.values() for _, value in line)


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_report_is_the_same_wherever_it_is_made(made: Made, tmp_path: Path) -> None:
    """One process and two, under another hash seed, write the same bytes."""
    environment = {**os.environ, "PYTHONHASHSEED": "2718"}
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], env=environment, check=True, timeout=110)

    for name in FILES:
        assert (made.folder / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_what_a_report_holds(made: Made) -> None:
    """All rows, all assumptions, a picture of each experiment, the forest plot, and nothing that asks for anything."""
    rows = json.loads((made.folder / "results.json").read_bytes())
    with (made.folder / "results.csv").open(newline="") as file:
        table = [*csv.DictReader(file)]
    markdown, html = ((made.folder / name).read_text() for name in ("report.md", "report.html"))
    lines = sum(
        len(one.default) + sum(len(arm.published) for arm in one.arms)
        for one in (*SMALL.experiments, *SMALL.sensitivity)
    )

    assert [row["metric"] for row in rows] == [row["metric"] for row in table]
    assert all(row["low"] <= row["ours"] <= row["high"] for row in rows)
    assert {row["start"] for row in rows} == {start.value for start in Start}
    assert all(f"- {text}\n" in markdown for text in assumptions(made.reproduction))
    assert html.count("<tr><td>") == lines
    assert len(re.findall(r"^\| (?:fixed|flowcon)", markdown, re.MULTILINE)) == lines
    assert html.count("<svg") == len(SMALL.experiments) + 1
    assert {*re.findall(r"https?://[^\s\"'<>]+", html)} == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"<script|<link|<img|@import|url\((?!#)|src=", html)


def test_both_starts_stand_side_by_side(made: Made) -> None:
    """In one line; what has one start only has a table of its own."""
    rows = [msgspec.structs.replace(row, part=Part.EFFECT) for row in made.reproduction.rows]
    one, both = tables(rows, Part.EFFECT)

    assert (one.starts, both.starts) == ((Start.ONE_NODE,), (Start.EVEN, Start.UNEVEN))
    assert all([row.start for row in line.rows] == [*both.starts] for line in both.lines)
    assert len(both.lines) == len(FIXED_20.default) + len(FIXED_20.arms[0].published)


def test_only_published_effects_are_judged(made: Made) -> None:
    """Neither default runs nor readings that the sources rule out are counted."""
    rows = made.reproduction.rows
    judged = [row for row in rows if row.verdict is not None]

    assert {row.part for row in judged} == {Part.EFFECT}
    assert {row.part for row in rows} == {*Part} - {Part.OVERHEAD}
    assert sum(int(number) for number in re.findall(r"\d+", tally(rows))) == len(judged)


def test_a_forest_has_a_line_for_every_effect(made: Made) -> None:
    """With its published value; and there is none where nothing is judged."""
    rows = made.reproduction.rows

    assert forest(rows).count("−31.9 %") == 1
    assert forest(rows).count("flowcon-3 (") == len(ONE_SETTING.arms[0].published)
    assert not forest([row for row in rows if row.verdict is None])


def test_every_curve_of_efficiency_is_named() -> None:
    """At its end, beside the three places where each job is named anyway: there are too few colours for a legend."""
    jobs = [f"job-{number}" for number in range(100, 120)]
    course = Course(
        capacities_m={"n1": 8_000},
        lists=False,
        job_use={job: [(1.0, 0.1)] for job in jobs[:1]},
        efficiency={job: [(1.0, 0.1), (2.0 + place, 0.1 / (place + 1))] for place, job in enumerate(jobs)},
        ends_s=dict.fromkeys(jobs, 30.0),
    )
    picture = drawn(course, course, [(job, 30.0, 30.0) for job in jobs], "twenty jobs")

    assert [picture.count(f">{job.removeprefix('job-')}</text>") for job in jobs] == [4] * len(jobs)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--json`` prints the rows and nothing else."""
    small = msgspec.structs.replace(SMALL, experiments=(), sensitivity=(ONE_SETTING,))
    monkeypatch.setattr(papers, "SIMULATED", {"flowcon": small})
    arguments = ["reproduce", "flowcon", "--repetitions", "1", "--jobs", "1", "--json", "--out", str(tmp_path)]
    printed = CliRunner().invoke(main, arguments)

    assert printed.exit_code == 0, printed.output
    assert printed.stdout_bytes == (tmp_path / "results.json").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(FILES)


def test_what_the_command_shows(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """The effects with their verdicts, the tally, and the names of what was written."""
    _show(made.reproduction, made.folder)
    shown = capsys.readouterr().out

    assert "flowcon-3" in shown
    assert "fixed-20" not in shown
    assert tally(made.reproduction.rows) in shown.splitlines()[-1]
    assert "report.html" in shown.splitlines()[-1]


@pytest.mark.parametrize("paper", papers.SIMULATED.values(), ids=lambda paper: paper.name)
def test_the_page_has_every_published_effect(paper: Paper) -> None:
    """As the code has it, with the experiment and its setting. The default runs are in the report alone."""
    page = (Path(__file__).parents[3] / "docs" / "reproduction.md").read_text()
    for experiment in paper.experiments:
        nothing = [[0.0] * len(experiment.default), *([0.0] * len(arm.published) for arm in experiment.arms)]
        rows = [*run._rows(experiment, [[nothing] * len(experiment.starts)], sensitivity=False)]
        for table in tables(rows, Part.EFFECT):
            for line in table.lines:
                assert f"| {line.experiment} | {line.metric} | {line.published} |" in page


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """The error comes before anything runs."""
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
    assert "make dev" in result.stderr


@pytest.mark.parametrize(
    ("value", "unit", "part", "shown"),
    [
        (-14.74, Unit.PERCENT, Part.EFFECT, "−14.7 %"),
        (8.1, Unit.PERCENT, Part.EFFECT, "+8.1 %"),
        (110.8, Unit.SECONDS, Part.EFFECT, "+110.8 s"),
        (1260.0, Unit.SECONDS, Part.DEFAULT, "1,260.0 s"),
        (11.0, Unit.JOBS, Part.EFFECT, "11.0"),
        (None, Unit.JOBS, Part.EFFECT, "–"),
    ],
)
def test_figures_as_people_write_them(value: float | None, unit: Unit, part: Part, shown: str) -> None:
    """With a true minus, and a sign where it is a change."""
    assert figure(value, unit, part) == shown
