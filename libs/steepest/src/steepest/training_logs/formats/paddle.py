"""PaddlePaddle's trainers (PaddleOCR, PaddleSeg, PaddleClas): ``key: value`` between commas, in any order.

It owns that line. ``global_step`` and PaddleSeg's ``iter`` count over the whole run.
"""

import re

from steepest.training_logs.format import (
    PAIRS_COLON,
    Context,
    Format,
    LogLine,
    Reading,
    RunPosition,
    at_evaluation,
    at_step,
    readings,
)
from steepest.training_logs.syntax.numbers import to_int

_EPOCH = re.compile(rb"\bepoch: \[?(\d{1,9})(?:/(\d{1,9}))?\]?[, ]")
_STEP = re.compile(rb"\b(?:global_step|iter): \[?(\d{1,12})(?:/(\d{1,12}))?\]?(?=[,\s])")
_EVALUATION = re.compile(rb"\[EVAL\]|\[Eval\]|\bcur metric\b")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if _EVALUATION.search(text):
        return readings(PAIRS_COLON.findall(text), at_evaluation(context), context, split="eval") or None
    epoch, step = _EPOCH.search(text), _STEP.search(text)
    if epoch is None or step is None or b"loss" not in text:
        return None
    context.epoch = int(epoch[1])
    context.epochs = context.epochs if epoch[2] is None else int(epoch[2])
    at: RunPosition = at_step(context, int(step[1]), context.epoch, total=to_int(step[2]))
    return readings(PAIRS_COLON.findall(text), at, context) or None


FORMAT = Format(
    name="paddle",
    shape="[TRAIN] epoch: 1, iter: 20/500, loss: 2.08, lr: 0.01\nepoch: [1/2], global_step: 100, lr: 5e-06, loss: 69.4",
    needles=(b"epoch: ", b"[EVAL]", b"cur metric"),
    read=_read,
)
