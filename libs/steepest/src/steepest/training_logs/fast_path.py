"""A fast path for the most frequent lines of a log: a training loss, and the evaluation at an epoch's end.

It owns no rules: a line read here produces the same records and the same state as the general path (a test compares
both). It is used only in clear cases: the progress is beyond the latest one, and every metric was read before. All other
lines take the general path.
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
"""The pattern's first groups. The batch is in one of two, because it may be printed before or after the loss."""


def read_fast_path(
    pattern: re.Pattern[bytes], scanner: Scanner, lanes: Mapping[str, MetricSeries], context: Context, format_name: str
) -> list[LossRecord]:
    """Reads lines while they match the fast pattern.

    Args:
        pattern: matches a whole line including its newline. All lines have the first group; training lines also have the
            other three, and held-out lines have the named groups, whose names are metrics.
        scanner: at a line's start; left at the first line that is not read here.
        lanes: the state of each metric; nothing is read here before the first training loss.
        context: has the batches per epoch and the first epoch's number.
        format_name: for the records.
    """
    records: list[LossRecord] = []
    lane, base, steps, step = lanes.get(LANE), context.epoch_base, context.steps_per_epoch, context.step
    if lane is None or lane.top is None or lane.sources or base is None or steps is None or step is None:
        return records
    of = (None, context.epochs * steps if context.epochs else context.total, context.epochs)
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
                LossRecord(line, offset + end, 0, step, False, epoch, "loss", float(loss), "train", format_name, *of)  # noqa: FBT003
            )
        at = end
    scanner.pass_to(at)
    if trained := len(records) - measured:
        advance(lane, _seen(records, base, steps), trained)
        context.epoch, context.step = int(top_epoch), step
    return records


def _seen(records: list[LossRecord], base: int, steps: int) -> list[Seen]:
    """The ``Seen`` entries of the latest training losses among these records, the oldest first."""
    latest = islice((one for one in reversed(records) if one.split == "train"), REMEMBERED_PLACES)
    places = [(int(one.epoch or 0), one.step or 0, one.value) for one in latest]
    return [((epoch, step - (epoch - base) * steps), value, 1) for epoch, step, value in reversed(places)]


def _qualities(pattern: re.Pattern[bytes], lanes: Mapping[str, MetricSeries]) -> list[tuple[str, MetricSeries]]:
    """The held-out metrics; empty if one was not read before, or if its lead is a process named by a prefix."""
    names = [*pattern.groupindex]
    known = [lane for name in names if (lane := lanes.get(f"eval {name}")) is not None and lane.lead == ""]
    return list(zip(names, known, strict=True)) if len(known) == len(names) else []
