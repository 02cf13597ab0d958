"""Lines into statements: plain lines by their shape, rows of tables, and blocks of one name a line.

It owns the layouts and what is remembered of shapes. It must never know how numbers behave, nor what becomes a record.
"""

import re
from zlib import crc32

import msgspec

from steepest.training_logs.place import Progression, RunLength
from steepest.training_logs.statement import NamedNumber, ProgressNumber, Statement, metric_of
from steepest.training_logs.syntax.numbers import as_epoch, to_step
from steepest.training_logs.syntax.plan import STEP_BEHIND, MetricAt, Segment, ShapePlan, plan_of
from steepest.training_logs.syntax.shape import BAR, GAP, NUMBERS, cut, marked
from steepest.training_logs.syntax.words import INTERESTING, LENGTHS, PROGRESS
from steepest.training_logs.tables import LineTables, delimiter_of, header_of

MOST_SHAPES = 2048
MOST_OF_BLOCK = 200
LONGEST_LINE = 1 << 16
"""Characters of a line that are analysed: a longer one is a dump."""

_SAYING = (*PROGRESS, *LENGTHS, "bar", "keras")
"""Progress that says something without a reading."""

_BLOCK_GAP = 8
"""Lines without a statement that may stand within a block."""

ALONE = 16
"""Blocks of one line in a row after which such lines are no blocks."""
_IN_CODE, _MOST_CODE = 6, 12
"""Points above which a line is within source code: a line of code adds three, another one takes one away."""

_LENGTH = re.compile(
    r"(?i)\b(?:total|max|maximum|num|number of|n)[ _](?:(?:optimization|training|train|of|update)[ _]){0,2}"
    r"(steps|iterations|iters|updates|epoche?s)['\"]?\s{0,3}[=:]?\s{0,3}(\d[\d,]{0,14})(?![\w.])"
    r"|(?:^|[ ({,\"'-]|scheduled )(epochs)['\"]?(?:\s{0,3}[=:]\s{0,3}|(?<=--epochs) )(\d{1,9})(?![\w/]|\.\d)"
    r"|\b(?:train|run|fit)(?:n?ing)?\b(?: for|[:,])?(?: (?:up to|a total of))? (\d{1,12}) (?:more )?"
    r"(epochs|steps|iterations|iters)\b"
    r"|\btraining\b.{0,20}\b(epochs|steps|iterations|iters)\s?[:=]\s?(\d{1,12})(?![\w/.])"
)
_SETTINGS = re.compile(r"(?:Namespace|[Cc]onfig|[Aa]rg(?:ument)?s)\(")
_BORDER = re.compile(r"[\W_]")


class LineBlock(msgspec.Struct):
    """Consecutive lines of one name and one number each; a name that comes again begins the next block.

    ``at`` is the number of its latest line among those of the process.
    """

    statement: Statement
    names: list[str]
    is_box: bool
    at: int = 0


class SourceState(msgspec.Struct):
    """What is remembered of one process's lines: its progress, its tables, its open block, and how much code it prints.

    ``alone`` is how often in a row a block was one line only: then its lines are no blocks.
    """

    progression: Progression = msgspec.field(default_factory=Progression)
    tables: LineTables = msgspec.field(default_factory=LineTables)
    block: LineBlock | None = None
    alone: int = 0
    lines: int = 0
    code: int = 0


