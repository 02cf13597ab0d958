"""A statement: the progress numbers and metrics of one line, one row of a table or one block of lines.

It owns the structures that all layouts of lines are turned into. It must never know which of the numbers is the step.
"""

from functools import lru_cache

import msgspec

from steepest.training_logs.records import Split
from steepest.training_logs.syntax.words import ERRORS, EVAL, LENGTHS, Kind, NameRole


class ProgressNumber(msgspec.Struct, array_like=True, gc=False):
    """A number that may say how far the run is.

    Attributes:
        kind: a kind of ``words.PROGRESS`` or ``words.LENGTHS``; ``front``, ``beside``, ``tail``, ``bar`` or ``keras`` for a
            fraction without a name, by its place on the line; ``key`` for a fraction with an unknown name; ``lead`` for a
            number without a name at the line's start.
        key: what identifies it from line to line.
        value: the number.
        total: the number behind its slash.
        bracket: whether it stands in brackets.
        is_cell: whether it is a cell of a table.
    """

    kind: str
    key: str
    value: int
    total: int | None = None
    bracket: bool = False
    is_cell: bool = False


class NamedNumber(msgspec.Struct, array_like=True, gc=False):
    """A named number; ``spread`` is the running mean behind it, ``line`` and ``end`` its own place in the source.

    ``at`` and ``spread_at`` are the indices of the two among the numbers of its line, if it has a shape.
    """

    kind: Kind
    name: str
    split: Split | None
    whole: bool
    mean: bool
    text: str
    spread: str | None
    line: int
    end: int
    trait: str = ""
    at: int = -1
    spread_at: int = -1


class Statement(msgspec.Struct, gc=False):
    """What one line states.

    Attributes:
        line: 1-based line of the source.
        end: byte offset immediately after it.
        shape: identifies its layout.
        progress: its progress numbers.
        metrics: its metrics.
        split: the split that a label on the line names.
        phase: the split that the line, a header, announces for the lines below it; ``summary`` ends all readings.
        is_best: whether it sums the run up.
        is_bar: whether it is a progress bar.
        quote: the quotes of its dictionary's keys; empty if it has none.
        epoch: the epoch as a fraction.
        is_starred: whether it starts with a star.
        source: the process that printed it, as far as its prefix names one.
        turn: how often its bar had begun again.
        label: the name of the format that read it; empty for the general reader.
        at_ms: the time that the writer states, in milliseconds.
    """

    line: int
    end: int
    shape: int = 0
    progress: list[ProgressNumber] = []
    metrics: list[NamedNumber] = []
    split: Split | None = None
    phase: str | None = None
    is_best: bool = False
    is_bar: bool = False
    quote: str = ""
    epoch: float | None = None
    is_starred: bool = False
    source: str | None = None
    turn: int = 0
    label: str = ""
    at_ms: int | None = None

    def has_readings(self) -> bool:
        """Whether it has a loss or a quality."""
        for one in self.metrics:  # noqa: SIM110 - twice as fast as any()
            if one.kind in ("loss", "quality"):
                return True
        return False

    def places(self) -> list[ProgressNumber]:
        """Its progress numbers without lengths of the run."""
        return [one for one in self.progress if one.kind not in LENGTHS]

    def is_complete(self) -> bool:
        """Whether it is a bar at its end, and names no epoch."""
        return not self.has("epoch") and any(
            one.kind in ("bar", "keras") and one.value == one.total for one in self.progress
        )

    def values(self) -> list[str]:
        """Its readings as printed."""
        return [metric.text for metric in self.metrics if metric.kind in ("loss", "quality")]

    def has(self, *kinds: str) -> bool:
        """Whether it has a progress number of one of these kinds."""
        for one in self.progress:  # noqa: SIM110 - likewise
            if one.kind in kinds:
                return True
        return False


def metric_of(role: NameRole, text: str, spread: str | None, line: int, end: int) -> NamedNumber:
    """A metric with the role of its name."""
    return NamedNumber(
        role.kind, role.metric, role.split, role.whole, role.mean, text, spread, line, end, _trait(role.words)
    )


@lru_cache(maxsize=1024)
def _trait(words: tuple[str, ...]) -> str:
    """What later rules ask about a name: whether it starts with a held-out word (h), is an error (e) or a cost (c)."""
    known = set(words)
    return "h" * (words[:1] != () and words[0] in EVAL) + "e" * bool(known & ERRORS) + "c" * bool(known & _COSTS)


_COSTS = {"cost", "costs"}
