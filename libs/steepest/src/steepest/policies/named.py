"""Policies by name: the pool parameters that each of them sets, and its source."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events.dragon_parameters import DragonGeneration, DragonParameters, Growth
from steepest.events.parameters import PoolParameters, PreemptionRule, Threshold


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The switches of a policy.

    Attributes:
        title: Its name for people.
        about: What it does, and its source.
        moves: Whether SpeCon moves jobs.
        limits: Whether FlowCon limits them.
        steepest: Whether the policy ``steepest`` moves and limits them.
        threshold: The source of SpeCon's threshold.
        dragon: What DRAGON does, if it is on.
        rule: The rule by which running jobs give way to waiting ones; None: run times are not predicted.
        queueing: The queue policy that comes with it; None: the pool's own.
        placement: The placement of arrivals that comes with it; None: the pool's own.
    """

    title: str
    about: str
    moves: bool = False
    limits: bool = False
    steepest: bool = False
    threshold: Threshold = Threshold.FIXED
    dragon: DragonParameters = DragonParameters()
    rule: PreemptionRule | None = None
    queueing: str | None = None
    placement: str | None = None


DRAGON = DragonParameters(on=True)
DRAGON_PAPER_ERA = DragonParameters(
    on=True,
    generation=DragonGeneration.PAPER_ERA,
    starving_ms=120_000,
    starving_stops_growth=False,
    growth=Growth.SERVER_NODE,
)
DRAGON_FIXED = DragonParameters(
    on=True,
    head_blocks=False,
    starving_stops_growth=False,
    freed_is_left=False,
    server_is_ignored=False,
    nodes_by_name=False,
    one_start=False,
    growth=Growth.SERVER_NODE,
)

POLICIES: Mapping[str, Policy] = {
    "steepest": Policy(
        title="steepest",
        about="fair sharing's slack, spent where learning per core-second is steepest (limits and moves)",
        steepest=True,
    ),
    "spread": Policy(
        title="neither moves nor limits",
        about="first placement only, least allocated node first (Kubernetes' default)",
    ),
    "specon": Policy(
        title="SpeCon", about="moves by category of growth, then rebalances (SpeCon, Algorithms 3-5)", moves=True
    ),
    "specon-adaptive": Policy(
        title="SpeCon with fitted thresholds",
        about="SpeCon with thresholds fitted to each job's own growth (haverzard/container-migration)",
        moves=True,
        threshold=Threshold.FITTED,
    ),
    "flowcon": Policy(
        title="FlowCon", about="limits by growth efficiency on each node (FlowCon, Algorithms 1-2)", limits=True
    ),
    "flowcon2": Policy(
        title="FlowCon 2.0",
        about="FlowCon's limits, and arrivals where most is reclaimable (FlowCon 2.0, a reconstruction)",
        limits=True,
        placement="flowcon2",
    ),
    "specon+flowcon": Policy(
        title="SpeCon and FlowCon", about="cap first, move what still pays", moves=True, limits=True
    ),
    "dragon": Policy(
        title="DRAGON",
        about="gangs whole and on one node if they fit, scaled with the load (DRAGON, its code's version 0.9)",
        dragon=DRAGON,
    ),
    "dragon-paper-era": Policy(
        title="DRAGON, the paper's era",
        about="the program of the time of DRAGON's paper: smallest starving gang first",
        dragon=DRAGON_PAPER_ERA,
    ),
    "dragon-fixed": Policy(
        title="DRAGON without its quirks",
        about="DRAGON without its published program's quirks",
        dragon=DRAGON_FIXED,
    ),
    "pickyman": Policy(
        title="PickyMan",
        about="running jobs give way where that saves more waiting than it costs (PickyMan, a reconstruction)",
        rule=PreemptionRule.PICKYMAN,
        queueing="predicted",
    ),
    "predicted-sjf": Policy(
        title="shortest predicted job first",
        about="the shortest predicted job first; no job gives way",
        rule=PreemptionRule.NONE,
        queueing="sjf",
    ),
    "predicted-srtf": Policy(
        title="shortest predicted remaining time first, preemptive",
        about="the shortest predicted remaining time first; longer jobs give way",
        rule=PreemptionRule.SRTF,
        queueing="predicted",
    ),
    "preemptive-tiresias": Policy(
        title="Tiresias, preemptive",
        about="the least attained service first, in levels; jobs of a higher level give way (Tiresias)",
        rule=PreemptionRule.TIRESIAS,
        queueing="tiresias",
    ),
    "round-robin": Policy(
        title="time slices in turn",
        about="running jobs give way in turn",
        rule=PreemptionRule.ROUND_ROBIN,
        queueing="fifo",
    ),
}
"""Name to policy."""


def under(name: str, parameters: PoolParameters) -> PoolParameters:
    """Parameters with a policy's switches; everything else stays unchanged."""
    policy, before = POLICIES[name], POLICIES[named(parameters)]
    queueing = _own(policy.queueing, before.queueing, parameters.queueing.policy, "fifo")
    return msgspec.structs.replace(
        parameters,
        moves=policy.moves,
        specon=msgspec.structs.replace(parameters.specon, threshold=policy.threshold),
        flowcon=msgspec.structs.replace(parameters.flowcon, on=policy.limits),
        steepest=msgspec.structs.replace(parameters.steepest, on=policy.steepest),
        dragon=policy.dragon,
        pickyman=msgspec.structs.replace(
            parameters.pickyman, on=policy.rule is not None, rule=policy.rule or PreemptionRule.PICKYMAN
        ),
        queueing=msgspec.structs.replace(parameters.queueing, policy=queueing),
        placement=_own(policy.placement, before.placement, parameters.placement, "spread"),
    )


def _own(brings: str | None, before: str | None, now: str, usual: str) -> str:
    """What a policy brings with it, or the pool's own: what it has now, unless that came with the policy before."""
    if brings is not None:
        return brings
    return usual if before == now else now


def named(parameters: PoolParameters) -> str:
    """The name of the policy that the parameters correspond to; of DRAGON, by its switches and not by its times."""
    switches = (
        parameters.moves,
        parameters.flowcon.on,
        parameters.specon.threshold,
        parameters.steepest.on,
        _switches(parameters.dragon),
        parameters.pickyman.rule if parameters.pickyman.on else None,
    )
    found = [name for name, policy in POLICIES.items() if _switched(policy) == switches]
    placed = [name for name in found if POLICIES[name].placement == parameters.placement]
    return next(iter([*placed, *found]), "spread")


def _switched(policy: Policy) -> tuple[object, ...]:
    dragon = _switches(policy.dragon)
    return (policy.moves, policy.limits, policy.threshold, policy.steepest, dragon, policy.rule)


def _switches(dragon: DragonParameters) -> DragonParameters:
    usual = DragonParameters()
    return (
        msgspec.structs.replace(dragon, starving_ms=usual.starving_ms, idle_ms=usual.idle_ms, period_ms=usual.period_ms)
        if dragon.on
        else usual
    )


def orders_by_run_time(parameters: PoolParameters) -> bool:
    """Whether jobs are placed, or give way, in the order of predicted run times."""
    pickyman = parameters.pickyman
    return pickyman.on and pickyman.rule not in {PreemptionRule.TIRESIAS, PreemptionRule.ROUND_ROBIN}
