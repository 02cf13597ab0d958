"""llm.c: ``step 5/19560 | loss ...`` and ``val loss ...``.

It owns those lines, of the old and the new trainer.
"""

import re

from steepest.training_logs.format import (
    Context,
    Format,
    LogLine,
    Reading,
    at_evaluation,
    at_step,
    readings,
    total_loss,
)
from steepest.training_logs.syntax.numbers import NUMBER

_STEP = re.compile(rb"^step {1,12}(\d{1,12})/(\d{1,12}) \| (?:train )?loss (" + NUMBER + rb")")
_VAL = re.compile(rb"^val loss (" + NUMBER + rb")\s{0,4}$")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    if match := _STEP.match(line.text):
        return total_loss(match[3], at_step(context, int(match[1]), total=int(match[2])), context)
    if match := _VAL.match(line.text):
        return readings([(b"val_loss", match[1])], at_evaluation(context), context)
    return None


FORMAT = Format(
    name="llm.c",
    shape="step    5/19560 | loss 10.99 (+nanz)| norm 15.3 (+nanz)| lr 4.3e-06 | 1500 ms\nval loss 3.29",
    needles=(b"loss ",),
    read=_read,
)
