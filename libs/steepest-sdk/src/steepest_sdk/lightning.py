"""A callback for PyTorch Lightning: it reports losses and validation metrics, and saves with the trainer's own checkpoints.

    steepest = SteepestCallback()
    trainer = Trainer(max_epochs=30, callbacks=[steepest])
    trainer.fit(model, loader, ckpt_path=steepest.checkpoint)

With a ``steepest_sdk.pytorch.ResumableLoader`` the training can be stopped after any step; with other loaders, whose
position Lightning cannot restore, only between epochs. This file owns that rule; the trainer does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch import Callback

import steepest_sdk
from steepest_sdk.pytorch import ResumableLoader, random_state, restore_random_state

FILE = "trainer.ckpt"


class SteepestCallback(Callback):  # type: ignore[misc]  # lightning is not installed when types are checked
    """Reports, saves on request, and stops on SIGTERM. Create it in the main thread, before the trainer.

    Args:
        every: Report the mean loss every ``every`` steps; the steps in between are reported without it.
        mode: As for ``steepest_sdk.start``.

    Attributes:
        checkpoint: The checkpoint for ``Trainer.fit`` to resume from; None for a new training.
    """

    def __init__(self, *, every: int = 1, mode: Literal["on-request", "on-stop"] = "on-request") -> None:
        self.checkpoint: str | None = None
        self._every = every
        self._losses: list[Any] = []
        self._step_loss: Any = None
        self._before_validation: dict[str, Any] = {}
        self._trainer: Any = None
        self._loader_state: Mapping[str, int] | None = None
        self._between_epochs = False
        self._run = steepest_sdk.start(save=self._save, load=self._remember, mode=mode)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Checks that the training can be stopped.

        Raises:
            ValueError: It trains in several processes.
        """
        del pl_module, stage
        if trainer.world_size > 1:
            raise ValueError("SteepestCallback needs a training in one process")
        self._trainer = trainer

    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        """Handles SIGTERM again: the trainer would exit on it with status 0, which means that the training is complete."""
        del trainer, pl_module
        self._run.keep_stop_signal()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Handles SIGTERM again, announces the steps, and restores the position in the data.

        Lightning restores that position only within an epoch.

        Raises:
            ValueError: ``fit`` was not called with the checkpoint.
        """
        del pl_module
        self._run.keep_stop_signal()
        if trainer.global_step != self._run.step:
            raise ValueError(
                f"the training starts after step {trainer.global_step}, but its checkpoint is of step {self._run.step}: "
                "call fit(..., ckpt_path=steepest.checkpoint)"
            )
        self._announce(trainer)
        if self._loader_state is not None and isinstance(trainer.train_dataloader, ResumableLoader):
            trainer.train_dataloader.load_state_dict(self._loader_state)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """A safe point with every loader: the previous epoch is complete, and this one has not started."""
        del pl_module
        if isinstance(trainer.train_dataloader, ResumableLoader):
            # The trainer counts batches and does not request one more, so the loader does not notice the epoch's end.
            trainer.train_dataloader.end_epoch()
        self._between_epochs = True
        self._run.safe_point()
        self._between_epochs = False

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Reports the step after the optimiser's update; a safe point if the loader's position is known.

        The last batch of an epoch is not a safe point: the work at the epoch's end is still to be done.
        """
        del pl_module, batch, batch_idx
        self._add(outputs)
        if trainer.global_step == self._run.step:
            return  # gradients are being accumulated
        self._record(trainer)
        if isinstance(trainer.train_dataloader, ResumableLoader) and not trainer.is_last_batch:
            self._run.safe_point()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Makes a plateau schedule take its step at the end of the resumed epoch as well.

        Lightning would skip it, because its checkpoints have no metrics; but those of a validation are available here.
        """
        del pl_module
        trainer.fit_loop._restarting = False  # noqa: SLF001 - its setter cannot clear it

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Remembers the present metrics, to distinguish those of the validation from them."""
        del pl_module
        self._before_validation = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports the validation's metrics, under names that start with ``val``."""
        del pl_module
        if trainer.sanity_checking:
            return
        before = self._before_validation
        metrics = {
            name if name.startswith("val") else f"val_{name}": value
            for name, value in trainer.callback_metrics.items()
            if before.get(name) is not value
        }
        self._run.record(trainer.global_step, epoch=trainer.current_epoch + 1, **metrics)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Mapping[str, Any]) -> None:
        """Marks the epoch as not started in a checkpoint that is saved at the epoch's start.

        From a checkpoint with a started epoch Lightning resumes with the next one; from one between two epochs, like after
        ``fit``, with this one.
        """
        del trainer, pl_module
        if self._between_epochs:
            _take_back_epoch(checkpoint["loops"]["fit_loop"])

    def state_dict(self) -> dict[str, Any]:
        """The state that the trainer's checkpoint omits.

        The random generators, the position in the data between epochs, and losses that are not reported yet.
        """
        loader = None if self._trainer is None else self._trainer.train_dataloader
        place = loader.state_dict() if isinstance(loader, ResumableLoader) else None
        return {"random": random_state(), "loader": place, "losses": [float(loss) for loss in self._losses]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores the generators, the position in the data and the unreported losses."""
        restore_random_state(state_dict["random"])
        self._loader_state = state_dict["loader"]
        self._losses = list(state_dict["losses"])

    def _announce(self, trainer: Any) -> None:
        steps = trainer.estimated_stepping_batches  # infinite where neither steps nor epochs are bounded
        self._run.announce(steps=int(steps) if math.isfinite(steps) else None, epochs=trainer.max_epochs)

    def _add(self, outputs: Any) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None:
            # With gradient accumulation the trainer passes each batch's share of the step's loss.
            self._step_loss = loss if self._step_loss is None else self._step_loss + loss

    def _record(self, trainer: Any) -> None:
        if self._step_loss is not None:
            self._losses.append(self._step_loss)
            self._step_loss = None
        metrics = {}
        if self._losses and trainer.global_step % self._every == 0:
            metrics["loss"] = sum(self._losses) / len(self._losses)
            self._losses.clear()
        self._run.record(trainer.global_step, epoch=trainer.current_epoch + 1, **metrics)

    def _save(self, folder: Path) -> None:
        self._trainer.save_checkpoint(folder / FILE)

    def _remember(self, folder: Path) -> None:
        self.checkpoint = str(folder / FILE)


def _take_back_epoch(progress: Mapping[str, Any]) -> None:
    """Changes the state of Lightning's fit loop from the start of an epoch to between two epochs."""
    for counts in (progress["epoch_progress"]["total"], progress["epoch_progress"]["current"]):
        counts["ready"] -= 1
    batches = progress["epoch_loop.batch_progress"]
    batches["current"] = dict.fromkeys(batches["current"], 0)
    batches["is_last_batch"] = False
