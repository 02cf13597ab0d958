"""Keras 2 and 3 (``model.fit`` and ``model.evaluate``), including redirected redraws and Horovod's output.

It owns the bar, the epoch header and the rule that distinguishes an evaluation's bar from a training epoch's. The loss that
Keras shows is the mean over the epoch so far; it shows no other.
"""

import re

from steepest.training_logs.format import Context, Format, LogLine, Reading, readings, segments, within_epoch
from steepest.training_logs.syntax.numbers import KEY, NUMBER, to_int

_HEADER = re.compile(rb"^Epoch (\d{1,9})/(\d{1,9})\s{0,4}$")
_BAR = rb"(?:\[[=>.]{1,100}\]|(?:\xe2[\x94\x95][\x80-\xbf] ?){1,100}|-(?= ))"
_HEAD = re.compile(rb"(?<![\w/.])(?P<index>\d{1,9})/(?P<total>\d{1,9}|Unknown) {1,2}" + _BAR)
_PAIRS = re.compile(rb"(?<=- )(" + KEY + rb"): (" + NUMBER + rb")")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    if header := _HEADER.match(line.text):
        context.epoch, context.headed, context.bar_done = int(header[1]), True, False
        context.epochs = int(header[2])
        return None
    found: list[Reading] = []
    mine = False
    for match, body in segments(_HEAD, line.text):
        pairs = _PAIRS.findall(body)
        mine = mine or bool(pairs)
        found += _bar(match, pairs, context)
    return found if mine else None


def _bar(match: re.Match[bytes], pairs: list[tuple[bytes, bytes]], context: Context) -> list[Reading]:
    index = int(match["index"])
    total = None if match["total"] == b"Unknown" else to_int(match["total"])
    if _is_evaluation(index, total, context):
        at = within_epoch(context, None, index, None)._replace(step=context.step)
        return readings(pairs, at, context, split="eval")
    at = within_epoch(context, None, index, total)
    if pairs:
        context.bar_done = total is not None and index >= total
    return readings(pairs, at, context)


def _is_evaluation(index: int, total: int | None, context: Context) -> bool:
    """Whether a bar is ``model.evaluate``'s: it follows a finished epoch and has no header of its own."""
    if not (context.headed and context.bar_done):
        return False
    return total is not None and (total != context.steps_per_epoch or index < total)


FORMAT = Format(
    name="keras",
    shape="Epoch 1/15\n422/422 [==============================] - 13s 29ms/step - loss: 0.78 - val_loss: 0.08",
    needles=(b"loss: ", b"Epoch "),
    read=_read,
    signs=(b"loss: ", b"Epoch "),
)
