"""How a job passes between FlowCon's lists (thesis §5.1.2, Algorithm 1).

Two rules. All moves between lists are in this table. And the machine does not know what growth efficiency is, nor when a run
is due: its input is how the efficiency in a run compares with α.

Theory. A job starts as new (NL). A run in which its growth efficiency is below α moves it to the next list, NL → WL →
CL; one in which it reaches α returns it to NL from any list. The algorithm's branches are else-ifs, so a run makes one
transition. A newborn, whose reports do not span two windows yet, is judged as having no efficiency, because the
authors' code uses G = 0 for it. A run without a new measurement of a job leaves it in its list: the same growth is no
second proof.

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
    """How the growth efficiency in a run compares with α."""

    BELOW = "below"
    REACHED = "reached"
    SILENT = "silent"  # no new measurement since the previous run


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
"""List before the run → judgement → list after it. The table is complete."""


def judge(efficiency: float, alpha: float) -> Judgement:
    """How an efficiency, already rounded, compares with α."""
    return Judgement.BELOW if efficiency < alpha else Judgement.REACHED


def move(before: GrowthList, judgement: Judgement) -> GrowthList:
    """The list after one run."""
    return MOVES[before][judgement]
