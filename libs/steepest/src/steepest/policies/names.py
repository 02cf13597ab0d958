"""The names of policies, placements and queue policies: types for settings, choices for commands.

It imports nothing but ``typing``, so that a command is described without the policies themselves.
"""

from __future__ import annotations

from typing import Literal

PolicyName = Literal[
    "steepest",
    "spread",
    "specon",
    "specon-adaptive",
    "flowcon",
    "flowcon2",
    "specon+flowcon",
    "dragon",
    "dragon-paper-era",
    "dragon-fixed",
    "pickyman",
    "predicted-sjf",
    "predicted-srtf",
    "preemptive-tiresias",
    "round-robin",
]
"""Those of :mod:`steepest.policies.named`."""

PlacementName = Literal["spread", "flowcon2"]
"""Those of :mod:`steepest.policies.placement.policies`."""

QueuePolicyName = Literal["fifo", "priority", "srtf", "tiresias", "predicted", "sjf", "fair"]
"""Those of :mod:`steepest.policies.queueing.ranks`."""

ReactionName = Literal["notify", "restart", "suspend", "fail"]
"""Those of :class:`steepest.events.growth.Reaction`."""
