"""SpeCon's experiments with real trainings, in a short form: every run to its end, and a report of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from steepest.events import cluster as c
from steepest.invariants import Status, check
from steepest_lab.reproduce.experiments.placement import Start
from steepest_lab.reproduce.experiments.report import FILES, write
from steepest_lab.reproduce.papers import REAL
from steepest_lab.reproduce.testbed import nodes, save_resume
from steepest_lab.reproduce.testbed.costs import costs
from steepest_lab.reproduce.testbed.jobs import Cost
from steepest_lab.reproduce.testbed.reproduce import reproduced
from steepest_lab.reproduce.testbed.run import RunResult, RunTask, repetition, runs_of

JOBS = 4
SHORTER = 10
MODELS = ("rnn-pytorch", "dynamic-rnn-pytorch")
"""Those that are interrupted: two that the runs have anyway, so that their costs are known."""

LENGTH_S = 1.5
"""CPU time of these. What is left of it at the last interruption must outlast the request on a busy machine."""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_repetition_pairs_every_start_and_ends_with_a_report(tmp_path: Path) -> None:
    """Four jobs from both starts, by default and under SpeCon, on four emulated nodes: they begin where the start says."""
    paper = REAL["specon"]
    experiment = paper.experiments[1]
    testbed = nodes.emulated(4)
    drawn = {job.model for start in experiment.starts for job in experiment.jobs(start, 0).jobs[:JOBS]}
    measured = costs(testbed, sorted(drawn))
    shorter = {name: Cost(one.start_s, one.step_s * SHORTER) for name, one in measured.items()}
    reported: list[tuple[str, float]] = []

    def tell(task: RunTask, result: RunResult) -> None:
        reported.append((task.about, result.makespan))

    done = repetition(experiment, 0, shorter, testbed, tmp_path / "recordings", on_run=tell, most_jobs=JOBS)
    pauses = save_resume.pauses(measured, 0, MODELS, length_s=LENGTH_S)
    paper = msgspec.structs.replace(paper, experiments=(experiment,))
    write(reproduced(paper, 1, [done], pauses), tmp_path / "report")

    assert [about for about, _ in reported] == [task.about for task in runs_of(experiment, 0)]
    assert experiment.starts == (Start.EVEN, Start.UNEVEN)
    for runs in done.starts:
        (specon,) = runs.arms
        for run in (runs.before, specon):
            assert len(run.completions) == JOBS
            assert 0 < max(run.completions) <= run.makespan
            assert [one for one in check(run.events) if one.status is Status.BROKEN] == []
        assert _first_nodes(runs.before) == _first_nodes(specon)
        assert not any(isinstance(one.event, c.MigrationPlanned) for one in runs.before.events)
    assert sorted(_first_nodes(done.starts[0].before).values()) == ["n1", "n2", "n3", "n4"]
    assert len({*_first_nodes(done.starts[1].before).values()}) < JOBS
    rows = json.loads((tmp_path / "report" / "results.json").read_bytes())
    overhead = [row for row in rows if row["part"] == "overhead"]
    assert {row["experiment"] for row in overhead} == {*MODELS}
    assert len(overhead) == len(MODELS) * (len(save_resume.POINTS) + 2)
    assert all(row["ours"] > 0 for row in overhead)
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == sorted(FILES)
    report = (tmp_path / "report" / "report.md").read_text()
    assert "specon --real" in report
    assert "## Saving and resuming" in report


def _first_nodes(run: RunResult) -> dict[str, str]:
    """The node of each job's first placement."""
    placed: dict[str, str] = {}
    for one in run.events:
        if isinstance(one.event, c.JobPlaced):
            placed.setdefault(one.event.job, one.event.node or "")
    return placed
