"""Tables: a header and the rows below it, by columns of text, by commas, tabs, semicolons or bars.

It owns which header a row belongs to, and which cell is under which name. It must never know what a name means for a run.
"""

import re

import msgspec

from steepest.training_logs.records import Split
from steepest.training_logs.statement import NamedNumber, ProgressNumber, Statement, metric_of
from steepest.training_logs.syntax.numbers import to_step
from steepest.training_logs.syntax.shape import BAR, NUMBER
from steepest.training_logs.syntax.words import LENGTHS, PROGRESS, role_of

_CELL = re.compile("(" + NUMBER + r")(?:/(\d{1,12}))?%?")
_FRACTION = re.compile(r"\s{0,4}(\d{1,12})/(\d{1,12})")
_WORD = re.compile(r"\S{1,200}")
_WIDE = re.compile(r"\S{1,100}(?: \S{1,100}){0,4}")
_NAME = re.compile(r"[^\W\d]|#$")
_VALUE = re.compile(r"=|: {1,8}[-+]?\d")
_SPLIT_NAMES = ("split", "mode", "phase", "stage", "set", "subset", "dataset")
_MOST_CELLS, _MOST_HEADERS, _MOST_MISSES = 300, 4, 50

Cells = list[tuple[str, int, int]]


class Header(msgspec.Struct, array_like=True):
    """The names of a table's columns.

    Attributes:
        delimiter: what stands between cells; empty for columns of text.
        names: a name, its first and its last position, for each column.
        wide: the same where names of several words stand apart by two spaces.
        misses: lines since the latest row.
    """

    delimiter: str
    names: list[tuple[str, int, int]]
    wide: list[tuple[str, int, int]] = []
    misses: int = 0


def delimiter_of(text: str) -> str:
    """What stands between the cells of a line; empty for spaces."""
    if "\t" in text.strip():
        return "\t" if "," not in text else ","
    return next((mark for mark in ",;|" if text.count(mark) >= 2 and "  " not in text.strip()), "")


def cells_of(text: str, delimiter: str) -> Cells:
    """The cells of a line with their positions; those of text end before a progress bar."""
    if not delimiter:
        return [(one[0].rstrip(":"), *one.span()) for one in _WORD.finditer(text.partition(BAR)[0])][:_MOST_CELLS]
    found, at = [], 0
    for cell in text.split(delimiter, _MOST_CELLS):
        found.append((cell.strip().strip('"').rstrip(":"), at, at + len(cell)))
        at += len(cell) + 1
    return found


def header_of(text: str, delimiter: str) -> Header | None:
    """The header in a line without numbers, if its names are those of metrics."""
    cells = cells_of(text, delimiter)
    wide = [] if delimiter else [(one[0], *one.span()) for one in _WIDE.finditer(text)][:_MOST_CELLS]
    is_prose = not (delimiter or (len(wide) >= 2 and "  " in text.strip()))
    if len(cells) < 2 or is_prose or _VALUE.search(text) or (delimiter == "," and ":" in text):
        return None
    kinds = [role_of(cell, column=True).kind for cell, *_ in cells if _NAME.match(cell)]
    names_progress = any(kind in PROGRESS for kind in kinds)
    if not ("loss" in kinds and (names_progress or len(cells) >= 3)) and kinds.count("quality") < 2:
        return None
    return Header(delimiter, cells, wide if len(wide) < len(cells) else [])


def pairs_of(header: Header, cells: Cells) -> list[tuple[str, str]] | None:
    """Names and cells of a row; None if the line is no row of the table."""
    names = header.names
    if header.wide and len(header.wide) == len(cells) != len(names):
        names = header.wide
    numbers = sum(bool(_CELL.match(cell)) for cell, *_ in cells)
    if not cells or numbers * 3 < len(cells) or len(cells) < 2:
        return None
    first = names[0][0]
    counts = len(first) <= 2 or role_of(first, column=True).kind in PROGRESS
    if not header.delimiter and counts != bool(_CELL.fullmatch(cells[0][0])):
        return None
    return _bound(names, cells, counts=counts, is_text=not header.delimiter)


def _bound(names: Cells, cells: Cells, *, counts: bool, is_text: bool) -> list[tuple[str, str]] | None:
    """Cells under their names: in order, or under the nearest name if some are missing."""
    in_order = [(name, cell) for (name, *_), (cell, *_) in zip(names, cells, strict=False)]
    missing = len(names) - len(cells)
    if not missing:
        return in_order
    if not is_text:
        return in_order if abs(missing) == 1 else None
    if missing < 0:
        return in_order if missing >= -2 else None
    if len(cells) < 3:
        return None
    near = [min(names, key=lambda name: min(abs(name[1] - begin), abs(name[2] - end)))[0] for _, begin, end in cells]
    is_cut = len(cells) * 2 >= len(names) and counts
    if is_cut and (near == [name for name, *_ in names[: len(near)]] or len(set(near)) < len(near)):
        return in_order[:-1]  # the last cell of a row that was cut at the terminal's width is incomplete
    return None if len(set(near)) < len(near) else [(name, cell) for name, (cell, *_) in zip(near, cells, strict=True)]


