"""The notebook among the examples, cell by cell, against a system that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.running_system import RunningSystem

NOTEBOOK = Path(__file__).parents[2] / "examples" / "sweep.ipynb"


@pytest.mark.end_to_end
def test_each_cell_runs_and_the_best_rate_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kernel runs them: one after the other, in one namespace. The largest of its rates converges fastest."""
    system = RunningSystem(tmp_path / "state", "--node", "n=1", "--interval", "500ms", "--heartbeat", "250ms")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEEPEST_STATE_DIR", str(system.state))
    system.start()
    found: dict[str, Any] = {}
    try:
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), found)  # noqa: S102 - the cells are ours
    finally:
        system.end()

    assert {row["outcome"] for row in found["ended"].values()} == {"finished"}
    assert found["best"] == 0.4
    assert found["ended"][0.4]["steps_total"] == 40
    assert len(found["curve"].loss) == len(found["curve"].step) > 0
