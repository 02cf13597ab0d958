"""torchvision's ``MetricLogger`` and its descendants (DETR, DeiT, MAE, PaddleDetection).

It owns its line: ``name: median (mean)``, two blanks between fields. The step's loss is the median of a short window.
"""

import re

from steepest.training_logs.format import (
    Context,
    Format,
    LogLine,
    Reading,
    at_evaluation,
    readings,
    segments,
    with_means,
    within_epoch,
)
from steepest.training_logs.syntax.numbers import NUMBER

_TRAIN = re.compile(rb"Epoch: \[(\d{1,9})\] {1,4}\[ {0,9}(\d{1,9})/ {0,9}(\d{1,9})\](?=\s)")
_TEST = re.compile(rb"^(?:Test|Val|Eval\w{0,6}): {1,4}\[ {0,9}\d{1,9}/ {0,9}\d{1,9}\](?=\s)")
_RESULT = re.compile(rb"^\* {0,4}(?=Acc@\d)")
_FIELDS = re.compile(rb"([A-Za-z][\w@]{0,30}) (" + NUMBER + rb")")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    parts = segments(_TRAIN, text)
    if parts and (b"eta: " in text or b"loss" in text):
        found: list[Reading] = []
        for head, body in parts:
            at = within_epoch(context, int(head[1]), int(head[2]), int(head[3]))
            found += with_means(body, at, context, "train")
        return found
    if (match := _TEST.match(text)) and b"loss: " in text:
        return with_means(text[match.end() :], at_evaluation(context), context, "eval")
    if match := _RESULT.match(text):
        return readings(_FIELDS.findall(text), at_evaluation(context), context, split="eval")
    return None


FORMAT = Format(
    name="metric-logger",
    shape="Epoch: [0]  [ 103/5005]  eta: 4:43:31  lr: 0.1  loss: 6.85 (6.94)  acc1: 1.5 (1.2)  max mem: 3524",
    needles=(b"loss: ", b"* Acc@"),
    read=_read,
)
