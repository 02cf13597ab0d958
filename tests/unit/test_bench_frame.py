"""What the benchmarks' common command line keeps and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import policies
from benchmarks.frame.bench import changed, options

from steepest.policies.placement.placer import Placer

ROW = {
    **dict.fromkeys(policies.FIGURES, -1.0),
    **dict.fromkeys(("late_share", "late_worst", "free_share", "free_worst", "bound", "honest_worst", "moves"), 0.0),
}


def test_a_size_holds_for_every_option_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default, the smallest and the full one; a value that is named wins."""
    for arguments, expected in (([], (5, (1, 2))), (["--smallest"], (1, (1,))), (["--full", "--many", "7"], (9, [7]))):
        monkeypatch.setattr("sys.argv", ["bench", *arguments])
        asked = options("doc", few=(1, 5, 9), many=((1,), (1, 2), (1, 2, 3)))
        assert (asked.few, asked.many) == expected


def test_one_change_has_no_interval() -> None:
    """Of one seed nothing is known about how far it may be off; of two equal ones all."""
    assert changed([-12.0]) == "-12.0"
    assert changed([-12.0, -12.0]) == "-12.0 ± 0.0"


def test_rows_of_other_parameters_or_another_logic_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is used again only under the same parameters, jobs and seed, decided by the same logic."""
    measured: list[tuple[Any, ...]] = []

    def measure(*given: Any) -> dict[str, float]:
        measured.append(given)
        return ROW

    monkeypatch.setattr(policies, "measure", measure)
    rows = tmp_path / "rows.jsonl"

    def run(*more: str) -> int:
        before = len(measured)
        monkeypatch.setattr("sys.argv", ["policies", "--smallest", "--out", str(rows), *more])
        policies.main()
        return len(measured) - before

    assert run() == 1
    assert run() == 0
    for other in (("--set", "learning_weight=0"), ("--lengths-off", "0.01"), ("--seeds", "2"), ("--policy", "spread")):
        assert (run(*other), run(*other)) == (1, 0)
    assert run() == 0
    monkeypatch.setattr(Placer, "logic", Placer.logic + 1)
    assert (run(), run()) == (1, 0)
    assert len(rows.read_text().splitlines()) == 6
    assert all(json.loads(line)["of"]["seed"] in {0, 1} for line in rows.read_text().splitlines())
