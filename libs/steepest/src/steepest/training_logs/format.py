"""The interface of a log format, and the building blocks of most formats.

It owns how a line is recognised and read, and the rules that all formats share: the progress of a reading in the run, and
which names on a line are reported. It must never know a particular format, nor which readings repeat.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from steepest.training_logs.records import Split
from steepest.training_logs.syntax.metric_names import MetricName, is_total, plain, read_name
from steepest.training_logs.syntax.numbers import KEY, NUMBER, to_int

SUM_OF_PARTS = "sum"
"""The metric name that requests the sum of a line's part losses (some detectors print no total)."""

Order = tuple[int | float, ...]
Scope = Literal["step", "epoch", "display"]
"""``epoch``: a mean over an epoch. ``display``: shown repeatedly, and new only when its value changes."""


class LogLine(NamedTuple):
    """One line: ``text`` without prefixes, ``raw`` unchanged, ``source`` the process that a prefix names."""

    text: bytes
    raw: bytes
    source: bytes


class RunPosition(NamedTuple):
    """The progress of a run at a reading.

    ``order`` increases within one run and distinguishes a repeated line from a new one; None: unknown. If it is ``coarse``,
    several readings may have the same order, and one is a repetition only if its value is too. ``at_ms`` is the time that
    the writer states, if it does; ``total`` and ``epochs`` are the steps and epochs of the whole run, likewise.
    """

    step: int | None = None
    epoch: int | float | None = None
    order: Order | None = None
    coarse: bool = False
    at_ms: int | None = None
    total: int | None = None
    epochs: int | float | None = None


class Reading(NamedTuple):
    """One value on a line, before repetitions are dropped and steps are counted."""

    metric: str
    value: float
    split: Split
    at: RunPosition
    scope: Scope = "step"


class Context(msgspec.Struct):
    """Information from earlier lines that later lines need; saved with the reader's state.

    Attributes:
        wanted: the metric that the job named, in plain spelling; None reports losses and held-out qualities.
        epoch: the epoch that a header or the latest training line named.
        epoch_base: 0 or 1, the number of the first epoch.
        steps_per_epoch: from the first epoch; later ones may differ by a step, and steps must not decrease.
        step: the latest training step.
        total: the steps of the whole run, as last stated.
        epochs: the epochs of the whole run, as last stated.
        columns: names of a table's columns, from its header.
        bar_done: whether the latest progress bar was complete.
        headed: whether headers announce the epochs.
        names_training: whether training losses are labelled as such; an unlabelled loss is then a held-out one.
        note: other state of a format (MLPerf: the benchmark).
    """

    wanted: str | None = None
    epoch: int | None = None
    epoch_base: int | None = None
    steps_per_epoch: int | None = None
    step: int | None = None
    total: int | None = None
    epochs: int | None = None
    columns: list[str] = []
    bar_done: bool = False
    headed: bool = False
    names_training: bool = False
    note: str = ""


Read = Callable[[LogLine, Context], list[Reading] | None]


@dataclass(frozen=True, slots=True)
class Format:
    """One log format.

    Attributes:
        name: its name for ``--format`` and in records.
        shape: one or two example lines, for people.
        needles: a line without any of these is skipped, so they must be few, and rare on other lines.
        read: reads one line: None if it is not of this format, otherwise its readings (empty for a header).
        rank: 0 is recognised by one line; 1 (a general notation) is replaced by a 0 that matches; 2 guesses.
        signs: needles before the format is recognised, if the regular ones would be too common.
        fast_pattern: a pattern of the most frequent lines; see ``fast_path.read_fast_path``.
    """

    name: str
    shape: str
    needles: tuple[bytes, ...]
    read: Read
    rank: int = 0
    signs: tuple[bytes, ...] = ()
    fast_pattern: re.Pattern[bytes] | None = None


def within_epoch(
    context: Context, epoch: int | None, index: int, total: int | None, epochs: int | None = None
) -> RunPosition:
    """The progress at batch ``index`` of ``total`` in an epoch of ``epochs``; the step is known if the total is."""
    epoch = context.epoch if epoch is None else epoch
    context.epochs = context.epochs if epochs is None else epochs
    if epoch is None:
        return RunPosition(index if total else None, None, (index,), total=total or None)
    if context.epoch_base is None or epoch == 0:
        context.epoch_base = min(epoch, 1)
    if total and context.steps_per_epoch is None:
        context.steps_per_epoch = total
    context.epoch = epoch
    step = None
    if total and context.steps_per_epoch:
        step = (epoch - context.epoch_base) * context.steps_per_epoch + index
        context.step = step
    whole = context.epochs * context.steps_per_epoch if context.epochs and context.steps_per_epoch else context.total
    return RunPosition(step, epoch, (epoch, index), total=whole, epochs=context.epochs)


def at_step(context: Context, step: int, epoch: float | None = None, *, total: int | None = None) -> RunPosition:
    """The progress at a training step that the line itself prints, of ``total`` where it prints that too."""
    context.step = step
    context.total = context.total if total is None else total
    return RunPosition(step, epoch, (step,), total=context.total, epochs=context.epochs)


def at_epoch(context: Context, epoch: int, epochs: int | None = None) -> RunPosition:
    """The progress of a line that prints only its epoch, of ``epochs`` where it prints that too."""
    context.epoch = epoch
    context.epochs = context.epochs if epochs is None else epochs
    return RunPosition(None, epoch, (epoch,), coarse=True, epochs=context.epochs)


