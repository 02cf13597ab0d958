"""Reports of the Steepest SDK: one JSON object per line, as specified in ``docs/control-folder.md``.

It owns that shape only; other JSON lines are read by the words of their keys.
"""

from steepest.training_logs.formats import Format
from steepest.training_logs.statement import ProgressNumber, Statement, metric_of
from steepest.training_logs.syntax.json_object import integer, numbers, parse_object
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
    one.epoch = epoch if isinstance(epoch, int | float) and not isinstance(epoch, bool) else None
    one.metrics = [metric_of(role_of(name), value, None, line, end) for name, value in numbers(metrics)]
    return one


FORMAT = Format(
    name="steepest-sdk",
    shape='{"step": 12, "epoch": 3, "at_ms": 1763683200000, "metrics": {"loss": 0.25}}',
    needle='"metrics"',
    read=_read,
    is_bare=True,
)
