"""How far a run is at a statement: which of its numbers is the step, by their names and by how they behave in the stream.

It owns what is learned of each progress number, and the order in which evidence decides. A written step beats one that is
worked out from epoch and batch, which beats none. It must never know a metric.
"""

from typing import NamedTuple

import msgspec

from steepest.training_logs.ledger import Position
from steepest.training_logs.statement import ProgressNumber, Statement
from steepest.training_logs.syntax.plan import STEPS_BAR

MOST_NUMBERS = 512
"""Progress numbers that are remembered by name."""

_DISTINCT = 16
GRID = 32
"""A count of samples is a multiple of the batch size, mostly a power of two."""

_SAMPLES = 1000
"""Smallest total of a fraction that may count samples."""

_RANKS = {"stated": 5.0, "global": 4.0, "step": 3.0, "iter": 2.5, "episode": 0.5}
"""Which named number is the step if a line has several; one without a name at the line's start has 1.5."""

_FRACTIONS = ("bar", "keras", "front", "beside", "tail")


class Behaviour(msgspec.Struct, array_like=True, gc=False):
    """How one progress number moved so far.

    Attributes:
        seen: readings.
        rises: readings above the one before; ``same`` and ``falls`` likewise.
        last: the latest value, ``total`` the latest number behind its slash, and ``total_changes`` how often that changed.
        restarts: how often it fell back when the epoch rose; ``continued``: how often it went on rising.
        epoch: the epoch of the latest reading.
        on_grid: whether all values are multiples of ``GRID``.
        values: up to 16 distinct values.
    """

    seen: int = 0
    rises: int = 0
    same: int = 0
    falls: int = 0
    last: int | None = None
    total: int | None = None
    total_changes: int = 0
    restarts: int = 0
    continued: int = 0
    epoch: int | None = None
    on_grid: bool = True
    values: list[int] = []

    def add(self, value: int, total: int | None, epoch: int | None) -> None:
        """Takes the next reading."""
        self.seen += 1
        self.on_grid = self.on_grid and value % GRID == 0
        if len(self.values) < _DISTINCT and value not in self.values:
            self.values.append(value)
        if self.last is not None:
            self.rises += value > self.last
            self.same += value == self.last
            self.falls += value < self.last
            self.total_changes += total != self.total
            if epoch is not None and (self.epoch is None or epoch > self.epoch):
                self.restarts += value <= self.last
                self.continued += value > self.last
        self.epoch = self.epoch if epoch is None else epoch
        self.last, self.total = value, total

    def traits(self) -> tuple[object, ...]:
        """All that ``position_of`` asks of it."""
        same, rises, restarts = self.same, self.rises, self.restarts
        return (
            self.is_rising,
            self.is_rank,
            (self.continued > 0, restarts > 0, restarts >= self.continued, self.falls > restarts + 1),
            (same > rises, same < rises, same > 0, self.falls > 0, rises > 0, rises * 3 >= same),
            (self.seen <= 2, self.on_grid, self.total_changes > rises),
        )

    def stays_as_it_is(self, value: int, total: int | None, epoch: int | None) -> bool:
        """Whether its traits are the same after another reading."""
        same, rises, falls, last = self.same, self.rises, self.falls, self.last
        if (
            last is not None
            and value > last
            and self.seen > 2
            and falls * 4 <= rises
            and (same < rises or same > rises + 1)
            and (rises * 3 >= same or rises * 3 + 3 < same)
            and rises > 0
            and (not self.on_grid or value % GRID == 0)
            and total == self.total
            and self.total_changes <= rises
            and (epoch is None or (self.epoch is not None and epoch <= self.epoch))
        ):
            return True
        after = msgspec.structs.replace(self, values=self.values[:])
        after.add(value, total, epoch)
        return after.traits() == self.traits()

    @property
    def is_rising(self) -> bool:
        """Whether it rises over the stream; one fall in four rises is a late rank's."""
        return self.falls * 4 <= self.rises + 2 or (self.rises + self.falls == 0 and self.seen < 3)

    @property
    def is_rank(self) -> bool:
        """Whether a few values come again and again, as the numbers of ranks do."""
        return self.seen >= 3 and len(self.values) * 2 <= self.seen + 1 and self.falls * 4 >= self.seen

    @property
    def restarts_each_epoch(self) -> bool:
        """Whether it begins again when the epoch rises."""
        return self.restarts > 0 and self.restarts >= self.continued


