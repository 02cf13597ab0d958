"""``steepest report`` reads the hours that jobs held from a pool's log."""

from __future__ import annotations

import json

from click.testing import CliRunner
from tests.harness.scenarios.folded_pool import FoldedPool
from tests.unit.cli.conftest import Holding

from steepest.cli.main import main
from steepest.events import cluster as c
from steepest.events.growth import FindingKind


def test_a_job_that_was_hung_shows_with_its_hours(holding: Holding) -> None:
    """A row of all jobs of its week, queue and user, and one of those that were hung, with their share."""
    pool = FoldedPool(w1=4_000)
    pool.run("a", "w1", cpu_m=2_000)
    pool.tick(1_800_000)
    pool.fold(c.FindingOpened(job="a", incarnation=1, kind=FindingKind.HUNG, why="no step for 70 s"))
    pool.tick(1_800_000)
    pool.end("a")
    folder = holding(*(received.event for received in pool.log[1:]))
    printed = CliRunner().invoke(main, ["report", "--state", str(folder.root)]).stdout.splitlines()
    rows = json.loads(CliRunner().invoke(main, ["report", "--state", str(folder.root), "--json"]).stdout)

    assert [line.split()[2:] for line in printed[1:]] == [
        ["-", "all", "1", "2.00", "0.00", "-"],
        ["-", "hung", "1", "1.00", "0.00", "50.0", "%"],
    ]
    assert [(row["finding"], round(row["cpu_hours"], 3)) for row in rows] == [("all", 2.0), ("hung", 1.0)]
