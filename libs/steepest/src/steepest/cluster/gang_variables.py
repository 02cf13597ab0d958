"""The environment variables by which the processes of a gang find each other.

It owns the names that frameworks read: PyTorch's, TensorFlow's, and Steepest's own. It must never know how an address is
reached or a port assigned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from steepest.cluster.port import GangPlace


class GangAddresses(msgspec.Struct, frozen=True):
    """Where the processes of a gang listen.

    Attributes:
        hosts: The host of each rank.
        ports: One port for each rank.
        master_port: A further port of rank 0, at which a framework's processes meet.
    """

    hosts: tuple[str, ...]
    ports: tuple[int, ...]
    master_port: int

    @property
    def peers(self) -> list[str]:
        """``host:port`` of each rank."""
        return [f"{host}:{port}" for host, port in zip(self.hosts, self.ports, strict=True)]


def gang_variables(place: GangPlace, addresses: GangAddresses, *, own_gpus: bool = False) -> dict[str, str]:
    """The variables of one process of a gang.

    ``LOCAL_RANK`` counts the gang's processes on the same node. With ``own_gpus`` a process sees its own GPUs alone, and
    counts them from 0. Scripts for torchrun take the GPU of this number, so each process is the only local one.
    """
    peers = addresses.peers
    local = () if own_gpus else tuple(one == place.nodes[place.rank] for one in place.nodes)
    return {
        "MASTER_ADDR": addresses.hosts[0],
        "MASTER_PORT": str(addresses.master_port),
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_RANK": str(sum(local[: place.rank])),
        "LOCAL_WORLD_SIZE": str(max(1, sum(local))),
        "TF_CONFIG": _tf_config(place, peers),
        "STEEPEST_ROLE": place.role,
        "STEEPEST_ROLE_INDEX": str(place.role_index),
        "STEEPEST_RANK": str(place.rank),
        "STEEPEST_WORLD_SIZE": str(place.world_size),
        "STEEPEST_PEERS": ",".join(peers),
    }


def _tf_config(place: GangPlace, peers: Sequence[str]) -> str:
    cluster: dict[str, list[str]] = {}
    first = 0
    for role, count in place.roles or ((place.role, place.world_size),):
        cluster[role] = list(peers[first : first + count])
        first += count
    task = {"type": place.role, "index": place.role_index}
    return json.dumps({"cluster": cluster, "task": task}, separators=(",", ":"))
