"""DRAGON's simulated claims: the figures of a load, and the report of them."""

from __future__ import annotations

from functools import cache

import pytest

from steepest_lab.reproduce.dragon import loads as dragon
from steepest_lab.reproduce.dragon import loads_report as dragon_report
from steepest_lab.reproduce.dragon.loads import AT_BEST, DEFAULT, POLICIES, GangFigures, GangLoad

LOAD = GangLoad(nodes=1, load=1.0)


@cache
def found() -> dict[str, GangFigures]:
    """One small load under every policy."""
    todo = dragon.runs(1, [LOAD])
    return {row.policy: row for row in dragon.figures(todo, list(dragon.done(todo, 1)))}


def test_every_policy_runs_every_load() -> None:
    """The default, the ablation, the published baselines and the variants, on the same jobs."""
    assert tuple(found()) == POLICIES
    assert {"optimus", "tiresias", "dragon-no-scaling", "dragon-no-locality"} <= {*POLICIES}


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != DEFAULT])
def test_every_gang_ends_under_all_but_the_default(policy: str) -> None:
    """Only replicas that are placed in no order dead-lock."""
    row = found()[policy]

    assert (row.finished, row.deadlocked) == (1.0, 0.0)
    assert 0 < row.computing <= 100


@pytest.mark.parametrize("policy", ["dragon", "dragon-paper-era", "dragon-fixed", "dragon-no-scaling", "gang-only"])
def test_no_gang_is_in_parts(policy: str) -> None:
    """They start whole; the default's wait for each other's places."""
    assert found()[policy].partial_s == 0.0
    assert found()[AT_BEST].partial_s > 0.0


def test_what_is_computed_is_a_part_of_what_is_used() -> None:
    """A GPU that waits for its gang's exchange is used, and computes nothing."""
    row = found()[AT_BEST]

    assert row.computing < row.utilisation


def test_the_report_says_what_holds_and_where_it_does_not() -> None:
    """Beside the default at its best, load by load; and each variant's verdict."""
    text = dragon_report.report([*found().values()]).markdown

    assert f"| {LOAD} | {found()[AT_BEST].mean_jct:,.0f} |" in text
    assert "* `dragon-fixed` against `kube-default`: " in text
    assert "* `dragon-fixed` is worse than `dragon` under " in text
    assert f"| {DEFAULT} |" in text.partition(f"## {dragon_report.EVERY_LOAD}")[2]