class LineLayout:
    """Turns lines into statements.

    Args:
        run: learns the lengths that headers announce.
        keeps_all: whether also numbers that are neither progress nor readings are wanted.
    """

    def __init__(self, run: RunLength, *, keeps_all: bool = False) -> None:
        self._run, self._keeps_all = run, keeps_all
        self._plans: dict[str, ShapePlan] = {}
        self.noticed = 0
        """How many lines changed what later lines mean; ``joined`` how many were added to a block."""
        self.joined = 0
        self.plan: ShapePlan | None = None
        self.numbers: list[str] = []
        self.shape = ""

    def read(self, text: str, line: int, end: int, state: SourceState) -> list[Statement]:
        """The statements that a line completes, of one process, without its prefix."""
        self.plan = None
        state.lines += 1
        if state.block is not None and state.lines - state.block.at > _BLOCK_GAP:
            return self.end_block(state) + self.read(text, line, end, state)
        text = marked(text[:LONGEST_LINE])
        bare = text.strip()
        if not bare:
            return []
        if state.tables.splits and "|" in bare and (row := state.tables.split_row(bare, line, end)):
            return [*self.end_block(state), row]
        if bare[0] == bare[-1] == "|" and len(bare) > 4:
            return self._box(bare, line, end, state)
        before = self.end_block(state) if state.block is not None and state.block.is_box else []
        return before + self._plain(text, line, end, state)

    def _plain(self, text: str, line: int, end: int, state: SourceState) -> list[Statement]:
        shape, numbers = cut(text)
        plan = self._plans.get(shape)
        is_dull = None if plan is None else plan.is_dull
        is_dull = not INTERESTING.search(text) if is_dull is None else is_dull
        if is_dull and BAR not in text and not (state.tables.headers and numbers):
            state.code = max(state.code - 1, 0)
            return []
        plan = plan or self._plan(shape)
        plan.is_dull = is_dull
        if text[:2] == "# " and not numbers and self._is_header(" " + text[1:], state):
            return self.end_block(state)
        if self._is_code(plan, state, text):
            return []
        if "(" in text and _SETTINGS.search(text):
            self._announce(text)
            return []
        announced = False
        if not plan.named or (BAR in text and "    " in text and len(plan.segments[0].metrics) == 1):
            if (row := self._table(text, line, end, state, plan.headless, has_numbers=bool(numbers))) is not None:
                return self.end_block(state) + row
            announced = plan.announces and self._announce(text)
        found = [
            statement
            for segment in plan.segments
            if (statement := _statement(plan, segment, numbers, line, end, plan.key, keeps_all=self._keeps_all))
        ]
        if not found:
            return []
        if announced:
            found[0].progress = [one for one in found[0].places() if not one.key.endswith("s")]
            if not (found[0].progress or found[0].metrics):
                return self.end_block(state)
        found[0].phase = plan.phase
        found[0].is_starred = text.lstrip()[:1] == "*"
        if plan.is_single and not plan.phase and not found[0].is_best and state.alone < ALONE:
            return self._join(found[0], state, is_box=False)
        if state.block is not None:
            state.alone = state.alone + 1 if len(state.block.names) == 1 else 0
        self.plan, self.numbers, self.shape = plan, numbers, shape
        return self.end_block(state) + found

    def _plan(self, shape: str) -> ShapePlan:
        plan = self._plans.get(shape)
        if plan is None:
            if len(self._plans) >= MOST_SHAPES:
                for old in list(self._plans)[: MOST_SHAPES // 2]:
                    del self._plans[old]
            plan = self._plans[shape] = plan_of(shape)
            plan.key = crc32(shape.encode("utf-8", "replace"))
            plan.announces = GAP in shape and _LENGTH.search(shape.replace(GAP, "1")) is not None
        return plan

    def _is_code(self, plan: ShapePlan, state: SourceState, text: str) -> bool:
        """Whether a line is source code, or stands among it, looks like it, and has no shape of its own yet."""
        state.code = min(state.code + 3, _MOST_CODE) if plan.is_code else max(state.code - 1, 0)
        if plan.is_code or state.code < _IN_CODE or not (text[0].isspace() or " = " in text):
            return plan.is_code
        plan.seen += 1
        return plan.seen <= 2

    def _announce(self, text: str) -> bool:
        """Takes the lengths that a header or the settings of a script state; returns whether there are any."""
        all_found = list(_LENGTH.finditer(text))
        for found in all_found:
            unit, length = (
                found[1] or found[3] or found[6] or found[7],
                int((found[2] or found[4] or found[5] or found[8]).replace(",", "")),
            )
            if length and unit.lower().startswith("epoch"):
                self._run.epochs = length
            elif length:
                self._run.total = length
        return bool(all_found)

    def _table(
        self, text: str, line: int, end: int, state: SourceState, headless: set[bool], *, has_numbers: bool
    ) -> list[Statement] | None:
        """The row of a table; None if the line has to do with none. ``headless``: see ``ShapePlan``."""
        tables, is_wide = state.tables, "  " in text
        if has_numbers and tables.headers and (row := tables.row(text, line, end)) is not None:
            return [row] if row.metrics else []
        if is_wide in headless:
            return None
        if not has_numbers and tables.split_header(text):
            self.noticed += 1
            return []
        if len(NUMBERS.findall(text.partition(BAR)[0])) <= 2 and self._is_header(text, state):
            return []
        headless.add(is_wide)
        return None

    def _is_header(self, text: str, state: SourceState) -> bool:
        """Notices the header of a table."""
        if (header := header_of(text, delimiter_of(text))) is None:
            return False
        state.tables.begin(header)
        self.noticed += 1
        return True

    def _box(self, bare: str, line: int, end: int, state: SourceState) -> list[Statement]:
        """A row between bars: a name and its number, a section, or a row of a table."""
        cells = [cell.strip() for cell in bare.strip("|").split("|", 64)]
        if not _BORDER.sub("", bare):
            return []
        if len(cells) == 2 and cells[0] and not cells[1]:
            state.tables.section = cells[0] if cells[0].endswith("/") else ""
            return []
        is_pair = len(cells) == 2 and NUMBERS.fullmatch(cells[1]) and not NUMBERS.fullmatch(cells[0])
        if not is_pair:
            text = "   ".join(cell.replace(" ", "_") or "-" for cell in cells)
            row = self._table(text, line, end, state, set(), has_numbers=bool(NUMBERS.search(text)))
            return self.end_block(state) + (row or [])
        name, value = cells
        section = state.tables.section
        shape, numbers = cut(f"{name}: {value}")
        if section and not self._plan(shape).segments[0].progress:
            shape, numbers = cut(f"{section}{name}: {value}")
        plan = self._plan(shape)
        found = _statement(plan, plan.segments[0], numbers, line, end, 3, keeps_all=self._keeps_all)
        return self._join(found, state, is_box=True) if found else []

    def _join(self, one: Statement, state: SourceState, *, is_box: bool) -> list[Statement]:
        """Adds a line of one name to the open block, or begins the next block with it."""
        names = (*(number.key for number in one.progress), *(metric.name for metric in one.metrics), "epoch")
        name = next(each for each in names if each)  # a fraction of an epoch has no number of its own
        self.joined += 1
        block, ended = state.block, []
        if block is not None and (block.is_box != is_box or name in block.names or len(block.names) >= MOST_OF_BLOCK):
            state.alone = state.alone + 1 if block.names == [name] else 0
            ended = self.end_block(state)
            block = None
        if block is None:
            state.block = LineBlock(one, [name], is_box, state.lines)
            return ended
        whole, state.alone, block.at = block.statement, 0, state.lines
        block.names.append(name)
        for part in (whole, one):  # each line's own label counts for it alone
            for metric in part.metrics:
                metric.split = metric.split or part.split
            part.split = None
        whole.line, whole.end, whole.shape = one.line, one.end, 0
        whole.progress += one.progress
        whole.metrics += one.metrics
        return ended

    def end_block(self, state: SourceState) -> list[Statement]:
        """The statement of the open block."""
        block, state.block = state.block, None
        if block is None:
            return []
        state.tables.section = ""
        return [block.statement]


def _statement(
    plan: ShapePlan, segment: Segment, numbers: list[str], line: int, end: int, shape: int, *, keeps_all: bool
) -> Statement | None:
    """The statement of a line of a known shape; None if it says nothing."""
    one = Statement(line, end, shape, split=plan.split, is_best=plan.is_best, is_bar=plan.is_bar, quote=plan.quote)
    for kind, key, at, total, place in segment.progress:
        text = None if at is None else numbers[at]
        if plan.is_free_epoch and kind == "epoch" and text is not None and "." in text:
            one.epoch = as_epoch(float(text))
        elif key == STEP_BEHIND and not (text or "").isdecimal():
            continue
        elif (value := place.fixed if text is None else to_step(text)) is not None:
            whole = None if total is None else to_step(numbers[total])
            one.progress.append(ProgressNumber(kind, key, value, whole, place.bracket))
    one.metrics = [
        metric
        for found in (segment.all() if keeps_all else segment.readings())
        if (metric := _metric(found, numbers, line, end))
    ]
    odd = bool(one.progress) and any(not metric.name.isascii() for metric in one.metrics)
    readings = bool(one.metrics) if keeps_all else one.has_readings()
    says = one.has(*_SAYING) or odd or readings or plan.phase or one.epoch is not None
    return one if says else None


def _metric(found: MetricAt, numbers: list[str], line: int, end: int) -> NamedNumber | None:
    if not found.is_ratio:
        spread = None if found.spread is None else numbers[found.spread]
        at = found.at if found.step is None or numbers[found.step].isdecimal() else found.step
        one = metric_of(found.role, numbers[at], spread, line, end)
        one.at, one.spread_at = at, -1 if found.spread is None else found.spread
        return one
    part, whole = to_step(numbers[found.at]), to_step(numbers[found.spread or 0])
    if part is None or not whole:
        return None
    return metric_of(found.role._replace(metric=found.role.metric.lower()), repr(part / whole), None, line, end)
