"""One reading of a metric in a training log.

It owns the record that every source (printed lines, TensorBoard, MLflow, SDK reports) produces. It must never know how a
record was read.
"""

from typing import Literal

import msgspec

Split = Literal["train", "eval"]

TOTAL_LOSS_NAMES = (
    "loss", "train_loss", "training_loss", "total_loss", "lm_loss", "avg_loss", "train/loss", "train_loss_step", "loss_step",
)  # fmt: skip
"""Names under which frameworks print the loss that is minimised, best first; other losses are parts of it."""


class LossRecord(msgspec.Struct, frozen=True, gc=False):
    """One metric's value at one point of a training run.

    Attributes:
        line: 1-based line of the source; redraws of a progress bar share their line.
        position: byte offset in the source immediately after the line, or the redraw, that was read.
        index: index among the records of that line; ``(position, index)`` increases strictly within a source.
        step: optimizer step as printed, or derived from what is printed; otherwise the number of the reading.
        step_counted: whether ``step`` was counted instead of read.
        epoch: as printed, in the framework's own base (0 or 1); a fraction if it prints one.
        metric: the printed name, with underscores for spaces.
        value: finite, NaN or infinite; never missing.
        split: whether training or held-out data was measured.
        format: name of the log format.
        at_ms: the time that the job states, in milliseconds of its wall clock; None: it states none.
        total: the steps of the whole run, as the job states; None: it states none.
        epochs: the epochs of the whole run, likewise.
    """

    line: int
    position: int
    index: int
    step: int | None
    step_counted: bool
    epoch: int | float | None
    metric: str
    value: float
    split: Split
    format: str
    at_ms: int | None = None
    total: int | None = None
    epochs: int | float | None = None
