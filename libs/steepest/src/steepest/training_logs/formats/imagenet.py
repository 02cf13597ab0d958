"""PyTorch's ``examples/imagenet``: values of the step, with their means over the epoch in parentheses.

It owns its three line shapes. The means are separate metrics.
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

_TRAIN = re.compile(rb"Epoch: \[(\d{1,9})\]\[ {0,8}(\d{1,9})/(\d{1,9})\](?=\s)")
_TEST = re.compile(rb"^Test: \[ {0,8}\d{1,9}/\d{1,9}\](?=\s)")
_RESULT = re.compile(rb"^ ?\* {0,4}(?=Acc@\d|Prec@\d)")
_ACCURACY = re.compile(rb"((?:Acc|Prec)@\d{1,3}):? {1,8}(" + NUMBER + rb")")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    parts = segments(_TRAIN, text)
    if parts and b"Loss " in text:
        found: list[Reading] = []
        for head, body in parts:
            at = within_epoch(context, int(head[1]), int(head[2]), int(head[3]))
            found += with_means(body, at, context, "train")
        return found
    if (match := _TEST.match(text)) and b"Loss " in text:
        return with_means(text[match.end() :], at_evaluation(context), context, "eval")
    if match := _RESULT.match(text):
        return readings(_ACCURACY.findall(text), at_evaluation(context), context, split="eval")
    return None


FORMAT = Format(
    name="imagenet",
    shape="Epoch: [0][  400/80073]\tTime  0.3 ( 0.4)\tLoss 6.98e+00 (7.08e+00)\tAcc@1 0.1 (0.2)\n * Acc@1 75.9 Acc@5 92.8",
    needles=(b"Loss ", b"* Acc@", b"* Prec@"),
    read=_read,
)