def at_evaluation(context: Context, epoch: float | None = None) -> RunPosition:
    """The progress of a held-out reading without a step of its own: that of training."""
    return RunPosition(context.step, context.epoch if epoch is None else epoch, None)


PAIRS_EQUAL = re.compile(rb"(" + KEY + rb") ?= ?(" + NUMBER + rb")")
PAIRS_COLON = re.compile(rb"(" + KEY + rb"): {0,8}(" + NUMBER + rb")")
PAIRS_ANY = re.compile(rb"(" + KEY + rb")(?: ?= ?|: {0,8})(" + NUMBER + rb")")

PAIRS_MEAN = re.compile(rb"(" + KEY + rb"):? {1,8}(" + NUMBER + rb")(?: {1,2}\( {0,8}(" + NUMBER + rb")\))?")
"""A value with its running mean in parentheses, as printed by ``AverageMeter`` and its descendants."""

Pair = tuple[bytes, bytes]


def is_reported(name: MetricName, split: Split, context: Context) -> bool:
    """Whether a name is reported: losses and held-out qualities, or the metric that the job asked for."""
    if context.wanted is None or context.wanted == SUM_OF_PARTS:
        return name.is_loss or (split == "eval" and name.is_quality)
    return plain(name.metric) == context.wanted


def readings(
    pairs: Iterable[Pair], at: RunPosition, context: Context, *, split: Split = "train", scope: Scope = "step"
) -> list[Reading]:
    """Turns a line's names and numbers into readings; a name that starts with ``val``, ``test`` ... is held-out.

    If a name is printed twice, the first one counts.
    """
    found: dict[str, Reading] = {}
    losses = 0
    for key, number in pairs:
        name = read_name(key)
        of = name.split or split
        if name.metric not in found and is_reported(name, of, context):
            losses += name.is_loss
            found[name.metric] = Reading(name.metric, float(number), of, at, scope)
    taken = list(found.values())
    if context.wanted == SUM_OF_PARTS:
        return with_sum(taken)
    return _without_parts(taken) if losses > 1 and context.wanted is None else taken


def total_loss(value: bytes, at: RunPosition, context: Context) -> list[Reading]:
    """The reading of a line whose only metric is one training loss."""
    if context.wanted is None:
        return [Reading("loss", float(value), "train", at)]
    return readings([(b"loss", value)], at, context)


def _without_parts(found: list[Reading]) -> list[Reading]:
    """Drops part losses if their total is on the same line; means are kept."""
    totals = {one.split for one in found if is_total(one.metric)}
    return [
        one
        for one in found
        if one.split not in totals
        or is_total(one.metric)
        or one.metric.endswith(("_epoch", "_mean"))
        or not read_name(one.metric.encode()).is_loss
    ]


def with_sum(found: list[Reading]) -> list[Reading]:
    """Sums a line's part losses; a total on the same line is used instead."""
    parts = [one for one in found if one.split == "train" and read_name(one.metric.encode()).is_loss]
    total = [one for one in parts if is_total(one.metric)]
    if total or not parts:
        return total
    return [parts[0]._replace(metric="loss_sum", value=sum(one.value for one in parts))]


def with_means(body: bytes, at: RunPosition, context: Context, split: Split) -> list[Reading]:
    """Reads ``name: value (mean)``; the mean of a loss is a metric of its own, ``<name>_mean``."""
    triples = PAIRS_MEAN.findall(body)
    found = readings(((key, value) for key, value, _ in triples), at, context, split=split)
    taken = [one.metric for one in found]
    means = (
        Reading(f"{name.metric}_mean", float(mean), name.split or split, at)
        for key, _, mean in triples
        if mean and (name := read_name(key)).is_loss and name.metric in taken
    )
    return found + list(means)


def segments(head: re.Pattern[bytes], text: bytes) -> list[tuple[re.Match[bytes], bytes]]:
    """Splits a line at its heads: several outputs may be joined on one line."""
    heads = list(head.finditer(text))
    if not heads:
        return []
    ends = [match.start() for match in heads[1:]] + [len(text)]
    return [(match, text[match.end() : end]) for match, end in zip(heads, ends, strict=True)]


def headed(head: bytes, pairs: re.Pattern[bytes], *, needs: Sequence[bytes] = (), split: Split = "train") -> Read:
    """A format whose line is a head with the progress, followed by names with numbers.

    Args:
        head: pattern with the groups ``epoch``, ``index`` and ``total``, or ``step``; all optional.
        pairs: how names and numbers are printed after the head.
        needs: other substrings that a line must contain.
        split: of readings whose name does not imply it.
    """
    compiled = re.compile(head)

    def read(line: LogLine, context: Context) -> list[Reading] | None:
        if any(need not in line.text for need in needs):
            return None
        parts = segments(compiled, line.text)
        if not parts:
            return None
        found: list[Reading] = []
        for match, body in parts:
            found += readings(pairs.findall(body), place_of(match, context), context, split=split)
        return found

    return read


def place_of(match: re.Match[bytes], context: Context) -> RunPosition:
    """The progress in a head's groups: ``step`` if present, otherwise ``index`` of ``total`` in ``epoch``."""
    groups = match.groupdict()
    epoch, index = to_int(groups.get("epoch")), to_int(groups.get("index"))
    if (step := to_int(groups.get("step"))) is not None:
        return at_step(context, step, epoch)
    if index is not None:
        return within_epoch(context, epoch, index, to_int(groups.get("total")))
    return at_epoch(context, epoch) if epoch is not None else RunPosition()
