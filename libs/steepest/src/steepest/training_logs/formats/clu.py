"""JAX's clu metric writer (Flax examples) and AlgoPerf's runner; every host prints each line.

It owns both line shapes.
"""

import re

from steepest.training_logs.format import PAIRS_EQUAL, Context, Format, LogLine, Reading, RunPosition, at_step, readings
from steepest.training_logs.syntax.numbers import NUMBER

_CLU = re.compile(rb"^\[(\d{1,15})\] (?=[\w/]{1,80}=)")
_ALGOPERF = re.compile(rb"\bStep: (\d{1,15}), {0,4}\t?\{")
_DICTIONARY = re.compile(rb"'([\w/]{1,80})': (" + NUMBER + rb")")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if b"logging_writer.py:" in line.raw and (match := _CLU.match(text)):
        return readings(PAIRS_EQUAL.findall(text[match.end() :]), at_step(context, int(match[1])), context)
    if match := _ALGOPERF.search(text):
        step = int(match[1])
        return readings(_DICTIONARY.findall(text[match.end() :]), RunPosition(step, None, (step,)), context) or None
    return None


FORMAT = Format(
    name="clu",
    shape="I0307 16:47:19.137082 1397 logging_writer.py:48] [700] global_step=700, grad_norm=0.168, loss=0.0578",
    needles=(b"logging_writer.py:", b"Step: "),
    read=_read,
)
