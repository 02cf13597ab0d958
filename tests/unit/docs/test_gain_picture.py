"""The README's picture is drawn from what ``simulate --out`` writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
JOBS = """\
policy,seed,name,submit_s,start_s,end_s,learned_s,outcome,migrations,preemptions
spread,0,a,0.0,0.0,600.0,,finished,0,0
spread,0,b,60.0,60.0,180.0,,finished,0,0
steepest,0,a,0.0,0.0,540.0,,finished,0,0
steepest,0,b,60.0,60.0,120.0,,finished,0,0
"""


def loaded(name: str) -> Any:
    """A tool, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


WEIGHTS = """\
{"of": {"case": "mixed-50 4x8", "weight": 0.0, "seed": 0}, "mean_t90": 30.0, "mean_jct": -35.0}
{"of": {"case": "mixed-50 4x8", "weight": 0.45, "seed": 0}, "mean_t90": -45.0, "mean_jct": -29.0}
"""


def test_the_curve_names_each_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the one that the results show."""
    tool = loaded("learning_weight_picture")
    assert str(tool.PICTURE.relative_to(ROOT / "docs")) in (ROOT / "docs" / "results.md").read_text()
    (tmp_path / "rows.jsonl").write_text(WEIGHTS)
    monkeypatch.setattr(tool, "PICTURE", tmp_path / "weights.svg")
    tool.draw(tmp_path / "rows.jsonl")

    drawn = (tmp_path / "weights.svg").read_text()
    assert "λ = 0.45" in drawn
    assert "mixed-50 4x8" in drawn


def test_each_policy_has_a_line_with_its_median_and_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In minutes since each job's submission; the file is the one that the README shows."""
    tool = loaded("gain_picture")
    assert str(tool.PICTURE.relative_to(ROOT)) in (ROOT / "README.md").read_text()
    (tmp_path / "jobs.csv").write_text(JOBS)
    monkeypatch.setattr(tool, "PICTURE", tmp_path / "gain.svg")
    tool.draw(tmp_path)

    drawn = (tmp_path / "gain.svg").read_text()
    assert "fair sharing: median 6.0 min, mean 6.0 min" in drawn
    assert "steepest: median 5.0 min, mean 5.0 min" in drawn
