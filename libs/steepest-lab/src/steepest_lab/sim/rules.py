"""Rules of a simulated cluster that no policy decides: the cost of a start, placement, and when decisions are made.

It owns them as data. ``default`` models an ordinary cluster; ``muri`` and ``pollux`` reproduce two published simulators,
including their odd rules, so that their published figures can be reproduced (``docs/peers.md`` describes each odd rule and
its effect).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from steepest_lab.baselines.greedy import RoundsParameters
from steepest_lab.baselines.optimus import OptimusParameters
from steepest_lab.baselines.slaq import SlaqParameters
from steepest_lab.baselines.steepest_gangs import SteepestGangsParameters
from steepest_lab.baselines.tiresias import TiresiasParameters


class AtRestart(msgspec.Struct, frozen=True, kw_only=True):
    """A job that starts makes no progress at first; each later start also saves and loads a checkpoint.

    Attributes:
        launch_s: Time until the container and the framework run: what SpeCon measured for a move (under 5 s, of which the
            checkpoint is a small part).
        checkpoint_mib: Size of a checkpoint of a job whose memory is unknown.
    """

    launch_s: float = 5.0
    checkpoint_mib: float = 1024.0


class AtEveryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """At each event in the cluster, every running job loses this much of the time since the last event.

    Attributes:
        table: Seconds by model and number of GPUs.
        otherwise_s: For a model that is not in the table.
    """

    table: Mapping[str, Mapping[int, float]]
    otherwise_s: float


class Countdown(msgspec.Struct, frozen=True, kw_only=True):
    """A job that gets different GPUs makes no progress for this many seconds."""

    seconds: float


class Placement(enum.StrEnum):
    """How a job's GPUs are placed."""

    CONSOLIDATE = "consolidate"  # the first node where all fit; if none, as few nodes as possible
    YARN = "yarn"  # the first node where all fit; larger jobs on fully idle nodes; all jobs again at every event
    MOST_FREE = "most-free"  # always the node that has most free


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """One set of rules.

    Attributes:
        overhead: The cost of a start.
        placement: How shares are placed on nodes.
        round_s: Seconds between decisions; 0: a decision at each event.
        counted: Policies for which GPUs are only counted, not placed, and whose jobs' ends are never merged.
        merge_ends: Jobs whose ends differ by less than this share of the time end together.
        step_column: Detail of a job that holds the milliseconds of one iteration; empty: its work divided by its iterations.
        step_factor: Factor by which an iteration takes longer than the workload says.
        scaling: A job's speed grows with its units to this power.
        profiles: Whether speeds come from an application's measured tables.
        parameters: Parameters of policies that do not run with their defaults.
    """

    name: str
    overhead: AtRestart | AtEveryEvent | Countdown
    placement: Placement
    round_s: float = 0.0
    counted: tuple[str, ...] = ()
    merge_ends: float = 0.0
    step_column: str = ""
    step_factor: float = 1.0
    scaling: float = 1.0
    profiles: bool = False
    parameters: Mapping[str, TiresiasParameters | RoundsParameters | SteepestGangsParameters] = {}


def _row(*seconds: float) -> Mapping[int, float]:
    return dict(zip((1, 2, 4, 8, 16, 32), seconds, strict=True))


DEFAULT = Rules(name="default", overhead=AtRestart(), placement=Placement.CONSOLIDATE)

MURI = Rules(
    name="muri",
    overhead=AtEveryEvent(
        table={
            "vgg16": _row(7, 7, 8, 9, 9, 10),
            "vgg19": _row(7, 7, 8, 9, 10, 10),
            "resnet18": _row(4, 5, 5, 7, 7, 7),
            "shufflenet_v2_x1_0": _row(4, 4, 5, 5, 7, 8),
            "bert": _row(10, 10, 10, 10, 10, 10),
            "gpt2": _row(10, 10, 10, 10, 10, 10),
            "a2c": _row(38, 39, 39, 46, 46, 46),
            "dqn": _row(5, 5, 6, 6, 8, 8),
        },
        otherwise_s=10,
    ),
    placement=Placement.YARN,
    counted=("tiresias",),
    merge_ends=1e-9,
    step_column="iteration_time",
    step_factor=1.015,
    parameters={"tiresias": TiresiasParameters(whole_seconds=True)},
)
"""The simulator of Muri (Rivendile/Muri 4e69a78c, ``simulator/run_sim.py``)."""

POLLUX = Rules(
    name="pollux",
    overhead=Countdown(seconds=30),
    placement=Placement.MOST_FREE,
    round_s=60,
    profiles=True,
    parameters={
        "tiresias": TiresiasParameters(limits=(57_600,), running_first=False),
        "optimus": OptimusParameters(round_s=0),
        "slaq": SlaqParameters(round_s=0),
    },
)
"""The simulator of Pollux (petuum/adaptdl c793c708, branch ``osdi21-artifact``, ``simulator/simulator.py``)."""

RULES: Mapping[str, Rules] = {rules.name: rules for rules in (DEFAULT, MURI, POLLUX)}
