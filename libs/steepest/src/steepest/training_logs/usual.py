"""The short way for the line that makes up most of a log: epoch, batch, batches an epoch and one training loss.

Owns nothing new: a line read here gives the very record that the long way gives (a test compares them). It is taken
when nothing can be in doubt, i.e. when the place is beyond the latest one; every other line goes the long way.
"""

import re

from steepest.training_logs.format import Context
from steepest.training_logs.ledger import Lane, advance
from steepest.training_logs.records import LossRecord
from steepest.training_logs.scan import Scanner

LANE = "train loss"


def read_usual(
    pattern: re.Pattern[bytes], scanner: Scanner, lane: Lane, context: Context, format_name: str
) -> list[LossRecord]:
    """Reads lines for as long as they are the usual ones.

    Args:
        pattern: matches such a line from its start to its end; groups: epoch, batch, batches an epoch,
            loss, and batch and batches once more for where they are printed behind the loss.
        scanner: at a line's start; left at the first line that is not read here.
        lane: what is remembered of the training loss, of which a step has been read before.
        context: says the batches of an epoch and the first epoch's number.
        format_name: for the records.
    """
    records: list[LossRecord] = []
    base, steps = context.epoch_base, context.steps_per_epoch
    if base is None or steps is None or lane.sources:
        return records
    data, match = scanner.data, pattern.match
    while found := match(data, scanner.at):
        epoch, index, total, loss, late_index, late_total = found.groups()
        if not (total or late_total):
            break
        place = (int(epoch), int(index or late_index))
        if place[0] < base or lane.top is None or place <= lane.top:
            break
        step, value = (place[0] - base) * steps + place[1], float(loss)
        advance(lane, place, value)
        context.epoch, context.step = place[0], step
        line = scanner.line_at(scanner.at)
        position = scanner.pass_to(found.end() + 1)
        records.append(
            LossRecord(line, position, 0, step, False, place[0], "loss", value, "train", format_name)  # noqa: FBT003
        )
    return records
