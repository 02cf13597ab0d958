"""JSON lines of any writer: DeiT's ``log.txt``, MMEngine's ``.log.json``, fairseq's, Katib's, custom ones.

It owns how field names imply the progress and the split. Numbers may be quoted (fairseq, Katib).
"""

from typing import Any

from steepest.training_logs.format import Context, Format, LogLine, Reading, RunPosition, at_step, readings
from steepest.training_logs.records import Split
from steepest.training_logs.syntax.json_object import integer, numbers, parse_object
from steepest.training_logs.syntax.metric_names import read_name
from steepest.training_logs.syntax.numbers import to_number

_WITHIN_EPOCH = ("iter", "it", "batch", "batch_idx")
_SPLIT_FIELDS = ("mode", "split", "phase")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text if line.text[:1] == b"{" else line.text[max(line.text.find(b"{"), 0) :]
    fields = parse_object(text.strip())
    if fields is None or "metrics" in fields:
        return None
    split = _split(fields)
    at = _place(fields, context, split)
    return readings(numbers(fields), at, context, split=split) or None


def _split(fields: dict[str, Any]) -> Split:
    split = next((fields[name] for name in _SPLIT_FIELDS if isinstance(fields.get(name), str)), "train")
    return read_name(split.encode("utf-8", "replace")).split or "train"


def _place(fields: dict[str, Any], context: Context, split: Split) -> RunPosition:
    places = {name.place: fields[key] for key in fields if (name := _place_name(key)).place}
    epoch = to_number(places.get("epoch"))
    whole = integer(epoch)
    epoch = whole if whole is not None else epoch
    step, total, epochs = (integer(places.get(name)) for name in ("step", "total", "epochs"))
    context.epochs = epochs if epochs is not None and epochs > 0 else context.epochs
    inner = next((fields[key] for key in _WITHIN_EPOCH if key in fields), None)
    index = integer(inner)
    if index is not None and epoch is not None:
        return RunPosition(None, epoch, (epoch, index))
    step = step if step is not None else index
    if step is not None and split != "train":
        return RunPosition(step, epoch, (step,))
    if step is not None:
        return at_step(context, step, epoch, total=total if total is not None and total > 0 else None)
    return RunPosition() if epoch is None else RunPosition(whole, epoch, (epoch,), coarse=True, epochs=context.epochs)


def _place_name(key: str) -> Any:
    return read_name(key.removeprefix("train_").removeprefix("valid_").encode("utf-8", "replace"))


FORMAT = Format(
    name="json-lines",
    shape='{"global_step": 40, "loss": 0.7}\n{"epoch": 3, "train_loss": 1.9, "test_loss": 1.4, "test_acc1": 67.2}',
    needles=(b'oss"', b'"val', b'"test', b'"mode"', b'"acc'),
    read=_read,
    rank=1,
)
