r"""LightGBM: ``[12]\ttraining's l2: 0.25`` from Python and ``Iteration:12, training l2 : 0.25`` from its command line.

It owns those lines. The command line prints one metric per line; the deviation that ``cv`` prints after a mean is not read.
"""

import re

from steepest.training_logs.boosting import Evaluated, round_of
from steepest.training_logs.format import Context, Format, LogLine, Reading
from steepest.training_logs.syntax.numbers import NUMBER

_ROUND = re.compile(rb"\[(\d{1,9})\]\t(?=[^\t]{1,200}: )")
_METRIC = re.compile(rb"([^\t']{1,100})'s ([\w@. -]{1,60}): (" + NUMBER + rb")(?: \+ " + NUMBER + rb")?(?:\t|$)")
_COMMAND_LINE = re.compile(rb"Iteration:(\d{1,9}), (\w{1,60}) ([\w@.-]{1,60}) : (" + NUMBER + rb")")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    if (alone := _COMMAND_LINE.search(line.text)) is not None:
        step, name, metric, value = alone.groups()
        return round_of(int(step), [Evaluated(name.decode(), metric.decode(), float(value))], context)
    head = _ROUND.search(line.raw)
    metrics = _METRIC.findall(line.raw[head.end() :].rstrip()) if head else []
    if head is None or not metrics:
        return None
    # `cv` puts the data set before the metric: "cv_agg's valid binary_logloss".
    evaluated = (
        Evaluated(f"{name.decode('utf-8', 'replace')} {' '.join(words[:-1])}", words[-1], float(value))
        for name, metric, value in metrics
        if (words := metric.decode().split())
    )
    return round_of(int(head[1]), evaluated, context)


FORMAT = Format(
    name="lightgbm",
    shape="[12]\ttraining's l2: 0.25\tvalid_1's l2: 0.5",
    needles=(b"]\t", b"Iteration:"),
    signs=(b"'s ", b"Iteration:"),
    read=_read,
)
