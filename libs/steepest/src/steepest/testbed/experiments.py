"""The experiments of FlowCon that run on a real engine, with their settings and published results.

Three jobs run under two of the published settings that differ only in the interval; five jobs under the one that is printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters
from steepest.policies.named import under
from steepest.sim.reproduce.experiment import Arm, Experiment, Paper, Published
from steepest.testbed.jobs import KINDS, SCALE
from steepest.testbed.node import CPU_M

BUCKET_MS = 10_000
"""The authors' sampling period of containers, in the experiment's time."""

TICK_MS = 250
"""In real time."""


def _arm(alpha: float, interval_s: int, *published: Published) -> Arm:
    parameters = PoolParameters(
        tick_ms=TICK_MS,
        specon=SpeConParameters(interval_ms=BUCKET_MS // SCALE),
        # Time is shorter by SCALE, so progress per second is greater by the same factor.
        flowcon=FlowConParameters(alpha=alpha * SCALE, interval_ms=interval_s * 1000 // SCALE),
    )
    return Arm(
        setting=f"α {100 * alpha:g} %, itval {interval_s} s",
        policy="flowcon",
        parameters=parameters,
        published=published,
    )


_EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        name="flowcon-3",
        pattern="flowcon-3",
        default=(Published("makespan", 394.0), Published("last", 84.7)),
        arms=(
            _arm(0.05, 20, Published("makespan-change", -2.0), Published("last-change", -21.4)),
            _arm(0.05, 30, Published("makespan-change", -5.5), Published("last-change", -31.9)),
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
            ),
        ),
    ),
)

PAPER = Paper(
    name="flowcon",
    title="FlowCon on a Docker engine",
    source="FlowCon's experiments with three and with five jobs as the thesis prints them (§6.1)",
    default="plain Docker: the same jobs at the same times, with unchanged weights",
    experiments=_EXPERIMENTS,
    assumptions=(
        f"The node is a Docker engine of its own, held to {CPU_M / 1000:g} of one core, and before all else on it.",
        f"A second is {SCALE} of the experiment's: arrivals, lengths, intervals and α are scaled alike.",
        "What Docker takes to start a container, and Steepest to hear of its end, is not scaled, and counts with both.",
        "Each model is a small NumPy training: "
        + ", ".join(f"{model} is {kind}" for model, kind in KINDS.items())
        + "; their real losses decide.",
        "A training's steps are as many as make its CPU time that of the experiment's job, by a measurement before.",
        "The thesis gives no run times; they were chosen so that its default makespans come out, as for the simulator.",
        "Limits are soft, as the thesis calls them: weights (`docker update --cpu-shares`), so that nothing is idle.",
        "Losses are gathered in buckets of 10 s, the period in which the authors sample containers.",
        "Which models the five jobs were is unknown; they are drawn uniformly from the six that the thesis names.",
        "5 jobs: makespans are printed as −1 to −5 % over all settings, which is the band here.",
        "5 jobs: 4, 5, 4 and 4 of them are faster under four settings; 4 is taken.",
    ),
    real=True,
)
"""The experiments of ``steepest reproduce flowcon --real``."""


def limited(arm: Arm) -> PoolParameters:
    """The pool's parameters with FlowCon."""
    return under(arm.policy, arm.parameters)


def unlimited(arm: Arm) -> PoolParameters:
    """The pool's parameters with neither limits nor moves."""
    return under("none", arm.parameters)
