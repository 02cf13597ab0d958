"""The reader of a training log: bytes in, records out.

It owns the order of the steps: lines, prefixes, format, repetitions, record. It is a pure state machine: no I/O, no clock;
its state is one struct. A reader restored from it and fed the source from ``state.place.offset`` on continues as if it had
never stopped.
"""

import msgspec

from steepest.training_logs.fast_path import read_fast_path
from steepest.training_logs.format import SUM_OF_PARTS, Context, LogLine, Reading
from steepest.training_logs.ledger import MetricSeries, to_record
from steepest.training_logs.recognise import AUTO, FormatChoice, Recogniser
from steepest.training_logs.records import LossRecord
from steepest.training_logs.skips import REPEATED, reason_for
from steepest.training_logs.syntax.line_splitter import Block, LineCursor, LineSplitter
from steepest.training_logs.syntax.metric_names import plain
from steepest.training_logs.syntax.prefixes import strip_prefixes
from steepest.training_logs.syntax.scan import Scanner
from steepest.training_logs.syntax.settings import MARK, announced

MAX_EXAMPLES = 20
"""Skipped lines that are kept as examples."""


class ReaderState(msgspec.Struct):
    """The state of a reader, to be saved and restored.

    Attributes:
        place: where the next line starts; feed the source from ``place.offset`` on.
        choice: the format recognised so far.
        context: information from earlier lines that later ones need.
        lanes: the state of each metric, by ``<split> <metric>``.
    """

    place: LineCursor = msgspec.field(default_factory=LineCursor)
    choice: FormatChoice = msgspec.field(default_factory=FormatChoice)
    context: Context = msgspec.field(default_factory=Context)
    lanes: dict[str, MetricSeries] = {}


class Skipped(msgspec.Struct, frozen=True):
    """A line that looks like a loss and was not read."""

    line: int
    text: str
    reason: str


class LogReader:
    """Reads the losses and held-out metrics that a training job prints.

    Args:
        format: a format's name, or ``auto`` to recognise it from the stream.
        metric: report only this metric, spelled as printed; ``sum``: the sum of a line's part losses; None: every loss and
            every held-out quality.
        pattern: an RE2 expression that the job provides, which replaces the formats; groups ``value`` (or the first),
            ``step``, ``epoch``, ``metric``, ``split``.
        state: an earlier reader's state, to continue from.
        explain: also collect lines that look like a loss and were not read, in ``skipped``; this is slower.

    Raises:
        FormatError: No format has the name.
        PatternError: The pattern is not an RE2 expression, or has no group.
    """

    def __init__(
        self,
        format: str = AUTO,  # noqa: A002 - as the option --format
        metric: str | None = None,
        pattern: str | None = None,
        *,
        state: ReaderState | None = None,
        explain: bool = False,
    ) -> None:
        self._state = ReaderState() if state is None else _copy(state)
        self._wanted = None if metric is None else plain(metric)
        self._state.context.wanted = None if pattern is not None else self._wanted
        self._recogniser = Recogniser(format, metric, pattern, self._state.choice)
        self._lines = LineSplitter(self._state.place)
        self._explain = explain
        self._needles_seen: tuple[bytes, ...] | None = None
        self._needles_used: tuple[bytes, ...] = ()
        self.skipped: list[Skipped] = []
        self.reasons: dict[str, int] = {}

    @property
    def format(self) -> str | None:
        """The format that was recognised or named; None before that."""
        return self._state.choice.name

    @property
    def cut_lines(self) -> int:
        """Number of lines longer than 1 MiB, of which only the beginning was read."""
        return self._state.place.cut

    def snapshot(self) -> ReaderState:
        """A copy of the state; feed a reader made with it from byte ``place.offset`` on."""
        return _copy(self._state)

    def begin_source(self) -> list[LossRecord]:
        """Starts a new source of the same job (a rotated or truncated file): positions restart, the state of metrics stays.

        Returns:
            The records of the old source's last line, if that had no newline.
        """
        records = self.close()
        self._state.place.offset, self._state.place.line, self._state.place.cutting = 0, 1, False
        return records

    def feed(self, chunk: bytes) -> list[LossRecord]:
        """Takes the source's next bytes, split anywhere; returns the records of the lines that they complete."""
        return [record for block in self._lines.feed(chunk) for record in self._read(block)]

    def close(self) -> list[LossRecord]:
        """Ends the source: a last line without a newline is read as it is."""
        return [record for block in self._lines.close() for record in self._read(block)]

    def _read(self, block: Block) -> list[LossRecord]:
        records: list[LossRecord] = []
        scanner = Scanner(block)
        recogniser, lanes, context = self._recogniser, self._state.lanes, self._state.context
        while True:
            if recogniser.fast_pattern is not None and not self._explain:
                records += read_fast_path(recogniser.fast_pattern, scanner, lanes, context, self.format or "")
            line = scanner.next_line(self._needles())
            if line is None:
                return records
            self._read_line(*line, records)

    def _read_line(self, raw: bytes, line: int, end: int, records: list[LossRecord]) -> None:
        if (run := announced(raw)) is not None:
            self._state.context.total, self._state.context.epochs = run
        text, source = strip_prefixes(raw)
        name, found = self._recogniser.read(LogLine(text, raw, source), self._state.context) or ("", [])
        process = source.decode("utf-8", "replace") if source else ""
        taken = len(records)
        for index, one in enumerate(found):
            if self._is_wanted(one):
                record = to_record(self._state.lanes, one, (line, end, index), name, process)
                if record is not None:
                    records.append(record)
        if self._explain and len(records) == taken:
            self._note(raw, line, repeated=bool(found))

    def _is_wanted(self, found: Reading) -> bool:
        wanted = self._wanted
        if wanted is None or wanted == SUM_OF_PARTS:
            return True
        names = (found.metric, f"{found.metric}_epoch") if found.scope == "epoch" else (found.metric,)
        return any(plain(name) == wanted for name in names)

    def _needles(self) -> tuple[bytes, ...]:
        needles = self._recogniser.needles
        if needles is not self._needles_seen:
            self._needles_seen = needles
            looks = (b"oss", b"OSS") if self._explain and b"" not in needles else ()
            self._needles_used = (*needles, *looks, *(() if b"" in needles else (MARK,)))
        return self._needles_used

    def _note(self, raw: bytes, line: int, *, repeated: bool) -> None:
        if b"oss" not in raw and b"OSS" not in raw:
            return
        reason = REPEATED if repeated else reason_for(raw)
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.skipped) < MAX_EXAMPLES:
            self.skipped.append(Skipped(line, raw[:300].decode("utf-8", "replace"), reason))


def _copy(state: ReaderState) -> ReaderState:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=ReaderState)
