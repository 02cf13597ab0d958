"""SpeCon's experiments (thesis §6.2) and what it published of them.

The facts about the 50 jobs that its text does not state (medians, halves, means of gains and losses, the largest ones) are
read off the authors' chart of each job's completion, whose means and largest named job agree with the text to all digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest_lab.reproduce.experiments.experiment import Arm, Experiment, Paper, Published
from steepest_lab.reproduce.experiments.placement import ASSUMPTION, Start

USABLE = 0.8
"""The thesis' account of the workers' CPU: 80 % is the most that jobs get (§6.2.3)."""

BOTH = (Start.EVEN, Start.UNEVEN)


def _arm(setting: str, alpha: float, interval_s: int, *published: Published) -> Arm:
    specon = SpeConParameters(alpha=alpha, interval_ms=interval_s * 1000)
    return Arm(setting=setting, policy="specon", parameters=PoolParameters(specon=specon), published=published)


def _default(mean: float | None, makespan: float) -> Sequence[Published]:
    return Published("mean", mean), Published("makespan", makespan)


def _experiment(
    name: str, *arms: Arm, even: float, uneven: float, default: Sequence[Published] = (), drawn: int = 0
) -> Experiment:
    return Experiment(
        name=name,
        pattern=name,
        usable=USABLE,
        starts=BOTH,
        lengths={Start.EVEN: even, Start.UNEVEN: uneven},
        default=default,
        arms=arms,
        drawn=drawn,
    )


_SWEEP = (
    _arm("α 0.05, itval 20 s", 0.05, 20, Published("mean-change", -1.1)),
    _arm("α 0.05, itval 25 s", 0.05, 25, Published("mean-change", -5.2)),
    _arm("α 0.05, itval 30 s", 0.05, 30, Published("mean-change", -8.0), Published("mean-change", -3.2)),
    _arm("α 0.01, itval 30 s", 0.01, 30, Published("mean-change", -7.2)),
    _arm("α 0.1, itval 30 s", 0.1, 30, Published("mean-change", -9.5)),
)
"""α 0.05 with 30 s is in both of the thesis' rows, with two results."""

_FIXED_20 = _arm(
    "",
    0.01,
    30,
    Published("mean-change", -14.7),
    Published("makespan-change", -5.6),
    Published("faster", 11),
    Published("winners", -26.7),
    Published("losers", 8.1),
    Published("best", -37.6),
)

_MIXED_20 = _arm(
    "",
    0.01,
    30,
    Published("mean-change", -13.6),
    Published("makespan-change", -24.7),
    Published("faster", 15),
    Published("winners-s", -165.7),
    Published("losers-s", 110.8),
    Published("best", -31.6),
)

_MIXED_30 = _arm(
    "",
    0.01,
    30,
    Published("mean-change", -5.9),
    Published("makespan-change", -16.5),
    Published("faster", 20),
    Published("best", -29.6),
)

_MIXED_50 = _arm(
    "",
    0.01,
    30,
    Published("mean-change", -7.3),
    Published("makespan-change", -11.1),
    Published("faster", 30),
    Published("winners", -16.9, chart=True),
    Published("losers", 15.1, chart=True),
    Published("best", -41.9, chart=True),
    Published("worst", 36.6, chart=True),
    Published("median-change", 9.1, chart=True),
    Published("p90-change", -17.6, chart=True),
    Published("early-change", 5.1, chart=True),
    Published("late-change", -15.9, chart=True),
)

_EXPERIMENTS = (
    _experiment("fixed-20", _FIXED_20, even=1.26, uneven=0.57, default=_default(275.2, 1_260)),
    _experiment("random-20", *_SWEEP, even=1.26, uneven=0.57, drawn=2),
    _experiment("mixed-20", _MIXED_20, even=0.74, uneven=0.45, default=_default(None, 1_421)),
    _experiment("mixed-30", _MIXED_30, even=0.54, uneven=0.28, default=_default(799.5, 1_640)),
    _experiment(
        "mixed-50",
        _MIXED_50,
        even=0.95,
        uneven=0.52,
        default=(
            *_default(596.3, 2_070),
            Published("median", 518.8, chart=True),
            Published("p90", 982, chart=True),
            Published("early", 494, chart=True),
            Published("late", 698, chart=True),
        ),
    ),
)


def _without_contention(number: int, *, even: float, uneven: float) -> Experiment:
    """An experiment on nodes without contention, with factors of its own."""
    one = _EXPERIMENTS[number]
    return msgspec.structs.replace(
        one, name=f"{one.name}, k = 0", contention=0.0, lengths={Start.EVEN: even, Start.UNEVEN: uneven}
    )


SPECON = Paper(
    name="specon",
    title="SpeCon",
    source="SpeCon's experiments as the thesis prints them (§6.2), and its authors' chart of the 50 jobs",
    default="the default scheduler: the same jobs on the same first nodes, nothing moves",
    experiments=_EXPERIMENTS,
    sensitivity=(
        _without_contention(0, even=1.29, uneven=0.71),
        _without_contention(2, even=0.94, uneven=0.68),
        _without_contention(3, even=0.78, uneven=0.52),
        _without_contention(4, even=1.13, uneven=0.74),
    ),
    assumptions=(
        ASSUMPTION,
        "One factor on all lengths is chosen for each experiment and start, so that its default run comes out.",
        f"Jobs get {100 * USABLE:g} % of a worker's CPU, the ceiling that the thesis names; the rest is the system's.",
        "Jobs that share a worker slow each other down as they do on FlowCon's node, which was another machine.",
        "Where the thesis does not name them, α is 0.01 and itval 30 s, the values that it calls its defaults.",
        "The VAE of the first two experiments is the one in PyTorch.",
        "Mixed jobs are drawn uniformly from five models in two frameworks; which ones the thesis drew is unknown.",
        "The 20 and 30 mixed jobs arrive within [0, 300] s, the window that is printed for 20 VAE.",
        "The mixed 20's −165.7 and +110.8 s are taken as the means of the jobs that gain and of those that lose.",
        "The printed pseudo-code is read as docs/concepts and the deciders' own docstrings say.",
    ),
)