class RunLength(msgspec.Struct):
    """What is known of the run's length, from all of its processes.

    Attributes:
        total: the steps of the run; ``epochs`` its epochs.
        base: number of the first epoch, 0 or 1.
        per_epoch: steps of an epoch, from the first epoch; later ones may differ by a step, and steps must not decrease.
        zero_based: whether ``0/49`` was seen: then 49 is the last epoch, and there are 50.
    """

    total: int | None = None
    epochs: int | None = None
    base: int | None = None
    per_epoch: int | None = None
    zero_based: bool = False

    def whole(self) -> int | None:
        """The steps of the run: worked out, or as stated."""
        return self.epochs * self.per_epoch if self.epochs and self.per_epoch else self.total


class Progression(msgspec.Struct):
    """What one process has said of its progress.

    Attributes:
        numbers: how each progress number behaves.
        epoch: the epoch of the latest header or reading.
        headed: whether headers announce the epochs.
        evaluates: whether a header announced an evaluation.
        stated: the epoch that the latest statement named, for ``numbers``.
        offsets: epoch, steps before it and latest value of a step that starts again in each epoch.
        turns: how often a bar began again; ``tops`` are the latest values by their totals.
        fractional: whether dictionaries state epochs as fractions; a whole one is then no place either.
    """

    numbers: dict[str, Behaviour] = {}
    epoch: int | None = None
    headed: bool = False
    stated: int | None = None
    evaluates: bool = False
    offsets: dict[str, tuple[int, int, int]] = {}
    turns: int = 0
    tops: dict[str, int] = {}
    fractional: bool = False

    def observe(self, one: Statement) -> None:
        """Learns how the numbers of a statement move; those of an evaluation say nothing about training."""
        if one.quote and one.epoch is not None:
            self.fractional = True
        elif one.quote and self.fractional and (epoch := next((n for n in one.progress if n.kind == "epoch"), None)):
            one.progress.remove(epoch)
            one.epoch = float(epoch.value)
        self.stated = next((number.value for number in one.progress if number.kind == "epoch"), self.stated)
        if one.phase or (self.evaluates and one.has("epoch") and not one.metrics):
            self.evaluates = one.phase == "eval"
        self.evaluates = self.evaluates and not any(metric.split == "train" for metric in one.metrics)
        if one.split == "eval" or self.evaluates:
            return
        for number in one.places():
            if number.kind == "epoch":
                continue
            behaviour = self.numbers.get(number.key)
            if behaviour is None:
                if len(self.numbers) >= MOST_NUMBERS:
                    continue
                behaviour = self.numbers[number.key] = Behaviour()
            behaviour.add(number.value, number.total, self.stated)

    def after_earlier_epochs(self, kind: str, epoch: int, value: int) -> int:
        """The step of a run whose printed step starts again in each epoch."""
        at, base, top = self.offsets.get(kind, (epoch, 0, 0))
        base = base + top + (value == 0) if epoch > at else base if epoch == at else 0
        self.offsets[kind] = (epoch, base, value)
        return base + value

    def redraw(self, value: int, total: int | None) -> None:
        """Notices a bar that begins again: the next epoch, where no header says so."""
        key = str(total)
        before = self.tops.get(key)
        if before is not None and value < before and (value <= 1 or before == total):
            self.turns += 1
        if len(self.tops) > 8:
            self.tops.clear()
        self.tops[key] = value


class _Candidate(NamedTuple):
    rank: float
    value: int
    total: int | None
    behaviour: Behaviour | None
    kind: str
    bracket: bool = False


