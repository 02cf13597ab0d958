"""MLPerf training results: ``:::MLLOG`` with a JSON object, and the older ``:::MLPv0``.

It owns their keys. For the language-model benchmarks ``eval_accuracy`` is a loss, because their quality metric is one;
``samples_count`` or ``epoch_num`` is the progress.
"""

import re
from typing import Any

from steepest.training_logs.format import Context, Format, LogLine, Pair, Reading, RunPosition, readings
from steepest.training_logs.syntax.json_object import integer, numbers, parse_object
from steepest.training_logs.syntax.numbers import NUMBER, to_number

_MARK = b":::MLLOG "
_OLD = re.compile(
    rb":::MLPv0[\w.]{1,10} (\w{1,40}) [^{]{1,300}?\) (eval_accuracy|eval_loss|train_loss): ?(\{.{1,2000})"
)
_OLD_FIELD = re.compile(rb"\"(\w{1,40})\": ?(" + NUMBER + rb")")
_LOSS_BENCHMARKS = ("gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b", "mixtral", "bert_loss")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    at = line.raw.find(_MARK)
    if at < 0:
        return _read_old(line.raw, context) if b":::MLPv0" in line.raw else None
    event = parse_object(line.raw[at + len(_MARK) :].strip())
    if event is None:
        return None
    key, value = event.get("key"), event.get("value")
    if key == "submission_benchmark" and isinstance(value, str):
        context.note = value
    if not isinstance(key, str) or event.get("event_type") not in (None, "POINT_IN_TIME"):
        return None
    fields = value if isinstance(value, dict) else {key: value}
    metadata = event.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    pairs = (_named(pair, metadata.get("metric"), context) for pair in numbers(fields))
    return readings(pairs, _place(metadata), context) or None


def _named(pair: Pair, measure: object, context: Context) -> Pair:
    """Names a pair: Stable Diffusion has two evaluation metrics, which only the metadata distinguish."""
    if isinstance(measure, str):
        return pair[0] + b"/" + measure.encode("utf-8", "replace"), pair[1]
    if pair[0] == b"eval_accuracy" and context.note in _LOSS_BENCHMARKS:
        return b"eval_loss", pair[1]
    return pair


def _place(metadata: dict[str, Any]) -> RunPosition:
    step = metadata.get("step", metadata.get("step_num"))
    step = integer(step[-1] if isinstance(step, list) and step else step)
    epoch = to_number(metadata["epoch_num"]) if isinstance(metadata.get("epoch_num"), int | float) else None
    samples = integer(metadata.get("samples_count"))
    progress = next((one for one in (samples, step, epoch) if one is not None), None)
    return RunPosition(step, epoch, None if progress is None else (progress,))


def _read_old(raw: bytes, context: Context) -> list[Reading] | None:
    match = _OLD.search(raw)
    if match is None:
        return None
    fields = dict(_OLD_FIELD.findall(match[3]))
    if b"value" not in fields:
        return None
    epoch = to_number(fields[b"epoch"].decode()) if b"epoch" in fields else None
    return readings(
        [(match[2], fields[b"value"])], RunPosition(None, epoch, (epoch,) if epoch is not None else None), context
    )


FORMAT = Format(
    name="mlperf",
    shape=':::MLLOG {"key": "eval_accuracy", "value": 5.595, "metadata": {"samples_count": 12256}, "time_ms": 17}',
    needles=(b":::MLLOG ", b":::MLPv0"),
    signs=(
        b'"eval_accuracy"',
        b'"train_loss"',
        b'"eval_loss"',
        b'loss": ',
        b'"eval_error"',
        b'"submission_benchmark"',
        b":::MLPv0",
    ),
    read=_read,
)
