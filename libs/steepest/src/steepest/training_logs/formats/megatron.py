"""Megatron-LM and its descendants (Megatron-DeepSpeed, GPT-NeoX): fields between bars.

It owns that line and the validation line. An iteration whose gradients overflowed has no loss; ``loss scale`` is not one.
"""

import re

from steepest.training_logs.format import (
    Context,
    Format,
    LogLine,
    Reading,
    RunPosition,
    at_evaluation,
    at_step,
    readings,
    segments,
)
from steepest.training_logs.syntax.numbers import NUMBER

_HEAD = re.compile(rb"\biteration {1,12}(\d{1,15})/ {0,12}(\d{1,15}) {1,4}(?=\|)")
_FIELDS = re.compile(rb"\| {0,4}([A-Za-z][A-Za-z0-9_ ./-]{0,60}+): {0,8}(" + NUMBER + rb")")
_EVALUATION = re.compile(
    rb"(?:validation|test) (?:loss|results) at (?:iteration {1,4}(\d{1,15})|the end of training[^|]{0,60}) {0,4}(?=\|)"
)


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    found: list[Reading] = []
    parts = segments(_HEAD, line.text)
    for match, body in parts:
        found += readings(_FIELDS.findall(body), at_step(context, int(match[1]), total=int(match[2])), context)
    evaluations = segments(_EVALUATION, line.text)
    for match, body in evaluations:
        found += _evaluation(match, body, context)
    return found if parts or evaluations else None


def _evaluation(match: re.Match[bytes], body: bytes, context: Context) -> list[Reading]:
    step = match[1]
    at = RunPosition(int(step), None, (int(step),)) if step else at_evaluation(context)
    pairs = [(key.removesuffix(b" value"), value) for key, value in _FIELDS.findall(body) if b"PPL" not in key]
    return readings(pairs, at, context, split="eval")


FORMAT = Format(
    name="megatron",
    shape=" iteration       10/    1000 | consumed samples: 10240 | lm loss: 4.1E+01 | loss scale: 12.0 |",
    needles=(b"loss",),
    read=_read,
)
