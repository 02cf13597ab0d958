"""Description of a simulated cluster: its nodes and their properties."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events.common import Resources


class SimNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node.

    Attributes:
        name: Valid as a node's name on the log.
        capacity: Its resources.
        usable: Share of its CPU that jobs can use; the system uses the rest.
        contention: Jobs that want more CPU than they can get all go 1 + contention × (demand ÷ usable CPU − 1) times slower.
        speed: Work done in a second by a job with all its requested resources, relative to the node that was measured.
        storage_mib_s: Rate at which checkpoints are written to and read from the shared volume, in MiB/s.
        mtbf_s: Mean time between failures, in seconds (exponentially distributed); 0: it never fails.
        repair_s: Time until a failed node is back, in seconds.
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
