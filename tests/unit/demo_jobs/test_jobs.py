"""The demo jobs as processes: moved without a trace, or read from what they print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import steepest_lab.jobs
from steepest_lab.jobs.datasets import descriptions, diabetes, digits
from steepest_sdk import EXIT_STOPPED

if TYPE_CHECKING:
    from tests.unit.demo_jobs.conftest import Finished, Jobs

REPORTING = ["linear", "vae", "gru", "rnn", "birnn", "dynamic_rnn", "charlm", "mixture", "factorisation"]
SHORT_FORM = ("linear", "gru", "mixture")
EVERY = [*REPORTING, "softmax", "mlp", "parallel"]


@pytest.mark.parametrize(
    "name", [name if name in SHORT_FORM else pytest.param(name, marks=pytest.mark.long) for name in REPORTING]
)
def test_moved_job_reports_what_it_would_have_reported(jobs: Jobs, name: str) -> None:
    """Checkpointed on request, stopped, and resumed in a new process: every report has the loss it would have had."""
    size = ("--steps", "14", "--work", "0.2", "--seed", "5")
    whole = jobs.supervised(name, *size)
    assert whole.process.wait() == 0
    stopped = jobs.supervised(name, *size, asked=True)
    checkpoint = stopped.checkpoint()
    stopped.process.terminate()
    assert stopped.process.wait() == EXIT_STOPPED
    resumed = jobs.supervised(name, *size, restore=checkpoint)
    assert resumed.process.wait() == 0
    assert [step for step, _ in whole.losses()] == [3, 6, 9, 12, 14]
    assert stopped.losses() + resumed.losses() == whole.losses()
    assert stopped.losses()
    assert resumed.losses()


def test_moved_job_prints_what_it_would_have_printed(jobs: Jobs) -> None:
    """The job that is read from its lines goes on with the next epoch, and with the losses it would have had."""
    size = ("--epochs", "4", "--work", "0.2")
    whole = jobs.supervised("mlp", *size).printed()
    stopped = jobs.supervised("mlp", *size, asked=True)
    assert stopped.checkpoint() == "step-00000025-i0002"
    stopped.process.terminate()
    before = stopped.printed()
    after = jobs.supervised("mlp", *size, restore="step-00000025-i0002").printed()
    assert before.startswith("Epoch 1/4\n")
    assert after.startswith("Epoch 2/4\n")
    assert before + after == whole
    reports = jobs.started[0].control.joinpath("reports.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in reports] == [25, 50, 75, 100]
    assert all(json.loads(line)["metrics"] == {} for line in reports)


def test_lines_of_the_job_that_only_prints_are_those_of_pytorchs_example(run_job: Callable[..., Finished]) -> None:
    """It prints epoch, position and loss in the shape of PyTorch's MNIST example, and nothing else."""
    printed = run_job("softmax", "--epochs", "2", "--work", "0.1").stdout.splitlines()
    shape = re.compile(r"Train Epoch: (\d+) \[(\d+)/(\d+) \((\d+)%\)\]\tLoss: \d+\.\d{6}")
    fields = [[int(number) for number in match.groups()] for line in printed if (match := shape.fullmatch(line))]
    assert len(fields) == len(printed) == 17
    assert fields[0] == [1, 3072, 25600, 12]
    assert fields[-1] == [2, 25600, 25600, 100]


def test_lines_of_the_other_are_those_of_keras(run_job: Callable[..., Finished]) -> None:
    """Each epoch has its header and one line, rewritten with carriage returns, of bar and mean loss."""
    printed = run_job("mlp", "--epochs", "2", "--work", "0.1").stdout
    assert re.fullmatch(r"(Epoch [12]/2\n(\r\d+/25 \[=*>?\.*\] - loss: \d\.\d{4}){5}\n){2}", printed), printed
    assert "\r25/25 [=========================] - loss: " in printed


def test_no_steps_are_a_training_too() -> None:
    """Asked for 0 steps, a job is complete immediately; one process runs them all, each as its program."""
    program = f"""
import runpy, sys
sys.argv[1:] = ["--steps", "0"]
for name in {EVERY}:
    sys.modules.pop("steepest_lab.jobs." + name, None)  # another one may have imported it
    try:
        runpy.run_module("steepest_lab.jobs." + name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert not end.code, (name, end.code)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "arguments", [("--steps", "-1"), ("--work", "0"), ("--work", "nan"), ("--steps", "1", "--epochs", "1")]
)
def test_senseless_argument_is_refused(run_job: Callable[..., Finished], arguments: tuple[str, ...]) -> None:
    """An argument that makes no sense is named, with exit status 2."""
    done = run_job("linear", *arguments)
    assert done.status == 2
    assert "error: " in done.stderr
    assert arguments[-2] in done.stderr


def test_jobs_start_without_scikit_learn_and_the_list_without_numpy() -> None:
    """A job reads scikit-learn's files without the second that its import takes; the list of jobs needs nothing."""
    modules = ", ".join(f"steepest_lab.jobs.{name}" for name in EVERY)
    check = (
        f"import sys, os, steepest_lab.jobs; assert 'numpy' not in sys.modules; import {modules};"
        "assert 'sklearn' not in sys.modules; assert os.environ['OPENBLAS_NUM_THREADS']"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_every_job_is_in_the_list() -> None:
    """The package's docstring lists exactly the modules that can be run."""
    assert steepest_lab.jobs.__doc__ is not None
    listed = re.findall(r"^\| ``(\w+)`` \|", steepest_lab.jobs.__doc__, re.MULTILINE)
    folder = Path(next(iter(steepest_lab.jobs.__path__)))
    runnable = [path.stem for path in folder.glob("*.py") if '\nif __name__ == "__main__":\n' in path.read_text()]
    assert sorted(listed) == sorted(runnable) == sorted([*EVERY, "faulty", "streamed"])


def test_data_are_what_they_are_said_to_be() -> None:
    """Digits from 0 to 1 with ten classes, standardised measures of 442 patients, and one letter for each place."""
    images, labels = digits()
    assert images.shape == (1797, 64)
    assert (images.min(), images.max()) == (0, 1)
    assert sorted(set(labels.tolist())) == list(range(10))
    measures, progression = diabetes()
    assert measures.shape == (442, 10)
    assert measures.std(axis=0) == pytest.approx(1, abs=1e-5)
    assert (progression.min(), progression.max()) == (25, 346)
    alphabet, letters = descriptions()
    assert len(letters) > 30_000
    assert "diabetes" in "".join(alphabet[place] for place in letters)
