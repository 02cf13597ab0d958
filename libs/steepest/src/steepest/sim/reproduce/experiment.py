"""What an experiment is: jobs, nodes, settings of a policy, and what was published about each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.parameters import PoolParameters
from steepest.sim.reproduce.placement import Lots
from steepest.sim.workloads.arrivals import PATTERNS, PREFIX


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the policy, run beside the default.

    Attributes:
        setting: In words; empty where the experiment has one only.
        policy: Of :data:`steepest.sim.policies.LIVE`.
        parameters: What the policy's switches are put into.
        published: Names of measures, each with what the paper says; None: it says nothing, and we tell ours.
    """

    setting: str = ""
    policy: str
    parameters: PoolParameters
    published: Sequence[tuple[str, float | None]]


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A workload on a cluster, by default and under every arm.

    Attributes:
        name: In tables.
        pattern: Of :data:`steepest.sim.workloads.arrivals.PATTERNS`.
        cluster: Where it is not the pattern's own.
        lots: Whether first nodes are drawn by lot.
        drawn: Which arm the plots show.
    """

    name: str
    pattern: str
    cluster: str = ""
    lots: Lots = Lots.NOBODY
    arms: Sequence[Arm]
    drawn: int = 0

    @property
    def workload(self) -> str:
        """The workload's name."""
        return PREFIX + self.pattern

    @property
    def nodes(self) -> str:
        """The cluster's name."""
        return self.cluster or PATTERNS[self.pattern].cluster

    @property
    def about(self) -> str:
        """The experiment in words."""
        return f"{PATTERNS[self.pattern].about}; nodes {self.nodes}"


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """All experiments of a paper.

    Attributes:
        name: As it is called on the command line.
        title: For people.
        source: What was published where.
        default: The default run, in words.
        assumptions: What the paper leaves open, beside what the simulator and the models assume.
        real: It is run with real trainings, and not simulated.
    """

    name: str
    title: str
    source: str
    default: str
    experiments: Sequence[Experiment]
    assumptions: Sequence[str]
    real: bool = False


def reconstructed(experiments: Sequence[Experiment]) -> Sequence[str]:
    """The arrivals among those of some experiments that are a reconstruction, each in a sentence."""
    patterns: Mapping[str, None] = dict.fromkeys(one.pattern for one in experiments)
    return [
        f"{PATTERNS[name].about} ({name}): its source does not give the window or the nodes."
        for name in patterns
        if PATTERNS[name].reconstructed
    ]
