"""How a job passes between FlowCon's lists (thesis §5.1.2, Algorithm 1).

Two rules. All that moves a job between lists is in this table. And the machine does not know what growth efficiency is,
nor when a run is due: it is told how the efficiency that a run looks at compares with α.

Theory. A job begins new (NL). A run in which its growth efficiency is below α moves it one list on, NL → WL → CL; one
in which it reaches α returns it to NL, wherever it was. The algorithm's branches are else-ifs, so a run makes one
transition. A newborn, whose reports do not span two windows yet, is judged as having no efficiency at all, because the
authors' code gives it G = 0. A run that finds nothing new of a job leaves it where it is: looking twice at the same
growth is no second proof.

::

    NL below WL
    NL reached NL
    NL silent NL
    WL below CL
    WL reached NL
    WL silent WL
    CL below CL
    CL reached NL
    CL silent CL
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from steepest.events.cluster import GrowthList


class Judgement(enum.StrEnum):
    """How the growth efficiency that a run looks at compares with α."""

    BELOW = "below"
    REACHED = "reached"
    SILENT = "silent"  # nothing was measured since the run before


MOVES: Mapping[GrowthList, Mapping[Judgement, GrowthList]] = {
    GrowthList.NEW: {
        Judgement.BELOW: GrowthList.WATCHED,
        Judgement.REACHED: GrowthList.NEW,
        Judgement.SILENT: GrowthList.NEW,
    },
    GrowthList.WATCHED: {
        Judgement.BELOW: GrowthList.COMPLETING,
        Judgement.REACHED: GrowthList.NEW,
        Judgement.SILENT: GrowthList.WATCHED,
    },
    GrowthList.COMPLETING: {
        Judgement.BELOW: GrowthList.COMPLETING,
        Judgement.REACHED: GrowthList.NEW,
        Judgement.SILENT: GrowthList.COMPLETING,
    },
}
"""List held when the run began → judgement → list from then on. Every pair is there."""


def judge(efficiency: float, alpha: float) -> Judgement:
    """How an efficiency, already rounded, compares with α."""
    return Judgement.BELOW if efficiency < alpha else Judgement.REACHED


def move(before: GrowthList, judgement: Judgement) -> GrowthList:
    """The list after one run."""
    return MOVES[before][judgement]
