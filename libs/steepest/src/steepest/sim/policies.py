"""Every policy that can be simulated, by name, with its source.

Two kinds. The *live* ones are parameters of a pool: the deciders, the view and the saga that run on real clusters run here
(:mod:`steepest.sim.system`). The *allocation* policies are published baselines that decide at each event who runs and with
how much (:mod:`steepest.sim.allocation`); they have no live wiring, so that there is one implementation of each as well.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.errors import InputError
from steepest.events.parameters import PoolParameters
from steepest.policies.baselines.by_name import BASELINES
from steepest.policies.named import under


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A policy of the live system.

    Attributes:
        about: What it does, and where it is from.
        switches: Its name in :data:`steepest.policies.named.POLICIES`.
        placement: The placement of arrivals.
    """

    about: str
    switches: str
    placement: str = "spread"

    def parameters(self, parameters: PoolParameters) -> PoolParameters:
        """Some parameters under this policy."""
        return msgspec.structs.replace(under(self.switches, parameters), placement=self.placement)


LIVE: Mapping[str, Live] = {
    "spread": Live(about="first placement only, least allocated node first (Kubernetes' default)", switches="none"),
    "specon": Live(about="moves by category of growth, then rebalances (SpeCon, Algorithms 3-5)", switches="specon"),
    "specon-adaptive": Live(
        about="SpeCon with thresholds fitted to each job's own growth (haverzard/container-migration)",
        switches="specon-adaptive",
    ),
    "flowcon": Live(about="limits by growth efficiency on each node (FlowCon, Algorithms 1-2)", switches="flowcon"),
    "flowcon2": Live(
        about="FlowCon's limits, and arrivals where most is reclaimable (FlowCon 2.0, a reconstruction)",
        switches="flowcon",
        placement="flowcon2",
    ),
    "specon+flowcon": Live(about="cap first, move what still pays", switches="specon+flowcon"),
}
"""By name."""


def names() -> list[str]:
    """All names, the live ones first."""
    return [*LIVE, *BASELINES]


def about(name: str) -> str:
    """What a policy does, in a line."""
    return LIVE[name].about if name in LIVE else str(BASELINES[name].__doc__).split("\n", 1)[0].rstrip(".")


def refuse_unknown(name: str) -> None:
    """Nothing, if there is such a policy.

    Raises:
        InputError: There is none.
    """
    if name not in LIVE and name not in BASELINES:
        raise InputError(f"there is no policy {name!r}", mend=f"Name some of {', '.join(names())}.")