class _Reading:
    """The candidates among one statement's numbers."""

    def __init__(self, one: Statement, run: RunLength, state: Progression) -> None:
        self.one, self.run, self.state = one, run, state
        self.epoch: int | None = None
        self.epochs: int | None = None
        self.batch: int | None = None
        self.samples = False
        self.total: int | None = None
        self.named: list[_Candidate] = []
        self.fractions: list[_Candidate] = []
        self.leads: list[_Candidate] = []
        self.keyed: list[_Candidate] = []
        for number in one.progress:
            self.take(number)

    def take(self, number: ProgressNumber) -> None:
        kind, value, total = number.kind, number.value, number.total
        if kind == "epoch":
            self.take_epoch(number)
            return
        behaviour = self.state.numbers.get(number.key)
        found = _Candidate(_RANKS.get(kind, 0.0), value, total, behaviour, kind, number.bracket)
        if kind == "samples":
            self.samples, self.batch = True, value
        elif kind == "total":
            if value > 0:
                self.total = self.run.total = value
        elif kind in _RANKS or kind == "batch":
            if behaviour is not None and total is not None and kind != "global" and _is_epoch_of_batch(behaviour):
                self.epoch, self.batch = value, total  # Batch 2/400
            else:
                (self.fractions if kind == "batch" else self.named).append(found)
        elif kind == "key":
            self.keyed.append(found)
        elif kind == "lead":
            if not self.is_rank(found):
                self.leads.append(found._replace(rank=1.5))
        elif number.key == STEPS_BAR:
            self.named.append(found._replace(rank=_RANKS["global"]))
        elif kind in _FRACTIONS:
            self.take_fraction(found)

    def is_rank(self, found: _Candidate) -> bool:
        """Whether a number without a name is that of a rank; it then names the process."""
        if found.behaviour is None or not found.behaviour.is_rank:
            return False
        self.one.source = self.one.source if self.one.source is not None else str(found.value)
        return True

    def take_fraction(self, found: _Candidate) -> None:
        """A fraction without a name is a batch of its epoch, a rank, or a count of samples, which is no step."""
        behaviour, total = found.behaviour, found.total
        on_grid = behaviour is not None and behaviour.on_grid and (behaviour.rises >= 1 or (total or 1) % _SAMPLES == 0)
        if on_grid and (total or 0) >= _SAMPLES and found.kind in ("beside", "tail"):
            self.samples, self.batch = True, found.value
        elif found.kind != "front" or behaviour is None or len(behaviour.values) != total or not self.is_rank(found):
            self.fractions.append(found)

    def take_epoch(self, number: ProgressNumber) -> None:
        if self.epoch is not None:
            return
        self.epoch, self.epochs = number.value, number.total
        if number.total and (number.is_cell or not number.bracket):
            self.run.zero_based = self.run.zero_based or number.value == 0
            self.epochs = number.total + self.run.zero_based

    def position(self) -> Position:
        state, run = self.state, self.run
        run.epochs = self.epochs or run.epochs
        self.settle_brackets()
        self.settle_leads()
        good = self.believed()
        epoch = self.epoch if self.epoch is not None else state.epoch if state.headed else None
        if good:
            return self.by_name(good, epoch)
        if self.fractions:
            return self.by_fraction(self.fractions[0], epoch)
        if self.batch is not None and (self.epoch is not None or self.samples):
            state.epoch = self.epoch if self.epoch is not None else state.epoch
            return Position(None, (state.epoch or 0, self.batch), False, state.epoch, run.total)
        if self.epoch is not None:
            self.begin_epoch(self.epoch)
            return Position(None, (self.epoch,), True, self.epoch, run.whole())
        return Position(total=self.total or run.total)

    def settle_brackets(self) -> None:
        """``[0/25][500/1000]``: the first fraction is the epoch."""
        fronts = [one for one in self.fractions if one.kind == "front"]
        if len(fronts) >= 2 and self.epoch is None and not self.named:
            self.epoch, self.run.epochs = fronts[0].value, fronts[0].total or self.run.epochs
            self.fractions.remove(fronts[0])
            self.leads = []
        elif fronts and self.leads:
            last, headed = self.leads[-1], self.state.headed
            if (
                last.bracket
                and self.epoch is None
                and not self.named
                and (not headed or last.value == self.state.epoch)
            ):
                self.epoch = last.value
            self.leads = []

    def settle_leads(self) -> None:
        """Of leading numbers, the last one that rises is the step."""
        if self.named or not self.leads:
            return
        rising = [one for one in self.leads if self.is_step(one.behaviour)]
        self.named += rising[-1:]

    def is_step(self, behaviour: Behaviour | None) -> bool:
        if behaviour is None:
            return True
        if behaviour.seen <= 2 and not behaviour.falls and (self.epoch is None or behaviour.rises):
            return True
        return behaviour.is_rising and behaviour.rises > 0 and behaviour.rises * 3 >= behaviour.same

    def believed(self) -> list[_Candidate]:
        """The named candidates that rise over the stream, best first."""
        good = [
            one
            for one in self.named
            if one.behaviour is None
            or one.rank >= _RANKS["stated"]
            or one.behaviour.is_rising
            or (one.behaviour.restarts and one.behaviour.falls <= one.behaviour.restarts + 1)
        ]
        if self.fractions:
            good = [one for one in good if one.rank >= 1]
        good.sort(key=lambda one: -one.rank)
        if len(good) > 1 and (first := good[0].behaviour) is not None:
            second = good[1].behaviour
            moves = second is not None and first.same > first.rises and second.same < second.rises
            repeats = first.same > 0 and (second is None or second.same == 0)  # iterations within a step
            if moves or (repeats and good[0].rank < _RANKS["global"]):
                return good[1:]
        return good

    def by_name(self, good: list[_Candidate], epoch: int | None) -> Position:
        first = good[0]
        behaviour, value, total = first.behaviour, first.value, first.total
        is_local = first.rank < _RANKS["global"]
        continues = behaviour is not None and behaviour.continued and not behaviour.restarts
        if is_local and epoch is not None and total is not None and not continues:
            return self.within(epoch, value, total)
        restarts = behaviour is not None and behaviour.restarts_each_epoch
        if is_local and total is None and self.epoch is not None:
            step = self.state.after_earlier_epochs(first.kind, self.epoch, value)
            if restarts:
                return Position(step, (step,), False, epoch, self.run.total)
        others = [*good[1:], *self.keyed]
        if self.epoch is None:  # beside an epoch, a fraction is one of the epoch
            others += [one for one in self.fractions if one.kind != "batch"]
        total = total or next((one.total for one in others if one.total and one.value == value), None)
        self.state.epoch = self.epoch if self.epoch is not None else self.state.epoch
        whole = total or self.total or self.run.total or self.beside_batch(value)
        return Position(value, (value,), False, epoch, whole)

    def beside_batch(self, step: int) -> int | None:
        """The steps of the run where a step that goes on stands beside the epoch's batch, and agrees with it."""
        one, epoch = next(iter(self.fractions), None), self.epoch
        if one is None or one.total is None or epoch is None:
            return None
        self.begin_epoch(epoch)
        if abs((epoch - (self.run.base or 0)) * one.total + one.value - step) > 1:
            return None
        self.run.per_epoch = self.run.per_epoch or one.total
        return self.run.whole()

    def by_fraction(self, one: _Candidate, epoch: int | None) -> Position:
        value, total, run = one.value, one.total, self.run
        if epoch is not None:
            if total is None and (run.per_epoch is None or one.kind == "batch"):
                self.begin_epoch(epoch)
                return Position(None, (epoch, value), False, epoch, run.total)
            return self.within(epoch, value, total)
        if total is None:
            return Position(value, (value,), False, None, self.total or run.total)
        began_again = one.kind in ("bar", "keras") and one.behaviour is not None and one.behaviour.falls > 0
        if began_again and (self.state.turns or run.epochs):
            step = self.one.turn * total + value
            return Position(step, (step,), False, None, run.epochs * total if run.epochs else None)
        return Position(value, (value,), False, None, total)

    def begin_epoch(self, epoch: int) -> None:
        self.state.epoch = epoch
        if self.run.base is None or epoch == 0:
            self.run.base = min(epoch, 1)

    def within(self, epoch: int, index: int, total: int | None) -> Position:
        """The progress at batch ``index`` of ``total`` in an epoch; the step is known if the total is."""
        run = self.run
        self.begin_epoch(epoch)
        run.per_epoch = run.per_epoch or total
        if not total or not run.per_epoch:
            return Position(None, (epoch, index), False, epoch, run.whole())
        step = (epoch - (run.base or 0)) * run.per_epoch + index
        whole = run.whole()
        whole = None if whole is not None and step > whole else whole  # the last epoch may be longer than the first
        return Position(step, (step,), False, epoch, whole)


def _is_epoch_of_batch(behaviour: Behaviour) -> bool:
    """``a/b`` whose first number stays while the second moves: an epoch and its batch."""
    return behaviour.same > 0 and behaviour.total_changes > behaviour.rises and behaviour.falls == 0


def position_of(one: Statement, run: RunLength, state: Progression) -> Position:
    """The progress of the run at a statement; what it says of the run's length is remembered."""
    return _Reading(one, run, state).position()
