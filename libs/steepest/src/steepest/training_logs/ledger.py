"""Decides which readings become records: drops repetitions, accepts restarts, counts missing steps.

It owns the state of each metric: its latest places (values of ``order``). It must never know a format or a byte of the line.

A metric's places increase within one run. A reading at the highest place again is a repetition (by another rank, another
logger, a redraw). A reading below it is either a late repetition or the first of a restarted run; see ``_went_back``.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Literal

import msgspec

from steepest.training_logs.format import Order, Reading
from steepest.training_logs.records import LossRecord

REMEMBERED_PLACES = 256
"""Places remembered for each metric; a rank that lags by more counts as a separate run."""

LATE_PLACES = 8
"""A late repetition comes within a few places; a reading further back is a restart."""

MAX_LANES = 512
"""Bound on the metrics of a log: one that keeps printing new names must not grow the state without limit."""

Verdict = Literal["new", "repeated", "other process", "unchanged"]

Seen = tuple[Order, float | None, int]
"""A place, the value first read there (None where not finite: JSON has no NaN), and how often one was read there."""


class MetricSeries(msgspec.Struct):
    """The state of one metric.

    Attributes:
        accepted: number of new readings; this is the counted step.
        top: the highest place of the current run.
        seen: the latest places of this run.
        sources: latest place of each process that prints this metric.
        most: the maximum number of times a place was printed; 2 if two ranks print.
        latest: the latest value.
        lead: the process that printed first; readings without a place count only from it.
        stepwise: whether it was ever read at a step; a mean over an epoch is then a separate metric.
    """

    accepted: int = 0
    top: Order | None = None
    seen: list[Seen] = []
    sources: dict[str, Order] = {}
    most: int = 1
    latest: float | None = None
    lead: str | None = None
    stepwise: bool = False


def to_record(
    lanes: dict[str, MetricSeries], found: Reading, place: tuple[int, int, int], format_name: str, process: str = ""
) -> LossRecord | None:
    """Makes a record of a new reading.

    Args:
        lanes: the state of each metric, by ``<split> <metric>``; it is updated.
        found: the reading.
        place: the record's line, position and index.
        format_name: the format it was read in.
        process: the process that printed it, if a prefix names it.

    Returns:
        None if the reading is a repetition.
    """
    metric, value, split, at, scope = found
    if scope == "epoch" and (known := lanes.get(f"{split} {metric}")) and known.stepwise:
        metric += "_epoch"
    lane = lanes.get(f"{split} {metric}") or _new_lane(lanes, f"{split} {metric}")
    if lane is None or judge(lane, found, process) != "new":
        return None
    line, position, index = place
    counted = at.step is None
    step = lane.accepted if counted else at.step
    of = (at.at_ms, at.total, at.epochs)
    return LossRecord(line, position, index, step, counted, at.epoch, metric, value, split, format_name, *of)


def _new_lane(lanes: dict[str, MetricSeries], name: str) -> MetricSeries | None:
    if len(lanes) >= MAX_LANES:
        return None
    lane = lanes[name] = MetricSeries()
    return lane


def judge(lane: MetricSeries, found: Reading, source: str) -> Verdict:
    """Decides whether a reading is new, and remembers it."""
    if found.scope == "display" and lane.accepted and _same(lane.latest, found.value):
        return "unchanged"
    place = found.at.order
    lane.lead = source if lane.lead is None else lane.lead
    if place is None:
        return _accept(lane, found) if lane.lead == source else "other process"
    before: Order | None = None
    newcomer = False
    if source or lane.sources:
        before = lane.sources.get(source)
        newcomer = before is None and bool(lane.sources)
        _remember_source(lane, source, place)
    if lane.top is None or place > lane.top:
        return _begin(lane, place, found)
    if place == lane.top:
        another = found.at.coarse and source == lane.lead and not _same(lane.latest, found.value)
        return _accept(lane, found) if another else _repeat(lane, place)
    return _went_back(lane, place, found, newcomer=newcomer, moved_on=before is not None and place > before)


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
    return _begin(lane, place, found)


def advance(lane: MetricSeries, seen: Sequence[Seen], count: int = 1) -> None:
    """Remembers ``count`` readings with increasing places, beyond all earlier ones; ``seen`` are the latest of them."""
    lane.seen += seen
    if len(lane.seen) > REMEMBERED_PLACES:
        del lane.seen[:-REMEMBERED_PLACES]
    lane.top, lane.latest, _ = lane.seen[-1]
    lane.accepted += count


def accept(lane: MetricSeries, value: float) -> None:
    """Remembers a reading without a place."""
    lane.accepted += 1
    lane.latest = value


def _begin(lane: MetricSeries, place: Order, found: Reading) -> Verdict:
    advance(lane, ((place, found.value, 1),))
    lane.stepwise = lane.stepwise or found.scope != "epoch"
    return "new"


def _accept(lane: MetricSeries, found: Reading) -> Verdict:
    accept(lane, found.value)
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


def _remember_source(lane: MetricSeries, source: str, place: Order) -> None:
    lane.sources[source] = place
    if len(lane.sources) > REMEMBERED_PLACES:
        del lane.sources[next(iter(lane.sources))]


def _same(known: float | None, value: float) -> bool:
    return known == value or (not isfinite(value) and (known is None or not isfinite(known)))
