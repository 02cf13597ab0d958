"""Whole policies by name: what a pool's parameters are under each of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events.parameters import PoolParameters, Threshold


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy switches on.

    Attributes:
        title: Its name for people.
        moves: SpeCon moves jobs.
        limits: FlowCon limits them.
        threshold: Where SpeCon's threshold comes from.
    """

    title: str
    moves: bool = False
    limits: bool = False
    threshold: Threshold = Threshold.FIXED


POLICIES: Mapping[str, Policy] = {
    "none": Policy(title="neither moves nor limits"),
    "specon": Policy(title="SpeCon", moves=True),
    "specon-adaptive": Policy(title="SpeCon with fitted thresholds", moves=True, threshold=Threshold.FITTED),
    "flowcon": Policy(title="FlowCon", limits=True),
    "specon+flowcon": Policy(title="SpeCon and FlowCon", moves=True, limits=True),
}
"""By the names that people choose them by."""


def under(name: str, parameters: PoolParameters) -> PoolParameters:
    """Some parameters under the policy of that name; all that the policy does not switch stays as it is."""
    policy = POLICIES[name]
    return msgspec.structs.replace(
        parameters,
        moves=policy.moves,
        specon=msgspec.structs.replace(parameters.specon, threshold=policy.threshold),
        flowcon=msgspec.structs.replace(parameters.flowcon, on=policy.limits),
    )


def named(parameters: PoolParameters) -> str:
    """The name of the policy that some parameters are of."""
    switched = (parameters.moves, parameters.flowcon.on, parameters.specon.threshold)
    return next(
        (name for name, one in POLICIES.items() if (one.moves, one.limits, one.threshold) == switched),
        "none",
    )
