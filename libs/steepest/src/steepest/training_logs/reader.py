"""The reader of a training log: bytes in, records out.

It owns the order of the steps: lines, prefixes, formats, layout, stream. It is a pure state machine: no I/O, no clock; its
state is one struct. A reader restored from it and fed the source from ``state.place.offset`` on continues as if it had
never stopped.
"""

import difflib
import re

import msgspec

from steepest.errors import InputError
from steepest.training_logs.compiled import LONGEST_SHAPE, MOST_COMPILED, CompiledShape
from steepest.training_logs.explain import Explanation
from steepest.training_logs.formats import Format, all_formats
from steepest.training_logs.layout import LONGEST_LINE, LineLayout
from steepest.training_logs.memory import Guise, LineOutcome, Process, StreamState
from steepest.training_logs.records import LossRecord
from steepest.training_logs.statement import ProgressNumber, Statement, metric_of
from steepest.training_logs.stream import GENERAL, Stream
from steepest.training_logs.syntax.line_splitter import Block, LineCursor, LineSplitter
from steepest.training_logs.syntax.numbers import to_epoch, to_number, to_step
from steepest.training_logs.syntax.patterns import Groups, compile_pattern, split_of
from steepest.training_logs.syntax.prefixes import WINDOW, learn, of_process
from steepest.training_logs.syntax.shape import without_escapes
from steepest.training_logs.syntax.words import SUM_OF_PARTS, plain, role_of, word_set

AUTO = "auto"
OWN_PATTERN = "pattern"

FORMER_FORMATS = word_set(
    "clu csv fairseq fallback gluon horovod huggingface imagenet json-lines keras key-value lightgbm lightning "
    "llm.c maxtext megatron metric-logger mmengine modded-nanogpt nanogpt paddle pytorch-mnist tf-estimator "
    "timm ultralytics xgboost"
)
"""Names of formats that the general reader has replaced; a job that names one is read by it."""

_MOST_PROCESSES = 16
_MOST_TEXTS = 4096
_PAUSE = 8
"""Lines of a shape after which it is tried once more whether the short way can read it."""
_NO_TEXT = "\ufffd"
_WINDOW_BYTES = 256 << 10
_LONGEST_KEPT = 4096


class FormatError(InputError):
    """No log format has that name; ``hint`` has the most similar ones."""

    code = "unknown-log-format"


class HeldLine(msgspec.Struct, array_like=True, gc=False):
    """A line that waits until the prefixes are learned."""

    text: str
    line: int
    end: int
    given: bool = False


class ReaderState(msgspec.Struct):
    """The state of a reader, to be saved and restored.

    Attributes:
        place: where the next line starts; feed the source from ``place.offset`` on.
        window: the first lines, from which prefixes are learned.
        prefixes: their patterns; None until they are learned.
        processes: what is known of each process, by the name in its prefix.
        stream: what is known of all together.
        notes: what formats remember.
        latest: position and index of the latest record.
    """

    place: LineCursor = msgspec.field(default_factory=LineCursor)
    window: list[HeldLine] = []
    prefixes: list[str] | None = None
    processes: dict[str, Process] = msgspec.field(default_factory=lambda: {"": Process()})
    stream: StreamState = msgspec.field(default_factory=StreamState)
    notes: dict[str, str] = {}
    latest: tuple[int, int] = (0, -1)


