"""MLPerf training results: ``:::MLLOG`` with a JSON object, and the older ``:::MLPv0``.

It owns their keys. For the language-model benchmarks ``eval_accuracy`` is a loss, because their quality metric is one;
``samples_count`` or ``epoch_num`` is the progress.
"""

import re
from typing import Any

from steepest.training_logs.formats import Format
from steepest.training_logs.statement import ProgressNumber, Statement, metric_of
from steepest.training_logs.syntax.json_object import integer, numbers, parse_object
from steepest.training_logs.syntax.numbers import as_epoch, to_number
from steepest.training_logs.syntax.shape import NUMBER
from steepest.training_logs.syntax.words import role_of

_MARK = ":::MLLOG "
_OLD = re.compile(r":::MLPv0[\w.]{1,10} \w{1,40} [^{]{1,300}?\) (eval_accuracy|eval_loss|train_loss): ?(\{.{1,2000})")
_OLD_FIELD = re.compile(rf"\"(\w{{1,40}})\": ?({NUMBER})")
_LOSS_BENCHMARKS = ("gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b", "mixtral", "bert_loss")
_TOLD = ("eval_", "loss", "submission_benchmark", "tracked_stats", "accuracy")


def _read(text: str, line: int, end: int, note: dict[str, str]) -> Statement | None:
    one = Statement(line, end)
    at = text.find(_MARK)
    if at < 0:
        return _read_old(text, one) if ":::MLPv0" in text else None
    event = parse_object(text[at + len(_MARK) :].strip()) if any(word in text for word in _TOLD) else None
    if event is None:
        return one
    key, value = event.get("key"), event.get("value")
    if key == "submission_benchmark" and isinstance(value, str):
        note["benchmark"] = value
    if not isinstance(key, str) or event.get("event_type") not in (None, "POINT_IN_TIME"):
        return one
    fields = value if isinstance(value, dict) else {key: value}
    metadata = event.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for name, number in numbers(fields):
        one.metrics.append(metric_of(role_of(_named(name, metadata.get("metric"), note)), number, None, line, end))
    _place(one, metadata)
    return one


def _named(name: str, measure: object, note: dict[str, str]) -> str:
    """Stable Diffusion has two evaluation metrics, which only the metadata distinguish."""
    if isinstance(measure, str):
        return f"{name}/{measure}"
    return "eval_loss" if name == "eval_accuracy" and note.get("benchmark") in _LOSS_BENCHMARKS else name


def _place(one: Statement, metadata: dict[str, Any]) -> None:
    step = metadata.get("step", metadata.get("step_num"))
    step = integer(step[-1] if isinstance(step, list) and step else step)
    samples, epoch = integer(metadata.get("samples_count")), as_epoch(to_number(metadata.get("epoch_num")))
    one.epoch = epoch
    if step is not None:
        one.progress.append(ProgressNumber("stated", "stated", step))
    elif samples is not None or epoch is not None:
        value = samples if samples is not None else round(1000 * (epoch or 0))
        one.progress.append(ProgressNumber("samples", "samples:mllog", value))


def _read_old(text: str, one: Statement) -> Statement:
    if (found := _OLD.search(text)) is not None:
        fields = dict(_OLD_FIELD.findall(found[2]))
        _place(one, {"epoch_num": fields.get("epoch")})
        if "value" in fields:
            one.metrics.append(metric_of(role_of(found[1]), fields["value"], None, one.line, one.end))
    return one


FORMAT = Format(
    name="mlperf",
    shape=':::MLLOG {"key": "eval_accuracy", "value": 5.595, "metadata": {"samples_count": 12256}, "time_ms": 17}',
    needle=":::ML",
    read=_read,
)
