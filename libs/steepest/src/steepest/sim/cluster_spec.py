"""What a simulated cluster is made of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events.common import Resources


class SimNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node.

    Attributes:
        name: Fit to be a node's name on the log.
        capacity: What it has.
        usable: Share of its CPU that jobs get; the rest is the system's.
        contention: Jobs that want more CPU than they can get all go 1 + contention × (demand ÷ usable CPU − 1) times slower.
        speed: Work done in a second with all that a job asks for; 1 is the node that a workload's times were taken on.
        storage_mib_s: Rate at which checkpoints are written to and read from the shared volume, in MiB/s.
        mtbf_s: Mean time between its failures, drawn exponentially; 0: it never fails.
        repair_s: How long it is away then.
    """

    name: str
    capacity: Resources
    usable: float = 1.0
    contention: float = 0.0
    speed: float = 1.0
    storage_mib_s: float = 500.0
    mtbf_s: float = 0.0
    repair_s: float = 600.0


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, in an order that placement rules may use."""

    source: str
    nodes: Sequence[SimNode]

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.capacity.gpus for node in self.nodes)
