"""Every policy that can be simulated, by name, with its source.

Two kinds. The *live* ones are parameters of a pool: the deciders, the view and the saga that run on real clusters run here
(:mod:`steepest.sim.system`). The *allocation* policies are published baselines that decide at each event who runs and with
how much (:mod:`steepest.sim.allocation`); they have no live wiring, so that there is one implementation of each as well.

ProCon is of the first kind in all but one thing: what its placement goes by stands in no pool's log, so that only a
simulated pool can have it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.errors import InputError
from steepest.events.parameters import PoolParameters
from steepest.policies.baselines.by_name import BASELINES
from steepest.policies.named import under
from steepest.sim.rules import DEFAULT
from steepest.sim.system.progress import PROCON


class OfAPool(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that a whole pool runs under.

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


LIVE: Mapping[str, OfAPool] = {
    "spread": OfAPool(about="first placement only, least allocated node first (Kubernetes' default)", switches="none"),
    "specon": OfAPool(about="moves by category of growth, then rebalances (SpeCon, Algorithms 3-5)", switches="specon"),
    "specon-adaptive": OfAPool(
        about="SpeCon with thresholds fitted to each job's own growth (haverzard/container-migration)",
        switches="specon-adaptive",
    ),
    "flowcon": OfAPool(about="limits by growth efficiency on each node (FlowCon, Algorithms 1-2)", switches="flowcon"),
    "flowcon2": OfAPool(
        about="FlowCon's limits, and arrivals where most is reclaimable (FlowCon 2.0, a reconstruction)",
        switches="flowcon",
        placement="flowcon2",
    ),
    "specon+flowcon": OfAPool(about="cap first, move what still pays", switches="specon+flowcon"),
}
"""By name."""

POOL: Mapping[str, OfAPool] = {
    **LIVE,
    PROCON: OfAPool(
        about="arrivals where least is left to do; told each job's progress and length (ProCon, by its authors' code)",
        switches="none",
        placement=PROCON,
    ),
}
"""The live ones, and what a simulated pool alone can run under."""


def names() -> list[str]:
    """All names, those of a pool first."""
    return [*POOL, *BASELINES]


def about(name: str) -> str:
    """What a policy does, in a line."""
    return POOL[name].about if name in POOL else str(BASELINES[name].__doc__).split("\n", 1)[0].rstrip(".")


def refuse_unfit(name: str, rules: str) -> None:
    """Nothing, if there is such a policy and it can run under these rules.

    Args:
        name: The policy.
        rules: Of :data:`steepest.sim.rules.RULES`.

    Raises:
        InputError: It is none, or a pool's under a peer's rules.
    """
    if name not in POOL and name not in BASELINES:
        raise InputError(f"there is no policy {name[:100]!r}", hint=f"Name some of {', '.join(names())}.")
    if name in POOL and rules != DEFAULT.name:
        raise InputError(
            f"policy {name} runs a whole pool as it would live, and not by the rules of {rules}",
            hint="Leave --rules out, or name an allocation policy.",
        )
