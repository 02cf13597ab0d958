"""What a log format is, and the parts that most formats are put together from.

Owns the shape of a format (how a line of it is recognised and read) and the rules all formats share: where in the
run a reading is, which of a line's names are kept. Must never know a particular format, nor which readings repeat.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from steepest.training_logs.records import Split
from steepest.training_logs.syntax.metric_names import Name, is_total, plain, read_name
from steepest.training_logs.syntax.numbers import KEY, NUMBER, to_int

SUM_OF_PARTS = "sum"
"""The metric's name with which a job asks for the sum of its part losses (detectors print no total)."""

Order = tuple[int | float, ...]
Scope = Literal["step", "epoch", "display"]
"""``epoch``: a mean over an epoch. ``display``: shown again and again, and new only when its value changes."""


class Line(NamedTuple):
    """One line: ``text`` without prefixes, ``raw`` as it came, ``source`` the process that a prefix names."""

    text: bytes
    raw: bytes
    source: bytes


class At(NamedTuple):
    """A place in a run.

    ``order`` grows within one run and tells a repeated line from a new one; None: unknown. Where it is ``coarse``,
    several readings may fall on one place, and one repeats only if its value does. ``at_ms`` is when the writer says that
    it was, where it does.
    """

    step: int | None = None
    epoch: int | float | None = None
    order: Order | None = None
    coarse: bool = False
    at_ms: int | None = None


class Found(NamedTuple):
    """A reading before repetitions are dropped and steps are counted."""

    metric: str
    value: float
    split: Split
    at: At
    scope: Scope = "step"


class Context(msgspec.Struct):
    """What earlier lines said that later lines need; saved with the reader's state.

    Attributes:
        wanted: the metric that the job named, in plain spelling; None keeps losses and held-out qualities.
        epoch: the epoch that a header or the latest training line named.
        epoch_base: 0 or 1, the number of the first epoch.
        steps_per_epoch: as the first epoch said; later ones may differ by a step, and steps must not go back.
        step: the latest training step.
        columns: names of a table's columns, from its header.
        bar_done: whether the latest progress bar was at its end.
        headed: whether headers announce the epochs.
        names_training: whether training losses are called so; an unnamed loss is then a held-out one.
        note: what a format keeps besides (MLPerf: the benchmark).
    """

    wanted: str | None = None
    epoch: int | None = None
    epoch_base: int | None = None
    steps_per_epoch: int | None = None
    step: int | None = None
    columns: list[str] = []
    bar_done: bool = False
    headed: bool = False
    names_training: bool = False
    note: str = ""


Read = Callable[[Line, Context], list[Found] | None]


@dataclass(frozen=True, slots=True)
class Format:
    """One log format.

    Attributes:
        name: what ``--format`` and the records call it.
        shape: a line or two of it with made-up numbers, for people.
        needles: a line with none of these is never read, so they must be rare elsewhere and few.
        read: reads one line: None where it is not of this format, else its readings (none for a mere header).
        rank: 0 is recognised by one line; 1 (a general notation) gives way when a 0 turns up; 2 guesses.
        signs: needles while the format is not yet recognised, where the needles would be too common then.
        usual: the lines that make up most of such a log, as one pattern; see ``usual.read_usual``.
    """

    name: str
    shape: str
    needles: tuple[bytes, ...]
    read: Read
    rank: int = 0
    signs: tuple[bytes, ...] = ()
    usual: re.Pattern[bytes] | None = None


def within_epoch(context: Context, epoch: int | None, index: int, total: int | None) -> At:
    """The place of batch ``index`` of ``total`` in an epoch; the step is known where the total is."""
    epoch = context.epoch if epoch is None else epoch
    if epoch is None:
        return At(index if total else None, None, (index,))
    if context.epoch_base is None or epoch == 0:
        context.epoch_base = min(epoch, 1)
    if total and context.steps_per_epoch is None:
        context.steps_per_epoch = total
    context.epoch = epoch
    step = None
    if total and context.steps_per_epoch:
        step = (epoch - context.epoch_base) * context.steps_per_epoch + index
        context.step = step
    return At(step, epoch, (epoch, index))


def at_step(context: Context, step: int, epoch: float | None = None) -> At:
    """The place of a training step that the line prints itself."""
    context.step = step
    return At(step, epoch, (step,))


def at_epoch(context: Context, epoch: int) -> At:
    """The place of a line that says its epoch only."""
    context.epoch = epoch
    return At(None, epoch, (epoch,), coarse=True)


def at_evaluation(context: Context, epoch: float | None = None) -> At:
    """The place of a held-out reading that says no step itself: where training was."""
    return At(context.step, context.epoch if epoch is None else epoch, None)


PAIRS_EQUAL = re.compile(rb"(" + KEY + rb") ?= ?(" + NUMBER + rb")")
PAIRS_COLON = re.compile(rb"(" + KEY + rb"): {0,8}(" + NUMBER + rb")")
PAIRS_ANY = re.compile(rb"(" + KEY + rb")(?: ?= ?|: {0,8})(" + NUMBER + rb")")

