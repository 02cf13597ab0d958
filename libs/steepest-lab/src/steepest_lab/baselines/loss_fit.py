"""Predicts a loss from the reports so far, as SLAQ does: fits two families of curves, with more weight on later reports.

Families (SLAQ §4): 1/(a·k² + b·k + c) + d for methods that converge sublinearly, μ^(k−b) + c for those that converge
linearly or faster. How the paper fits them is not known here. This reconstruction takes the asymptote (d or c) from a few
candidates below the least loss seen, which makes the rest linear, solves that by weighted least squares, and keeps the
curve with the least weighted error in the loss itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

FEWEST = 5
"""Minimum number of reports for a fit: one more than the larger family has parameters."""

DECAY = 0.9
"""Ratio of a report's weight to that of the next."""

BELOW = (0.02, 0.1, 0.3, 1.0)
"""Candidates for the asymptote: this share of the observed range below the least loss."""

FLAT = 1e-12


class FittedCurve(msgspec.Struct, frozen=True):
    """A fitted curve; it never falls below its asymptote.

    Attributes:
        floor: The asymptote.
        scale: Number of iterations that k = 1 stands for.
        powers: Coefficients of 1, k and k² in 1/(loss − floor), or of 1 and k in ln(loss − floor).
    """

    floor: float
    scale: float
    powers: tuple[float, ...]

    def at(self, iteration: float) -> float:
        """The loss after ``iteration`` iterations; infinite if the fit is not meaningful there."""
        k = iteration / self.scale
        if len(self.powers) == len(("1", "k")):
            constant, slope = self.powers
            return self.floor + math.exp(min(constant + slope * k, 700.0))
        constant, slope, square = self.powers
        bottom = constant + slope * k + square * k * k
        return self.floor + 1 / bottom if bottom > FLAT else math.inf


def fit(reports: Sequence[tuple[float, float]]) -> FittedCurve | None:
    """Fit both families and return the better curve; None if the losses are constant or no finite curve fits.

    Args:
        reports: Iteration and loss, in the order of iterations; at least :data:`FEWEST`.
    """
    losses = [loss for _, loss in reports]
    scale = reports[-1][0]
    if not all(map(math.isfinite, losses)) or scale <= 0:
        return None
    least, span = min(losses), max(losses) - min(losses)
    if span <= FLAT * max(1.0, abs(least)):
        return None
    weights = [DECAY ** (len(reports) - 1 - place) for place in range(len(reports))]
    best: tuple[float, FittedCurve] | None = None
    for share in BELOW:
        for curve in _curves(reports, weights, least - share * span, scale):
            error = sum(
                [weight * (curve.at(k) - loss) ** 2 for weight, (k, loss) in zip(weights, reports, strict=True)]
            )
            if math.isfinite(error) and (best is None or error < best[0]):
                best = (error, curve)
    return best[1] if best else None


def _curves(
    reports: Sequence[tuple[float, float]], weights: Sequence[float], floor: float, scale: float
) -> Iterator[FittedCurve]:
    """Fit a curve of each family above ``floor``, if there is one."""
    # A small error of the loss y becomes an error of y⁻² in 1/y and of y⁻¹ in ln y: hence the powers in the weights.
    above = [(k / scale, loss - floor) for k, loss in reports]
    found = (
        _least_squares(
            [(1.0, k, k * k) for k, _ in above],
            [1 / y for _, y in above],
            [weight * y**4 for weight, (_, y) in zip(weights, above, strict=True)],
        ),
        _least_squares(
            [(1.0, k) for k, _ in above],
            [math.log(y) for _, y in above],
            [weight * y**2 for weight, (_, y) in zip(weights, above, strict=True)],
        ),
    )
    for powers in found:
        if powers is not None:
            yield FittedCurve(floor, scale, tuple(powers))


def _least_squares(
    rows: Sequence[tuple[float, ...]], values: Sequence[float], weights: Sequence[float]
) -> list[float] | None:
    """Coefficients by the normal equations; None if they have no unique solution."""
    width = len(rows[0])
    matrix = [
        [sum([w * row[i] * row[j] for w, row in zip(weights, rows, strict=True)]) for j in range(width)]
        + [sum([w * row[i] * value for w, row, value in zip(weights, rows, values, strict=True)])]
        for i in range(width)
    ]
    for column in range(width):
        pivot = max(range(column, width), key=lambda i: abs(matrix[i][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        if abs(matrix[column][column]) < FLAT * abs(matrix[0][0] or 1.0):
            return None
        for i in range(width):
            if i != column:
                factor = matrix[i][column] / matrix[column][column]
                matrix[i] = [x - factor * y for x, y in zip(matrix[i], matrix[column], strict=True)]
    solution = [matrix[i][width] / matrix[i][i] for i in range(width)]
    return solution if all(map(math.isfinite, solution)) else None
