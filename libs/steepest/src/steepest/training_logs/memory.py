"""What is remembered of a log between its lines: of each process that prints it, and of all together.

It owns the structures that are saved and restored. It must never decide anything.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from steepest.training_logs.layout import ALONE, SourceState
from steepest.training_logs.ledger import MetricSeries, Order, Position
from steepest.training_logs.place import RunLength
from steepest.training_logs.records import Split
from steepest.training_logs.statement import Statement

MOST_STEPS = 64
"""Steps and names that are remembered."""


class Head(msgspec.Struct, array_like=True):
    """The place that a line without a metric announced: its position, split, and the names read since."""

    step: int | None
    order: Order | None
    coarse: bool
    epoch: int | float | None
    total: int | None
    split: Split | None
    names: list[str] = msgspec.field(default_factory=list)


class Guise(NamedTuple):
    """All that the reading of a line depends on, besides the latest places, the numbers' behaviour and the series.

    Attributes:
        phase: see ``Process``.
        head: whether the announced place is coarse, its split, and what it lacks.
        waits: whether a block, a bar or source code is open.
        has_headers: whether rows of a table may come.
        flags: all else.
    """

    phase: str | None = None
    head: tuple[object, ...] = ()
    waits: bool = False
    has_headers: bool = False
    flags: tuple[object, ...] = ()


class Process(SourceState):
    """What is remembered of one process.

    Attributes:
        phase: the split that the latest header announced, or ``summary``.
        head: the place that the latest line without a metric announced.
        loose: whether such lines were seen not to place each reading below them.
        bar: value, total, and whether it was used, of the latest bar without readings.
        pending: a bar that may be drawn again at its place, and how often it was drawn.
        shown: the place of the latest bar that was read, and its values.
        repainted: whether a bar was drawn again at its place with other values: each then waits for its last drawing.
        redrawn: how often a bar's first drawing at a place had the values of the place before.
        flushed: the values of the latest bar.
        step: the latest training step; ``order`` its place, ``epoch`` its epoch.
        batches: whether training lines state an epoch and a batch.
        evaluated: the line of the latest evaluation, if no training came since.
        shapes: layouts of training lines.
    """

    phase: str | None = None
    head: Head | None = None
    loose: bool = False
    bar: tuple[int, int | None, bool] | None = None
    pending: Statement | None = None
    drawn: int = 0
    shown: list[str] = msgspec.field(default_factory=list)
    repainted: bool = False
    redrawn: int = 0
    flushed: list[str] = msgspec.field(default_factory=list)
    step: int | None = None
    order: Order | None = None
    epoch: int | float | None = None
    batches: bool = False
    evaluated: int | None = None
    shapes: list[int] = msgspec.field(default_factory=list)

    def guise(self) -> Guise:
        """What the reading of its next line depends on."""
        head, bar, progression, tables = self.head, self.bar, self.progression, self.tables
        return Guise(
            self.phase,
            (head is not None and head.coarse, head and head.split, head and head.order is None, head is None),
            self.block is not None or self.pending is not None or self.repainted or self.code > 0,
            tables.headers != [],
            (
                tables.splits != [],
                self.loose,
                self.batches,
                self.shown == [],
                self.alone >= ALONE,
                bar and bar[2],
                progression.headed,
                progression.evaluates,
                progression.turns,
                progression.fractional,
                self.order is None,
            ),
        )


class StreamState(msgspec.Struct):
    """What is remembered of all processes together.

    Attributes:
        queue: statements that are held back, with the names of their processes.
        losses: losses held back so far; ``statements`` likewise.
        settled: whether nothing is held back any more.
        plain_steps: steps of plain training losses; ``paired_steps``: steps of a training and a held-out loss on one line.
        estimates: whether both were seen at one step: the pairs are then estimates of one evaluation.
        placed: of the statements that were held back with each metric, how many more state a place than do not.
        unknown: a word of another language that is taken for the loss.
        leads: the process to follow in each metric: the first by number of those that print it.
    """

    run: RunLength = msgspec.field(default_factory=RunLength)
    lanes: dict[str, MetricSeries] = {}
    queue: list[tuple[str, Statement]] = []
    losses: int = 0
    statements: int = 0
    settled: bool = False
    plain_steps: list[int] = msgspec.field(default_factory=list)
    paired_steps: list[int] = msgspec.field(default_factory=list)
    estimates: bool = False
    leads: dict[str, str] = {}
    placed: dict[str, int] = {}
    unknown: list[str] = []

    def common(self) -> tuple[object, ...]:
        """What the reading of any line depends on."""
        return (*msgspec.structs.astuple(self.run), self.settled, self.estimates)


class ReadAt(NamedTuple):
    """Which number of a line was read as which metric.

    ``is_free``: without the place that the line has. ``is_mean``: of an epoch.
    """

    lane: MetricSeries
    name: str
    split: Split
    at: int
    is_free: bool = False
    is_mean: bool = False


class LineOutcome(NamedTuple):
    """How the latest line was read, if each of its readings became a record.

    ``of_head``: its epoch is the one that a header announced. ``given`` is the process's guise before the line,
    ``common`` what is known of all processes. ``noted`` is where its step was noted, and among which it
    must not be (see ``note_step``). ``label`` is the format that read it, ``head`` the place that it
    announced, if it has no readings.
    """

    process: Process
    source: str
    shape: int
    at: Position
    readings: list[ReadAt]
    trained: bool
    run: RunLength
    of_head: bool
    noted: tuple[list[int], list[int], str] | None = None
    label: str = ""
    head: Head | None = None
    given: Guise = Guise()
    common: tuple[object, ...] = ()


def note_step(noted: tuple[list[int], list[int], str], step: int) -> bool:
    """Notes a step among those of its kind; False if the other kind has it too."""
    mine, others, _ = noted
    if step in others:
        return False
    if len(mine) >= MOST_STEPS:
        del mine[0]
    mine.append(step)
    return True


def place_mark(progress: Iterable[tuple[str, int]]) -> str:
    """The place of a bar, for comparison."""
    return " ".join(f"{key}={value}" for key, value in progress)


def mark(one: Statement) -> str:
    """The place of a bar's statement, likewise."""
    return place_mark((number.key, number.value) for number in one.progress)


def by_number(name: str) -> list[tuple[int, str]]:
    """Orders names of processes with the numbers in them as numbers."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d{1,15})", name)]
