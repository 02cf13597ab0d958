"""Which metrics of a line are reported: the loss and not its parts, the objective of boosting, a sum of parts.

It owns the rules between the names of one line. It must never know other lines.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from steepest.training_logs.records import Split
from steepest.training_logs.statement import NamedNumber, Statement

_TRAIN = re.compile(r"^train(?:ing)?[_ ]")
_STAND_IN = re.compile(r"valid(?:ation)?_0")
_DATA_SET = re.compile(
    r"(?:cv_agg's_)?(?:train|valid|val|test|eval|dev)[a-z]{0,10}(?:_\d{1,4})?(?:'s)?[_-]([A-Za-z][\w@.-]{0,60})"
)


class Reported(NamedTuple):
    """A metric that is reported, with its split and its name."""

    metric: NamedNumber
    split: Split
    name: str


def lane_of(name: str) -> str:
    """The name that a training metric shares with other spellings."""
    return _TRAIN.sub("", name.lower())


def with_objective(metrics: list[NamedNumber], one: Statement, lanes: Collection[str]) -> list[NamedNumber]:
    """The training set's first error is the loss where no other is: not on the line, nor among the series (``lanes``).

    Boosting prints ``<data set> <metric>``; without a training set the first set stands in.
    """
    error = next((metric for metric in metrics if metric.split == "train" and "e" in metric.trait), None)
    if error is not None and not any(metric.kind == "loss" for metric in metrics):
        trained = [name for name in lanes if name.startswith("train ")]
        error.kind = "loss" if not trained or f"train {lane_of(error.name)}" in trained else error.kind
    parts = [_DATA_SET.fullmatch(metric.name) for metric in metrics]
    of_sets = all(part and part[1] != "loss" for part in parts) and all(metric.split for metric in metrics)
    if not of_sets or not one.has("lead", "iter"):
        return metrics
    for metric in metrics:
        if "e" in metric.trait and (metric.split == "train" or metric.kind == "loss"):
            metric.kind = "loss"
    losses = [metric for metric in metrics if metric.kind == "loss"]
    if losses and _STAND_IN.match(losses[0].name) and not any(metric.split == "train" for metric in metrics):
        losses[0].split = "train"
    for metric, part in zip(metrics, parts, strict=True):
        metric.name = part[1] if part else metric.name
        metric.whole = False
    for metric in losses:
        if metric.split == "train":
            metric.name = "loss"
            break
    return metrics


def without_parts(found: list[Reported], *, is_bar: bool) -> list[Reported]:
    """Drops parts and running means of a training loss that stands on the same line."""
    kept = found
    for split in ("train", "eval"):
        of_split = [each for each in found if each.split == split and each.metric.kind == "loss"]
        whole = [each for each in of_split if each.metric.whole]
        strict = any(not each.metric.mean for each in whole)
        for each in of_split:
            is_part = split == "train" and not each.metric.whole
            is_mean = strict and each.metric.mean and not each.name.endswith("_epoch")
            if whole and (is_part or is_mean):
                kept = [one for one in kept if one is not each]
            elif split == "eval" and each.name in ("average_loss", "avg_loss") and not strict:
                kept = [one._replace(name="loss") if one is each else one for one in kept]
    names = {each.name for each in kept}
    if is_bar and {"loss", "train_loss"} <= names:  # Lightning 1 shows its running mean beside the job's own loss
        kept = [each._replace(name="loss_mean") if each.name == "loss" else each for each in kept]
    return kept


def summed(found: list[Reported]) -> list[Reported]:
    """The sum of a line's part losses; a total on the same line is used instead."""
    parts = [each for each in found if each.split == "train" and each.metric.kind == "loss"]
    whole = [each for each in parts if each.metric.whole]
    if whole or not parts:
        return whole
    total = sum(float(each.metric.text) for each in parts)
    first = msgspec.structs.replace(parts[0].metric, text=repr(total), spread=None)
    return [parts[0]._replace(name="loss_sum", metric=first)]
