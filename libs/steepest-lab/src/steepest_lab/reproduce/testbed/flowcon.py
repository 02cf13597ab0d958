"""The experiments of FlowCon that run on real engines, with their settings and published results.

Three jobs run under two of the published settings that differ only in the interval; the others under the one that is printed
or, where none is, assumed. FlowCon 2.0 runs on four engines.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters
from steepest_lab.reproduce.experiments.experiment import Arm, Experiment, Paper, Published
from steepest_lab.reproduce.experiments.flowcon import BUCKET_MS
from steepest_lab.reproduce.experiments.placement import ASSUMPTION, Start
from steepest_lab.reproduce.testbed.jobs import KINDS, SCALE
from steepest_lab.reproduce.testbed.nodes import CPU_M, SHARE

TICK_MS = 250
"""In real time."""


def _arm(alpha: float, interval_s: int, *published: Published, policy: str = "flowcon", several: bool = False) -> Arm:
    parameters = PoolParameters(
        tick_ms=TICK_MS,
        specon=SpeConParameters(interval_ms=BUCKET_MS // SCALE),
        # Time is shorter by SCALE, so progress per second is greater by the same factor.
        flowcon=FlowConParameters(alpha=alpha * SCALE, interval_ms=interval_s * 1000 // SCALE),
    )
    setting = f"α {100 * alpha:g} %, itval {interval_s} s" if several else ""
    return Arm(setting=setting, policy=policy, parameters=parameters, published=published)


_EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        name="flowcon-3",
        pattern="flowcon-3",
        default=(Published("makespan", 394.0), Published("last", 84.7)),
        arms=(
            _arm(0.05, 20, Published("makespan-change", -2.0), Published("last-change", -21.4), several=True),
            _arm(0.05, 30, Published("makespan-change", -5.5), Published("last-change", -31.9), several=True),
        ),
        drawn=1,
    ),
    Experiment(
        name="flowcon-5",
        pattern="flowcon-5",
        arms=(
            _arm(
                0.03,
                30,
                Published("makespan-change", -3.0, slack=2.0),
                Published("mean-change"),
                Published("faster", 4),
                Published("best", -42.06),
                Published("worst", 0.5),
                several=True,
            ),
        ),
    ),
    Experiment(
        name="flowcon-10",
        pattern="flowcon-10",
        lengths={Start.ONE_NODE: 0.81},
        default=(Published("makespan", 1_384.9),),
        arms=(_arm(0.1, 20, Published("makespan-change", -2.5), Published("faster", 9), Published("best", -41.2)),),
    ),
    Experiment(
        name="flowcon-15",
        pattern="flowcon-15",
        lengths={Start.ONE_NODE: 0.62},
        default=(Published("makespan", 1_980.1),),
        arms=(
            _arm(
                0.1,
                20,
                Published("makespan-change", -1.5),
                Published("faster", 11),
                Published("best", -11.9),
                Published("worst", 5.7),
            ),
        ),
    ),
    Experiment(
        name="flowcon2-20",
        pattern="flowcon2-20",
        starts=(Start.EVEN, Start.UNEVEN),
        pinned=False,
        arms=(
            _arm(
                0.1,
                20,
                Published("makespan-change", -18.0),
                Published("faster", 18),
                Published("best", -68.8),
                policy="flowcon2",
            ),
        ),
    ),
)

PAPER = Paper(
    name="flowcon",
    title="FlowCon on Docker engines",
    source="FlowCon's experiments with 3, 5, 10 and 15 jobs as the thesis prints them (§6.1), and FlowCon 2.0's abstract",
    default="plain Docker: the same jobs at the same times, with unchanged weights",
    experiments=_EXPERIMENTS,
    assumptions=(
        f"One node is a Docker engine of its own, held to {CPU_M / 1000:g} of one core, and before all else on it.",
        f"Four nodes are engines that have a quarter each of {100 * SHARE:g} % of two cores.",
        f"A second is {SCALE} of the experiment's: arrivals, lengths, intervals and α are scaled alike.",
        "What Docker takes to start a container, and Steepest to hear of its end, is not scaled, and counts with both.",
        "Each model is a small NumPy training: "
        + ", ".join(f"{model} is {kind}" for model, kind in KINDS.items())
        + "; their real losses decide.",
        "A training's steps are as many as make its CPU time that of the experiment's job, by a measurement before.",
        "The thesis gives no run times; they were chosen so that its default makespans come out, as for the simulator.",
        "Limits are soft, as the thesis calls them: weights (`docker update --cpu-shares`), so that nothing is idle.",
        "Losses are gathered in buckets of 10 s, the period in which the authors sample containers.",
        "Which models the 5, 10 and 15 jobs were is unknown; they are drawn uniformly from the six that the thesis names.",
        "5 jobs: makespans are printed as −1 to −5 % over all settings, which is the band here.",
        "5 jobs: 4, 5, 4 and 4 of them are faster under four settings; 4 is taken.",
        "15 jobs and FlowCon 2.0: no setting is printed; α 10 % and itval 20 s, as for 10 jobs.",
        "FlowCon 2.0: jobs, arrivals, and the rule of placement are a reconstruction, as for the simulator. "
        + ASSUMPTION,
    ),
    real=True,
)
"""The experiments of ``steepest reproduce flowcon --real``."""