class LogReader:
    """Reads the losses and held-out metrics that a training job prints.

    Args:
        format: a format's name, or ``auto`` to read by evidence and all formats.
        metric: report only this metric, spelled as printed; ``sum``: the sum of a line's part losses; None: every loss and
            every held-out quality.
        pattern: an RE2 expression that the job provides, which replaces all else; groups ``value`` (or the first),
            ``step``, ``epoch``, ``metric``, ``split``.
        epochs: of the whole training, as its user announced them; the log may say otherwise.
        state: an earlier reader's state, to continue from.
        explain: also collect how the lines are read, in ``explanation``; this is slower.

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
        epochs: int | None = None,
        state: ReaderState | None = None,
        explain: bool = False,
    ) -> None:
        self._compiles = metric != SUM_OF_PARTS and not explain
        self._state = state = ReaderState() if state is None else _copy(state)
        state.stream.run.epochs = state.stream.run.epochs or epochs
        self._find = None if pattern is None else compile_pattern(pattern)
        self._metric = metric or "loss"
        self._formats = _formats_named(format)
        wanted = None if metric is None or pattern is not None else plain(metric)
        self._layout = LineLayout(state.stream.run, keeps_all=wanted is not None)
        self._stream = Stream(state.stream, state.processes, wanted)
        if pattern is not None or (len(self._formats) == 1 and self._formats[0].is_bare):
            state.prefixes = []
        self._lines = LineSplitter(state.place)
        self._prefixes = [re.compile(one) for one in state.prefixes or ()]
        self._process, self._line = "", 0
        self._shapes: list[CompiledShape] = []
        self._hot: list[CompiledShape] = []
        self._run_of_shape: dict[tuple[str, str], int] = {}
        self._prefix = self._text = ""
        self._guise = Guise()
        self._dead: set[bytes] = set()
        self._silent: dict[bytes, int] = {}
        self.explanation = Explanation(metric, pattern) if explain else None

    @property
    def cut_lines(self) -> int:
        """Number of lines longer than 1 MiB, of which only the beginning was read."""
        return self._state.place.cut

    @property
    def is_holding(self) -> bool:
        """Whether readings may be held back until more lines are known; ``release`` gives them."""
        state = self._state
        return (
            any(not one.given for one in state.window)
            or self._stream.is_holding
            or any(one.block is not None for one in state.processes.values())
        )

    def snapshot(self) -> ReaderState:
        """A copy of the state; feed a reader made with it from byte ``place.offset`` on."""
        return _copy(self._state)

    def begin_source(self) -> list[LossRecord]:
        """Starts a new source of the same job (a rotated or truncated file): positions restart, the state of metrics stays.

        Returns:
            The records of the old source's last lines.
        """
        records = self.close()
        self._state.place.offset, self._state.place.line, self._state.place.cutting = 0, 1, False
        self._state.latest, self._line = (0, -1), 0
        return records

    def feed(self, chunk: bytes) -> list[LossRecord]:
        """Takes the source's next bytes, split anywhere; returns the records that they complete."""
        for block in self._lines.feed(chunk):
            self._read(block)
        return self._given()

    def release(self) -> list[LossRecord]:
        """Reads what is held back with what is known so far, for a job that has printed nothing for a while."""
        self._learn()
        for name, process in self._state.processes.items():
            for one in self._layout.end_block(process):
                self._stream.take(name, one)
        self._stream.end()
        return self._given()

    def close(self) -> list[LossRecord]:
        """Ends the source: a last line without a newline is read as it is."""
        for block in self._lines.close():
            self._read(block)
        records = self.release()
        if self.explanation is not None:
            self.explanation.end()
        return records

    def _given(self) -> list[LossRecord]:
        """The new records; one that was held back while another process's line was read gets a place behind that."""
        records, self._stream.records = self._stream.records, []
        for at, one in enumerate(records):
            place = (one.position, one.index)
            if place <= self._state.latest:
                place = (self._state.latest[0], self._state.latest[1] + 1)
                records[at] = msgspec.structs.replace(one, position=place[0], index=place[1])
            self._state.latest = place
        if self.explanation is not None:
            self.explanation.give(records)
        return records

    def _read(self, block: Block) -> None:
        """Reads complete lines; as Latin-1, a character is a byte, so that positions need no counting."""
        line, end, whole_lines = block.line, block.offset, block.data is block.source
        most = block.offset + len(block.data)
        lines = block.data.decode("latin-1").split("\n")
        if not lines[-1]:
            lines.pop()
        bares = block.data.translate(None, b"0123456789").split(b"\n")
        records, dead = self._stream.records, self._dead
        for text, bare in zip(lines, bares, strict=False):
            end += len(text) + 1
            if bare not in dead:
                for one in self._hot:
                    if (found := one.match(text)) is not None:
                        is_others = line == self._line and one.source != self._process  # a redraw of its line
                        if is_others or not one.run(found.groups(), line, min(end, most), records):
                            self._take(text, bare, line, min(end, most))
                        else:
                            self._line, self._process = line, one.source
                            if one.steers:
                                self._choose()
                        break
                else:
                    self._take(text, bare, line, min(end, most))
            if whole_lines or block.source[end - 1 - block.offset : end - block.offset] == b"\n":
                line += 1

    def _take(self, text: str, bare: bytes, line: int, end: int) -> None:
        if not text.isascii():
            text = text.encode("latin-1").decode("utf-8", "replace")
            if text.count(_NO_TEXT) * 8 > len(text):
                return
        text = without_escapes(text)
        state = self._state
        if state.prefixes is not None and len(state.window) == 0:
            if not self._give(text, line, end):
                self._forget(bare)
            elif self._compiles and self._stream.outcome is not None:
                self._compile(self._stream.outcome._replace(given=self._guise, common=self._common()))
            self._choose()
            return
        state.window.append(HeldLine(text[:LONGEST_LINE], line, end))
        many = len(state.window) >= WINDOW and (line != state.window[0].line or len(state.window) >= 4 * WINDOW)
        if many or sum(len(one.text) for one in state.window) > _WINDOW_BYTES:
            self._learn()
            state.window = []

    def _choose(self) -> None:
        """Takes the short way with what nothing has changed of."""
        common = self._common()
        guises = {id(one.process): one.process.guise() for one in self._shapes}
        self._hot = [one for one in self._shapes if one.is_usable(guises[id(one.process)], common)]

    def _common(self) -> tuple[object, ...]:
        """What the reading of a line of any process depends on."""
        return (*self._state.stream.common(), len(self._state.processes))

    def _compile(self, outcome: LineOutcome) -> None:
        """Takes the short way with lines like the latest from now on, if there were several of them."""
        known = next((one for one in self._formats if one.name == outcome.label), None)
        layout = self._layout
        if known is None and any(one.needle in self._text for one in self._formats):
            return  # others of its shape may be the format's
        found = (layout.shape, layout.numbers, layout.plan) if known is None else known.plan(self._text)
        if found is None or (plan := found[2]) is None:
            return
        shape, numbers = found[:2]
        key = (shape, self._prefix)
        if len(plan.segments) > 1 or len(shape) > LONGEST_SHAPE:
            return
        if len(self._run_of_shape) >= _MOST_TEXTS:
            self._run_of_shape.clear()
        times = self._run_of_shape[key] = self._run_of_shape.get(key, 0) + 1
        old = next((one for one in self._shapes if one.key == key and one.of.label == outcome.label), None)
        if times < 2 or (old is not None and not old.was_used and times % 4):
            return
        one = CompiledShape(*key, plan, numbers, outcome, self._process, None if old is None else old.match)
        if not one.is_clear:
            self._run_of_shape[key] = -_PAUSE
        else:
            self._shapes = [one, *(other for other in self._shapes if other.key != key)][:MOST_COMPILED]

    def _forget(self, bare: bytes) -> None:
        """A line that said nothing three times is not looked at again."""
        times = self._silent.get(bare, 0) + 1
        if len(bare) > _LONGEST_KEPT or self.explanation is not None:
            return
        if times < 3:
            if len(self._silent) >= _MOST_TEXTS:
                self._silent.clear()
            self._silent[bare] = times
        else:
            if len(self._dead) >= _MOST_TEXTS:
                self._dead.clear()
            self._dead.add(bare)

    def _learn(self) -> None:
        state = self._state
        if not state.window:
            return
        firsts = {one.line: one.text for one in reversed(state.window)}
        state.prefixes = learn(list(reversed(firsts.values())))
        self._prefixes = [re.compile(one) for one in state.prefixes]
        for one in state.window:
            if not one.given:
                one.given = True
                self._give(one.text, one.line, one.end)

    def _give(self, text: str, line: int, end: int) -> bool:
        """Reads one line; returns whether it said anything."""
        self._text = text = self._without_prefix(text, line)
        noticed, joined = self._layout.noticed, self._layout.joined
        if self._compiles:
            self._guise = self._state.processes[self._process].guise()
        self._stream.outcome = None
        found = self._statements(text, line, end)
        if self.explanation is not None:
            readings, layout = any(one.has_readings() for one in found), self._layout
            self.explanation.note(text, line, layout.shape, layout.numbers, layout.plan, has_readings=readings)
        for one in found:
            self._stream.take(self._process, one)
        if self._layout.noticed != noticed:
            self._dead.clear()
            self._silent.clear()
        return bool(found) or self._layout.joined != joined or self._layout.noticed != noticed

    def _without_prefix(self, text: str, line: int) -> str:
        """The text behind the prefix, which names the process; a redraw of a line without one is of the same process."""
        if not self._prefixes:
            return text
        name, self._prefix = "", ""
        for prefix in self._prefixes:
            if (found := prefix.match(text)) is not None:
                name, text = " ".join(found.groups("")), text[found.end() :]
                self._prefix = of_process(prefix.pattern, found.groups(""))
                break
        else:
            if line == self._line:
                return text
        self._line = line
        processes = self._state.processes
        if not name and len(processes) == 2:
            name = next(one for one in processes if one)  # continues what the only process printed
        if name and len(processes) == 1 and self._state.window:
            self._stream.rename("", name)
        if name not in processes:
            name = name if len(processes) < _MOST_PROCESSES else "+"
            processes.setdefault(name, Process())
        self._process = name
        return text

    def _statements(self, text: str, line: int, end: int) -> list[Statement]:
        if self._find is not None:
            return [one for groups in self._find(text.encode()) if (one := self._own(groups, line, end))]
        for known in self._formats:
            if known.needle in text and (one := known.read(text, line, end, self._state.notes)) is not None:
                one.label = known.name
                return [one] if one.metrics else []
        return self._layout.read(text, line, end, self._state.processes[self._process])

    def _own(self, groups: Groups, line: int, end: int) -> Statement | None:
        """The statement of one match of the job's own expression."""
        value = (groups.get("value") or b"").decode("ascii", "replace")
        if to_number(value) is None:
            return None
        one = Statement(line, end, label=OWN_PATTERN, split=split_of(groups.get("split")))
        one.epoch, step = to_epoch(groups.get("epoch")), to_step(groups.get("step"))
        name = groups.get("metric") or self._metric.encode()
        role = role_of(name.decode("utf-8", "replace"))._replace(kind="loss", split=None, whole=True)
        one.metrics = [metric_of(role, value, None, line, end)]
        one.progress = [] if step is None else [ProgressNumber("stated", "stated", step)]
        return one


def _formats_named(name: str) -> tuple[Format, ...]:
    """The formats to read with: all, the one of that name, or none.

    Raises:
        FormatError: There is no such format.
    """
    formats = {one.name: one for one in all_formats()}
    if name == AUTO:
        return tuple(formats.values())
    if name in formats:
        return (formats[name],)
    if name == GENERAL or name in FORMER_FORMATS:
        return ()
    close = difflib.get_close_matches(name.lower(), [*formats, *FORMER_FORMATS, AUTO, GENERAL], n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {AUTO}, {GENERAL}, {', '.join(sorted(formats))}"
    raise FormatError(f"unknown log format {name!r}: {hint}", hint=hint)


def _copy(state: ReaderState) -> ReaderState:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=ReaderState)
