"""A callback for the Hugging Face ``Trainer``: it reports what the trainer logs, and can stop the training after any step.

    steepest = SteepestCallback()
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[steepest])
    trainer.train(resume_from_checkpoint=steepest.checkpoint)

The trainer itself writes and reads the checkpoints (``checkpoint-<step>``: weights, optimiser, schedule, random states,
its own state) and skips the batches that were done. This file owns when it saves, and where the checkpoints are stored.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from safetensors import safe_open
from transformers import TrainerCallback

import steepest_sdk

_TIMINGS = ("_runtime", "_per_second", "_compilation_time")
_SUMMARY = "train_runtime"


class SteepestCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not installed when types are checked
    """Reports, saves on request, and stops on SIGTERM. Create it in the main thread, before the trainer.

    The loss is reported as often as the trainer logs it (``logging_steps``); the steps in between are reported without it.

    Args:
        mode: As for ``steepest_sdk.start``.

    Attributes:
        checkpoint: The checkpoint for ``Trainer.train`` to resume from; None for a new training.
    """

    def __init__(self, *, mode: Literal["on-request", "on-stop"] = "on-request") -> None:
        self.checkpoint: str | None = None
        self._saved: Path | None = None
        self._own_save = False
        self._run = steepest_sdk.start(save=self._save, load=self._remember, mode=mode)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Checks that the training can be stopped, and that it has resumed; announces its steps.

        Raises:
            ValueError: Its checkpoints would lack the optimiser, it trains in several processes, or ``train`` was not
                called with the checkpoint.
        """
        del control
        if args.save_only_model or args.world_size > 1:
            raise ValueError("SteepestCallback needs save_only_model=False and a training in one process")
        if state.global_step != self._run.step:
            raise ValueError(
                f"the training starts after step {state.global_step}, but its checkpoint is of step {self._run.step}: "
                "call train(resume_from_checkpoint=steepest.checkpoint)"
            )
        self._run.announce(steps=state.max_steps)
        if self.checkpoint is not None:
            _restore_renamed(model, Path(self.checkpoint))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Reports the step, and makes the trainer save after it if a checkpoint is wanted."""
        del args
        self._run.record(state.global_step, epoch=_epoch(state))
        if self._run.wanted and not control.should_save:
            control.should_save = self._own_save = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Reports the loss, or an evaluation's metrics."""
        del args, control
        if logs is None or _SUMMARY in logs:
            return
        metrics = {name: value for name, value in logs.items() if _is_metric(name)}
        if metrics:
            self._run.record(state.global_step, epoch=_epoch(state), **metrics)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Takes over the checkpoint that the trainer has just saved, if it is wanted.

        Raises:
            SystemExit: With status 85: the process was asked to stop, and its state is saved.
        """
        del control
        self._saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self._run.safe_point()
        if self._own_save:
            shutil.rmtree(self._saved, ignore_errors=True)
        self._own_save = False

    def _save(self, folder: Path) -> None:
        if self._saved is None:
            raise OSError("the trainer has not saved yet")
        if not self._own_save:
            shutil.copytree(self._saved, folder, dirs_exist_ok=True)
            return
        # Only the SDK has requested this checkpoint, which may be large: move it instead of copying it.
        for path in sorted(self._saved.iterdir()):
            shutil.move(path, folder / path.name)

    def _remember(self, folder: Path) -> None:
        self.checkpoint = str(folder)


def _epoch(state: Any) -> int | None:
    """The epoch of a step, from 1; the trainer counts in fractions, and has None before it trains."""
    return None if state.epoch is None else math.ceil(state.epoch)


def _restore_renamed(model: Any, folder: Path) -> None:
    """Loads weights that the trainer did not find.

    Transformers saves those of some architectures under the names of their published checkpoints. Its trainer (5.23)
    looks for the model's own names, warns that they are missing, and would continue from random weights.
    """
    saved = set()
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            saved.update(weights.keys())
    if not saved <= model.state_dict().keys():
        model.load_state_dict(type(model).from_pretrained(folder).state_dict())


def _is_metric(name: str) -> bool:
    return name == "loss" or (name.startswith("eval_") and not name.endswith(_TIMINGS))
