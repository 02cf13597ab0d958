"""The experiments of SpeCon that run with real trainings on emulated nodes, with their settings and published results.

Twenty VAE and twenty mixed jobs, each from an even and from an uneven start. The settings and what was published of them are
the simulated experiments'.
"""

from __future__ import annotations

import msgspec

from steepest.events.parameters import PoolParameters
from steepest_lab.reproduce.experiments.experiment import Arm, Experiment, Paper
from steepest_lab.reproduce.experiments.specon import SPECON
from steepest_lab.reproduce.testbed.flowcon import TICK_MS
from steepest_lab.reproduce.testbed.jobs import SCALE
from steepest_lab.reproduce.testbed.nodes import SHARE

RUN = ("fixed-20", "mixed-20")
"""Experiments on four nodes that take less than half an hour; 50 jobs on eight nodes would need more cores."""


def _in_real_time(arm: Arm) -> Arm:
    specon = arm.parameters.specon
    shorter = msgspec.structs.replace(specon, interval_ms=specon.interval_ms // SCALE)
    return msgspec.structs.replace(arm, parameters=PoolParameters(tick_ms=TICK_MS, specon=shorter))


def _experiment(simulated: Experiment) -> Experiment:
    return msgspec.structs.replace(simulated, arms=tuple(_in_real_time(arm) for arm in simulated.arms))


PAPER = Paper(
    name="specon",
    title="SpeCon with real trainings",
    source="SpeCon's experiments with 20 jobs as the thesis prints them (§6.2), and its cost of saving and resuming (§3.2)",
    default="the same jobs on the same first nodes, nothing moves",
    experiments=tuple(_experiment(one) for one in SPECON.experiments if one.name in RUN),
    assumptions=(
        f"Four emulated nodes have a quarter each of {100 * SHARE:g} % of two cores; their jobs are processes here.",
        f"A second is {SCALE} of the experiment's: arrivals, lengths and intervals are scaled alike.",
        f"What a move costs is not scaled: a second without training counts as {SCALE} s of the experiment.",
        "Each model is a small NumPy training of its kind, whose real losses decide; the frameworks differ in length only.",
        "A training's steps are as many as make its CPU time that of the experiment's job, by a measurement before.",
        *SPECON.assumptions,
    ),
    real=True,
)
"""The experiments of ``steepest reproduce specon --real``."""