PAIRS_MEAN = re.compile(rb"(" + KEY + rb"):? {1,8}(" + NUMBER + rb")(?: {1,2}\( {0,8}(" + NUMBER + rb")\))?")
"""A value with its running mean in parentheses, as ``AverageMeter`` and its descendants print them."""

Pair = tuple[bytes, bytes]


def keep(name: Name, split: Split, context: Context) -> bool:
    """Whether a name is reported: losses, held-out qualities, or what the job asked for."""
    if context.wanted is None or context.wanted == SUM_OF_PARTS:
        return name.is_loss or (split == "eval" and name.is_quality)
    return plain(name.metric) == context.wanted


def readings(
    pairs: Iterable[Pair], at: At, context: Context, *, split: Split = "train", scope: Scope = "step"
) -> list[Found]:
    """Turns a line's names and numbers to readings; a name that begins with ``val``, ``test`` ... is held-out.

    Of one name printed twice the first stays.
    """
    found: dict[str, Found] = {}
    losses = 0
    for key, number in pairs:
        name = read_name(key)
        of = name.split or split
        if name.metric not in found and keep(name, of, context):
            losses += name.is_loss
            found[name.metric] = Found(name.metric, float(number), of, at, scope)
    taken = list(found.values())
    if context.wanted == SUM_OF_PARTS:
        return with_sum(taken)
    return _without_parts(taken) if losses > 1 and context.wanted is None else taken


def total_loss(value: bytes, at: At, context: Context) -> list[Found]:
    """The reading of a line that prints one training loss and nothing else of interest."""
    if context.wanted is None:
        return [Found("loss", float(value), "train", at)]
    return readings([(b"loss", value)], at, context)


def _without_parts(found: list[Found]) -> list[Found]:
    """Drops part losses beside their total, of which they are no losses of their own; means are kept."""
    totals = {one.split for one in found if is_total(one.metric)}
    return [
        one
        for one in found
        if one.split not in totals
        or is_total(one.metric)
        or one.metric.endswith(("_epoch", "_mean"))
        or not read_name(one.metric.encode()).is_loss
    ]


def with_sum(found: list[Found]) -> list[Found]:
    """Adds up a line's part losses; a total that the line prints itself is taken instead."""
    parts = [one for one in found if one.split == "train" and read_name(one.metric.encode()).is_loss]
    total = [one for one in parts if is_total(one.metric)]
    if total or not parts:
        return total
    return [parts[0]._replace(metric="loss_sum", value=sum(one.value for one in parts))]


def with_means(body: bytes, at: At, context: Context, split: Split) -> list[Found]:
    """Reads ``name: value (mean)``; the mean of a loss is a metric of its own, ``<name>_mean``."""
    triples = PAIRS_MEAN.findall(body)
    found = readings(((key, value) for key, value, _ in triples), at, context, split=split)
    taken = [one.metric for one in found]
    means = (
        Found(f"{name.metric}_mean", float(mean), name.split or split, at)
        for key, _, mean in triples
        if mean and (name := read_name(key)).is_loss and name.metric in taken
    )
    return found + list(means)


def segments(head: re.Pattern[bytes], text: bytes) -> list[tuple[re.Match[bytes], bytes]]:
    """Splits a line at its heads: several records may be glued to one line."""
    heads = list(head.finditer(text))
    if not heads:
        return []
    ends = [match.start() for match in heads[1:]] + [len(text)]
    return [(match, text[match.end() : end]) for match, end in zip(heads, ends, strict=True)]


def headed(head: bytes, pairs: re.Pattern[bytes], *, needs: Sequence[bytes] = (), split: Split = "train") -> Read:
    """A format whose line is a head that says the place, then names with numbers.

    Args:
        head: pattern with the groups ``epoch``, ``index`` and ``total``, or ``step``; all optional.
        pairs: how names and numbers are printed after the head.
        needs: what a line must hold besides, to be this format's.
        split: of readings whose name does not say it.
    """
    compiled = re.compile(head)

    def read(line: Line, context: Context) -> list[Found] | None:
        if any(need not in line.text for need in needs):
            return None
        parts = segments(compiled, line.text)
        if not parts:
            return None
        found: list[Found] = []
        for match, body in parts:
            found += readings(pairs.findall(body), place_of(match, context), context, split=split)
        return found

    return read


def place_of(match: re.Match[bytes], context: Context) -> At:
    """The place that a head's groups say: ``step`` first, else ``index`` of ``total`` in ``epoch``."""
    groups = match.groupdict()
    epoch, index = to_int(groups.get("epoch")), to_int(groups.get("index"))
    if (step := to_int(groups.get("step"))) is not None:
        return at_step(context, step, epoch)
    if index is not None:
        return within_epoch(context, epoch, index, to_int(groups.get("total")))
    return at_epoch(context, epoch) if epoch is not None else At()
