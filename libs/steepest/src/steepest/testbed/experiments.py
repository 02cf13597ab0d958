"""Which of FlowCon's experiments are run on a real engine, under which settings, and what was published about them."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters
from steepest.policies.named import under
from steepest.sim.reproduce.experiment import Arm, Experiment
from steepest.testbed.jobs import SCALE

BUCKET_MS = 10_000
"""As the authors sample containers, in the experiment's time."""

TICK_MS = 250
"""Of our time."""


def _arm(alpha: float, interval_s: int, *published: tuple[str, float | None]) -> Arm:
    parameters = PoolParameters(
        tick_ms=TICK_MS,
        specon=SpeConParameters(interval_ms=BUCKET_MS // SCALE),
        # Progress a second is as many times faster as time is shorter.
        flowcon=FlowConParameters(alpha=alpha * SCALE, interval_ms=interval_s * 1000 // SCALE),
    )
    return Arm(
        setting=f"α {100 * alpha:g} %, itval {interval_s} s",
        policy="flowcon",
        parameters=parameters,
        published=published,
    )


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        name="flowcon-3",
        pattern="flowcon-3",
        arms=(
            _arm(
                0.05,
                30,
                ("default-makespan", 394.0),
                ("makespan", 372.4),
                ("makespan-change", -5.5),
                ("default-last", 84.7),
                ("last", 57.7),
                ("last-change", -31.9),
            ),
        ),
    ),
    Experiment(
        name="flowcon-5",
        pattern="flowcon-5",
        arms=(
            _arm(
                0.03,
                30,
                ("makespan-change", -1.0),
                ("mean-change", None),
                ("faster", None),
                ("best", -42.06),
                ("worst", 11.8),
            ),
        ),
    ),
)


def parameters(arm: Arm, *, limited: bool) -> PoolParameters:
    """The pool's parameters with FlowCon, or with neither limits nor moves."""
    return under(arm.policy if limited else "none", arm.parameters)
