"""Policies by name: the pool parameters that each of them sets."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events.parameters import PoolParameters, Threshold


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The switches of a policy.

    Attributes:
        title: Its name for people.
        moves: Whether SpeCon moves jobs.
        limits: Whether FlowCon limits them.
        steepest: Whether the policy ``steepest`` moves and limits them.
        threshold: The source of SpeCon's threshold.
    """

    title: str
    moves: bool = False
    limits: bool = False
    steepest: bool = False
    threshold: Threshold = Threshold.FIXED


POLICIES: Mapping[str, Policy] = {
    "steepest": Policy(title="steepest", steepest=True),
    "none": Policy(title="neither moves nor limits"),
    "specon": Policy(title="SpeCon", moves=True),
    "specon-adaptive": Policy(title="SpeCon with fitted thresholds", moves=True, threshold=Threshold.FITTED),
    "flowcon": Policy(title="FlowCon", limits=True),
    "specon+flowcon": Policy(title="SpeCon and FlowCon", moves=True, limits=True),
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
    )


def named(parameters: PoolParameters) -> str:
    """The name of the policy that the parameters correspond to."""
    switched = (parameters.moves, parameters.flowcon.on, parameters.specon.threshold, parameters.steepest.on)
    return next(
        (name for name, one in POLICIES.items() if (one.moves, one.limits, one.threshold, one.steepest) == switched),
        "none",
    )
