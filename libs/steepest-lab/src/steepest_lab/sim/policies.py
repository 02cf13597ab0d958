"""Every policy that can be simulated, by name, with its source.

Two kinds. The *live* ones are parameters of a pool: the deciders, the view and the saga that run on real clusters run here
(:mod:`steepest_lab.sim.system`). The *allocation* policies are published baselines that decide at each event who runs and
with how much (:mod:`steepest_lab.sim.allocation`); they have no live wiring, so that there is one implementation of each.

ProCon is of the first kind in all but one thing: the inputs of its placement are in no pool's log, so that only a
simulated pool can have it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.errors import InputError
from steepest.events.parameters import PoolParameters
from steepest.policies.named import POLICIES, under
from steepest.policies.queueing.ranks import QUEUE_POLICIES
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest_lab.baselines.by_name import BASELINES
from steepest_lab.baselines.with_caps import LasWithCaps, SrtfWithCaps
from steepest_lab.sim.rules import DEFAULT
from steepest_lab.sim.system.progress import PROCON

NEVER = 1e5
"""No move gains this many times its cost."""


class PoolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that a whole pool runs with.

    Attributes:
        about: What it does, and its source.
        switches: Its name in :data:`steepest.policies.named.POLICIES`.
        placement: The placement of arrivals, if it is not that of the switches.
        queueing: Its name in :data:`steepest.policies.queueing.ranks.QUEUE_POLICIES`; None: that of the switches.
        dragon: Parameters of DRAGON that differ from the policy's.
        pod_by_pod: Each replica of a gang is placed by itself, which only a simulated pool does.
        planner: Divides nodes, where the policy ``steepest`` is on.
    """

    about: str
    switches: str
    placement: str | None = None
    queueing: str | None = None
    dragon: Mapping[str, bool] = {}
    pod_by_pod: bool = False
    planner: type[SteepestPlanner] = SteepestPlanner

    def parameters(self, parameters: PoolParameters) -> PoolParameters:
        """The given parameters with this policy's switches, placement and queue policy."""
        switched = under(self.switches, parameters)
        queueing = switched.queueing
        if self.queueing is not None:
            queueing = msgspec.structs.replace(queueing, policy=self.queueing)
        steepest = switched.steepest
        if self.planner is not SteepestPlanner:  # an order of jobs alone: no move pays
            steepest = msgspec.structs.replace(steepest, pays=NEVER, stay_ms=0)
        return msgspec.structs.replace(
            switched,
            steepest=steepest,
            placement=self.placement or switched.placement,
            queueing=queueing,
            dragon=msgspec.structs.replace(switched.dragon, **self.dragon),
        )


LIVE: Mapping[str, PoolPolicy] = {name: PoolPolicy(about=each.about, switches=name) for name, each in POLICIES.items()}
"""The policies that `steepest up` runs, by name."""

POOL: Mapping[str, PoolPolicy] = {
    **LIVE,
    PROCON: PoolPolicy(
        about="arrivals where least is left to do; knows each job's progress and length (ProCon, by its authors' code)",
        switches="spread",
        placement=PROCON,
    ),
    "kube-default": PoolPolicy(
        about="Kubernetes' default scheduler: each replica by itself, tried again in no order; gangs may dead-lock",
        switches="spread",
        queueing="priority",
        pod_by_pod=True,
    ),
    "kube-fifo": PoolPolicy(
        about="the same at its best: replicas that wait are tried again in the order of their submission",
        switches="spread",
        pod_by_pod=True,
    ),
    "srtf-caps": PoolPolicy(
        about="shortest remaining time first, by CPU limits: no promise, no move",
        switches="steepest",
        planner=SrtfWithCaps,
    ),
    "las-caps": PoolPolicy(
        about="least attained service, by CPU limits: knows no size", switches="steepest", planner=LasWithCaps
    ),
    "dragon-no-locality": PoolPolicy(
        about="dragon-fixed, but each replica on the emptiest node", switches="dragon-fixed", dragon={"locality": False}
    ),
    "dragon-no-scaling": PoolPolicy(
        about="dragon-fixed, but no gang is scaled", switches="dragon-fixed", dragon={"scaling": False}
    ),
    "gang-only": PoolPolicy(
        about="gangs whole, each replica on the emptiest node, none scaled",
        switches="dragon-fixed",
        dragon={"locality": False, "scaling": False},
    ),
}
"""The live ones, and those that only a simulated pool can run."""


def pool_policy(name: str, among: Mapping[str, PoolPolicy] = POOL) -> PoolPolicy | None:
    """The policy of that name, or of ``POLICY:QUEUE``, the same with a queue policy; None: there is none."""
    policy, colon, queue = name.partition(":")
    if not colon or policy not in among:
        return among.get(name)
    return msgspec.structs.replace(among[policy], queueing=queue) if queue in QUEUE_POLICIES else None


def names() -> list[str]:
    """All names, those of a pool first."""
    return [*POOL, *BASELINES]


def about(name: str) -> str:
    """One line that describes a policy."""
    return POOL[name].about if name in POOL else str(BASELINES[name].__doc__).split("\n", 1)[0].rstrip(".")


def refuse_unfit(name: str, rules: str) -> None:
    """Check that a policy exists and can run under these rules.

    Args:
        name: The policy.
        rules: Of :data:`steepest_lab.sim.rules.RULES`.

    Raises:
        InputError: There is no such policy, or it is a pool's policy under a peer's rules.
    """
    pool = pool_policy(name)
    if pool is None and name not in BASELINES:
        hint = f"Name some of {', '.join(names())}; those of a pool also with a queue, as spread:{'|'.join(QUEUE_POLICIES)}."
        raise InputError(f"there is no policy {name[:100]!r}", hint=hint)
    if pool is not None and rules != DEFAULT.name:
        raise InputError(
            f"policy {name} runs a whole pool as it would live, and not by the rules of {rules}",
            hint="Leave --rules out, or name an allocation policy.",
        )
