"""What a framework's callback needs beyond a script: to ask first, to be left elsewhere, to keep SIGTERM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steepest.training_logs.reader import LogReader
from steepest_sdk import EXIT_STOPPED
from steepest_sdk.reports import ReportFile
from steepest_sdk.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.sdk.conftest import Supervisor

FRAMEWORK = ("--loop", "framework")


def test_request_that_was_asked_about_is_served_at_the_safe_point(supervisor: Supervisor) -> None:
    """Whether a safe point is wanted may be asked first: the request is not forgotten, and served only once."""
    training = supervisor.start(*FRAMEWORK, "--meet-at", "10")
    training.at(10)
    training.request(hold_s=0)
    training.go(10)
    assert training.wait() == 0
    assert training.ack()["step"] == 10
    assert supervisor.saved() == ["step-00000010-i0001"]


def test_stop_is_wanted_too(supervisor: Supervisor) -> None:
    """SIGTERM makes a safe point wanted; what is resumed ends on the bits of an uninterrupted run."""
    whole = supervisor.start_alone(*FRAMEWORK)
    assert whole.wait() == 0
    training = supervisor.start(*FRAMEWORK, "--meet-at", "10")
    training.at(10)
    training.terminate()
    training.go(10)
    assert training.wait() == EXIT_STOPPED
    resumed = supervisor.start(*FRAMEWORK, restore="step-00000010-i0001")
    assert resumed.wait() == 0
    assert resumed.result() == whole.result()


def test_first_checkpoint_of_an_on_stop_job_is_wanted_once(supervisor: Supervisor) -> None:
    """The proof that saving works is wanted at the first step, and at no other."""
    training = supervisor.start(*FRAMEWORK, "--mode", "on-stop")
    assert training.wait() == 0
    assert supervisor.saved() == ["step-00000001-i0001"]


def test_signal_taken_by_the_framework_is_taken_back(supervisor: Supervisor) -> None:
    """After a framework has put its own handler in place, SIGTERM saves again once the signal is kept."""
    training = supervisor.start(*FRAMEWORK, "--meet-before-loop", "--meet-at", "10")
    training.at("taken")
    training.go("taken")
    training.at(10)
    training.terminate()
    training.go(10)
    assert training.wait() == EXIT_STOPPED
    assert supervisor.saved() == ["step-00000010-i0001"]
    assert not training.folder.joinpath("theirs").exists()


def test_stop_that_reached_the_framework_is_not_lost(supervisor: Supervisor) -> None:
    """SIGTERM while the framework's handler is there ends the process, with 85, when the signal is kept: no step is done."""
    training = supervisor.start(*FRAMEWORK, "--meet-before-loop")
    training.at("taken")
    training.terminate()
    training.until(training.folder.joinpath("theirs").exists, "signal")
    training.go("taken")
    assert training.wait() == EXIT_STOPPED
    assert training.reports() == []
    assert supervisor.saved() == []


def test_record_is_no_safe_point(supervisor: Supervisor, tmp_path: Path) -> None:
    """Outside Steepest nothing is wanted, and recording, keeping the signal and safe points do nothing."""
    run = Run(ReportFile(tmp_path / "r"))
    run.record(1, loss=1)
    run.safe_point()
    run.keep_stop_signal()
    assert not run.wanted
    assert run.step == 1
    assert run.epoch == 0
    assert supervisor.saved() == []


def test_step_without_metrics_is_no_loss(tmp_path: Path) -> None:
    """The log reader takes no record from a step without metrics, and misses none beside it."""
    reports = ReportFile(tmp_path / "r")
    reports.append(25, 1, {})
    reports.append(26, 2, {"loss": 0.5})
    reports.append(50, 2, {})
    reader = LogReader("steepest-sdk", None)
    found = [*reader.feed((tmp_path / "r").read_bytes()), *reader.close()]
    assert [(record.step, record.value) for record in found] == [(26, 0.5)]
