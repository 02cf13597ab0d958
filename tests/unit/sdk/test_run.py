"""Counting steps and epochs, and a script outside Steepest or under a supervisor that is wrong."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import steepest_sdk
from steepest_sdk.reports import ReportFile
from steepest_sdk.run import Run

if TYPE_CHECKING:
    from tests.unit.sdk.conftest import Supervisor


def positions(path: Path) -> list[tuple[int, int | None]]:
    """Step and epoch of each report."""
    fields: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line["step"], line.get("epoch")) for line in fields]


def test_step_left_out_is_the_loops_own(tmp_path: Path) -> None:
    """In a steps loop a report without a number is of the loop's step, also if not every step reports."""
    run = Run(ReportFile(tmp_path / "r"), step=4)
    for step in run.steps(10):
        if step % 2 == 0:
            run.report(loss=1)
    assert positions(tmp_path / "r") == [(6, None), (8, None), (10, None)]
    assert run.step == 10


def test_step_left_out_elsewhere_is_one_more_than_the_last(tmp_path: Path) -> None:
    """Outside the loops, or in an epochs loop, reports without a number count themselves."""
    run = Run(ReportFile(tmp_path / "r"), step=4, epochs=1)
    run.report(loss=1)
    for _ in run.epochs(3):
        run.report(loss=1)
        run.report(loss=1)
    assert positions(tmp_path / "r") == [(5, None), (6, 2), (7, 2), (8, 3), (9, 3)]


def test_every_report_without_a_number_has_a_step_of_its_own(supervisor: Supervisor) -> None:
    """Whichever thread reports: no two have the same step, none is left out, and each thread's own steps rise."""
    training = supervisor.start("--loop", "threads", "--total", "50")
    assert training.wait() == 0
    reports = training.reports()
    assert sorted(report["step"] for report in reports) == list(range(1, 451))
    for thread in range(9):
        steps = [report["step"] for report in reports if report["metrics"]["loss"] == thread]
        assert len(steps) == 50
        assert steps == sorted(steps)


def test_another_thread_counts_on_from_the_steps_that_are_done(tmp_path: Path) -> None:
    """In a steps loop its report is of the loop's step; elsewhere it is one more than the last of any thread."""
    run = Run(ReportFile(tmp_path / "r"), step=4)

    def report() -> None:
        run.report(seen=1)

    def elsewhere() -> None:
        thread = threading.Thread(target=report)
        thread.start()
        thread.join()

    for _ in run.steps(5):
        elsewhere()
    run.report(8, loss=1)
    elsewhere()
    elsewhere()
    assert positions(tmp_path / "r") == [(5, None), (8, None), (9, None), (10, None)]


def totals(path: Path) -> list[tuple[int | None, int | None]]:
    """Steps and epochs of the whole training, as each report states them."""
    fields: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line.get("total"), line.get("epochs")) for line in fields]


def test_both_loops_state_how_long_the_training_is(tmp_path: Path) -> None:
    """In every report from then on; an epochs loop knows no steps."""
    run = Run(ReportFile(tmp_path / "r"))
    run.report(loss=1)
    for _ in run.epochs(2):
        run.report(loss=1)
    for _ in run.steps(4):
        run.report(loss=1)
    assert totals(tmp_path / "r") == [(None, None), (None, 2), (None, 2), (4, 2)]


@pytest.mark.parametrize("unknown", [0, -1])
def test_a_training_without_an_end_has_no_total(tmp_path: Path, unknown: int) -> None:
    """Frameworks say so by -1; a later statement replaces an earlier one, and None changes nothing."""
    run = Run(ReportFile(tmp_path / "r"))
    for announced in ({"steps": 9, "epochs": 3}, {"steps": unknown}, {"epochs": unknown}, {}, {"steps": 8}):
        run.announce(**announced)
        run.report(loss=1)
    assert totals(tmp_path / "r") == [(9, 3), (None, 3), (None, None), (None, None), (8, None)]


def test_own_loop_goes_on_after_the_steps_that_are_done(tmp_path: Path) -> None:
    """A script with its own loop numbers its reports; ``run.step`` is the number of completed steps."""
    run = Run(ReportFile(tmp_path / "r"), step=4)
    for index in range(run.step, 6):
        run.report(index + 1, epoch=2, loss=1)
    assert positions(tmp_path / "r") == [(5, 2), (6, 2)]


def test_steps_that_begin_again_are_reported_and_never_count_back(capsys: pytest.CaptureFixture[str]) -> None:
    """A script that counts from 1 in each epoch gets a warning; its checkpoints never look older than they are."""
    run = Run(step=30)
    run.report(1)
    run.report(2)
    assert run.step == 30
    assert capsys.readouterr().err.count("count over the whole training") == 1


