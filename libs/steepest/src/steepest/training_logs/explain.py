"""Tells people how a log is read: its lines with the role of each number, what was passed over and why, what is unsure.

It owns the words and the suggested expression. It must never decide what is read.
"""

import re
from typing import NamedTuple

from steepest.training_logs.records import LossRecord
from steepest.training_logs.syntax.plan import ShapePlan, plan_of
from steepest.training_logs.syntax.shape import BAR, GAP, KERAS_BAR, TIME, cut, marked
from steepest.training_logs.syntax.words import role_of

MOST_EXAMPLES, MOST_LINES, _MOST_SHAPES, _LONGEST = 20, 6, 256, 300

_MARKS = {BAR: "▕█▏", KERAS_BAR: "▕█▏", TIME: "⏲"}
_LOOKS = re.compile(r"(?i:loss)|损失|損失|손실|ロス")
_NUMBER = re.compile(r"(?i:loss)[^\r\n]{0,40}?\d|(?i:loss\W{0,6}(?:nan|inf))")
_REASONS = (
    (
        re.compile(r"(?i:skipping step|overflow|skipped iter\w{0,6}: {1,8}[1-9])"),
        "a step that overflowed and was skipped",
    ),
    (re.compile(r"(?i:loss[ _-]?scal)"), "says the loss scale, not a loss"),
    (re.compile(r"(?i:\bbest\b|for final step|train_runtime|improved from|final[ _]loss)"), "sums the run up"),
    (
        re.compile(r"(?i:namespace\(|config|\.{5}|--\w|args\b)|: ?(?:True|False|None)\b|=(?:True|False|None)"),
        "settings",
    ),
    (re.compile(r"\b(?:def|return|import|print|self|lambda|class)\b|[{}]{2}|==|\)\s?:"), "source code or a trace"),
)
REPEATED = "repeats a step that was read already"
OTHER = "no number that a word names as a loss"
NOT_ASKED_FOR = "of another metric than the one asked for, or of a step that was read already"
NO_MATCH = "no number in the pattern's group"


class Skipped(NamedTuple):
    """A line that looks like a loss and was not read."""

    line: int
    text: str
    reason: str


class LineSample(NamedTuple):
    """A line of a shape: its number, the line's numbers, and how it was understood."""

    line: int
    numbers: list[str]
    plan: ShapePlan


class Explanation:
    """What is collected while a log is read.

    Attributes:
        reasons: how many lines were passed over, by reason.
        skipped: the first of them.
    """

    def __init__(self, metric: str | None = None, pattern: str | None = None) -> None:
        """What the reader was asked for: see :class:`~steepest.training_logs.reader.LogReader`."""
        self._repeated = REPEATED if metric is None else NOT_ASKED_FOR
        self._other = OTHER if pattern is None else NO_MATCH
        self.reasons: dict[str, int] = {}
        self.skipped: list[Skipped] = []
        self._waiting: dict[int, tuple[str, bool]] = {}
        self._read: set[str] = set()
        self._shapes: dict[str, tuple[LineSample, LineSample, int]] = {}
        self._of_line: dict[int, str] = {}
        self._counted: set[str] = set()

    def note(
        self, text: str, line: int, shape: str, numbers: list[str], plan: ShapePlan | None, *, has_readings: bool
    ) -> None:
        """Takes a line and how it was understood."""
        if not text:  # as between two redraws
            return
        if _LOOKS.search(text):
            self._waiting[line] = (text[:_LONGEST], has_readings)
        if plan is None:
            shape, numbers = cut(marked(text))
        if numbers and (shape in self._shapes or len(self._shapes) < _MOST_SHAPES):
            if plan is None:
                plan = self._shapes[shape][0].plan if shape in self._shapes else plan_of(shape)
            sample = LineSample(line, numbers, plan)
            first, _, times = self._shapes.get(shape, (sample, sample, 0))
            self._shapes[shape] = (first, sample, times + 1)
            self._of_line[line] = shape
        if len(self._waiting) > _MOST_SHAPES:
            self._pass_over(next(iter(self._waiting)))
        if len(self._of_line) > 4 * _MOST_SHAPES:
            del self._of_line[next(iter(self._of_line))]

    def give(self, records: list[LossRecord]) -> None:
        """Takes the records of lines that were noted."""
        for one in records:
            self._waiting.pop(one.line, None)
            if (shape := self._of_line.get(one.line)) is not None:
                self._read.add(shape)
            if one.step_counted and one.split == "train":
                self._counted.add(one.metric)

    def end(self) -> None:
        """What is left was passed over."""
        for line in list(self._waiting):
            self._pass_over(line)

    def _pass_over(self, line: int) -> None:
        text, has_readings = self._waiting.pop(line)
        says = next((reason for pattern, reason in _REASONS if pattern.search(text)), self._other)
        reason = self._repeated if has_readings else says if _NUMBER.search(text) else "no number beside the word"
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.skipped) < MOST_EXAMPLES:
            self.skipped.append(Skipped(line, text, reason))

    def lines(self) -> list[tuple[int, list[tuple[str, str]]]]:
        """The first line of each layout that gave records, in pieces: text and role (empty, or a kind of ``words``)."""
        return [
            (self._shapes[shape][0].line, _pieces(shape, self._shapes[shape][0]))
            for shape in self._shapes
            if shape in self._read
        ][:MOST_LINES]

    def doubts(self) -> list[str]:
        """What the reader is not sure of."""
        found = [
            f"{name}: no number on its lines is the step, so readings are counted" for name in sorted(self._counted)
        ]
        if not self._read and not self._counted:
            found.append("no number of this log is known to be a loss")
        return found[:MOST_LINES]

    def suggestion(self) -> str | None:
        """The expression that would settle the commonest line that is not read, or whose readings are counted."""
        best: tuple[int, str] | None = None
        for shape, (first, last, times) in self._shapes.items():
            if (shape in self._read and not self._counted) or (best is not None and times <= best[0]):
                continue
            if (pattern := _expression(shape, first, last)) is not None:
                best = (times, pattern)
        return None if best is None else best[1]


