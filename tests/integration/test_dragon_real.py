"""The runs of ``steepest reproduce dragon --real``, in a short form: every arm to its end, and a report of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from steepest.cli.main import main
from steepest.cluster.local.links import why_not
from steepest_lab.commands.reproduce import GANG_PARTS
from steepest_lab.demo.gangs.workload import LINK_MBIT
from steepest_lab.reproduce.dragon.gang_results import FILES, report, results, write
from steepest_lab.reproduce.dragon.gang_runs import PARTS, GangRun, StepCost, arms, missing, runs, step_cost

BASELINE = PARTS["not-scaled"]
LENGTH = 0.01
"""Some five steps of each gang: what a run costs is mostly the start of its processes."""

ONE = GangRun(
    completion_s=10.0,
    waited_s=4.0,
    makespan_s=20.0,
    utilisation=0.5,
    spanning=1,
    scale_ups=2,
    scale_downs=3,
    steps_lost=0,
)
OTHER = GangRun(
    completion_s=5.0,
    waited_s=1.0,
    makespan_s=18.0,
    utilisation=0.75,
    spanning=0,
    scale_ups=0,
    scale_downs=0,
    steps_lost=0,
)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_arm_runs_to_its_end(tmp_path: Path) -> None:
    """Three short gangs under every arm: all finish, nothing is lost, only scaling arms scale, and none is run twice."""
    link_mbit, made = (None if why_not() else LINK_MBIT), []  # type: int | None, list[str]
    recordings = tmp_path / "recordings"
    found = runs(1, recordings, link_mbit, lambda arm, *_: made.append(arm), jobs=3, length=LENGTH)
    again = runs(1, recordings, link_mbit, lambda arm, *_: made.append(arm), jobs=3, length=LENGTH)
    write(results(found, StepCost(one_node_ms=1.0, two_nodes_ms=2.0), link_mbit, why_not(), 3), tmp_path / "out")

    assert [*found] == [*arms()] == made
    assert again == found
    assert missing(1, recordings, link_mbit, jobs=3, length=LENGTH) == 0
    assert missing(2, recordings, link_mbit, jobs=3, length=LENGTH) == len(made) == missing(1, recordings, link_mbit)
    for name, (one,) in found.items():
        assert 0 < one.completion_s <= one.makespan_s, name
        assert 0 <= one.utilisation <= 1.5, name
        assert one.steps_lost == 0, name
    for name in ("gangs, not scaled", "dragon without scaling"):
        assert (found[name][0].scale_ups, found[name][0].scale_downs) == (0, 0)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    assert json.loads((tmp_path / "out" / "results.json").read_bytes())["link_mbit"] == link_mbit


@pytest.mark.skipif(bool(why_not()), reason=f"no links here ({why_not()}): run as root, and `make links`")
def test_a_step_over_a_link_takes_at_least_what_its_bytes_take() -> None:
    """Over 5 Mbit/s the 0.6 MB of a step take most of a second; on one node they do not cross the link."""
    assert step_cost(5, steps=3).two_nodes_ms > 0.8 * 1000 * 8 * 12 * 50_826 / 5e6


def test_changes_are_against_the_arm_that_scales_nothing() -> None:
    """The mean of each pair's change; a single run has no interval."""
    found = results({BASELINE: [ONE], "dragon": [OTHER]}, StepCost(one_node_ms=3, two_nodes_ms=9), None, "not root", 12)
    by_name = {(one.arm, one.metric): one for one in found.figures}

    assert {(one.arm, one.beside) for one in found.changes} == {("dragon", BASELINE)}
    assert [one.mean for one in found.changes if one.metric == "completion_s"] == [-50.0]
    assert by_name["dragon", "utilisation"].mean == 0.75
    assert by_name["dragon", "makespan_s"].low is None
    alone = results({"dragon": [OTHER]}, StepCost(one_node_ms=3, two_nodes_ms=9), None, "not root", 12)
    assert not alone.changes
    assert "What changes" not in report(alone).markdown
    assert "proves nothing of locality" in report(found).markdown
    assert "3.0 ms on one node, and 9.0 ms on two" in report(found).markdown


def test_dragon_is_paired_with_itself_without_each_part() -> None:
    """By seed: the mean of the pairs' changes, which is not the change of the means, with its interval."""
    whole = [msgspec.structs.replace(ONE, completion_s=5.0), msgspec.structs.replace(ONE, completion_s=90.0)]
    halves = [msgspec.structs.replace(ONE, completion_s=10.0), msgspec.structs.replace(ONE, completion_s=100.0)]
    arms_run = {"dragon": whole, "dragon without scaling": halves, "dragon without locality": whole}
    found = results(arms_run, StepCost(one_node_ms=3, two_nodes_ms=9), None, "not root", 12)
    by_name = {(one.beside, one.metric): one for one in found.changes}

    scaling = by_name["dragon without scaling", "completion_s"]
    assert scaling.mean == pytest.approx(-30.0)
    assert scaling.low is not None
    assert scaling.high is not None
    assert scaling.low < -50 < -10 < scaling.high
    assert by_name["dragon without locality", "completion_s"].mean == 0.0
    assert "| dragon | dragon without scaling | *-30 % [-284, +224]* |" in report(found).markdown


def test_the_command_line_offers_the_parts_that_there_are() -> None:
    """And no part of another paper."""
    result = CliRunner().invoke(main, ["reproduce", "dragon", "--real", "--part", "overheads"])

    assert tuple(PARTS) == GANG_PARTS
    assert result.exit_code == 2
    assert "dragon has no part overheads" in result.stderr
