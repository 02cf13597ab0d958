"""A short way for the lines of a shape whose roles are settled: only its place and its values are new.

It owns no rules: a line read here gives the same records and the same state as the long way (a property test compares
both). It is used only in clear cases: the progress is beyond the latest one, and every metric was read before.
"""

import re
from collections.abc import Callable, Sequence
from math import isfinite

from steepest.training_logs.ledger import REMEMBERED_PLACES, Order, remember_source
from steepest.training_logs.memory import Head, LineOutcome, note_step, place_mark
from steepest.training_logs.place import GRID
from steepest.training_logs.records import LossRecord
from steepest.training_logs.stream import GENERAL
from steepest.training_logs.syntax.numbers import to_step
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

MOST_COMPILED = 4
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


class CompiledShape:
    """The lines of one shape, of one process, like one that was just read the long way.

    Args:
        shape: the line's shape, for its pattern; ``prefix`` is the pattern of what stands before it.
        plan: of the shape.
        numbers: the line's.
        match: the pattern, if it was compiled before.
        of: how it was read.
    """

    def __init__(
        self,
        shape: str,
        prefix: str,
        plan: ShapePlan,
        numbers: Sequence[str],
        of: LineOutcome,
        match: Callable[[str], re.Match[str] | None] | None = None,
    ) -> None:
        self.key, self.of, self.version, self.process = (shape, prefix), of, of.version, of.process
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
        self.epoch = of.at.epoch if self.epoch_at is None else self._epoch(numbers[self.epoch_at])
        self.is_clear = self.is_clear and (self.epoch_at is None or self.epoch is not None)
        held = {index for place in places for index in (place.at, place.total) if index is not None}
        if self.mode == _WITHIN:  # epochs may differ by a step, and the first one's length counts
            held -= {place.total for place in places if place.at == self.at and place.total is not None}
        self.fixed = [(index, numbers[index]) for index in sorted(held) if index not in moving]
        known = self.process.progression.numbers
        self.learned = [
            (known[place.key], place.at or 0, place.total, place.kind)
            for place in places
            if place.key in known and plan.split != "eval"
        ]
        offsets = self.process.progression.offsets
        self.offset = next((place.kind for place in places if place.at == self.at and place.kind in offsets), "")
        key = "" if of.noted is None else of.noted[2]
        self.noted_at = next((place.at for place in places if place.key == key), None)
        self.marks = [(place.key, place.at or 0) for place in places] if plan.is_bar else []
        self.values = [metric.at for metric in plan.segments[0].metrics if metric.role.kind in ("loss", "quality")]
        splits = [metric.role.split for metric in plan.segments[0].readings()]
        self.is_named, self.ends_phase = all(splits), "eval" in splits or plan.split == "train"
        self.is_place = of.head is not None and self.epoch_at is None
        self.trains = any(metric.role.split == "train" for metric in plan.segments[0].metrics)
        self.was_used = False
        self.match = match or compile_shape(shape, prefix, _JSON_NUMBER if of.label else NUMBER).fullmatch

    def is_usable(self, version: int) -> bool:
        """Whether nothing has changed that its lines depend on."""
        one = self.process
        waits = one.block is not None or one.pending is not None or one.repainted
        of = self.of
        if (
            self.epoch_at is None
            and of.at.epoch is not None
            and not of.of_head
            and one.progression.epoch != of.at.epoch
        ):
            return False  # a header announced another epoch
        waits = waits or (self.is_fraction and one.bar is not None and not one.bar[2])  # for the bar's place
        return self.version == version and not (
            waits or one.code or (one.phase and not (self.is_named and self.ends_phase) and not self.is_place)
        )

    def run(self, numbers: Sequence[str], line: int, end: int, records: list[LossRecord]) -> bool:
        """Reads a line; False, with nothing changed, if it must be read the long way."""
        for index, text in self.fixed:
            if numbers[index] != text:
                return False
        order, value = None, None
        epoch = self._epoch(numbers[self.epoch_at or 0]) if self.epoch_moves else self.epoch
        at_ms = None if self.at_ms is None else to_step(numbers[self.at_ms])
        if (epoch is None and self.epoch_moves) or (at_ms is None and self.at_ms is not None):
            return False
        if self.mode != _NONE:
            value = to_step(numbers[self.at])
            if value is None:
                return False
            order = (value,) if self.mode == _STEP else self._order(value, epoch)
            if self.mode == _WITHIN and order[0] > (self.of.at.total or order[0]):
                return False
            if self.mode == _PAIR and value % GRID and any(learned[0].on_grid for learned in self.learned):
                return False
        if not (self._is_next(order) and self._is_new(order)) or (order is None and self._is_redrawn(numbers)):
            return False
        if not self._is_noted(numbers, value):
            return False
        self.was_used = True
        self._learn(numbers, epoch)
        if self.of.head is not None:
            self._announce(order, epoch)
        else:
            self._read(numbers, line, end, order, epoch, at_ms, records)
        return True

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
            step = None if self.mode in (_PAIR, _EPOCH) else int(order[0])
            self.process.head = Head(step, order, head.coarse, epoch, head.total, head.split)

    def _is_noted(self, numbers: Sequence[str], value: int | None) -> bool:
        """Notes the step, unless an estimate has it."""
        if self.noted_at is None or self.of.noted is None:
            return True
        step = value if self.noted_at == self.at else to_step(numbers[self.noted_at])
        return step is not None and note_step(self.of.noted, step)

    def _epoch(self, text: str) -> int | float | None:
        if self.is_fraction:
            return float(text) if "." in text else None
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
        for lane, _, _, _, is_free in self.of.readings:
            if lane.ahead or lane.lead != self.of.source or lane.shape != self.of.shape:
                return False
            if order is None or is_free:
                if lane.written and self.of.trained and not is_free:
                    return False
            elif (
                lane.top is None
                or len(lane.top) != len(order)
                or order <= lane.top
                or (self.mode == _EPOCH and lane.stepwise)
            ):
                return False
        return True

    def _learn(self, numbers: Sequence[str], epoch: float | None) -> None:
        """Does for the process what the long way does."""
        progression = self.process.progression
        if self.epoch_at is not None and not self.is_free_epoch:
            progression.stated = progression.epoch = int(epoch or 0)
        progression.evaluates = progression.evaluates and not self.trains
        for behaviour, at, total, kind in () if progression.evaluates else self.learned:
            value, whole = int(numbers[at]), total and to_step(numbers[total])
            behaviour.add(value, whole, progression.stated)
            if kind == "bar":
                progression.redraw(value, whole)
        if self.offset:
            at, base, _ = progression.offsets[self.offset]
            progression.offsets[self.offset] = (at, base, int(numbers[self.at]))
        if self.marks:
            self.process.shown = self._drawing(numbers)

    def _drawing(self, numbers: Sequence[str]) -> list[str]:
        """The place of a bar, and its values."""
        place = place_mark((key, int(numbers[at])) for key, at in self.marks)
        return [place, *(numbers[at] for at in self.values)]

    def _is_redrawn(self, numbers: Sequence[str]) -> bool:
        """Whether a bar is drawn again at its place, with other values."""
        if not self.marks:
            return False
        now, shown = self._drawing(numbers), self.process.shown
        return shown[:1] == now[:1] and shown != now

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
        step = None
        if order is not None:
            step = None if self.mode in (_PAIR, _EPOCH) else int(order[0])
        elif not of.trained:
            epoch = process.head.epoch if of.of_head and process.head is not None else epoch
            step, epoch = process.step, process.epoch if epoch is None else epoch
        total, epochs, source, name_of = of.at.total, of.at.epochs, of.source, of.label or GENERAL
        for index, (lane, name, split, at, is_free) in enumerate(of.readings):
            text = numbers[at]
            value = float(text)
            lane.accepted += 1
            lane.latest = latest = value if isfinite(value) else None
            lane.line, lane.text = line, repr(value) if of.label else text
            if order is not None and not is_free:
                if source or lane.sources:
                    remember_source(lane, source, order)
                lane.top = order
                lane.seen.append((order, latest, 1))
                if len(lane.seen) > REMEMBERED_PLACES:
                    del lane.seen[0]
            place = process.step if is_free else step
            of_run, of_epochs = (None, None) if is_free else (total, epochs)
            counted = place is None
            number = lane.accepted if place is None else place
            records.append(
                LossRecord(
                    line, end, index, number, counted, epoch, name, value, split, name_of, at_ms, of_run, of_epochs
                )
            )
        if of.trained or not of.readings:
            process.step = process.step if step is None else step
            process.epoch = process.epoch if epoch is None else epoch
            process.order = process.order if order is None else order
        process.phase = None if self.ends_phase else process.phase
        if of.readings:
            process.evaluated = None if of.trained else line
