"""Description of a simulated cluster: its nodes and their properties."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events.common import Resources

LOCAL_MIB_S = 11_444.0
"""12 GB/s, what a PCIe 3.0 slot of 16 lanes brings in practice."""

NETWORK_MIB_S = 1_192.0
"""10 Gbit/s."""


class SimNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node.

    Attributes:
        name: Valid as a node's name on the log.
        capacity: Its resources.
        usable: Share of its CPU that jobs can use; the system uses the rest.
        contention: Jobs that want more CPU than they can get all go 1 + contention × (demand ÷ usable CPU − 1) times slower.
        hard_limits: A limit holds where CPU would be idle too, as on emulated nodes, Docker engines and Kubernetes.
        speed: Work done in a second by a job with all its requested resources, relative to the node that was measured.
        storage_mib_s: Rate at which checkpoints are written to and read from the shared volume, in MiB/s.
        local_mib_s: Rate at which replicas of gangs on the node exchange with each other, in MiB/s.
        network_mib_s: Rate at which they exchange with those on other nodes, in MiB/s; in each direction.
        mtbf_s: Mean time between failures, in seconds (exponentially distributed); 0: it never fails.
        repair_s: Time until a failed node is back, in seconds.
    """

    name: str
    capacity: Resources
    usable: float = 1.0
    contention: float = 0.0
    hard_limits: bool = False
    speed: float = 1.0
    storage_mib_s: float = 500.0
    local_mib_s: float = LOCAL_MIB_S
    network_mib_s: float = NETWORK_MIB_S
    mtbf_s: float = 0.0
    repair_s: float = 600.0


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, in an order that placement rules may use.

    Attributes:
        shared_storage_mib_s: Bandwidth of the volume for all checkpoints together, under a pool's policies; None: only the
            nodes' own rates count.
    """

    source: str
    nodes: Sequence[SimNode]
    shared_storage_mib_s: float | None = None

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.capacity.gpus for node in self.nodes)
