"""Reports of the Steepest SDK: one JSON object per line, as specified in ``docs/control-folder.md``.

It owns that shape only; other JSON lines are read by the words of their keys.
"""

from collections.abc import Iterator
from typing import Any

from steepest.training_logs.formats import Format
from steepest.training_logs.statement import ProgressNumber, Statement, metric_of
from steepest.training_logs.syntax.json_object import integer, numbers, parse_object
from steepest.training_logs.syntax.numbers import as_epoch, to_number
from steepest.training_logs.syntax.plan import MetricAt, ProgressAt, Segment, ShapePlan
from steepest.training_logs.syntax.shape import Field, cut
from steepest.training_logs.syntax.words import role_of


def _read(text: str, line: int, end: int, _note: dict[str, str]) -> Statement | None:
    report = parse_object(text)
    metrics = report.get("metrics") if report else None
    step = integer(report.get("step")) if report else None
    if report is None or not isinstance(metrics, dict) or step is None:
        return None
    one = Statement(line, end, at_ms=integer(report.get("at_ms")))
    one.progress.append(ProgressNumber("stated", "stated", step))
    for kind, value in (("total", integer(report.get("total"))), ("epochs", integer(report.get("epochs")))):
        if value is not None:
            one.progress.append(ProgressNumber(kind, f"{kind}:sdk", value))
    epoch = report.get("epoch")
    one.epoch = as_epoch(epoch) if isinstance(epoch, int | float) and not isinstance(epoch, bool) else None
    one.metrics = [metric_of(role_of(name), value, None, line, end) for name, value in numbers(metrics)]
    at = {name: at for at, (key, name, _) in enumerate(_leaves(report)) if key == "metrics"}
    for metric, (name, _) in zip(one.metrics, numbers(metrics), strict=True):
        metric.at = at[name]
    return one


def _leaves(report: dict[str, Any]) -> Iterator[tuple[str, str, object]]:
    """The values of a report in order, with the key and the name of each."""
    for key, value in report.items():
        if key == "metrics" and isinstance(value, dict):
            yield from ((key, name, number) for name, number in value.items())
        else:
            yield key, key, value


def _plan(text: str) -> tuple[str, list[str], ShapePlan] | None:
    report, (shape, printed) = parse_object(text), cut(text)
    leaves = [] if report is None else list(_leaves(report))
    if [to_number(number) for number in printed] != [value for _, _, value in leaves]:
        return None
    segment, plan = Segment(), ShapePlan([], quote='"')
    plan.segments.append(segment)
    for at, (key, name, _) in enumerate(leaves):
        if key == "metrics":
            segment.metrics.append(MetricAt(role_of(name), at))
        elif key == "at_ms":
            plan.at_ms = at
        elif key in ("step", "epoch", "total", "epochs"):
            kind = "stated" if key == "step" else key
            segment.progress.append(ProgressAt(kind, kind, at, None, Field([], at)))
    return shape, printed, plan


FORMAT = Format(
    name="steepest-sdk",
    shape='{"step": 12, "epoch": 3, "at_ms": 1763683200000, "metrics": {"loss": 0.25}}',
    needle='"metrics"',
    read=_read,
    plan=_plan,
    is_bare=True,
)
