"""Ultralytics YOLO: columns under a header, each row a redraw of the epoch's bar.

It owns the columns. The losses are parts (``box_loss`` ...) and means over the epoch so far; of a row that was truncated at
the terminal's width, only the complete columns are read.
"""

import re

from steepest.training_logs.format import (
    Context,
    Format,
    LogLine,
    Pair,
    Reading,
    at_evaluation,
    readings,
    within_epoch,
)
from steepest.training_logs.syntax.numbers import NUMBER

_HEADER = re.compile(rb"^ {0,12}Epoch {1,16}(?:GPU_mem|gpu_mem) {1,16}(?=[\w ]{0,200}loss)")
_VALIDATION_HEADER = re.compile(rb"^ {0,40}Class {1,16}Images ")
_ROW = re.compile(rb"^ {0,12}(\d{1,9})/(\d{1,9}) {1,16}([\d.]{1,12}[GMK]?B?) {1,16}(?=[\d.n])")
_VALIDATION_ROW = re.compile(rb"^ {1,40}all {1,16}\d")
_BAR = re.compile(rb"\| {0,2}(\d{1,9})/(\d{1,9}) ")
_FIELD = re.compile(rb"(?<!\S)(" + NUMBER + rb")(?=\s)")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if _HEADER.match(text):
        context.columns = _columns(text)
        return []
    if not context.columns:
        return None
    if _VALIDATION_HEADER.match(text):
        context.note = " ".join(_columns(text))
        return []
    if match := _ROW.match(text):
        return _row(match, text, context)
    if context.note and _VALIDATION_ROW.match(text):
        pairs = _bind(context.note.split()[1:], text)
        return readings(pairs, at_evaluation(context), context, split="eval")
    return None


def _columns(header: bytes) -> list[str]:
    return header.partition(b":")[0].decode("utf-8", "replace").rstrip(")").split()


def _row(match: re.Match[bytes], text: bytes, context: Context) -> list[Reading]:
    bar = _BAR.search(text)
    index, total = (int(bar[1]), int(bar[2])) if bar else (0, None)
    at = within_epoch(context, int(match[1]), index, total, int(match[2]))
    pairs = _bind(context.columns[2:], text[match.end() :])
    return readings(pairs if b":" in text else pairs[:-1], at, context)


def _bind(names: list[str], text: bytes) -> list[Pair]:
    values = _FIELD.findall(text.partition(b"%")[0].partition(b":")[0] + b" ")
    return [(name.encode(), value) for name, value in zip(names, values, strict=False)]


FORMAT = Format(
    name="ultralytics",
    shape="      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    "     70/1000      6.73G      1.081     0.4706      1.084         10        640: 100%|##| 16/16 [00:05<00:00]",
    needles=(b"loss", b"/", b" all ", b"Class "),
    signs=(b"_loss",),
    read=_read,
)
