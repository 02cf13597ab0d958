"""Policies by name: the pool parameters that each of them sets."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events.dragon_parameters import DragonGeneration, DragonParameters, Growth
from steepest.events.parameters import PoolParameters, PreemptionRule, Threshold


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The switches of a policy.

    Attributes:
        title: Its name for people.
        moves: Whether SpeCon moves jobs.
        limits: Whether FlowCon limits them.
        steepest: Whether the policy ``steepest`` moves and limits them.
        threshold: The source of SpeCon's threshold.
        dragon: What DRAGON does, if it is on.
        rule: The rule by which running jobs give way to waiting ones; None: run times are not predicted.
        queueing: The queue policy that comes with it; None: the pool's own.
    """

    title: str
    moves: bool = False
    limits: bool = False
    steepest: bool = False
    threshold: Threshold = Threshold.FIXED
    dragon: DragonParameters = DragonParameters()
    rule: PreemptionRule | None = None
    queueing: str | None = None


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
    "steepest": Policy(title="steepest", steepest=True),
    "none": Policy(title="neither moves nor limits"),
    "specon": Policy(title="SpeCon", moves=True),
    "specon-adaptive": Policy(title="SpeCon with fitted thresholds", moves=True, threshold=Threshold.FITTED),
    "flowcon": Policy(title="FlowCon", limits=True),
    "specon+flowcon": Policy(title="SpeCon and FlowCon", moves=True, limits=True),
    "dragon": Policy(title="DRAGON", dragon=DRAGON),
    "dragon-paper-era": Policy(title="DRAGON, the paper's era", dragon=DRAGON_PAPER_ERA),
    "dragon-fixed": Policy(title="DRAGON without its quirks", dragon=DRAGON_FIXED),
    "pickyman": Policy(title="PickyMan", rule=PreemptionRule.PICKYMAN, queueing="predicted"),
    "predicted-sjf": Policy(title="shortest predicted job first", rule=PreemptionRule.NONE, queueing="sjf"),
    "predicted-srtf": Policy(
        title="shortest predicted remaining time first, preemptive", rule=PreemptionRule.SRTF, queueing="predicted"
    ),
    "preemptive-tiresias": Policy(title="Tiresias, preemptive", rule=PreemptionRule.TIRESIAS, queueing="tiresias"),
    "round-robin": Policy(title="time slices in turn", rule=PreemptionRule.ROUND_ROBIN, queueing="fifo"),
}
"""Name to policy."""


def under(name: str, parameters: PoolParameters) -> PoolParameters:
    """Parameters with a policy's switches; everything else stays unchanged."""
    policy = POLICIES[name]
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
        queueing=msgspec.structs.replace(parameters.queueing, policy=_queueing(policy, parameters)),
    )


def _queueing(policy: Policy, parameters: PoolParameters) -> str:
    """The queue policy under a policy: its own, or the pool's, unless that came with the policy before."""
    before = POLICIES[named(parameters)].queueing
    if policy.queueing is not None:
        return policy.queueing
    return "fifo" if before == parameters.queueing.policy else parameters.queueing.policy


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
    return next((name for name, policy in POLICIES.items() if _switched(policy) == switches), "none")


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
