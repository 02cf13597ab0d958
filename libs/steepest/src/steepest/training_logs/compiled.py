"""A short way for the lines of a shape whose roles are settled: only its place and its values are new.

It owns no rules: a line read here gives the same records and the same state as the long way (a property test compares
both). It is usable only while all that the long way asks of the process is as it was when a line of the shape was last
read that way, and only in clear cases: the progress is beyond the latest one, and every metric was read before.
"""

import re
from collections.abc import Callable, Sequence
from math import isfinite

from steepest.training_logs.ledger import REMEMBERED_PLACES, Order, remember_source
from steepest.training_logs.memory import Guise, Head, LineOutcome, note_step, place_mark
from steepest.training_logs.records import LossRecord
from steepest.training_logs.stream import GENERAL
from steepest.training_logs.syntax.numbers import as_epoch, to_step
from steepest.training_logs.syntax.plan import ProgressAt, ShapePlan
from steepest.training_logs.syntax.shape import (
    BAR,
    BAR_PATTERN,
    GAP,
    KERAS_BAR,
    KERAS_BAR_PATTERN,
    NUMBER,
    TIME,
    TIME_PATTERN,
)
from steepest.training_logs.syntax.words import LENGTHS

MOST_COMPILED = 8
LONGEST_SHAPE = 1000
"""Characters of a shape that is worth a pattern of its own."""

_STEP, _WITHIN, _PAIR, _EPOCH, _NONE = range(5)
"""How the place follows from a number: it is the step; the step follows with the epoch; it is counted; it is the epoch
alone; there is none."""

_MARKS = {TIME: TIME_PATTERN, BAR: BAR_PATTERN, KERAS_BAR: KERAS_BAR_PATTERN, " ": " {1,64}+"}


_JSON_NUMBER = r"-?(?:0|[1-9]\d{0,30}+)(?:\.\d{1,30}+)?(?:[eE][-+]?\d{1,3}+)?"


def compile_shape(shape: str, prefix: str, number: str = NUMBER) -> re.Pattern[str]:
    """The pattern of all lines of a shape, as Latin-1: its text, with any time, any padding, and a group a number."""
    marks = _MARKS | {GAP: f"({number})"}
    text = shape.encode("utf-8", "replace").decode("latin-1")
    return re.compile(prefix + "".join(marks.get(mark) or re.escape(mark) for mark in text))


def _way(
    places: list[ProgressAt], numbers: Sequence[str], of: LineOutcome, epoch_at: int | None
) -> tuple[int, int] | None:
    """How the place of a reading follows from its numbers, and from which; None if it is not clear."""
    order, run, epoch = of.at.order, of.run, of.at.epoch
    if order is None:
        is_placed = any(place.at != epoch_at for place in places)
        return None if of.trained and (is_placed or (epoch_at is not None and isinstance(epoch, int))) else (_NONE, 0)
    if of.at.coarse:
        return (_EPOCH, epoch_at) if epoch_at is not None and [place.at for place in places] == [epoch_at] else None
    for place in places:
        value = to_step(numbers[place.at or 0])
        if place.kind == "epoch" or place.kind in LENGTHS or value is None:
            continue
        if order == (value,):
            return _STEP, place.at or 0
        if epoch_at is None or not isinstance(epoch, int):
            continue
        if run.per_epoch and order == ((epoch - (run.base or 0)) * run.per_epoch + value,):
            return _WITHIN, place.at or 0
        if order == (epoch, value):
            return _PAIR, place.at or 0
    return None


def _is_steady(plan: ShapePlan, places: list[ProgressAt], numbers: Sequence[str], of: LineOutcome, mode: int) -> bool:
    """Whether the split of the line, and what it does to the process, follow from what its guise holds."""
    given, segment = of.given, plan.segments[0]
    kinds = [place.kind for place in places]
    if "epoch" not in kinds and "front" in kinds and (kinds.count("front") > 1 or "lead" in kinds):
        return False  # one of them is the epoch
    if given.waits or given.phase == "summary" or (given.has_headers and not plan.named):
        return False
    splits = [metric.role.split for metric in segment.readings()]
    if of.head is not None:
        return given.phase is None or all(place.kind != "epoch" for place in places)
    if of.of_head and not given.head[0]:
        return False  # each name counts once below such a header
    own = all(splits)
    in_phase = (own and "eval" in splits) or ((own or plan.split == "eval") and mode == _NONE)
    if given.phase is not None and not (in_phase or plan.split == "train"):
        return False
    if plan.split is not None or "train" in splits:
        return True
    other_loop = any(
        place.kind == "keras" and place.total is not None and to_step(numbers[place.total]) != of.run.per_epoch
        for place in places
    )
    return not other_loop and (
        bool(places) or own or all(metric.role.kind != "quality" for metric in segment.readings())
    )


