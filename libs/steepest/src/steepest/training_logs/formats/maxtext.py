"""MaxText: ``completed step: 0, seconds: ..., loss: 10.874``.

It owns that line and the evaluation's.
"""

import re

from steepest.training_logs.format import (
    PAIRS_ANY,
    PAIRS_COLON,
    Context,
    Format,
    LogLine,
    Reading,
    RunPosition,
    at_step,
    readings,
)

_STEP = re.compile(rb"\bcompleted step: (\d{1,15}), seconds: ")
_EVALUATION = re.compile(rb"\beval metrics after step: (\d{1,15}), ")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if match := _STEP.search(text):
        return readings(PAIRS_COLON.findall(text[match.end() :]), at_step(context, int(match[1])), context)
    if match := _EVALUATION.search(text):
        at = RunPosition(int(match[1]), None, (int(match[1]),))
        return readings(PAIRS_ANY.findall(text[match.end() :]), at, context, split="eval")
    return None


FORMAT = Format(
    name="maxtext",
    shape="completed step: 0, seconds: 1.353, TFLOP/s/device: 167.0, total_weights: 1572864, loss: 10.874",
    needles=(b"completed step: ", b"eval metrics after step: "),
    read=_read,
)
