"""Real frameworks on real data: stopped in the middle and resumed, each ends where an uninterrupted training ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.frameworks.conftest import EXAMPLES, needs_frameworks

from steepest_sdk import EXIT_STOPPED
from steepest_sdk.checkpoints import CheckpointFolder

if TYPE_CHECKING:
    from tests.frameworks.conftest import Supervisor

pytestmark = [needs_frameworks, pytest.mark.timeout(900)]

VARIANTS = Path(__file__).with_name("lightning_variants.py")


@dataclass(frozen=True)
class Example:
    """A training.

    Attributes:
        steps: Its total number of steps.
        epoch: Number of steps between two possible stops; 1 if it can stop after any step.
        reported: The names of its metrics.
    """

    script: Path
    arguments: tuple[str, ...]
    steps: int
    epoch: int
    reported: frozenset[str]
    env: dict[str, str] = field(default_factory=dict)


LOSS = frozenset({"loss"})
KERAS = frozenset({"loss", "accuracy", "val_loss", "val_accuracy"})

CASES = {
    "pytorch": Example(EXAMPLES / "pytorch_digits.py", ("--epochs", "12"), 12 * 57, 1, LOSS),
    "lightning": Example(EXAMPLES / "lightning_digits.py", ("--epochs", "24"), 24 * 47, 1, LOSS | {"val_loss"}),
    "huggingface": Example(EXAMPLES / "huggingface_digits.py", ("--epochs", "5"), 5 * 47, 1, LOSS | {"eval_loss"}),
    "keras on jax": Example(
        EXAMPLES / "keras_digits.py", ("--epochs", "30"), 30 * 47, 47, KERAS, {"KERAS_BACKEND": "jax"}
    ),
    "keras on torch": Example(
        EXAMPLES / "keras_digits.py", ("--epochs", "8"), 8 * 47, 47, KERAS, {"KERAS_BACKEND": "torch"}
    ),
}

LIGHTNING = {
    "accumulates gradients": Example(
        VARIANTS, ("--epochs", "16", "--accumulate", "4"), 16 * 15, 1, LOSS | {"val_accuracy"}
    ),
    "has a loader without a place": Example(
        VARIANTS, ("--epochs", "16", "--ordinary-loader"), 16 * 57, 57, LOSS | {"val_accuracy"}
    ),
    "counts steps, not epochs": Example(
        VARIANTS, ("--max-steps", "900", "--ordinary-loader"), 900, 57, LOSS | {"val_accuracy"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_stopped_twice_it_ends_where_an_uninterrupted_training_ends(supervisor: Supervisor, name: str) -> None:
    """Stopped by SIGTERM, then by request, hold and SIGTERM, it does each step once and ends on the same bits."""
    case = CASES[name]
    whole = supervisor.start_alone(case.script, *case.arguments, env=case.env)
    assert whole.wait() == 0, whole.said()

    first = supervisor.start(case.script, *case.arguments, env=case.env)
    first.await_step(case.steps // 5)
    assert first.terminate() == EXIT_STOPPED, first.said()
    (restore,) = supervisor.saved()
    assert f"{first.steps()[-1]:08d}" in restore

    second = supervisor.start(case.script, *case.arguments, env=case.env, restore=restore)
    assert second.hello() == {
        "checkpoint_mode": "on-request", "restored_step": first.steps()[-1], "restored": restore,
    }  # fmt: skip
    second.await_step(case.steps // 2)
    answer = second.request()
    assert second.steps()[-1] == answer["step"]
    assert answer["step"] % case.epoch == 0
    assert second.terminate() == EXIT_STOPPED, second.said()
    assert supervisor.saved() == [restore, answer["name"]]

    third = supervisor.start(case.script, *case.arguments, env=case.env, restore=answer["name"])
    assert third.wait() == 0, third.said()
    assert [*first.steps(), *second.steps(), *third.steps()] == list(range(1, case.steps + 1))
    assert {metric for report in third.reports() for metric in report["metrics"]} == case.reported
    assert third.final_loss() == whole.final_loss()


@pytest.mark.parametrize("name", LIGHTNING)
def test_however_lightning_trains_it_ends_on_the_same_bits(
    supervisor: Supervisor, another: Supervisor, name: str
) -> None:
    """Resumed with accumulated gradients or between epochs, it has each loss and the last one of an unstopped training."""
    case = LIGHTNING[name]
    stopped = supervisor.start(case.script, *case.arguments)
    stopped.await_step(case.steps // 3)
    assert stopped.terminate() == EXIT_STOPPED, stopped.said()
    assert stopped.steps()[-1] % case.epoch == 0
    resumed = supervisor.start(case.script, *case.arguments, restore=supervisor.saved()[0])
    assert resumed.wait() == 0, resumed.said()

    whole = another.start(case.script, *case.arguments)
    assert whole.wait() == 0, whole.said()
    assert stopped.losses() | resumed.losses() == whole.losses()
    assert {metric for report in resumed.reports() for metric in report["metrics"]} == case.reported
    assert resumed.final_loss() == whole.final_loss()


def test_lightning_stopped_before_its_first_step_exits_with_85(supervisor: Supervisor) -> None:
    """Lightning's own handler would leave with status 0, which means complete: here the status is 85, whenever it comes."""
    training = supervisor.start(EXAMPLES / "lightning_digits.py")
    training.hello()
    assert training.terminate() == EXIT_STOPPED, training.said()


@pytest.mark.parametrize(
    ("example", "forgotten", "remedy"),
    [
        ("lightning", ", ckpt_path=steepest.checkpoint", "ckpt_path=steepest.checkpoint"),
        ("huggingface", "resume_from_checkpoint=steepest.checkpoint", "resume_from_checkpoint=steepest.checkpoint"),
        ("keras", "initial_epoch=steepest.initial_epoch, ", "initial_epoch=steepest.initial_epoch"),
    ],
)
def test_script_that_forgets_to_resume_gets_an_error(
    supervisor: Supervisor, tmp_path: Path, example: str, forgotten: str, remedy: str
) -> None:
    """Trained weights with a restarted schedule would be wrong silently: the script fails, and says what to write."""
    source = (EXAMPLES / f"{example}_digits.py").read_text()
    assert forgotten in source
    forgetful = tmp_path / "forgetful.py"
    forgetful.write_text(source.replace(forgotten, ""))
    CheckpointFolder(supervisor.checkpoints, "digits", 1).save(94, 2, lambda folder: (folder / "any").touch())
    training = supervisor.start(forgetful, restore="step-00000094-i0001")
    assert training.wait() == 1
    assert remedy in training.said()
    assert training.reports() == []
