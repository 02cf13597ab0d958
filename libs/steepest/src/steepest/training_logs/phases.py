"""The split of lines that name none: by headers, by other loops, by what stood before.

It owns where a phase begins and ends. It must never know a metric's name.
"""

from steepest.training_logs.ledger import Position
from steepest.training_logs.memory import Process
from steepest.training_logs.statement import NamedNumber, Statement

_NEAR_LINES = 3
"""A line of qualities so near below an evaluation belongs to it."""


def label(process: Process, one: Statement, metrics: list[NamedNumber], length: int | None) -> None:
    """The split of a line whose words name none, by what stands on it and what stood before it."""
    if one.split is not None or any(metric.split == "train" for metric in metrics):
        return
    losses = any(metric.kind == "loss" for metric in metrics)
    of_batch = one.has("batch") and not one.has("epoch", "global", "step", "iter")
    near = process.evaluated is not None and 0 <= one.line - process.evaluated <= _NEAR_LINES
    if not losses and "h" in metrics[0].trait:
        one.split = "eval"
    elif (process.batches and of_batch) or _is_other_loop(process, one, length):
        one.split = "eval"  # a batch without the epoch that training states: another loop
    elif one.is_starred and losses and process.order is not None and not one.places():
        one.split = "eval"  # a line of another kind than those of training, which state their place
    elif near and not one.places() and any(metric.kind == "quality" for metric in metrics):
        one.split = "eval"


def _is_other_loop(process: Process, one: Statement, length: int | None) -> bool:
    """Whether a bar of another length than an epoch's follows a finished epoch, whose header named no other."""
    bar = next((number for number in one.progress if number.kind == "keras"), None)
    headed = process.progression.headed and process.epoch == process.progression.epoch
    return bar is not None and length is not None and headed and bar.total is not None and bar.total != length


def end_phase(process: Process, one: Statement, metrics: list[NamedNumber], at: Position, *, has_place: bool) -> None:
    """A phase ends where a line says so itself, or where training is known to go on."""
    if process.phase != "eval":
        return
    if any(metric.split == "eval" for metric in metrics) or one.split == "train":
        process.phase = None
    elif one.split is None and one.shape in process.shapes:
        new_epoch = at.epoch is not None and process.epoch is not None and at.epoch > process.epoch
        order, top = at.order, process.order
        beyond = has_place and order is not None and top is not None and len(order) == len(top) and order > top
        process.phase = None if new_epoch or beyond else process.phase
