"""The README's picture is drawn from what ``simulate --out`` writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
JOBS = """\
policy,seed,name,submit_s,start_s,end_s,learned_s,outcome,migrations,preemptions
spread,0,a,0.0,0.0,600.0,,finished,0,0
spread,0,b,60.0,60.0,180.0,,finished,0,0
steepest,0,a,0.0,0.0,540.0,,finished,0,0
steepest,0,b,60.0,60.0,120.0,,finished,0,0
"""


def test_each_policy_has_a_line_with_its_median_and_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In minutes since each job's submission; the file is the one that the README shows."""
    spec = importlib.util.spec_from_file_location("gain_picture", ROOT / "tools" / "gain_picture.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert str(tool.PICTURE.relative_to(ROOT)) in (ROOT / "README.md").read_text()
    (tmp_path / "jobs.csv").write_text(JOBS)
    monkeypatch.setattr(tool, "PICTURE", tmp_path / "gain.svg")
    tool.draw(tmp_path)

    drawn = (tmp_path / "gain.svg").read_text()
    assert "fair sharing: median 6.0 min, mean 6.0 min" in drawn
    assert "steepest: median 5.0 min, mean 5.0 min" in drawn