class CompiledShape:
    """The lines of one shape, of one process, like one that was just read the long way.

    Args:
        shape: the line's shape, for its pattern; ``prefix`` is the pattern of what stands before it.
        plan: of the shape.
        numbers: the line's.
        match: the pattern, if it was compiled before.
        of: how it was read.
        source: the name of its process.
    """

    def __init__(
        self,
        shape: str,
        prefix: str,
        plan: ShapePlan,
        numbers: Sequence[str],
        of: LineOutcome,
        source: str,
        match: Callable[[str], re.Match[str] | None] | None = None,
    ) -> None:
        self.key, self.of, self.process, self.source = (shape, prefix), of, of.process, source
        progression = self.process.progression
        places = [place for place in plan.segments[0].progress if place.at is not None]
        self.epoch_at = next((place.at for place in places if place.kind == "epoch"), None)
        way = _way(places, numbers, of, self.epoch_at)
        self.is_clear = way is not None and all(place.field.fixed is None for place in plan.segments[0].progress)
        if way is None:
            return
        self.mode, self.at = way
        self.is_fraction = self.epoch_at is not None and plan.is_free_epoch and "." in numbers[self.epoch_at]
        self.is_free_epoch = self.is_fraction or of.label != ""  # says nothing about the place
        self.at_ms = plan.at_ms
        moving = (self.at, self.epoch_at if self.mode != _STEP or self.is_free_epoch else None, self.at_ms)
        self.epoch_moves = self.epoch_at is not None and self.epoch_at in moving
        self.epoch = None if self.epoch_at is None else self._epoch(numbers[self.epoch_at])
        held = {index for place in places for index in (place.at, place.total) if index is not None}
        if self.mode == _WITHIN:  # epochs may differ by a step, and the first one's length counts
            held -= {place.total for place in places if place.at == self.at and place.total is not None}
        self.fixed = [(index, numbers[index]) for index in sorted(held) if index not in moving]
        whole = [place for place in places if to_step(numbers[place.at or 0]) is not None]
        self.learned = [
            (progression.numbers[place.key], place.at or 0, place.total)
            for place in whole
            if place.key in progression.numbers and plan.split != "eval"
        ]
        self.traits = [behaviour.traits() for behaviour, *_ in self.learned]
        self.bars = [(place.at or 0, place.total) for place in whole if place.kind == "bar"]
        in_epoch = [place.kind for place in places if place.at == self.at and place.total is None]
        has_epoch = self.epoch_at is not None and not self.is_free_epoch
        self.offset = next((kind for kind in in_epoch if has_epoch and kind in progression.offsets), "")
        restarts = any(behaviour.restarts for behaviour, at, _ in self.learned if at == self.at)
        key = "" if of.noted is None else of.noted[2]
        self.noted_at = next((place.at for place in places if place.key == key), None)
        self.marks = [(place.key, place.at or 0) for place in whole] if plan.is_bar else []
        self.values = [metric.at for metric in plan.segments[0].metrics if metric.role.kind in ("loss", "quality")]
        self.whole = [metric.step for metric in plan.segments[0].metrics if metric.step is not None]
        splits = [metric.role.split for metric in plan.segments[0].readings()]
        self.ends_phase = "eval" in splits or plan.split == "train"
        self.trains = "train" in [metric.role.split for metric in plan.segments[0].metrics]
        self.steers = self.process.guise() != of.given
        """Whether a line changes how others are read."""
        self.is_clear = (
            self.is_clear
            and all(numbers[at].isdecimal() for at in self.whole)
            and (self.epoch_at is None or self.epoch is not None)
            and (self.epoch_at is not None or self.mode == _NONE or of.at.epoch == self._inherited())
            and not (self.offset and restarts)
            and not (self.mode == _NONE and of.trained and any(one.split == "eval" for one in of.readings))
            and not (plan.quote and progression.fractional and self.epoch_at is not None and not self.is_fraction)
            and _is_steady(plan, places, numbers, of, self.mode)
        )
        self.was_used = False
        if self.is_clear:
            self.match = match or compile_shape(shape, prefix, _JSON_NUMBER if of.label else NUMBER).fullmatch

    def is_usable(self, guise: Guise, common: tuple[object, ...]) -> bool:
        """Whether all that its lines depend on is as it was."""
        is_same = self.of.common == common and self.of.given == guise
        return is_same and self.traits == [behaviour.traits() for behaviour, *_ in self.learned]

    def run(self, numbers: Sequence[str], line: int, end: int, records: list[LossRecord]) -> bool:
        """Reads a line; False, with nothing changed, if it must be read the long way."""
        if not self._is_alike(numbers):
            return False
        order, value, process = None, None, self.process
        epoch = self._epoch(numbers[self.epoch_at or 0]) if self.epoch_moves else self.epoch
        at_ms = None if self.at_ms is None else to_step(numbers[self.at_ms])
        if (epoch is None and self.epoch_moves) or (at_ms is None and self.at_ms is not None):
            return False
        if epoch == 0 and self.epoch != 0:
            return False  # epochs count from 0
        if self.mode != _NONE:
            value = to_step(numbers[self.at])
            if value is None:
                return False
            order = (value,) if self.mode == _STEP else self._order(value, epoch)
            if self.mode == _WITHIN and order[0] > (self.of.at.total or order[0]):
                return False
        if not (self._is_next(order) and self._is_new(order)):
            return False
        drawing = self._drawing(numbers) if self.marks else []
        if drawing and process.shown[:1] == drawing[:1] and process.shown != drawing:
            return False  # a bar that is drawn again at its place, with other values
        readings = self._behaviour(numbers, epoch)
        if readings is None or not self._is_noted(numbers, value):
            return False
        self.was_used = True
        self._learn(numbers, epoch, readings)
        process.shown = drawing or process.shown
        epoch = self._inherited() if self.epoch_at is None else epoch
        if self.of.head is not None:
            self._announce(order, epoch)
        else:
            self._read(numbers, line, end, order, epoch, at_ms, records)
        return True

    def _is_alike(self, numbers: Sequence[str]) -> bool:
        """Whether the numbers that must not change are as they were."""
        for index, text in self.fixed:
            if numbers[index] != text:
                return False
        return all(numbers[at].isdecimal() for at in self.whole) if self.whole else True

    def _inherited(self) -> int | None:
        """The epoch of a line that states a place and no epoch."""
        progression = self.process.progression
        return progression.epoch if progression.headed and self.mode != _NONE else None

    def _is_next(self, order: Order | None) -> bool:
        """Whether a place that is announced lies beyond the latest one."""
        if self.of.head is None:
            return True
        head = self.process.head
        before = None if head is None else head.order
        return order is not None and before is not None and len(order) == len(before) and order > before

    def _announce(self, order: Order | None, epoch: float | None) -> None:
        """Remembers the place for the readings below."""
        head = self.of.head
        if head is not None and order is not None:
            step = None if head.step is None else int(order[0])
            self.process.head = Head(step, order, head.coarse, epoch, head.total, head.split)

    def _is_noted(self, numbers: Sequence[str], value: int | None) -> bool:
        """Notes the step, unless an estimate has it."""
        if self.noted_at is None or self.of.noted is None:
            return True
        step = value if self.noted_at == self.at else to_step(numbers[self.noted_at])
        return step is not None and note_step(self.of.noted, step)

    def _epoch(self, text: str) -> int | float | None:
        if self.is_fraction:
            return as_epoch(float(text)) if "." in text else None
        return None if self.of.label and "." in text else to_step(text)

    def _order(self, value: int, epoch: float | None) -> Order:
        if self.mode == _EPOCH:
            return (value,)
        if self.mode == _PAIR:
            return (epoch or 0, value)
        run = self.of.run
        return ((int(epoch or 0) - (run.base or 0)) * (run.per_epoch or 0) + value,)

    def _is_new(self, order: Order | None) -> bool:
        """Whether each reading goes on where its series ended."""
        for lane, _, _, _, is_free, is_mean in self.of.readings:
            if lane.ahead or lane.lead != self.of.source or lane.shape != self.of.shape or (is_mean and lane.stepwise):
                return False
            if order is None or is_free:
                if lane.written and self.of.trained and not is_free:
                    return False
            elif lane.top is None or len(lane.top) != len(order) or order <= lane.top:
                return False
        return True

    def _behaviour(self, numbers: Sequence[str], epoch: float | None) -> list[tuple[int, int | None]] | None:
        """The progress numbers that the process learns from; None if one of them changes how lines are read."""
        progression = self.process.progression
        readings: list[tuple[int, int | None]] = []
        if progression.evaluates and not self.trains:
            return readings
        stated = progression.stated if epoch is None or self.is_free_epoch else int(epoch)
        for behaviour, at, total_at in self.learned:
            value, total = int(numbers[at]), None if total_at is None else to_step(numbers[total_at])
            if not behaviour.stays_as_it_is(value, total, stated):
                return None
            readings.append((value, total))
        return readings

    def _learn(self, numbers: Sequence[str], epoch: float | None, readings: list[tuple[int, int | None]]) -> None:
        """Does for the process what the long way does."""
        process, progression = self.process, self.process.progression
        if self.epoch_at is not None and not self.is_free_epoch:
            progression.stated = progression.epoch = int(epoch or 0)
        for (behaviour, *_), (value, total) in zip(self.learned, readings, strict=False):
            behaviour.add(value, total, progression.stated)
        for at, total_at in self.bars:
            progression.redraw(int(numbers[at]), None if total_at is None else to_step(numbers[total_at]))
        if self.offset:
            progression.after_earlier_epochs(self.offset, int(epoch or 0), int(numbers[self.at]))
        process.phase = None if self.ends_phase else process.phase
        progression.evaluates = progression.evaluates and not self.trains and process.phase == "eval"

    def _drawing(self, numbers: Sequence[str]) -> list[str]:
        """The place of a bar, and its values."""
        place = place_mark((key, int(numbers[at])) for key, at in self.marks)
        return [place, *(numbers[at] for at in self.values)]

    def _read(
        self,
        numbers: Sequence[str],
        line: int,
        end: int,
        order: Order | None,
        epoch: float | None,
        at_ms: int | None,
        records: list[LossRecord],
    ) -> None:
        of, process = self.of, self.process
        step = None if order is None or of.at.step is None else int(order[0])
        if order is None and not of.trained:
            epoch = process.head.epoch if of.of_head and process.head is not None else epoch
            step, epoch = process.step, process.epoch if epoch is None else epoch
        total, epochs, source, name_of = of.at.total, of.at.epochs, of.source, of.label or GENERAL
        for index, (lane, name, split, at, is_free, _) in enumerate(of.readings):
            text = numbers[at]
            value = float(text)
            lane.accepted += 1
            lane.latest = latest = value if isfinite(value) else None
            lane.line, lane.text = line, repr(value) if of.label else text
            if order is None or is_free or self.mode == _EPOCH:
                lane.others = 0
            if order is not None and not is_free:
                if source or lane.sources:
                    remember_source(lane, source, order)
                lane.top = order
                lane.seen.append((order, latest, 1))
                if len(lane.seen) > REMEMBERED_PLACES:
                    del lane.seen[0]
            place = process.step if is_free and step is None else step
            of_run, of_epochs = (None, None) if is_free else (total, epochs)
            counted = place is None
            number = lane.accepted if place is None else place
            records.append(
                LossRecord(
                    line, end, index, number, counted, epoch, name, value, split, name_of, at_ms, of_run, of_epochs
                )
            )
        if order is not None and (of.trained or not of.readings):
            process.step = process.step if step is None else step
            process.epoch = process.epoch if epoch is None else epoch
            process.order = order
        if of.readings:
            process.evaluated = None if of.trained else line
