"""timm's training script: ``Train:`` and ``Test:`` lines with running means in parentheses.

It owns those lines, and the one that states the run's epochs. ``*** Best metric`` summarises the run and is not a reading.
"""

import re

from steepest.training_logs.format import (
    Context,
    Format,
    LogLine,
    Reading,
    at_evaluation,
    segments,
    with_means,
    within_epoch,
)

_TRAIN = re.compile(rb"Train: (\d{1,9}) \[ {0,9}(\d{1,9})/(\d{1,9}) {1,4}\( {0,4}\d{1,3}%\)\]")
_SCHEDULED = re.compile(rb"\bScheduled epochs: (\d{1,9})\b")
_TEST = re.compile(rb"Test(?: \(\w{1,20}\))?: \[ {0,9}\d{1,9}/\d{1,9}\]")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    if header := _SCHEDULED.search(line.text):
        context.epochs = int(header[1])
        return None
    found: list[Reading] = []
    trained = segments(_TRAIN, line.text)
    for match, body in trained:
        at = within_epoch(context, int(match[1]), int(match[2]), int(match[3]))
        found += with_means(body, at, context, "train")
    tested = segments(_TEST, line.text) if b"Loss: " in line.text else []
    for _, body in tested:
        found += with_means(body, at_evaluation(context), context, "eval")
    return found if trained or tested else None


FORMAT = Format(
    name="timm",
    shape="Train: 0 [   0/1251 (  0%)]  Loss: 6.94 (6.94)  Time: 1.2s\nTest: [  48/48]  Loss:   0.93 ( 1.02)  Acc@1: 75.0",
    needles=(b"Train: ", b"Test: ", b"Test (", b"Scheduled epochs: "),
    signs=(b"Loss: ", b"Scheduled epochs: "),
    read=_read,
)
