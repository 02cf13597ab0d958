"""nanoGPT: ``iter`` lines of the step's loss, ``step`` lines of both splits' estimates.

It owns those two. Both estimates come from an evaluation loop, so the one on training data is not a step's loss either.
"""

import re

from steepest.training_logs.format import Context, Format, LogLine, Reading, RunPosition, at_step, readings, total_loss
from steepest.training_logs.syntax.numbers import NUMBER

_ITER = re.compile(rb"^iter (\d{1,15}): loss (" + NUMBER + rb"), time ")
_STEP = re.compile(rb"^step (\d{1,15}): train loss (" + NUMBER + rb"), val loss (" + NUMBER + rb")")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    if match := _ITER.match(line.text):
        return total_loss(match[2], at_step(context, int(match[1])), context)
    if match := _STEP.match(line.text):
        at = RunPosition(int(match[1]), None, (int(match[1]),))
        return [
            found._replace(split="eval")
            for found in readings([(b"train_loss", match[2]), (b"val_loss", match[3])], at, context)
        ]
    return None


FORMAT = Format(
    name="nanogpt",
    shape="iter 40: loss 6.2081, time 48.67ms, mfu 10.07%\nstep 250: train loss 2.10, val loss 2.15",
    needles=(b"loss ",),
    read=_read,
)
