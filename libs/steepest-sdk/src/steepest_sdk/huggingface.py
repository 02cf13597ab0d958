"""A callback for the Hugging Face ``Trainer``: it reports what the trainer logs, and is left after any step.

    steepest = SteepestCallback()
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[steepest])
    trainer.train(resume_from_checkpoint=steepest.checkpoint)

The trainer itself writes and reads the checkpoints (``checkpoint-<step>``: weights, optimiser, schedule, random states,
its own state) and skips the batches that were done. This file owns when it does, and where they go.
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


class SteepestCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not there when types are checked
    """Reports, saves when it is asked to, and leaves on SIGTERM. Make it in the main thread, before the trainer.

    The loss is reported as often as the trainer logs it (``logging_steps``); each step in between is reported without.

    Args:
        mode: As of ``steepest_sdk.start``.

    Attributes:
        checkpoint: What ``Trainer.train`` is to resume from; None at the beginning of a training.
    """

    def __init__(self, *, mode: Literal["on-request", "on-stop"] = "on-request") -> None:
        self.checkpoint: str | None = None
        self._saved: Path | None = None
        self._ours = False
        self._run = steepest_sdk.start(save=self._save, load=self._remember, mode=mode)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Makes sure that the training can be left, and that it has resumed.

        Raises:
            ValueError: Its checkpoints would lack the optimiser, it trains in several processes, or it was not told
                to resume.
        """
        del control
        if args.save_only_model or args.world_size > 1:
            raise ValueError("SteepestCallback needs save_only_model=False and a training in one process")
        if state.global_step != self._run.step:
            raise ValueError(
                f"the training begins after step {state.global_step} and its checkpoint is of step {self._run.step}: "
                "call train(resume_from_checkpoint=steepest.checkpoint)"
            )
        if self.checkpoint is not None:
            _restore_renamed(model, Path(self.checkpoint))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Reports the step, and has the trainer save after it if a checkpoint is wanted."""
        del args
        self._run.record(state.global_step, epoch=_epoch(state))
        if self._run.wanted and not control.should_save:
            control.should_save = self._ours = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Reports the loss, or an evaluation's metrics."""
        del args, control
        if logs is None or _SUMMARY in logs:
            return
        metrics = {name: value for name, value in logs.items() if _is_metric(name)}
        if metrics:
            self._run.record(state.global_step, epoch=_epoch(state), **metrics)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Takes over what the trainer has just saved, if it is wanted.

        Raises:
            SystemExit: With status 85: the process was told to leave, and its state is saved.
        """
        del control
        self._saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self._run.safe_point()
        if self._ours:
            shutil.rmtree(self._saved, ignore_errors=True)
        self._ours = False

    def _save(self, folder: Path) -> None:
        if self._saved is None:
            raise OSError("the trainer has not saved yet")
        if not self._ours:
            shutil.copytree(self._saved, folder, dirs_exist_ok=True)
            return
        # Nobody else has asked for it, and it may be large: it is moved.
        for path in sorted(self._saved.iterdir()):
            shutil.move(path, folder / path.name)

    def _remember(self, folder: Path) -> None:
        self.checkpoint = str(folder)


def _epoch(state: Any) -> int | None:
    """The epoch in which a step lies, from 1; the trainer counts in fractions, and not at all before it trains."""
    return None if state.epoch is None else math.ceil(state.epoch)


def _restore_renamed(model: Any, folder: Path) -> None:
    """Loads weights that the trainer did not find.

    Transformers saves those of some architectures under the names of their published checkpoints. Its trainer (5.23)
    looks for the model's own names, warns that they are missing, and would train on from what chance has put there.
    """
    saved = set()
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            saved.update(weights.keys())
    if not saved <= model.state_dict().keys():
        model.load_state_dict(type(model).from_pretrained(folder).state_dict())


def _is_metric(name: str) -> bool:
    return name == "loss" or (name.startswith("eval_") and not name.endswith(_TIMINGS))
