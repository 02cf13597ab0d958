"""The placement policies by name: which node one replica of a waiting job gets.

It owns the names, which ``PoolParameters.placement`` holds. Each policy gives the node, or None where the job fits
nowhere now.

``procon`` is not among them: it needs how many steps a running job has done (``NodeHeartbeat`` holds that, and the facts
made of it leave it out) and how many it will do (no event says). A pool's log holds neither; a simulation knows both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from steepest.policies.pending import Pending
from steepest.policies.placement.flowcon2 import flowcon2
from steepest.policies.placement.spread import spread
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Node


class PlacementPolicy(msgspec.Struct, frozen=True):
    """A policy, and its rule in words."""

    choose: Callable[[ClusterView, Job, Pending], Node | None]
    rule: str


PLACEMENTS: Mapping[str, PlacementPolicy] = {
    "spread": PlacementPolicy(spread, "spread: least allocated afterwards"),
    "flowcon2": PlacementPolicy(flowcon2, "flowcon2: most to be reclaimed from jobs that hardly grow"),
}


def placement(name: str) -> PlacementPolicy:
    """The policy of that name; where there is none, ``spread``, whose rule says so."""
    found = PLACEMENTS.get(name)
    if found is not None:
        return found
    usual = PLACEMENTS["spread"]
    return PlacementPolicy(usual.choose, f"{usual.rule} (no placement policy is named {name[:40]!r})")
