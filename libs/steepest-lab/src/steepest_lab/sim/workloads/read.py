"""Open a workload by name: a file, whose format is recognised by its content, or one of the published arrivals."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from steepest.errors import InputError
from steepest_lab.sim.table import header_of
from steepest_lab.sim.text import read_text
from steepest_lab.sim.workload import Workload
from steepest_lab.sim.workloads import gavel, muri, openb, philly, pollux, sacct
from steepest_lab.sim.workloads.arrivals import PREFIX, arrivals
from steepest_lab.sim.workloads.found import Found, workload_of
from steepest_lab.sim.workloads.gang_arrivals import PREFIX as GANGS
from steepest_lab.sim.workloads.gang_arrivals import gang_arrivals
from steepest_lab.sim.workloads.jsonl import read_jsonl


class _Csv(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]
    read: Callable[[str, object], Iterator[Found]]
    from_first: bool = False


_CSV: Mapping[str, _Csv] = {
    "muri": _Csv(muri.MURI, muri.read_muri),
    "tiresias": _Csv(muri.TIRESIAS, muri.read_tiresias),
    "pollux": _Csv(pollux.COLUMNS, pollux.read_pollux),
    "philly": _Csv(philly.COLUMNS, philly.read_philly, from_first=True),
    "helios": _Csv(philly.HELIOS, philly.read_helios, from_first=True),
    "plain": _Csv(philly.PLAIN, philly.read_plain),
    "openb": _Csv(openb.COLUMNS, openb.read_openb),
    "sacct": _Csv(sacct.COLUMNS, sacct.read_sacct, from_first=True),
}
"""The order matters: a trace of Muri may have all columns of Tiresias', but with milliseconds in them."""


def open_workload(name: str, *, seed: int = 0) -> Workload:
    """Open a workload: a name like ``thesis:fixed-20``, drawn with the seed, or a file.

    Raises:
        InputError: There is none of that name, or :func:`read_workload` refuses the file.
    """
    if name.startswith(GANGS):
        return gang_arrivals(name, seed)
    if name.startswith(PREFIX):
        return arrivals(name, seed)
    return read_workload(Path(name))


def read_workload(path: Path) -> Workload:
    """The jobs of a file, plain or gzip, whose format is recognised by its first line, not by its name.

    Args:
        path: A trace of Muri, Tiresias, Pollux, Philly, Helios, Acme, openb, Gavel or Shockwave, a plain table, an export of
            Slurm's sacct, or our JSON Lines.

    Raises:
        InputError: The file is damaged, has none of the formats, or has an invalid line; the message names line and column.
    """
    text = read_text(path)
    first = next(line for line in text.split("\n") if line.strip())
    if first.lstrip().startswith("{"):
        return workload_of(read_jsonl(text, path), source=path, format_="jsonl")
    if first.count("\t") + 1 == len(gavel.SHOCKWAVE):
        return workload_of(gavel.read_gavel(text, path, None), source=path, format_="shockwave")
    if "\t" in first:
        speeds = gavel.read_speeds(gavel.find_throughputs(path))
        return workload_of(gavel.read_gavel(text, path, speeds), source=path, format_="gavel")
    name, format_ = _recognised(first, path)
    return workload_of(format_.read(text, path), source=path, format_=name, from_first=format_.from_first)


def _recognised(first: str, path: Path) -> tuple[str, _Csv]:
    try:
        delimiter = sacct.DELIMITER if sacct.DELIMITER in first else ","
        header = header_of(next(csv.reader([first], delimiter=delimiter)))
    except (csv.Error, StopIteration):
        header = []
    lacking = {name: [column for column in one.columns if column not in header] for name, one in _CSV.items()}
    for name, lacks in lacking.items():
        if not lacks:
            return name, _CSV[name]
    nearest = min(lacking, key=lambda name: len(lacking[name]) / len(_CSV[name].columns))
    if len(lacking[nearest]) == len(_CSV[nearest].columns):
        raise InputError(
            f"{path}, line 1: unrecognised workload format",
            hint=f"Give a trace of {', '.join(_CSV)}, gavel or shockwave, or JSON Lines (docs/workloads.md).",
        )
    raise InputError(
        f"{path}, line 1: unrecognised workload format; of {nearest}'s columns the header lacks "
        + ", ".join(lacking[nearest]),
        hint="Give the file its columns, or write JSON Lines (docs/workloads.md).",
    )
