"""MXNet Gluon: the scripts of GluonCV and GluonNLP.

It owns their many heads (``Epoch[0] Batch [49]``, ``[Epoch 1 Batch 300/12277]``, tqdm descriptions), the names of
detectors' part losses, and the rule that a batch without an epoch comes from the evaluation loop.
"""

import re

from steepest.training_logs.format import (
    PAIRS_COLON,
    Context,
    Format,
    LogLine,
    Pair,
    Reading,
    at_epoch,
    at_evaluation,
    readings,
    segments,
    total_loss,
    within_epoch,
)
from steepest.training_logs.records import Split
from steepest.training_logs.syntax.numbers import NUMBER, to_int

_BATCH = re.compile(
    rb"\[?\bEpoch ?[:\[ ] ?(\d{1,9})(?:\]?,? ?|\]?\[?)\[?(?:n_)?[Bb]atch ?[:\[ ] ?\[?(\d{1,9})(?:\]?/\[?(\d{1,9}))?[\],]?"
)
_TRAINING = re.compile(
    rb"\bEpoch (\d{1,9})(?:,?| iteration (\d{1,9})/(\d{1,9}):) (training loss|validation)\b(?: (" + NUMBER + rb"))?"
)
_PLAIN = rb"\d{1,9}+\.\d{1,9}+"
_FAST = re.compile(
    rb"Epoch (\d{1,9}+)(?:(?: iteration (\d{1,9}+)/\d{1,9}+:|,(?=[^|\n]{1,60}+\|[^|\n]{0,200}+\| (\d{1,9}+)/\d{1,9}+ \[))"
    rb" training loss ("
    + _PLAIN
    + rb")|,? validation pixAcc: (?P<pixAcc>"
    + _PLAIN
    + rb"), mIoU: (?P<mIoU>"
    + _PLAIN
    + rb"))"
    rb"(?:: {1,4}\d{1,3}%\|[^|\n]{0,200}+\| \d{1,9}+/\d{1,9}+ \[[\w :<,./?]{1,80}+\])?\n"
)
_BAR = re.compile(rb"\| (\d{1,9})/(\d{1,9}) \[")
_EPOCH = re.compile(rb"(?<!from )(?:\[Epoch (\d{1,9})\]|\bEpoch ?\[(\d{1,9})\]) {0,4}(?!,? ?\[?Batch)")
_HELD_OUT_BATCH = re.compile(rb"^\[Batch (\d{1,9})/(\d{1,9})\] ")
_HELD_OUT_LINE = re.compile(rb"^\s{0,4}(?i:valid|test|dev)[_ ]loss \d")
_HELD_OUT = re.compile(rb"^(?:validation|valid|val|test|dev)\b")
_WORD = rb"[A-Za-z_][\w./@-]{0,60}+"
_PAIRS = re.compile(rb"(?<![\w./@-])(" + _WORD + rb"(?: " + _WORD + rb"){0,3}+)(?: ?= ?|: {0,4}| )(" + NUMBER + rb")")
_QUALIFIERS = frozenset(
    (b"train", b"training", b"valid", b"validation", b"val", b"test", b"dev", b"avg", b"average", b"best")
)
"""Words that belong to the name that follows: ``dev avg loss``."""


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if match := _TRAINING.search(text):
        return _segmentation(match, text, context)
    if match := _EPOCH.search(text):
        return _whole_epoch(match, text[match.end() :], context)
    if match := _HELD_OUT_BATCH.match(text):
        return readings(_pairs(text[match.end() :]), at_evaluation(context), context, split="eval") or None
    if _HELD_OUT_LINE.match(text):
        return readings(_pairs(text), at_evaluation(context), context, split="eval")
    parts = segments(_BATCH, text)
    found: list[Reading] = []
    for match, body in parts:
        at = within_epoch(context, int(match[1]), int(match[2]), to_int(match[3]))
        found += readings(_pairs(body), at, context)
    return found if parts and (found or b"Speed: " in text) else None


def _pairs(text: bytes) -> list[Pair]:
    """Names and numbers; of several words before a number, only those that qualify its name are kept."""
    return [(_qualified(key) if b" " in key else key, value) for key, value in _PAIRS.findall(text)]


def _qualified(words: bytes) -> bytes:
    name: list[bytes] = []
    for word in reversed(words.split(b" ")):
        if name and word.lower() not in _QUALIFIERS:
            break
        name.insert(0, word)
    return b" ".join(name)


def _segmentation(match: re.Match[bytes], text: bytes, context: Context) -> list[Reading] | None:
    epoch, index, total, what, loss = match.groups()
    if what == b"validation":
        at = at_evaluation(context, int(epoch))
        return readings(PAIRS_COLON.findall(text, match.end()), at, context, split="eval")
    if loss is None:
        return None
    if index is None and (bar := _BAR.search(text, match.end())):
        index, total = bar.groups()
    if index is None:
        return total_loss(loss, at_epoch(context, int(epoch)), context)
    at = within_epoch(context, int(epoch), int(index), to_int(total))
    return total_loss(loss, at, context)


def _whole_epoch(match: re.Match[bytes], body: bytes, context: Context) -> list[Reading] | None:
    split: Split = "eval" if _HELD_OUT.match(body) else "train"
    epoch = int(match[1] or match[2])
    if split == "eval":
        at = at_evaluation(context, epoch)
        return readings(_pairs(body), at, context, split=split) or None
    return readings(_pairs(body), at_epoch(context, epoch), context, scope="epoch") or None


FORMAT = Format(
    name="gluon",
    shape="Epoch[0] Batch [49]\tSpeed: 2785.1 samples/sec\tloss=0.95\tlr=0.003\n[Epoch 1 Batch 300/1277] loss=0.9557",
    needles=(b"Epoch", b"[Batch ", b"_loss ", b"Test loss "),
    read=_read,
    fast_pattern=_FAST,
)
