"""The time of an epoch from the size of the data, the batch and the number of workers: four parameters, four profiled jobs.

A reconstruction: the paper's abstract says that four profiled jobs predict others of the same model, and no more. With the
data set's size D, the batch size b of all workers together and g workers, an epoch takes

    t(D, b, g) = θ0 + θ1·D/g + θ2·D/b + θ3·D·(g−1)/b

a fixed part, the computation of the examples, the cost of each step, and the synchronisation of each step with every further
worker. The parameters are not negative, and are fitted by least squares of the relative errors. With four parameters the
optimum is found exactly: of all sets of parameters that are not 0, the best one whose solution has no negative value (the
definition of a non-negative least-squares solution; Lawson and Hanson, 1974, chapter 23).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

PARAMETERS = 4

TINY = 1e-12

LEAST_ERROR = 0.05
"""Relative half-width of an interval at least, since the profiled jobs were measured too."""

FEW_ERROR = 0.1
"""Relative half-width where there are as many profiles as parameters: the paper's claim for most predictions."""

BEYOND = 0.25
"""By how much an interval's relative half-width grows for each factor of e by which a job is beyond the profiled ones."""


class TrainingSetting(msgspec.Struct, frozen=True):
    """What an epoch's time depends on within one model.

    Attributes:
        data: Size of the data set that an epoch reads, in bytes.
        batch: Examples a step; 1 where it is unknown for all jobs of the model.
        workers: How many replicas train.
    """

    data: float
    batch: float = 1.0
    workers: int = 1


class TimeModel(msgspec.Struct, frozen=True):
    """A fitted model.

    Attributes:
        theta: θ0 to θ3, in milliseconds (for each unit of the setting).
        error: Relative half-width of the interval within the range of the profiled jobs.
        least: The smallest features of the profiled jobs.
        most: The largest ones.
    """

    theta: tuple[float, ...]
    error: float
    least: tuple[float, ...]
    most: tuple[float, ...]

    def epoch_ms(self, setting: TrainingSetting) -> float:
        """The predicted time of an epoch, in milliseconds."""
        return sum(one * value for one, value in zip(self.theta, _features(setting), strict=True))

    def relative_error(self, setting: TrainingSetting) -> float:
        """Relative half-width of the interval; it grows with the distance from the profiled jobs."""
        beyond = 0.0
        for value, least, most in zip(_features(setting), self.least, self.most, strict=True):
            if value > most:
                beyond = max(beyond, math.log(value / most) if most > 0 else 1.0)
            elif 0 < value < least:
                beyond = max(beyond, math.log(least / value))
        return min(self.error + BEYOND * beyond, 0.9)


def fit(measured: Sequence[tuple[TrainingSetting, float]]) -> TimeModel | None:
    """The model that fits measured epochs (in milliseconds) best; None where nothing positive was measured."""
    rows = [(_features(setting), epoch_ms) for setting, epoch_ms in measured if epoch_ms > 0]
    if not rows:
        return None
    theta = _fitted(rows)
    columns = list(zip(*(features for features, _ in rows), strict=True))
    return TimeModel(
        theta=theta,
        error=_error(rows),
        least=tuple(min(column) for column in columns),
        most=tuple(max(column) for column in columns),
    )


def _features(setting: TrainingSetting) -> tuple[float, ...]:
    data, batch, workers = setting.data, max(setting.batch, 1.0), max(setting.workers, 1)
    return (1.0, data / workers, data / batch, data * (workers - 1) / batch)


Rows = Sequence[tuple[Sequence[float], float]]


def _error(rows: Rows) -> float:
    """The error that four of five jobs keep to when the others predict them; a claim where they are too few."""
    if len(rows) <= PARAMETERS:
        return FEW_ERROR
    errors = []
    for index, (features, epoch_ms) in enumerate(rows):
        theta = _fitted([row for other, row in enumerate(rows) if other != index])
        guess = sum(one * value for one, value in zip(theta, features, strict=True))
        errors.append(abs(guess - epoch_ms) / epoch_ms)
    errors.sort()
    return min(max(errors[math.ceil(0.8 * len(errors)) - 1], LEAST_ERROR), 0.9)


def _fitted(rows: Rows) -> tuple[float, ...]:
    """Non-negative least squares of relative errors over all supports; of equal ones the first with fewest parameters.

    A solution by which an epoch that was measured takes no time is none.
    """
    scaled = [[value / epoch_ms for value in features] for features, epoch_ms in rows]
    norms = [math.sqrt(sum(row[column] ** 2 for row in scaled)) for column in range(PARAMETERS)]
    best: tuple[float, tuple[float, ...]] = (math.inf, (0.0,) * PARAMETERS)
    for support in _supports([column for column in range(PARAMETERS) if norms[column] > 0]):
        matrix = [[row[column] / norms[column] for column in support] for row in scaled]
        solution = _least_squares(matrix)
        if solution is None or min(solution) < 0:
            continue
        predicted = [sum(a * x for a, x in zip(row, solution, strict=True)) for row in matrix]
        if min(predicted) <= 0:
            continue
        wrong = sum((one - 1.0) ** 2 for one in predicted)
        if wrong < best[0] - TINY:
            theta = [0.0] * PARAMETERS
            for column, value in zip(support, solution, strict=True):
                theta[column] = value / norms[column]
            best = (wrong, tuple(theta))
    return best[1]


def _supports(columns: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for size in range(1, len(columns) + 1):
        yield from combinations(columns, size)


def _least_squares(matrix: Sequence[Sequence[float]]) -> list[float] | None:
    """The x for which matrix·x is nearest to ones; None where the columns depend on each other.

    By modified Gram–Schmidt: normal equations would lose half of the digits.
    """
    width = len(matrix[0])
    columns = [[row[column] for row in matrix] for column in range(width)]
    upper = [[0.0] * width for _ in range(width)]
    rest, projected = [1.0] * len(matrix), [0.0] * width
    for i in range(width):
        norm = math.sqrt(sum(value * value for value in columns[i]))
        if norm < 1e-7:  # noqa: PLR2004 - the columns had length 1 before
            return None
        upper[i][i] = norm
        unit = [value / norm for value in columns[i]]
        for j in range(i + 1, width):
            upper[i][j] = sum(a * b for a, b in zip(unit, columns[j], strict=True))
            columns[j] = [value - upper[i][j] * one for value, one in zip(columns[j], unit, strict=True)]
        projected[i] = sum(a * b for a, b in zip(unit, rest, strict=True))
        rest = [value - projected[i] * one for value, one in zip(rest, unit, strict=True)]
    solution = [0.0] * width
    for i in reversed(range(width)):
        solution[i] = (projected[i] - sum(upper[i][j] * solution[j] for j in range(i + 1, width))) / upper[i][i]
    return solution
