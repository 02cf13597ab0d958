"""fairseq's ``simple`` log: ``train_inner`` lines of pairs, and epoch lines of fields between bars.

It owns both line shapes, of old and new versions. ``num_updates`` is the step; ``nll_loss`` is not the loss; the last line
of a training epoch is a mean.
"""

import re

from steepest.training_logs.format import (
    PAIRS_EQUAL,
    Context,
    Format,
    LogLine,
    Pair,
    Reading,
    RunPosition,
    at_step,
    readings,
    within_epoch,
)
from steepest.training_logs.syntax.numbers import KEY, NUMBER, to_step

_INNER = re.compile(rb"\bepoch (\d{1,9}):? {1,12}(\d{1,9}) / (\d{1,9}) (?=\w{1,40}=)")
_EPOCH = re.compile(rb"\bepoch (\d{1,9}) \| ")
_FIELDS = re.compile(rb"(?:\| )(" + KEY + rb") (" + NUMBER + rb")")
_HELD_OUT = re.compile(rb"\|? ?\bvalid on '[^']{1,80}' subset|\| valid(?:_\w{1,40})? \|")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if match := _INNER.search(text):
        pairs = PAIRS_EQUAL.findall(text[match.end() :])
        inner = within_epoch(context, int(match[1]), int(match[2]), int(match[3]))
        at = _with_updates(pairs, inner, context)
        return readings(pairs, at, context)
    match = _EPOCH.search(text)
    if match is None or b"oss " not in text:
        return None
    held_out = _HELD_OUT.search(line.raw) is not None or b"| valid_loss " in text
    pairs = _FIELDS.findall(b"| " + text[match.end() :])
    at = RunPosition(None, int(match[1]), (int(match[1]),))
    updates = to_step(dict(pairs).get(b"num_updates"))
    at = at if updates is None else at._replace(step=updates)
    if held_out:
        return readings(pairs, at, context, split="eval")
    return readings(pairs, at, context, scope="epoch")


def _with_updates(pairs: list[Pair], at: RunPosition, context: Context) -> RunPosition:
    updates = to_step(dict(pairs).get(b"num_updates"))
    return at if updates is None else at_step(context, updates, at.epoch)


FORMAT = Format(
    name="fairseq",
    shape="train_inner | epoch 001:   2800 / 160368 loss=9.25, ppl=611.1, num_updates=2800\n"
    "| epoch 008 | valid on 'valid' subset | loss 6.438 | num_updates 9000",
    needles=(b"epoch ",),
    read=_read,
)
