"""tf_cnn_benchmarks in MPI jobs: step, speed and total loss, separated by tabs; every rank prints the line.

It owns that line only.
"""

import re

from steepest.training_logs.format import Context, Format, LogLine, Reading, at_step, total_loss
from steepest.training_logs.syntax.numbers import NUMBER

_LINE = re.compile(
    rb"^(\d{1,15})\timages/sec: {1,4}"
    + NUMBER
    + rb" \+/- "
    + NUMBER
    + rb" \(jitter = "
    + NUMBER
    + rb"\)\t("
    + NUMBER
    + rb")"
)


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    match = _LINE.match(line.text)
    return None if match is None else total_loss(match[2], at_step(context, int(match[1])), context)


FORMAT = Format(
    name="tf-cnn-benchmarks",
    shape="70\timages/sec: 46.7 +/- 0.4 (jitter = 1.8)\t8.734",
    needles=(b"images/sec: ",),
    read=_read,
)
