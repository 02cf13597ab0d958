"""Determines the format of a stream: named by the job, or recognised from its lines.

It owns the choice and when it becomes final. It must never know what becomes of the readings.
"""

import difflib
import re

import msgspec

from steepest.errors import InputError
from steepest.training_logs.format import Context, Format, LogLine, Reading, RunPosition, at_step
from steepest.training_logs.formats import all_formats
from steepest.training_logs.syntax.metric_names import read_name
from steepest.training_logs.syntax.numbers import to_epoch, to_number, to_step
from steepest.training_logs.syntax.patterns import compile_pattern, split_of

AUTO = "auto"
OWN_PATTERN = "pattern"

FIRM_AFTER_LINES = 50
"""After this many lines in a general notation the choice is final; until then a framework's own format replaces it."""


class FormatError(InputError):
    """No log format has that name; ``hint`` has the most similar ones."""

    code = "unknown-log-format"


class FormatChoice(msgspec.Struct):
    """The format chosen so far; saved with the reader's state.

    Attributes:
        name: the format's name; None until a line was recognised.
        lines: number of lines that it has read.
    """

    name: str | None = None
    lines: int = 0


class Recogniser:
    """Reads lines in the stream's format, which it recognises if it is not named.

    Args:
        name: a format's name, or ``auto``.
        metric: a metric that the job named; lines without it may be skipped.
        pattern: an RE2 expression that the job provides, which replaces the formats.
        choice: owned by the caller; it is updated.

    Raises:
        FormatError: No format has the name.
        PatternError: The pattern is not an RE2 expression, or has no group.
    """

    def __init__(self, name: str, metric: str | None, pattern: str | None, choice: FormatChoice) -> None:
        self._choice = choice
        self._extra = () if metric is None else (metric.encode(),)
        if pattern is not None:
            self._formats: tuple[Format, ...] = (own_format(pattern, metric),)
        elif name != AUTO:
            self._formats = (format_named(name),)
        else:
            self._formats = all_formats()
        if len(self._formats) == 1:
            choice.name = self._formats[0].name
        self._chosen = next((one for one in self._formats if one.name == choice.name), None)
        self._rivals: tuple[Format, ...] = ()
        self.needles: tuple[bytes, ...] = ()
        self.fast_pattern: re.Pattern[bytes] | None = None
        self._settle()

    def read(self, line: LogLine, context: Context) -> tuple[str, list[Reading]] | None:
        """Reads one line; returns the format's name and its readings, or None if the line is not in the format."""
        for rival in self._rivals:
            found = rival.read(line, context)
            if found is not None:
                self._chosen = rival
                self._choice.name, self._choice.lines = rival.name, 1
                self._settle()
                return rival.name, found
        if self._chosen is None:
            return None
        found = self._chosen.read(line, context)
        if found is None:
            return None
        self._choice.lines += 1
        if self._rivals and self._choice.lines >= FIRM_AFTER_LINES:
            self._settle()
        return self._chosen.name, found

    def _settle(self) -> None:
        """Updates which formats may still replace the chosen one, and the needles of the lines to read."""
        chosen = self._chosen
        firm = chosen is not None and (chosen.rank == 0 or self._choice.lines >= FIRM_AFTER_LINES)
        if firm or len(self._formats) == 1:
            self._rivals = ()
        else:
            rank = 3 if chosen is None else chosen.rank
            self._rivals = tuple(one for one in self._formats if one.rank < rank)
        self.fast_pattern = chosen.fast_pattern if firm and chosen is not None and not self._extra else None
        needles = [] if chosen is None else [*chosen.needles]
        needles += [sign for rival in self._rivals for sign in (rival.signs or rival.needles)]
        self.needles = _fewest((*needles, *(self._extra if needles else ())))


def _fewest(needles: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Removes each needle that contains another one: the shorter one finds the same lines."""
    unique = tuple(dict.fromkeys(needles))
    return tuple(one for one in unique if not any(other != one and other in one for other in unique))


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        FormatError: There is no such format.
    """
    names = {one.name: one for one in all_formats()}
    if name in names:
        return names[name]
    close = difflib.get_close_matches(name.lower(), [*names, AUTO], n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {AUTO}, {', '.join(sorted(names))}"
    raise FormatError(f"unknown log format {name!r}: {hint}", hint=hint)


def own_format(pattern: str, metric: str | None) -> Format:
    """A job's own expression as a format; it is tried on every line.

    Raises:
        PatternError: The pattern is not an RE2 expression, or has no group.
    """
    find = compile_pattern(pattern)

    def read(line: LogLine, context: Context) -> list[Reading] | None:
        found = []
        for groups in find(line.text):
            value = to_number((groups.get("value") or b"").decode("ascii", "replace"))
            if value is not None:
                name = read_name(groups.get("metric") or (metric or "loss").encode()).metric
                found.append(Reading(name, value, split_of(groups.get("split")), _own_place(groups, context)))
        return found or None

    return Format(name=OWN_PATTERN, shape=pattern, needles=(b"",), read=read)


def _own_place(groups: dict[str, bytes | None], context: Context) -> RunPosition:
    epoch, step = to_epoch(groups.get("epoch")), to_step(groups.get("step"))
    return RunPosition(None, epoch, None) if step is None else at_step(context, step, epoch)
