"""The loaders of real runs, and the families that were fitted to them."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from steepest.errors import InputError
from steepest_lab.sim.losses.families import FAMILIES
from tools.real_curves import algoperf_curves, pollux_curves, taskset_curves

from .samples import real_data

DATA = real_data() or Path()
TASKSET = DATA / "taskset" / "FixedTextRNNClassification_imdb_patch128_LSTM128_bs64.json.gz"

absent = pytest.mark.skipif(
    not TASKSET.is_file(), reason="no real curves: set STEEPEST_DATA to a folder that holds pollux/ and taskset/"
)


def algoperf_run(**fields: object) -> str:
    """A run of twelve points."""
    run = {
        "run": "r",
        "workload": "wmt",
        "framework": "jax",
        "train": [[step * 100, 8.0 / (1 + step)] for step in range(12)],
        "evals": [[1100, 10.0, 12.0, 0.5]],
    }
    return json.dumps(run | fields) + "\n"


def test_an_algoperf_run(tmp_path: Path) -> None:
    """Progress goes from the first step to the last; runs of which only the beginning was logged are passed over."""
    path = tmp_path / "curves"
    path.write_bytes(gzip.compress((algoperf_run() + algoperf_run(run="cut", evals=[[9000, 1.0]])).encode()))
    (curve,) = algoperf_curves(path)

    assert (curve.run, curve.workload) == ("r", "wmt")
    assert (curve.points.progress[0], curve.points.progress[-1]) == (0.0, 1.0)
    assert curve.points.losses[:3] == (8.0, 4.0, 8.0 / 3)


@pytest.mark.parametrize("line", ["{}", "[1]", '{"run":"r"', algoperf_run(train=[["x", 1.0]])])
def test_a_line_that_is_no_run(tmp_path: Path, line: str) -> None:
    """The error names the line."""
    path = tmp_path / "curves"
    path.write_text(algoperf_run() + line)
    with pytest.raises(InputError, match="line 2: is no run"):
        list(algoperf_curves(path))


def test_a_run_that_became_no_number(tmp_path: Path) -> None:
    """TaskSet writes NaN; such runs are skipped, and the others keep their numbers."""
    path = tmp_path / "taskset.json"
    losses = [1.0 / (1 + epoch) for epoch in range(12)]
    runs = [{"train": {"loss": [*losses[:-1], float("nan")]}}, {"train": {"loss": losses}}]
    path.write_text(json.dumps(runs))

    assert [(curve.run, curve.points.losses) for curve in taskset_curves(path)] == [("run-1", tuple(losses))]
    path.write_text("{}")
    with pytest.raises(InputError, match="is no collection of runs"):
        list(taskset_curves(path))


@absent
def test_the_real_collections() -> None:
    """62 AlgoPerf runs were logged to their end; Pollux's accuracies are turned into error rates that fall."""
    algoperf = Counter(curve.workload for curve in algoperf_curves(DATA / "algoperf-curves.jsonl.gz"))
    pollux = {curve.workload: curve.points.losses for curve in pollux_curves(DATA / "pollux" / "traces")}

    assert algoperf["wmt"] == algoperf["imagenet_vit"] == 5
    assert {*pollux} == {"cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}  # bert has two epochs
    assert all(losses[-1] < losses[0] for losses in pollux.values())
    assert pollux["imagenet"][-1] == pytest.approx(1 - 0.75584)
    assert sum(1 for _ in taskset_curves(TASKSET)) == 1_000 - 99


@absent
@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_families_are_what_the_tool_makes_of_the_real_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fitted again, each curve is the same within a hundredth of its start, also where a library's last digits differ."""
    tool = _tool()
    monkeypatch.setattr(tool, "OUT", tmp_path / "families.json")
    monkeypatch.setattr("sys.argv", ["fit_loss_families.py", str(DATA)])
    tool.main()
    made = msgspec.json.decode((tmp_path / "families.json").read_bytes(), type=tool.Catalogue).families

    assert [family.name for family in made] == [family.name for family in FAMILIES.values() if family.task != "thesis"]
    for family in made:
        kept = FAMILIES[family.name].curve
        far = max(abs(family.curve.expected(p / 100) - kept.expected(p / 100)) for p in range(101))
        assert far < 0.01 * kept.expected(0), family.name
    assert "15 of 18 workloads are families" in capsys.readouterr().out


def _tool() -> ModuleType:
    path = Path(__file__).parents[3] / "tools" / "fit_loss_families.py"
    spec = importlib.util.spec_from_file_location("fit_loss_families", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
