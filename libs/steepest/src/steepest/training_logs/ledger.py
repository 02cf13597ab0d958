"""Decides which readings become records: drops repetitions, accepts restarts, counts missing steps.

It owns the state of each metric: its latest places (values of ``order``). It must never know a line's layout.

A metric's places increase within one run. A reading at the highest place again is a repetition (by another rank, another
logger, a redraw). A reading below it is either a late repetition or the first of a restarted run; see ``_went_back``.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Literal, NamedTuple

import msgspec

from steepest.training_logs.records import LossRecord, Split

REMEMBERED_PLACES = 256
"""Places remembered for each metric; a rank that lags by more counts as a separate run."""

LATE_PLACES = 8
"""A late repetition comes within a few places; a reading further back is a restart."""

SILENT_READINGS = 64
"""Readings of other processes after which the one that was followed counts as gone."""

ECHO_LINES = 4
"""Another printing of a reading, by another logger, comes within a few lines."""

MAX_LANES = 512
"""Bound on the metrics of a log: one that keeps printing new names must not grow the state without limit."""

_DIGITS = 3
"""Digits that two printings of one value must share at least."""

Order = tuple[int | float, ...]
Scope = Literal["step", "epoch", "display"]
"""``epoch``: a mean over an epoch. ``display``: shown repeatedly, and new only when its value changes."""

Verdict = Literal["new", "repeated", "other process", "unchanged", "ahead"]

Seen = tuple[Order, float | None, int]
"""A place, the value first read there (None where not finite: JSON has no NaN), and how often one was read there."""


class Position(NamedTuple):
    """The progress of a run at a reading.

    ``order`` increases within one run and distinguishes a repeated line from a new one; None: unknown. If it is ``coarse``,
    several readings may share it. ``total`` and ``epochs`` are those of the whole run, ``at_ms`` is the time that the
    writer states, if it does.
    """

    step: int | None = None
    order: Order | None = None
    coarse: bool = False
    epoch: int | float | None = None
    total: int | None = None
    epochs: int | float | None = None
    at_ms: int | None = None


class Reading(NamedTuple):
    """One value on a line, before repetitions are dropped and steps are counted.

    ``lane`` is the name that it shares with other spellings, ``shape`` the line's layout, ``text`` the value as printed.
    """

    metric: str
    value: float
    split: Split
    at: Position
    scope: Scope = "step"
    lane: str = ""
    shape: int = 0
    text: str = ""


class MetricSeries(msgspec.Struct):
    """The state of one metric.

    Attributes:
        accepted: number of new readings; this is the counted step.
        top: the highest place of the current run.
        seen: the latest places of this run.
        sources: latest place of each process that prints this metric.
        most: the maximum number of times a place was printed; 2 if two ranks print.
        latest: the latest value; ``text`` as printed, on ``line`` of layout ``shape``.
        lead: the process that printed first; readings without a place count only from it.
        others: readings of other processes since its latest, and ``ahead`` those at places that it has not reached.
        name: how it was first spelled.
        stepwise: whether it was ever read at a step; a mean over an epoch is then a separate metric.
        written: whether a place was ever printed with it; readings without one are then something else.
    """

    accepted: int = 0
    top: Order | None = None
    seen: list[Seen] = []
    sources: dict[str, Order] = {}
    most: int = 1
    latest: float | None = None
    text: str = ""
    line: int = 0
    shape: int = 0
    lead: str | None = None
    others: int = 0
    ahead: list[tuple[Order, LossRecord]] = []
    name: str = ""
    stepwise: bool = False
    written: bool = False


def to_records(
    lanes: dict[str, MetricSeries],
    found: Reading,
    place: tuple[int, int, int],
    format_name: str,
    process: str = "",
    lead: str | None = None,
) -> list[LossRecord]:
    """Makes records of a new reading.

    Args:
        lanes: the state of each metric, by ``<split> <metric>``; it is updated.
        found: the reading.
        place: the record's line, position and index.
        format_name: the format it was read in.
        process: the process that printed it, if a prefix names it.
        lead: the process to follow in a metric that is read for the first time.

    Returns:
        Nothing if the reading is a repetition; also earlier ones of a process that took over.
    """
    name, metric = f"{found.split} {found.lane or found.metric}", found.metric
    if found.scope == "epoch" and (known := lanes.get(name)) and known.stepwise:
        metric, name = metric + "_epoch" * (metric == known.name), name + "_epoch"
    lane = lanes.get(name)
    if lane is None:
        if len(lanes) >= MAX_LANES:
            return []
        lane = lanes[name] = MetricSeries(name=metric, lead=lead)
    line, position, index = place
    verdict = judge(lane, found, process, line)
    if verdict not in ("new", "ahead"):
        return []
    lane.line, lane.shape, lane.text = line, found.shape, found.text
    at = found.at
    step = lane.accepted if at.step is None else at.step
    of = (at.at_ms, at.total, at.epochs)
    record = LossRecord(
        line, position, index, step, at.step is None, at.epoch, metric, found.value, found.split, format_name, *of
    )
    if verdict == "new":
        return [record]
    lane.ahead.append((at.order or (), record))
    return take_over(lane, process) if len(lane.ahead) > LATE_PLACES else []


def take_over(lane: MetricSeries, process: str) -> list[LossRecord]:
    """Follows a process that is ahead of the one that was followed, which is gone; returns its readings."""
    lane.lead, lane.others = process, 0
    ahead, lane.ahead = lane.ahead, []
    advance(lane, [(order, record.value if isfinite(record.value) else None, 1) for order, record in ahead])
    return [record for _, record in ahead]


def judge(lane: MetricSeries, found: Reading, source: str, line: int = 0) -> Verdict:
    """Decides whether a reading is new, and remembers it."""
    if found.scope == "display" and lane.accepted and _same(lane.latest, found.value):
        return "unchanged"
    place = found.at.order
    if _is_echo(lane, found, line):
        return "repeated"
    lane.lead = source if lane.lead is None else lane.lead
    if place is None or found.at.coarse:
        if not _is_followed(lane, source):
            return "other process"
        if place is None and lane.written and found.split == "train":
            return "repeated"
    if place is None:
        return _accept(lane, found)
    lane.written = lane.written or not found.at.coarse
    before: Order | None = None
    newcomer = False
    if source or lane.sources:
        before = lane.sources.get(source)
        newcomer = before is None and bool(lane.sources)
        remember_source(lane, source, place)
    if lane.top is None or place > lane.top or (len(place) != len(lane.top) and not found.at.coarse):
        return _forward(lane, place, found, source)
    if place == lane.top:
        return _accept(lane, found) if found.at.coarse else _repeat(lane, place)
    return _went_back(lane, place, found, newcomer=newcomer, moved_on=before is not None and place > before)


def _forward(lane: MetricSeries, place: Order, found: Reading, source: str) -> Verdict:
    """A place beyond all earlier ones; one of another process waits until the one that is followed gets there."""
    if source == lane.lead or found.at.coarse:
        lane.ahead = [one for one in lane.ahead if one[0] > place]
        return _accept(lane, found, place)
    if lane.ahead and place <= lane.ahead[-1][0]:
        return "repeated"
    return "ahead"


def _is_followed(lane: MetricSeries, source: str) -> bool:
    """Whether a reading without a place of its own counts: only from one process, until that one is silent."""
    if lane.lead == source:
        lane.others = 0
        return True
    lane.others += 1
    if lane.others < SILENT_READINGS:
        return False
    lane.lead, lane.others = source, 0
    return True


def begin_again(lane: MetricSeries | None, found: Reading) -> None:
    """A bar that is complete for the second time, after an evaluation and with another value, is that of another epoch."""
    if lane is not None and lane.top == found.at.order and not _same(lane.latest, found.value):
        lane.top, lane.seen = None, []


def _is_echo(lane: MetricSeries, found: Reading, line: int) -> bool:
    """Whether another logger printed the reading again, in another layout and perhaps with fewer digits."""
    if (
        not lane.accepted
        or not found.shape
        or lane.shape in (found.shape, 0)
        or not 0 <= line - lane.line <= ECHO_LINES
    ):
        return False
    place = found.at.order
    if place is not None and not found.at.coarse and lane.top is not None and place > lane.top:
        return False
    return alike(lane.text, found.text)


def alike(first: str, second: str) -> bool:
    """Whether two printed numbers are one value, rounded to the digits of the shorter."""
    if first == second:
        return True
    longer, shorter = (first, second) if len(first) > len(second) else (second, first)
    digits = sum(mark.isdigit() for mark in shorter.lower().partition("e")[0].lstrip("-+0."))
    try:
        return digits >= _DIGITS and float(f"{float(longer):.{digits}g}") == float(shorter)
    except ValueError:
        return False


def _went_back(lane: MetricSeries, place: Order, found: Reading, *, newcomer: bool, moved_on: bool) -> Verdict:
    """Distinguishes a late repetition from a restart.

    It is a repetition if the process that printed it has not itself gone back, or prints for the first time; or if it
    repeats the value at a recent place; or if that place was printed less often than others, so that a repetition was
    still due.
    """
    if moved_on:
        return _repeat(lane, place)
    for behind, (known, value, times) in enumerate(reversed(lane.seen)):
        if known == place:
            expected = _same(value, found.value) or times < lane.most
            if newcomer or (behind <= LATE_PLACES and expected):
                return _repeat(lane, place)
            break
    lane.seen = []
    return _accept(lane, found, place)


def advance(lane: MetricSeries, seen: Sequence[Seen]) -> None:
    """Remembers readings with increasing places, beyond all earlier ones."""
    lane.seen += seen
    if len(lane.seen) > REMEMBERED_PLACES:
        del lane.seen[:-REMEMBERED_PLACES]
    lane.top, lane.latest, _ = lane.seen[-1]
    lane.accepted += len(seen)


def _accept(lane: MetricSeries, found: Reading, place: Order | None = None) -> Verdict:
    """Takes a new reading, at a place if it has one of its own."""
    value = found.value if isfinite(found.value) else None
    if place is not None:
        advance(lane, ((place, value, 1),))
    else:
        lane.accepted, lane.latest = lane.accepted + 1, value
    lane.stepwise = lane.stepwise or found.scope != "epoch"
    return "new"


def _repeat(lane: MetricSeries, place: Order) -> Verdict:
    for at in range(len(lane.seen) - 1, max(len(lane.seen) - 2 - LATE_PLACES, -1), -1):
        known, value, times = lane.seen[at]
        if known == place:
            lane.seen[at] = (known, value, times + 1)
            lane.most = max(lane.most, times + 1)
            break
    return "repeated"


def remember_source(lane: MetricSeries, source: str, place: Order) -> None:
    """Remembers where a process is."""
    lane.sources[source] = place
    if len(lane.sources) > REMEMBERED_PLACES:
        del lane.sources[next(iter(lane.sources))]


def _same(known: float | None, value: float) -> bool:
    return known == value or (not isfinite(value) and (known is None or not isfinite(known)))
