"""Reports of the Steepest SDK: one JSON object per line, as specified in ``docs/control-folder.md``.

It owns that shape only; other JSON lines are another format.
"""

from steepest.training_logs.format import Context, Format, LogLine, Reading, at_step, readings
from steepest.training_logs.syntax.json_object import integer, numbers, parse_object


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    report = parse_object(line.text)
    metrics = report.get("metrics") if report else None
    step = integer(report.get("step")) if report else None
    if report is None or not isinstance(metrics, dict) or step is None:
        return None
    epoch = report.get("epoch")
    at = at_step(context, step, epoch if isinstance(epoch, int | float) else None)
    at = at._replace(
        at_ms=integer(report.get("at_ms")),
        total=integer(report.get("total")),
        epochs=integer(report.get("epochs")),
    )
    return readings(numbers(metrics), at, context)


FORMAT = Format(
    name="steepest-sdk",
    shape='{"step": 12, "epoch": 3, "at_ms": 1763683200000, "metrics": {"loss": 0.25}}',
    needles=(b'"metrics"',),
    read=_read,
)
