"""The page of reproductions takes its tables from the reports, those of real trainings too."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from tests.integration.test_dragon_real import ONE

from steepest_lab.reproduce.dragon import gang_results
from steepest_lab.reproduce.dragon.gang_runs import PARTS, StepCost

ROOT = Path(__file__).parents[3]
PAPERS = ("specon", "flowcon", "pickyman", "dragon")


def test_a_report_of_real_trainings_gets_into_its_block(tmp_path: Path) -> None:
    """All but its title, with headings of subsections, and again with the same result; the other blocks stay."""
    found = {arm: [ONE, ONE] for arm in PARTS.values()}
    results = gang_results.results(found, StepCost(one_node_ms=1.0, two_nodes_ms=2.0), None, "not root", 12)
    gang_results.write(results, tmp_path / "dragon-real")
    page = "<!-- dragon -->\nsimulated\n<!-- end -->\n\n<!-- dragon-real -->\n<!-- end -->\nbehind\n"
    tool = _tool()

    filled = tool.filled(page, tmp_path)

    before, _, real = filled.partition("<!-- dragon-real -->\n")
    assert before == "<!-- dragon -->\nsimulated\n<!-- end -->\n\n"
    assert real.startswith("12 distributed trainings on two emulated nodes")
    assert "| dragon | dragon without scaling | +0 % [+0, +0] |" in real
    assert "\n### What changes\n" in real
    assert real.endswith("\n<!-- end -->\nbehind\n")
    assert tool.filled(filled, tmp_path) == filled


def test_a_report_with_verdicts_begins_with_them(tmp_path: Path) -> None:
    """And lacks the sections that the page has in its own words."""
    (tmp_path / "specon-real").mkdir()
    report = "# SpeCon, reproduced\n\nVerdicts: 1 within.\n\n## How to read a verdict\n\nso\n\n## Rest\n\nit\n"
    (tmp_path / "specon-real" / "report.md").write_text(report, encoding="utf-8")

    filled = _tool().filled("<!-- specon-real -->\nold\n<!-- end -->\n", tmp_path)

    assert filled == "<!-- specon-real -->\nVerdicts: 1 within.\n\n### Rest\n\nit\n<!-- end -->\n"


@pytest.mark.parametrize("name", [*PAPERS, *(f"{paper}-real" for paper in PAPERS)])
def test_the_page_has_a_block_for_each_report(tmp_path: Path, name: str) -> None:
    """What a command writes has a place on the page, and one alone."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "report.md").write_text("# A title\n\nVerdicts: the only ones.\n", encoding="utf-8")
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")

    assert _tool().filled(page, tmp_path).count(f"<!-- {name} -->\nVerdicts: the only ones.\n<!-- end -->") == 1


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reproduction_tables", ROOT / "tools" / "reproduction_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
