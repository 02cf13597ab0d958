"""Any line that states a loss in words: ``Total loss is 236.6``, ``[Loss] nan``, ``'train_loss:', '2.63'``.

It owns the guards that exclude settings, code, summaries and the loss scale. It is tried last, and replaced by any other
format that matches.
"""

import re
from itertools import islice

from steepest.training_logs.format import (
    PAIRS_ANY,
    Context,
    Format,
    LogLine,
    Reading,
    RunPosition,
    is_reported,
    readings,
)
from steepest.training_logs.syntax.loose import place_in, split_in
from steepest.training_logs.syntax.metric_names import read_name
from steepest.training_logs.syntax.numbers import NUMBER

_LOSS = re.compile(
    rb"(?i:loss)(?:[_/]\w{1,20}+)?(?![A-Za-z0-9_])[^\w\s.+-]{0,5}+[\s'\",]{0,6}+(?:(?i:is|of|was)\s{1,4}+)?[:=]?\s{0,4}+("
    + NUMBER
    + rb")"
)
_NAME = re.compile(rb"(?i:loss)(?:[_/]\w{1,20}+)?")
_ATTACHED = re.compile(rb"[\w/.]{0,60}$")
_QUALIFIERS = frozenset(b"total train training valid validation val test dev avg average eval mean running".split())
"""Words that belong to the name that follows: ``Total loss``."""

_GUARD = re.compile(
    rb"(?i:loss[ _-]scal|loss_?f(?:n|unc)|loss for final|\bbest\b|namespace\(|\bdef |\breturn |\bprint\(|\bimport |"
    rb"\.{5}|improved from|\bfinal[ _]loss|loss at |argparse|traceback)"
)

_MAX_LOSSES = 16
"""Losses taken from one line; a line with more is a dump."""

_LOOK_BACK_BYTES = 200
"""How far before a loss to search for a word that marks it as held-out."""


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    text = line.text
    if _GUARD.search(text):
        return None
    if context.wanted is not None:
        return readings(PAIRS_ANY.findall(text), place_in(text, context, "train"), context) or None
    found: list[Reading] = []
    at: RunPosition | None = None
    for match in islice(_LOSS.finditer(text), _MAX_LOSSES):
        before = text[max(match.start() - _LOOK_BACK_BYTES, 0) : match.start()]
        printed = _printed_name(before, match)
        if printed is None:
            continue
        name = read_name(printed)
        split = name.split or ("eval" if context.names_training else split_in(before))
        context.names_training = context.names_training or name.split == "train"
        if is_reported(name, split, context):
            at = at or place_in(text, context, split)
            found += readings([(printed, match[1])], at, context, split=split)
    return _unique(found) or None


def _printed_name(before: bytes, match: re.Match[bytes]) -> bytes | None:
    """The loss's name with attached parts and qualifying words; None if it is inside another word."""
    attached = attached_match[0] if (attached_match := _ATTACHED.search(before)) else b""
    if attached and attached[-1:] not in (b"_", b"/"):
        return None
    own = _NAME.match(match[0])
    name = [attached + (own[0] if own else b"loss")]
    for word in reversed(before[: len(before) - len(attached)].split()):
        if word.lower() not in _QUALIFIERS:
            break
        name.insert(0, word)
    return b" ".join(name)


def _unique(found: list[Reading]) -> list[Reading]:
    first: dict[tuple[str, str], Reading] = {}
    for one in found:
        first.setdefault((one.metric, one.split), one)
    return list(first.values())


FORMAT = Format(
    name="fallback",
    shape="E6 iter[ 14/ 15] | [Loss] nan\nTotal loss is 236.61 ETA is 7:57:00",
    needles=(b"oss",),
    read=_read,
    rank=2,
)
