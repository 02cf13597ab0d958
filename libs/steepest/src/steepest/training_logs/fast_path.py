"""The short way for the lines that make up most of a log: those of one training loss, and what an epoch's end measures.

Owns nothing new: a line read here gives the very records that the long way gives, and leaves the same memory (a test
compares both). It is taken when nothing can be in doubt, i.e. when the place is beyond the latest one and every metric
was read before; every other line goes the long way.
"""

import re
from collections.abc import Mapping
from itertools import islice

from steepest.training_logs.format import Context
from steepest.training_logs.ledger import REMEMBERED_PLACES, MetricSeries, Seen, accept, advance
from steepest.training_logs.records import LossRecord
from steepest.training_logs.syntax.scan import Scanner

LANE = "train loss"

EPOCH, BATCH, LATE_BATCH, LOSS = 1, 2, 3, 4
"""The pattern's first groups. The batch is in one of two, as it is printed before the loss or behind it."""


def read_usual(
    pattern: re.Pattern[bytes], scanner: Scanner, lanes: Mapping[str, MetricSeries], context: Context, format_name: str
) -> list[LossRecord]:
    """Reads lines for as long as they are the usual ones.

    Args:
        pattern: matches such a line from its start to behind its end. All lines have the first group; those of training
            have the other three as well, and held-out ones those that have a name, which is the metric's.
        scanner: at a line's start; left at the first line that is not read here.
        lanes: what is remembered of each metric; nothing is read before a training loss was.
        context: says the batches of an epoch and the first epoch's number.
        format_name: for the records.
    """
    records: list[LossRecord] = []
    lane, base, steps, step = lanes.get(LANE), context.epoch_base, context.steps_per_epoch, context.step
    if lane is None or lane.top is None or lane.sources or base is None or steps is None or step is None:
        return records
    qualities = _qualities(pattern, lanes)
    offset, whole_lines = scanner.offset, scanner.whole_lines
    at, line = scanner.at, scanner.line_at(scanner.at) - 1
    top_epoch, top_batch = lane.top if len(lane.top) > 1 else (lane.top[0], -1)
    digits, epoch, before, measured = b"", 0, 0, 0
    for found in pattern.finditer(scanner.data, at):
        start, end = found.span()
        if start != at:
            break
        printed, batch, late_batch, loss = found.group(EPOCH, BATCH, LATE_BATCH, LOSS)
        if printed != digits:
            digits, epoch = printed, int(printed)
            before = (epoch - base) * steps
        line = line + 1 if whole_lines else scanner.line_at(at)
        if loss is None:
            if not qualities:
                break
            measured += len(qualities)
            for number, (name, quality) in enumerate(qualities):
                accept(quality, value := float(found[name]))
                records.append(
                    LossRecord(line, offset + end, number, step, False, epoch, name, value, "eval", format_name)  # noqa: FBT003
                )
        else:
            number = int(batch or late_batch)
            if before < 0 or (epoch <= top_epoch and (number <= top_batch or epoch < top_epoch)):
                break
            top_epoch, top_batch, step = epoch, number, before + number
            records.append(
                LossRecord(line, offset + end, 0, step, False, epoch, "loss", float(loss), "train", format_name)  # noqa: FBT003
            )
        at = end
    scanner.pass_to(at)
    if trained := len(records) - measured:
        advance(lane, _seen(records, base, steps), trained)
        context.epoch, context.step = int(top_epoch), step
    return records


def _seen(records: list[LossRecord], base: int, steps: int) -> list[Seen]:
    """What is to be remembered of the latest training losses among these records, the oldest first."""
    latest = islice((one for one in reversed(records) if one.split == "train"), REMEMBERED_PLACES)
    places = [(int(one.epoch or 0), one.step or 0, one.value) for one in latest]
    return [((epoch, step - (epoch - base) * steps), value, 1) for epoch, step, value in reversed(places)]


def _qualities(pattern: re.Pattern[bytes], lanes: Mapping[str, MetricSeries]) -> list[tuple[str, MetricSeries]]:
    """The held-out metrics; none where one was not read before, or where a process that a prefix names leads."""
    names = [*pattern.groupindex]
    known = [lane for name in names if (lane := lanes.get(f"eval {name}")) is not None and lane.lead == ""]
    return list(zip(names, known, strict=True)) if len(known) == len(names) else []
