"""Finds the progress on a line of no known format: ``epoch 3``, ``iter[ 14/ 15]``, ``Step #10``.

It owns those words. Only the general notations use it; a known format has its own patterns.
"""

import re

from steepest.training_logs.format import Context, RunPosition, at_epoch, at_step, within_epoch
from steepest.training_logs.records import Split
from steepest.training_logs.syntax.numbers import to_int

_EPOCH = re.compile(
    rb"(?i:(?<![a-z])epochs?(?: completed)?|\bE(?=\d))[ :=#\[(]{0,4}(\d{1,9})\b(?![.]\d)(?: ?/ ?(\d{1,9})\b)?"
)
_INDEX = re.compile(
    rb"(?i:(?<![a-z])(?P<word>(?:global|train(?:ing)?|current)?[ _]?step|iter(?:ation)?|it|(?:n_)?batch|update)s?)"
    rb"[\"' :=#\[(]{0,4}(?P<index>\d{1,12})\b(?![.]\d)(?: {0,4}/ {0,8}(?P<total>\d{1,12}))?"
)
_COUNT = re.compile(rb"(?<![\d/.])(\d{1,12})/ {0,8}(\d{1,12}) {1,2}(?:batches|steps|iterations|iters)\b")
_BAR = re.compile(rb"\| {0,2}(\d{1,12})/(\d{1,12}) \[\d{1,3}:")
_HELD_OUT = re.compile(rb"(?i:(?<![a-z])(?:val|valid|validation|validating|test|testing|eval\w{0,6}|dev)(?![a-z]))")


def place_in(text: bytes, context: Context, split: Split) -> RunPosition:
    """Reads the progress from words; a batch number counts within its epoch, a step over the whole run."""
    epoch_match = _EPOCH.search(text)
    epoch = int(epoch_match[1]) if epoch_match else None
    epochs = to_int(epoch_match[2]) if epoch_match else None
    index_match = _INDEX.search(text)
    if split == "eval":
        step = int(index_match["index"]) if index_match and b"step" in index_match["word"].lower() else None
        return RunPosition(context.step if step is None else step, context.epoch if epoch is None else epoch, None)
    if index_match is None:
        return _counted(text, context, epoch, epochs)
    index, total = int(index_match["index"]), to_int(index_match["total"])
    if epoch is None or b"global" in index_match["word"].lower():
        return at_step(context, index, epoch, total=total)
    return within_epoch(context, epoch, index, total, epochs)


def _counted(text: bytes, context: Context, epoch: int | None, epochs: int | None) -> RunPosition:
    """``200/ 2983 batches``, a tqdm bar, or the epoch alone."""
    if count := _COUNT.search(text) or _BAR.search(text):
        return within_epoch(context, epoch, int(count[1]), int(count[2]), epochs)
    return at_epoch(context, epoch, epochs) if epoch is not None else RunPosition()


def split_in(text: bytes) -> Split:
    """The split: held-out if a word before the loss says so."""
    return "eval" if _HELD_OUT.search(text) else "train"
