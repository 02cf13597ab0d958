"""SpeCon's experiments (thesis §6.2) and what it published of them.

The facts about the 50 jobs that its text does not state (medians, halves, the largest cut and rise) are read off the
authors' chart of each job's completion, whose means and largest named job agree with the text to all digits.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.sim.reproduce.experiment import Arm, Experiment, Paper
from steepest.sim.reproduce.placement import ASSUMPTION, Lots


def _arm(setting: str, alpha: float, interval_s: int, *published: tuple[str, float | None]) -> Arm:
    specon = SpeConParameters(alpha=alpha, interval_ms=interval_s * 1000)
    return Arm(setting=setting, policy="specon", parameters=PoolParameters(specon=specon), published=published)


def _at_defaults(*published: tuple[str, float | None]) -> Sequence[Arm]:
    return (_arm("", 0.01, 30, *published),)


_SWEEP = (
    _arm("α 0.05, itval 20 s", 0.05, 20, ("mean-change", -1.1)),
    _arm("α 0.05, itval 25 s", 0.05, 25, ("mean-change", -5.2)),
    _arm("α 0.05, itval 30 s", 0.05, 30, ("mean-change", -8.0), ("mean-change", -3.2)),
    _arm("α 0.01, itval 30 s", 0.01, 30, ("mean-change", -7.2)),
    _arm("α 0.1, itval 30 s", 0.1, 30, ("mean-change", -9.5)),
)
"""α 0.05 with 30 s is in both of the thesis' rows, with two results."""

SPECON = Paper(
    name="specon",
    title="SpeCon",
    source="SpeCon's experiments as the thesis prints them (§6.2), and its authors' chart of the 50 jobs",
    default="the default scheduler: the same jobs on the same first nodes, nothing moves",
    experiments=(
        Experiment(
            name="fixed-20",
            pattern="fixed-20",
            lots=Lots.BOTH,
            arms=_at_defaults(
                ("default-mean", 275.2),
                ("mean", 234.7),
                ("mean-change", -14.7),
                ("default-makespan", 1_260),
                ("makespan", 1_190),
                ("makespan-change", -5.6),
                ("faster", 11),
                ("winners", -26.7),
                ("losers", 8.1),
                ("best", -37.6),
            ),
        ),
        Experiment(name="random-20", pattern="random-20", lots=Lots.BOTH, arms=_SWEEP, drawn=2),
        Experiment(
            name="mixed-20",
            pattern="mixed-20",
            lots=Lots.BOTH,
            arms=_at_defaults(
                ("default-mean", None),
                ("mean-change", -13.6),
                ("default-makespan", 1_421),
                ("makespan", 1_070),
                ("makespan-change", -24.7),
                ("faster", 15),
                ("best", -31.6),
            ),
        ),
        Experiment(
            name="mixed-30",
            pattern="mixed-30",
            lots=Lots.BOTH,
            arms=_at_defaults(
                ("default-mean", 799.5),
                ("mean", 752.6),
                ("mean-change", -5.9),
                ("default-makespan", 1_640),
                ("makespan", 1_370),
                ("makespan-change", -16.5),
                ("faster", 20),
                ("best", -29.6),
            ),
        ),
        Experiment(
            name="mixed-50",
            pattern="mixed-50",
            lots=Lots.BOTH,
            arms=_at_defaults(
                ("default-mean", 596.3),
                ("mean", 553.0),
                ("mean-change", -7.3),
                ("default-makespan", 2_070),
                ("makespan", 1_840),
                ("makespan-change", -11.1),
                ("faster", 30),
                ("winners", -16.9),
                ("losers", 15.1),
                ("best", -41.9),
                ("worst", 36.6),
                ("default-median", 518.8),
                ("median", 565.8),
                ("default-p90", 982),
                ("p90", 809),
                ("default-early", 494),
                ("early", 519),
                ("default-late", 698),
                ("late", 587),
            ),
        ),
    ),
    assumptions=(
        ASSUMPTION,
        "Where the thesis does not name them, α is 0.01 and itval 30 s, the values that it calls its defaults.",
        "The VAE of the first two experiments is the one in PyTorch.",
        "Mixed jobs are drawn uniformly from five models in two frameworks; which ones the thesis drew is unknown.",
        "The 20 and 30 mixed jobs arrive within [0, 300] s, the window that is printed for 20 VAE.",
        "The printed pseudo-code is read as docs/concepts and the deciders' own docstrings say.",
    ),
)
