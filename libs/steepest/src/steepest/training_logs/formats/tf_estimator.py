"""TensorFlow's Estimator (and TFJob), and the older slim trainer.

It owns their lines. ``Loss for final step`` repeats the last one; asynchronous workers skip and repeat steps.
"""

import re

from steepest.training_logs.format import PAIRS_EQUAL, Context, Format, LogLine, Reading, RunPosition, at_step, readings

_STEP = re.compile(rb"\bstep = (\d{1,15})\b")
_SLIM = re.compile(rb"\bglobal step (\d{1,15}): (?=\w{0,30}loss = )")
_SAVED = re.compile(rb"\bSaving dict for global step (\d{1,15}): ")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if match := _SAVED.search(text):
        step = int(match[1])
        return readings(
            PAIRS_EQUAL.findall(text[match.end() :]), RunPosition(step, None, (step,)), context, split="eval"
        )
    match = _SLIM.search(text) or (_STEP.search(text) if b"oss = " in text else None)
    if match is None:
        return None
    found = readings(PAIRS_EQUAL.findall(text), at_step(context, int(match[1])), context)
    return found or None


FORMAT = Format(
    name="tf-estimator",
    shape="INFO:tensorflow:loss = 2.13, step = 101 (0.726 sec)\nglobal step 5: loss = 62.5 (20.2 sec/step)",
    needles=(b"step = ", b"global step "),
    read=_read,
)
