"""The experiments of FlowCon that run on real engines, with their settings and published results.

Three jobs run under two of the published settings that differ only in the interval; the others under the one that is printed
or, where none is, assumed. FlowCon 2.0 runs on four engines.
"""

from __future__ import annotations

import msgspec

from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters
from steepest_lab.reproduce.experiments.experiment import Arm, Experiment, Paper, Published
from steepest_lab.reproduce.experiments.flowcon import BUCKET_MS, EXPERIMENTS
from steepest_lab.reproduce.experiments.placement import ASSUMPTION
from steepest_lab.reproduce.testbed.jobs import KINDS, SCALE
from steepest_lab.reproduce.testbed.nodes import CPU_M, SHARE

TICK_MS = 250
"""In real time."""

RUN = {"flowcon-3": 2, "flowcon-5": 1, "flowcon-10": 1, "flowcon-15": 1, "flowcon2-20": 1}
"""The experiments, each with the number of its settings that are run, from the first on."""


def _scaled(arm: Arm) -> Arm:
    """The same setting in real time. Time is shorter by SCALE, so progress per second is greater by the same factor."""
    flowcon = arm.parameters.flowcon
    parameters = PoolParameters(
        tick_ms=TICK_MS,
        specon=SpeConParameters(interval_ms=BUCKET_MS // SCALE),
        flowcon=FlowConParameters(alpha=flowcon.alpha * SCALE, interval_ms=flowcon.interval_ms // SCALE),
    )
    return msgspec.structs.replace(arm, parameters=parameters)


def _real(simulated: Experiment) -> Experiment:
    arms = [_scaled(arm) for arm in simulated.arms[: RUN[simulated.name]]]
    if simulated.name == "flowcon-5":  # the thesis prints no mean of it; on real engines it is of interest
        makespan, *others = arms[0].published
        arms = [msgspec.structs.replace(arms[0], published=(makespan, Published("mean-change"), *others))]
    return msgspec.structs.replace(simulated, arms=tuple(arms))


PAPER = Paper(
    name="flowcon",
    title="FlowCon on Docker engines",
    source="FlowCon's experiments with 3, 5, 10 and 15 jobs as the thesis prints them (§6.1), and FlowCon 2.0's abstract",
    default="plain Docker: the same jobs at the same times, with unchanged weights",
    experiments=tuple(_real(one) for one in EXPERIMENTS if one.name in RUN),
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
