"""The rules of a pool in one line: its policy, its queue, who gives way, and how long an interval is."""

from __future__ import annotations

from collections.abc import Mapping

from steepest.describe.units import span
from steepest.events.dragon_parameters import DragonGeneration
from steepest.events.parameters import PoolParameters, PreemptionRule, Threshold

_BY_RULE: Mapping[PreemptionRule, str] = {
    PreemptionRule.PICKYMAN: "pickyman",
    PreemptionRule.NONE: "predicted-sjf",
    PreemptionRule.SRTF: "predicted-srtf",
    PreemptionRule.TIRESIAS: "preemptive-tiresias",
    PreemptionRule.ROUND_ROBIN: "round-robin",
}


def policy_name(ours: PoolParameters) -> str:
    """The name of the policy in force, as `--policy` takes it."""
    if ours.steepest.on:
        return "steepest"
    if ours.pickyman.on:
        return _BY_RULE[ours.pickyman.rule]
    if ours.dragon.on:
        return _dragon_name(ours)
    if ours.moves:
        specon = "specon" if ours.specon.threshold is Threshold.FIXED else "specon-adaptive"
        return "specon+flowcon" if ours.flowcon.on else specon
    limits = "flowcon2" if ours.placement == "flowcon2" else "flowcon"
    return limits if ours.flowcon.on else "spread"


def _dragon_name(ours: PoolParameters) -> str:
    if ours.dragon.generation is DragonGeneration.PAPER_ERA:
        return "dragon-paper-era"
    return "dragon" if ours.dragon.head_blocks else "dragon-fixed"


def rules_in_force(ours: PoolParameters) -> str:
    """Policy, queue, preemption, interval and what belongs to the policy, for people."""
    preempts = " (preempts)" if ours.queueing.preempt else ""
    blocks = " (blocks)" if ours.queueing.blocking else ""
    half_life = f" (half-life {span(ours.queueing.half_life_ms)})" if ours.queueing.policy == "fair" else ""
    parts = [
        f"policy {policy_name(ours)}",
        f"queue {ours.queueing.policy}{half_life}{preempts}{blocks}",
        f"interval {span(ours.specon.interval_ms)}",
        f"placement {ours.placement}",
    ]
    if ours.moves:
        parts.append(f"α {ours.specon.alpha:g}" if ours.specon.threshold is Threshold.FIXED else "α fitted to each job")
    if ours.flowcon.on:
        flowcon = ours.flowcon
        parts.append(f"FlowCon's α {flowcon.alpha:g} a {flowcon.per}, its interval {span(flowcon.interval_ms)}")
    if ours.dragon.on:
        dragon = ours.dragon
        parts.append(f"starving after {span(dragon.starving_ms)}, idle after {span(dragon.idle_ms)}")
    return ", ".join(parts)