@pytest.mark.parametrize("step", [1.5, "7"])
def test_step_that_is_no_whole_number_is_a_mistake_of_the_script(step: Any) -> None:
    """A step that is no whole number raises immediately and is not written."""
    with pytest.raises(TypeError):
        Run().report(step)


def test_negative_step_is_a_mistake_of_the_script() -> None:
    """A negative step raises immediately, and the message names it."""
    with pytest.raises(ValueError, match="step=-1"):
        Run().report(-1)


def test_save_without_load_is_a_mistake_of_the_script() -> None:
    """What is saved and never loaded would begin again at step 0 after each move."""
    with pytest.raises(ValueError, match="save and load"):
        steepest_sdk.start(save=lambda folder: folder)


def test_unknown_mode_is_a_mistake_of_the_script() -> None:
    """A mode that the contract does not know raises, and the message lists the known ones."""
    mode: Any = "sometimes"
    with pytest.raises(ValueError, match="'on-request' or 'on-stop'"):
        steepest_sdk.start(mode=mode)


def test_outside_steepest_the_script_trains_and_leaves_nothing(supervisor: Supervisor) -> None:
    """Without the variables the same script ends with its result and writes no report, hello or checkpoint."""
    training = supervisor.start_alone()
    assert training.wait() == 0
    assert sorted(path.name for path in training.folder.iterdir()) == ["result", "stderr"]
    assert training.stderr() == ""


def test_outside_steepest_sigterm_keeps_its_meaning(supervisor: Supervisor) -> None:
    """Without the variables SIGTERM ends the process as it ends any other."""
    training = supervisor.start_alone("--meet-at", "7")
    training.at(7)
    training.terminate()
    assert training.wait() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STEEPEST_INCARNATION", "two"),
        ("STEEPEST_INCARNATION", "0"),
        ("STEEPEST_INCARNATION", "9" * 5000),
        ("STEEPEST_REPLICA", "-1"),
        ("STEEPEST_JOB", ""),
        ("STEEPEST_CHECKPOINTS", ""),
    ],
)
def test_wrong_variable_is_named_and_the_training_runs_unsupervised(
    supervisor: Supervisor, variable: str, value: str
) -> None:
    """A supervisor's mistake costs its supervision; the message names the variable and the training is done."""
    training = supervisor.start(wrong={variable: value})
    assert training.wait() == 0
    assert variable in training.stderr()
    assert training.result()
    assert training.reports() == []


def test_missing_control_folder_does_not_stop_a_training(supervisor: Supervisor, tmp_path: Path) -> None:
    """With a missing control folder the training completes, and reports what could not be written."""
    training = supervisor.start(wrong={"STEEPEST_CONTROL": str(tmp_path / "missing")})
    assert training.wait() == 0
    assert "cannot write" in training.stderr()


def test_checkpoint_to_restore_without_load_is_reported(supervisor: Supervisor) -> None:
    """A script that cannot load begins at step 1, and reports that a checkpoint was ignored."""
    training = supervisor.start("--mode", "none", restore="step-00000007-i0001")
    assert training.wait() == 0
    assert "is not restored" in training.stderr()
    assert training.reports()[0]["step"] == 1


def test_script_may_save_now_and_then_by_itself(supervisor: Supervisor) -> None:
    """A process killed in step 25 goes on from its own checkpoint of step 20, and ends where it would have ended."""
    whole = supervisor.start_alone()
    assert whole.wait() == 0
    killed = supervisor.start("--checkpoint-every", "10", "--meet-at", "25")
    killed.at(25)
    killed.process.kill()
    killed.wait()
    assert supervisor.saved() == ["step-00000010-i0001", "step-00000020-i0001"]
    resumed = supervisor.start(restore="step-00000020-i0001")
    assert resumed.wait() == 0
    assert resumed.result() == whole.result()


def test_checkpoint_before_a_steps_report_is_of_the_step_before(supervisor: Supervisor) -> None:
    """It is of the last step reported, so a training that resumes from it does that step again and skips none."""
    killed = supervisor.start("--checkpoint-before", "20", "--meet-at", "21")
    killed.at(21)
    killed.process.kill()
    killed.wait()
    assert supervisor.saved() == ["step-00000019-i0001"]
    resumed = supervisor.start(restore="step-00000019-i0001")
    assert resumed.wait() == 0
    assert resumed.reports()[0]["step"] == 20


def test_checkpoint_outside_steepest_is_none() -> None:
    """Asked to save without a supervisor, the SDK returns that nothing was saved."""
    assert not steepest_sdk.start().checkpoint()