def _roles(plan: ShapePlan) -> dict[int, str]:
    """The role of each number of a shape, by its index."""
    roles: dict[int, str] = {}
    for segment in plan.segments:
        for place in segment.progress:
            kind = "epoch" if place.kind == "epoch" else "total" if place.kind in ("total", "epochs") else "step"
            roles |= {index: role for index, role in ((place.at, kind), (place.total, "total")) if index is not None}
        for metric in segment.metrics:
            kind, split = metric.role.kind, metric.role.split or plan.split
            roles[metric.at] = "eval" if kind == "quality" or (kind == "loss" and split == "eval") else kind
    return roles


def _pieces(shape: str, sample: LineSample) -> list[tuple[str, str]]:
    roles, pieces = _roles(sample.plan), []
    for index, text in enumerate(shape.split(GAP)):
        if index:
            pieces.append((sample.numbers[index - 1], roles.get(index - 1, "")))
        pieces.append(("".join(_MARKS.get(mark, mark) for mark in text), ""))
    return pieces


def _expression(shape: str, first: LineSample, last: LineSample) -> str | None:
    """An RE2 expression for a shape: its value is the number after a loss's name, or the first with a fraction."""
    texts = shape.split(GAP)
    roles = _roles(first.plan)
    named = [index for index, role in roles.items() if role == "loss"]
    words = [index for index, text in enumerate(texts[:-1]) if role_of(text[-40:]).kind == "loss"]
    decimal = [index for index, number in enumerate(first.numbers) if "." in number and texts[index].strip()]
    value = next(iter(named or words or decimal), None)
    rising = [
        index
        for index, (before, now) in enumerate(zip(first.numbers, last.numbers, strict=True))
        if before.isdigit() and now.isdigit() and len(now) < 16 and int(now) > int(before) and index != value
    ]
    if value is None or (not rising and value not in named):
        return None
    parts = {value: r"(?P<value>\S+)"} | ({rising[-1]: r"(?P<step>\d+)"} if rising else {})
    begin, end = min(parts), max(parts)
    out = _literal(texts[begin][-24:])
    for index in range(begin, end + 1):
        out += parts.get(index, r"\S+") + (_literal(texts[index + 1]) if index < end else "")
    return out


def _literal(text: str) -> str:
    """Text as a part of an RE2 expression; times, bars and padding may differ."""
    marks = dict.fromkeys(_MARKS, ".*?") | {" ": r"\s+", "\t": r"\s+"}
    return "".join(marks.get(mark) or (re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", mark)) for mark in text)
