"""An application's measured tables, as the Pollux artifact publishes them: a folder of CSV files per application.

It owns the files' format and the interpolation between their rows. It must never know a job.

* ``placements.csv``: seconds of a step, and of the synchronisation in it, by placement and local batch size.
* ``scalability.csv``: the same by number of nodes and replicas, for more nodes than the placements have.
* ``validation-<batch>.csv``: one line per epoch: progress, iterations, and the gradient's squared norm and variance.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.errors import InputError
from steepest_lab.sim.table import csv_rows
from steepest_lab.sim.text import read_text

Counts = tuple[int, ...]
"""GPUs on each node."""

Point = tuple[float, ...]

Row = tuple[float, float, float]
"""Local batch size; seconds of a step, and of the synchronisation in it."""

LARGEST = 1e30
"""Larger numbers would leave the range of floats when they are multiplied."""

MOST_NODES = 16
"""The tables go up to this number of nodes; a placement on more counts as one on this many."""

LOCAL_LIMITS: Mapping[str, tuple[int, int]] = {"yolov3": (4, 8)}
"""Least and largest local batch size where the artifact hard-codes them instead of using its tables."""


class Epoch(msgspec.Struct, frozen=True):
    """A line of a validation file."""

    progress: float
    iteration: float
    grad_sqr: float
    grad_var: float


class Tables:
    """One application.

    Attributes:
        batches: Batch sizes that were validated, ascending; the first is the initial one.
        ends: Progress at which each epoch ends.
        local_least: Least local batch size that was measured.
        local_most: The largest.

    Args:
        folder: The folder with the files.

    Raises:
        InputError: A file is missing, or one of its lines is not a row of numbers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        validations = {
            _batch(file): [
                Epoch(*values) for values in _numbers(file, ("progress", "iteration", "grad_sqr", "grad_var"))
            ]
            for file in sorted(folder.glob("validation-*.csv"))
        }
        self.batches = sorted(validations)
        self.epochs = [validations[batch] for batch in self.batches]
        if not self.epochs or len({len(rows) for rows in self.epochs}) != 1 or not self.epochs[0]:
            raise InputError(
                f"{folder}: needs files validation-<batch>.csv, all with a line for every epoch",
                hint="Give the folder traces of the Pollux artifact (--profiles).",
            )
        self.ends = [min(row.progress for row in rows) for rows in zip(*self.epochs, strict=True)]
        if any(end <= start for start, end in zip([0.0, *self.ends], self.ends, strict=False)):
            raise InputError(f"{folder}: progress at the ends of the epochs does not grow")
        if any(row.grad_sqr + row.grad_var <= 0 for rows in self.epochs for row in rows):
            raise InputError(f"{folder}: an epoch has a gradient of no size")
        self._placements: dict[Counts, list[Row]] = defaultdict(list)
        columns = ("local_bsz", "step_time", "sync_time")
        for placement, *row in _numbers(folder / "placements.csv", ("placement", *columns)):
            counts = tuple(int(digit) for digit in str(int(placement)))
            self._check(row, counts_are_sound=all(counts))
            self._placements[counts].append((row[0], row[1], row[2]))
        for rows in self._placements.values():
            rows.sort()
        measured = sorted({row[0] for rows in self._placements.values() for row in rows})
        self.local_least, self.local_most = LOCAL_LIMITS.get(folder.name, (int(measured[0]), int(measured[-1])))

    def noise(self, epochs_done: int, batch: float) -> tuple[float, float]:
        """The gradient's squared norm and variance in the next epoch, between the two nearest batch sizes."""
        rows = [rows[epochs_done] for rows in self.epochs]
        return (
            interpolate(batch, self.batches, [row.grad_sqr for row in rows]),
            interpolate(batch, self.batches, [row.grad_var for row in rows]),
        )

    def iteration(self, epoch: int, batch: float) -> float:
        """Iterations at the end of an epoch, counted from 0."""
        return interpolate(batch, self.batches, [rows[epoch].iteration for rows in self.epochs])

    @functools.cache  # noqa: B019 - one object an application and run
    def step(self, placement: Counts, local: int) -> tuple[float, float]:
        """Seconds of a step, and of the synchronisation in it.

        Args:
            placement: GPUs on each node, in the order in which they were taken.
            local: Batch size on each GPU.

        Raises:
            InputError: The tables do not reach to that batch size.
        """
        least = min(placement[turn:] + placement[:turn] for turn in range(len(placement)))
        if least in self._placements:
            rows = self._placements[least]
            sizes = [row[0] for row in rows]
            if not sizes[0] <= local <= sizes[-1]:
                raise self._beyond(placement, local)
            return interpolate(local, sizes, [row[1] for row in rows]), interpolate(
                local, sizes, [row[2] for row in rows]
            )
        step, sync = self._scattered((min(len(placement), MOST_NODES), sum(placement), local))
        if math.isnan(step) or math.isnan(sync):
            raise self._beyond(placement, local)
        return float(step), float(sync)

    @functools.cached_property
    def _scattered(self) -> Callable[[tuple[int, int, int]], Sequence[float]]:
        """Interpolates between the points of all tables by nodes, replicas and local batch size."""
        try:
            # Imported here: scipy is an optional dependency that nothing else needs.
            from scipy.interpolate import LinearNDInterpolator  # noqa: PLC0415
            from scipy.spatial import QhullError  # noqa: PLC0415
        except ImportError:
            raise InputError(
                "a placement on more nodes than an application's tables name needs scipy",
                code="missing-extra",
                hint="Install it: pip install 'steepest-lab[reports]'.",
            ) from None
        triples: dict[Point, list[Point]] = defaultdict(list)
        for counts, rows in self._placements.items():
            for local, *seconds in rows:
                triples[len(counts), sum(counts), local].append(tuple(seconds))
        points = [
            (*at, *(math.fsum(column) / len(column) for column in zip(*rows, strict=True)))
            for at, rows in sorted(triples.items())
        ]
        columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        for row in _numbers(self.folder / "scalability.csv", columns):
            self._check(row[2:], counts_are_sound=row[0] >= 1)
            points.append(tuple(row))
        try:
            found: Callable[[tuple[int, int, int]], Sequence[float]] = LinearNDInterpolator(
                [point[:3] for point in points], [point[3:] for point in points]
            )
        except (QhullError, ValueError) as error:
            raise InputError(
                f"{self.folder}: no space is spanned by what was measured: {str(error).splitlines()[0]}",
                hint="Get the tables again from their source.",
            ) from None
        return found

    def _check(self, row: Sequence[float], *, counts_are_sound: bool) -> None:
        local, step, sync = row
        if local < 1 or step <= 0 or sync > step or not counts_are_sound:
            raise InputError(
                f"{self.folder}: a step of {step:g} s with {sync:g} s of synchronisation and a local batch of {local:g}"
                " was never measured",
                hint="Get the tables again from their source.",
            )

    def _beyond(self, placement: Counts, local: int) -> InputError:
        on = "+".join(map(str, placement))
        return InputError(
            f"{self.folder}: has no step time for {on} GPUs with a local batch of {local}",
            hint="Give the job a batch size and replicas that were measured.",
        )


def interpolate(at: float, known: Sequence[float], values: Sequence[float]) -> float:
    """Interpolate linearly between the two neighbours; outside the range, return the nearest value."""
    place = bisect_left(known, at)
    if place == len(known):
        return values[-1]
    if place == 0 or known[place] == at:
        return values[place]
    low, high = known[place - 1], known[place]
    return values[place - 1] + (values[place] - values[place - 1]) * (at - low) / (high - low)


def _batch(file: Path) -> int:
    digits = file.stem.removeprefix("validation-")
    if not (digits.isascii() and digits.isdigit() and 0 < len(digits) < len("1000000000") and int(digits)):
        raise InputError(f"{file}: its name must end in a batch size, as validation-128.csv")
    return int(digits)


def _numbers(file: Path, columns: Sequence[str]) -> list[list[float]]:
    """Some columns of a file, row by row.

    Raises:
        InputError: It cannot be read, lacks a column, has no rows, or has a value that is not a number of at least 0.
    """
    rows = [
        [row.number(column, least=0, most=LARGEST) for column in columns]
        for row in csv_rows(read_text(file), columns, file)
    ]
    if not rows:
        raise InputError(f"{file}: has no rows", hint="Get the file again from its source.")
    return rows
