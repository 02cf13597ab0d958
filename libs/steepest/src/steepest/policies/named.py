"""Policies by name: the pool parameters that each of them sets."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events.dragon_parameters import DragonGeneration, DragonParameters, Growth
from steepest.events.parameters import PoolParameters, Threshold


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The switches of a policy.

    Attributes:
        title: Its name for people.
        moves: Whether SpeCon moves jobs.
        limits: Whether FlowCon limits them.
        steepest: Whether the policy ``steepest`` moves and limits them.
        threshold: The source of SpeCon's threshold.
        dragon: What DRAGON does, if it is on.
    """

    title: str
    moves: bool = False
    limits: bool = False
    steepest: bool = False
    threshold: Threshold = Threshold.FIXED
    dragon: DragonParameters = DragonParameters()


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
    growth=Growth.OWN_NODES,
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
    )


def named(parameters: PoolParameters) -> str:
    """The name of the policy that the parameters correspond to; of DRAGON, by its switches and not by its times."""
    switched = (
        parameters.moves,
        parameters.flowcon.on,
        parameters.specon.threshold,
        parameters.steepest.on,
        _switches(parameters.dragon),
    )
    return next(
        (
            name
            for name, one in POLICIES.items()
            if (one.moves, one.limits, one.threshold, one.steepest, _switches(one.dragon)) == switched
        ),
        "none",
    )


def _switches(dragon: DragonParameters) -> DragonParameters:
    usual = DragonParameters()
    return (
        msgspec.structs.replace(dragon, starving_ms=usual.starving_ms, idle_ms=usual.idle_ms, period_ms=usual.period_ms)
        if dragon.on
        else usual
    )
