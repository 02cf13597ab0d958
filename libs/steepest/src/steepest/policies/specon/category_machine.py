"""How a job passes between SpeCon's categories (thesis §5.2.1, Algorithm 3).

Two rules. All that moves a job between categories is in this table. And the machine does not know what growth is, nor
when an interval ends: it gets how the growth of one interval compares with α and with the growth before.

Theory. A job begins progressing (PC). Each interval whose growth is below α, and below that of the interval before, moves
it one step down, PC → WC → CC (lines 5 and 17 of the print). Growth below α that is not below the one before has *bounced*
(the thesis's "bouncing growth values"): the job stays. Two intervals in a row without any growth are no bounce, because
growth cannot fall below 0; the print would leave a job with a constant loss in PC for ever. Growth above α returns a job to
PC, wherever it was; growth of exactly α matches no branch, so the job stays. An interval makes one move, from the category
held when it began: Algorithm 3 prints ``if`` after ``if``, which would pass a job through all categories in one interval,
and prints PC → WC twice where the prose has WC → CC. That growth returns a job to PC is what FlowCon's published code does
with its own three lists. The first interval has no interval before it and is a baseline: it judges nothing, so only a job
that nothing has judged yet, a progressing one, may have it.

::

    PC baseline PC
    PC below WC
    PC bounced PC
    PC equal PC
    PC above PC
    WC below CC
    WC bounced WC
    WC equal WC
    WC above PC
    CC below CC
    CC bounced CC
    CC equal CC
    CC above PC
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from steepest.errors import BugError
from steepest.events.cluster import Category


class Comparison(enum.StrEnum):
    """How an interval's growth compares with α and with the growth before."""

    BASELINE = "baseline"  # there is no interval before it, so nothing is judged
    BELOW = "below"  # α, and the growth before
    BOUNCED = "bounced"  # below α, and not below the growth before
    EQUAL = "equal"
    ABOVE = "above"


MOVES: Mapping[Category, Mapping[Comparison, Category]] = {
    Category.PROGRESSING: {
        Comparison.BASELINE: Category.PROGRESSING,
        Comparison.BELOW: Category.WATCHED,
        Comparison.BOUNCED: Category.PROGRESSING,
        Comparison.EQUAL: Category.PROGRESSING,
        Comparison.ABOVE: Category.PROGRESSING,
    },
    Category.WATCHED: {
        Comparison.BELOW: Category.CONVERGED,
        Comparison.BOUNCED: Category.WATCHED,
        Comparison.EQUAL: Category.WATCHED,
        Comparison.ABOVE: Category.PROGRESSING,
    },
    Category.CONVERGED: {
        Comparison.BELOW: Category.CONVERGED,
        Comparison.BOUNCED: Category.CONVERGED,
        Comparison.EQUAL: Category.CONVERGED,
        Comparison.ABOVE: Category.PROGRESSING,
    },
}
"""Category held when the interval began → comparison → category from then on."""


def compare(growth: float, alpha: float, before: float | None = None) -> Comparison:
    """How a growth, already rounded, compares with α and with the growth before; all in the unit of the normalisation.

    Args:
        growth: G(t).
        alpha: α.
        before: G(t − 1); None where growth is compared with α alone.
    """
    if growth < alpha:
        return Comparison.BOUNCED if before is not None and 0 < growth >= before else Comparison.BELOW
    return Comparison.ABOVE if growth > alpha else Comparison.EQUAL


def move(before: Category, comparison: Comparison) -> Category:
    """The category after one interval.

    Raises:
        BugError: ``illegal-category-move``: the table has no such move. Nothing was changed.
    """
    after = MOVES[before].get(comparison)
    if after is None:
        message = f"a job in {before.value} has no move on a growth that is {comparison.value}"
        raise BugError(message, code="illegal-category-move")
    return after