def row_of(header: Header, pairs: list[tuple[str, str]], text: str, line: int, end: int) -> Statement:
    """The statement of a row; a bar behind it says how far the epoch is."""
    detector = any(name.lower() == "gpu_mem" for name, *_ in header.names)
    row = Statement(line, end, sum(len(name) * (at + 1) for at, (name, *_) in enumerate(header.names)) + 2)
    for name, cell in pairs:
        if (found := _CELL.fullmatch(cell)) is None:
            row.split = row.split or _split(name, cell)
            continue
        role = role_of({"#": "step", "E": "epoch"}.get(name, _whole(name)), column=detector)
        if role.kind in PROGRESS or role.kind in LENGTHS:
            value = to_step(found[1])
            if value is not None:
                key = f"cell:{role.kind}:{'_'.join(role.words)}"
                row.progress.append(ProgressNumber(role.kind, key, value, to_step(found[2]), is_cell=True))
        elif found[2] is None:
            row.metrics.append(metric_of(role, found[1], None, line, end))
    _, bar, behind = text.partition(BAR)
    if bar and (found := _FRACTION.match(behind)):
        row.progress.append(ProgressNumber("bar", "cell:bar", int(found[1]), int(found[2])))
        row.is_bar = True
    if not row.places() and not any(metric.kind == "loss" for metric in row.metrics):
        row.split = "eval"
    return row


def _split(name: str, cell: str) -> Split | None:
    """The split that a cell of text names: ``val`` in a column of phases, or ``False`` in a column of training."""
    if name.lower() in _SPLIT_NAMES:
        return role_of(cell).split
    split = role_of(name).split if cell in ("True", "False") else None
    return split if split is None or cell == "True" else "eval" if split == "train" else "train"


def _whole(name: str) -> str:
    """A name without half of a bracket: of ``Box(P  R  mAP50)``, P, R and mAP50 are columns."""
    return name if ("(" in name) == (")" in name) else name.rpartition("(")[2].rstrip(")")


class LineTables(msgspec.Struct):
    """The headers of one process, newest first; ``splits`` are the columns of a table whose rows are metrics."""

    headers: list[Header] = []
    splits: list[str] = []
    section: str = ""

    def begin(self, header: Header) -> None:
        """Takes a header."""
        self.headers = [header, *(one for one in self.headers if one.names != header.names)][:_MOST_HEADERS]

    def row(self, text: str, line: int, end: int) -> Statement | None:
        """The statement of a line that is a row of one of the tables."""
        delimiter = delimiter_of(text)
        cells = cells_of(text, delimiter)
        for header in self.headers:
            if header.delimiter == delimiter and (pairs := pairs_of(header, cells)):
                header.misses = 0
                return row_of(header, pairs, text, line, end)
        for header in self.headers:
            header.misses += header.delimiter == delimiter
        self.headers = [one for one in self.headers if one.misses <= _MOST_MISSES]
        return None

    def split_header(self, text: str) -> bool:
        """Notices ``Training | Validation``: the columns of a table whose rows are metrics."""
        kinds = [role_of(cell) for cell in re.split(r"\s{0,8}\|\s{0,8}|\s{2,8}", text.strip().strip("|")[:400]) if cell]
        while kinds and kinds[0].kind != "split":
            kinds.pop(0)
        if not 2 <= len(kinds) <= 4 or any(one.kind != "split" for one in kinds):
            return False
        self.splits = [one.split or "train" for one in kinds]
        return True

    def split_row(self, text: str, line: int, end: int) -> Statement | None:
        """The statement of ``loss | 0.75 | 0.625`` below such a header."""
        name, *cells = [cell.strip() for cell in text.strip().strip("|").split("|", 8)]
        if len(cells) != len(self.splits) or any(_CELL.fullmatch(cell) is None for cell in cells):
            return None
        role = role_of(name.rpartition(" - ")[2])
        row = Statement(line, end, 1)
        if role.kind in ("loss", "quality") and role.split is None:
            splits: dict[str, NamedNumber] = {}
            for split, cell in zip(self.splits, cells, strict=True):
                one = role._replace(split="eval" if split == "eval" else "train")
                splits.setdefault(split, metric_of(one, cell, None, line, end))
            row.metrics = list(splits.values())
        return row
