r"""XGBoost's evaluation monitor: ``[12]\ttrain-rmse:0.25\teval-rmse:0.5``, in Python, R, its command line and ``cv``.

It owns that line. The names of data sets come from the script; the deviation that ``cv`` prints after a mean is not read.
"""

import re

from steepest.training_logs.boosting import Evaluated, round_of
from steepest.training_logs.format import Context, Format, LogLine, Reading
from steepest.training_logs.syntax.numbers import NUMBER

_ROUND = re.compile(rb"\[(\d{1,9})\]\t(?=[^\t]{1,200}:)")
_METRIC = re.compile(
    rb"([^\t]{1,100}?)-((?:[a-z]{1,12}-(?:nloglik|deviance)|[a-z]\w{0,40})(?:@[\w.-]{1,20})?):(" + NUMBER + rb")"
    rb"(?:\+" + NUMBER + rb")?(?:\t|$)"
)


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    head = _ROUND.search(line.raw)
    if head is None:
        return None
    metrics = _METRIC.findall(line.raw[head.end() :].rstrip())
    if not metrics:
        return None
    evaluated = (
        Evaluated(name.decode("utf-8", "replace"), metric.decode(), float(value)) for name, metric, value in metrics
    )
    return round_of(int(head[1]), evaluated, context)


FORMAT = Format(
    name="xgboost",
    shape="[12]\ttrain-rmse:0.25\teval-rmse:0.5",
    needles=(b"]\t",),
    signs=(b"-",),
    read=_read,
)
