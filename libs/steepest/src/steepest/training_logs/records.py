"""One reading of a metric in a training log.

Owns the record that every source (printed lines, TensorBoard, MLflow, SDK reports) ends in, and which metric
names stand for a whole training loss. Must never know how a record was read.
"""

from typing import Literal

import msgspec

Split = Literal["train", "eval"]

TOTAL_LOSS_NAMES = (
    "loss",
    "train_loss",
    "training_loss",
    "total_loss",
    "lm_loss",
    "avg_loss",
    "train/loss",
    "train_loss_step",
    "loss_step",
)
"""Names under which frameworks print the loss that is minimised, best first; anything else is a part of it."""


class LossRecord(msgspec.Struct, frozen=True, gc=False):
    """One metric's value at one point of a training run.

    Attributes:
        line: 1-based line of the source; redraws of a progress bar share their line.
        position: byte offset in the source just behind the line, or behind the redraw, that was read.
        index: place among the records of that line; ``(position, index)`` grows strictly within a source.
        step: optimizer step as printed or derived from what is printed; the n-th reading where nothing is.
        step_counted: whether ``step`` was counted instead of read.
        epoch: as printed, in the framework's own base (0 or 1); fractions where it prints fractions.
        metric: the printed name, spaces turned to underscores.
        value: finite, NaN or infinite; never missing.
        split: whether training or held-out data was measured.
        format: name of the log format.
        at_ms: when the job says that it was, in milliseconds of its wall clock; None: it does not say.
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


def is_training_loss(record: LossRecord) -> bool:
    """Whether the record is a whole training loss, and not a part, a mean over an epoch or a held-out loss."""
    return record.split == "train" and record.metric in TOTAL_LOSS_NAMES
