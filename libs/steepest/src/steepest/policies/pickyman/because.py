"""Why running jobs give way to a waiting one, as a plan explains it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.events import cluster as c
from steepest.events.common import bounded_millis
from steepest.events.parameters import PreemptionRule
from steepest.policies.pickyman.division import Victim, VictimBlock, Wanted, saved_and_cost, waits_ms

OTHERS_SHOWN = 4

RULES: Mapping[PreemptionRule, str] = {
    PreemptionRule.PICKYMAN: "PickyMan: it saves more waiting than it costs",
    PreemptionRule.SRTF: "srtf: the shortest remaining time first; what a suspension costs is not looked at",
    PreemptionRule.TIRESIAS: "tiresias: the least attained service first, in levels",
    PreemptionRule.ROUND_ROBIN: "round-robin: its time slice is over",
}


def because_of(rule: PreemptionRule, wanted: Wanted, block: VictimBlock, candidates: Sequence[Victim]) -> c.Because:
    """What a preemption saves and costs, who gives way, and some of those that do not, with the reason.

    Args:
        rule: By which they give way.
        wanted: The job that gets their places.
        block: Those that give way.
        candidates: All that were weighed.
    """
    saves, costs = saved_and_cost(wanted, block.victims)
    chosen = {one.name: None for one in block.victims}
    others = sorted(
        (one for one in candidates if one.name not in chosen),
        key=lambda one: (one.suspension_ms + one.resumption_ms, one.name),
    )
    return c.Because(
        rule=RULES[rule],
        preemption=c.PreemptionSeen(
            saves_ms=bounded_millis(saves),
            costs_ms=bounded_millis(costs),
            victims=tuple(_seen(wanted, one) for one in block.victims),
            others=tuple(_seen(wanted, one, _why_spared(wanted, one, block)) for one in others[:OTHERS_SHOWN]),
        ),
    )


def _seen(wanted: Wanted, one: Victim, spared: str = "") -> c.VictimSeen:
    return c.VictimSeen(
        job=one.name,
        remaining_ms=bounded_millis(one.remaining_ms),
        suspension_ms=bounded_millis(one.suspension_ms),
        resumption_ms=bounded_millis(one.resumption_ms),
        cost_ms=bounded_millis(wanted.remaining_ms + one.suspension_ms + one.resumption_ms),
        spared=spared,
    )


def _why_spared(wanted: Wanted, one: Victim, block: VictimBlock) -> str:
    if one.remaining_ms < waits_ms(wanted, block.victims):
        return "less waiting would be saved"
    if one.suspension_ms > block.suspension_ms:
        return "it would take longer to suspend"
    return "its places are not needed" if wanted.wish.roles else "another block is worth more"
