"""MMEngine and the older MMCV runner (mmdet, mmseg, mmpretrain ...).

It owns their ``Epoch(train)`` and ``Iter(train)`` lines. ``loss`` is the total; its parts are named ``loss_...``.
"""

import re

from steepest.training_logs.format import (
    PAIRS_COLON,
    Context,
    Format,
    LogLine,
    Reading,
    RunPosition,
    at_evaluation,
    at_step,
    readings,
    segments,
    within_epoch,
)

_HEAD = re.compile(
    rb"\b(?:Epoch(?:\((?P<mode>\w{1,10})\))? {1,8}\[(?P<epoch>\d{1,9})\]\[ {0,9}(?P<index>\d{1,9})/(?P<total>\d{1,9})\]"
    rb"|Iter(?:\((?P<iter_mode>\w{1,10})\))? {1,8}\[ {0,9}(?P<step>\d{1,12})/(?P<steps>\d{1,12})\])(?=[\s])"
)


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    parts = segments(_HEAD, line.text)
    found: list[Reading] = []
    for match, body in parts:
        evaluation = (match["mode"] or match["iter_mode"] or b"train") != b"train"
        at = _evaluated(match, context) if evaluation else _trained(match, context)
        found += readings(PAIRS_COLON.findall(body), at, context, split="eval" if evaluation else "train")
    return found if parts else None


def _trained(match: re.Match[bytes], context: Context) -> RunPosition:
    if match["step"] is not None:
        return at_step(context, int(match["step"]), total=int(match["steps"]))
    return within_epoch(context, int(match["epoch"]), int(match["index"]), int(match["total"]))


def _evaluated(match: re.Match[bytes], context: Context) -> RunPosition:
    at = at_evaluation(context)
    return at if match["epoch"] is None else at._replace(epoch=int(match["epoch"]))


FORMAT = Format(
    name="mmengine",
    shape="Epoch(train)   [1][ 100/3125]  lr: 1.0e-01  time: 0.0149  loss: 2.06  loss_cls: 1.2\nIter [50/160000]\tloss: 1.3",
    needles=(b"Epoch(", b"Epoch [", b"Iter(", b"Iter ["),
    read=_read,
)
