"""Reports are whole lines under any metrics, threads and disk errors, and never stop a training."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from steepest_sdk.reports import ReportFile


def lines(path: Path) -> list[dict[str, Any]]:
    """All lines of a report file, read by the strict rule: no NaN, no Infinity."""

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


class Tensor:
    """Something that only knows how to become a float."""

    def __float__(self) -> float:
        return 0.5


class Broken:
    """A metric whose conversion fails."""

    def __float__(self) -> float:
        raise RuntimeError("the device is lost")


def test_line_says_step_epoch_time_and_metrics(tmp_path: Path) -> None:
    """A report becomes the line of the contract; the epoch is left out where there is none."""
    reports = ReportFile(tmp_path / "reports.jsonl")
    reports.append(12, 3, {"loss": Tensor(), "accuracy": 1})
    reports.append(13, None, {})
    first, second = lines(tmp_path / "reports.jsonl")
    assert first.pop("at_ms") > 1_600_000_000_000
    assert first == {"step": 12, "epoch": 3, "metrics": {"loss": 0.5, "accuracy": 1.0}}
    assert second.keys() == {"step", "at_ms", "metrics"}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_loss_that_is_no_finite_number_is_a_string(tmp_path: Path, value: str) -> None:
    """JSON has no NaN and no infinities: they are reported as the strings nan, inf and -inf."""
    ReportFile(tmp_path / "reports.jsonl").append(1, None, {"loss": float(value)})
    assert lines(tmp_path / "reports.jsonl")[0]["metrics"] == {"loss": value}


def test_metric_that_is_no_number_is_left_out_and_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One broken metric costs itself alone: not the report, not the training, not a flooded log."""
    reports = ReportFile(tmp_path / "reports.jsonl")
    for step in (1, 2):
        reports.append(step, None, {"loss": 0.5, "lost": Broken()})
    assert [line["metrics"] for line in lines(tmp_path / "reports.jsonl")] == [{"loss": 0.5}] * 2
    assert capsys.readouterr().err.count("the device is lost") == 1


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    """Eight threads that begin together and report 200 times each leave 1,600 whole lines, none lost or mixed."""
    reports = ReportFile(tmp_path / "reports.jsonl")
    together = threading.Barrier(8)

    def work(thread: int) -> None:
        together.wait()
        for step in range(200):
            reports.append(step, thread, {f"metric-{thread}": step})

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for worker in threads:
        worker.start()
    for worker in threads:
        worker.join()
    found = lines(tmp_path / "reports.jsonl")
    for thread in range(8):
        mine = [line for line in found if line["epoch"] == thread]
        assert [line["step"] for line in mine] == list(range(200))
        assert all(line["metrics"] == {f"metric-{thread}": line["step"]} for line in mine)


def test_half_a_line_costs_only_itself(tmp_path: Path) -> None:
    """After half a line, left by a full disk or a kill, the next report begins a new line."""
    path = tmp_path / "reports.jsonl"
    path.write_text('{"step": 1, "at_ms')
    ReportFile(path).append(2, None, {"loss": 1})
    torn, whole = path.read_text().splitlines()
    assert torn == '{"step": 1, "at_ms'
    assert json.loads(whole)["step"] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_full_disk_is_reported_once_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no byte fits any more, reports are lost, one message is written, and the caller continues."""
    path = tmp_path / "reports.jsonl"
    path.symlink_to("/dev/full")
    reports = ReportFile(path)
    for step in (1, 2, 3):
        reports.append(step, None, {"loss": 1})
    assert capsys.readouterr().err.count("cannot write") == 1


def test_folder_that_comes_late_gets_the_later_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports are lost until the control folder exists, and this is reported once."""
    reports = ReportFile(tmp_path / "control" / "reports.jsonl")
    reports.append(1, None, {})
    reports.append(2, None, {})
    tmp_path.joinpath("control").mkdir()
    reports.append(3, None, {})
    assert [line["step"] for line in lines(tmp_path / "control" / "reports.jsonl")] == [3]
    assert capsys.readouterr().err.count("cannot write") == 1
