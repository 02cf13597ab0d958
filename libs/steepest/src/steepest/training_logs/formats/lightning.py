"""PyTorch Lightning's progress bar: one line per refresh, with pairs in its last brackets.

It owns the bar. The bar keeps showing an epoch's held-out values and means, so those count only when they change. ``loss``
is Lightning's running mean; it is reported as ``loss_mean`` if the job logs a loss of its own.
"""

import re

from steepest.training_logs.format import (
    PAIRS_EQUAL,
    Context,
    Format,
    LogLine,
    Reading,
    readings,
    segments,
    within_epoch,
)
from steepest.training_logs.records import Split
from steepest.training_logs.syntax.metric_names import is_total

_HEAD = re.compile(
    rb"\bEpoch (\d{1,9}): {1,4}\d{1,3}%[^\[\n]{0,400}?(\d{1,9})/(\d{1,9}) \[(?=[^\]]{0,60}(?:it/s|s/it))"
)


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    parts = segments(_HEAD, line.text)
    found: list[Reading] = []
    for match, body in parts:
        at = within_epoch(context, int(match[1]), int(match[2]), int(match[3]))
        shown = _separate_means(readings(PAIRS_EQUAL.findall(body.partition(b"]")[0]), at, context))
        found += [_displayed(one) if _is_held(one.metric, one.split) else one for one in shown]
    return found if parts and (found or b"v_num=" in line.text) else None


def _separate_means(shown: list[Reading]) -> list[Reading]:
    """Renames the running mean to ``loss_mean`` if the step's own loss is shown too."""
    losses = [one for one in shown if one.split == "train" and is_total(one.metric)]
    if len(losses) == 1:
        return shown
    return [one._replace(metric="loss_mean") if one.metric == "loss" else one for one in shown]


def _is_held(metric: str, split: Split) -> bool:
    return split == "eval" or metric.endswith("_epoch")


def _displayed(found: Reading) -> Reading:
    return found._replace(scope="display", at=found.at._replace(order=None))


FORMAT = Format(
    name="lightning",
    shape="Epoch 0:  97% 1651/1702 [13:00<00:24,  2.11it/s, loss=0.158, v_num=0, val_loss=0.2]",
    needles=(b"Epoch ",),
    signs=(b"loss=", b"v_num="),
    read=_read,
)
