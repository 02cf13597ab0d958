"""``name=value`` pairs on a line, the notation that Katib reads by default.

It owns the rule that distinguishes such a line from a dump of settings.
"""

from steepest.training_logs.format import PAIRS_EQUAL, Context, Format, LogLine, Reading, RunPosition, at_step, readings
from steepest.training_logs.syntax.loose import place_in, split_in
from steepest.training_logs.syntax.metric_names import read_name
from steepest.training_logs.syntax.numbers import to_epoch, to_step

_DUMPS = (b"Namespace(", b"Config(", b"config(", b"Args(", b"args(", b"Arguments(", b"def ", b"return ", b"(self")
"""Substrings of settings and source code, whose equal signs are not readings."""


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if any(dump in text for dump in _DUMPS):
        return None
    pairs = PAIRS_EQUAL.findall(text)
    losses = [key for key, _ in pairs if read_name(key).is_loss]
    if not losses and not any(read_name(key).is_quality for key, _ in pairs):
        return None
    split = split_in(text[: text.find(losses[0])] if losses else text)
    at = _place(pairs, context) or place_in(text, context, split)
    return readings(pairs, at, context, split=split) or None


def _place(pairs: list[tuple[bytes, bytes]], context: Context) -> RunPosition | None:
    places = {name.place: value for key, value in pairs if (name := read_name(key)).place}
    step, epochs = to_step(places.get("step")), to_step(places.get("epochs"))
    context.epochs = context.epochs if epochs is None else epochs
    if step is None:
        return None
    return at_step(context, step, to_epoch(places.get("epoch")), total=to_step(places.get("total")))


FORMAT = Format(
    name="key-value",
    shape="epoch=1 step=40 loss=0.25 accuracy=0.9",
    needles=(b"oss", b"acc", b"ntropy"),
    signs=(b"oss=", b"oss =", b"ccuracy=", b"acc="),
    read=_read,
    rank=1,
)
