"""Parse clusters: names like ``8x8gpu`` and ``4x16cpu+2x8cpu``, or a TOML file for nodes that differ in other ways.

It owns both forms and the defaults of what neither names. It must never know what runs on the cluster.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.errors import InputError
from steepest.events.common import Name, Resources
from steepest_lab.sim.cluster_spec import LOCAL_MIB_S, NETWORK_MIB_S, ClusterSpec, SimNode
from steepest_lab.sim.table import LONGEST_S
from steepest_lab.sim.text import read_text

GPU_CPU_M = 12_000
GPU_MEMORY_MIB = 65_536
"""12 cores and 64 GiB for each GPU: a little more than the 92 CPUs and 520 GB that the peers' simulators assume for a node
of 8 GPUs, so that only GPUs decide what fits, as in those simulators."""

CORE_MEMORY_MIB = 8_192
"""8 GiB for each core of a node without GPUs: the 64 GB and 8 cores of the thesis' workers."""

MOST_NODES = 100_000
_MOST_EACH = 10_000
_LONGEST_NAME = 63
_LARGEST_SPEED = 1_000.0
_LARGEST_CONTENTION = 1_000.0
_LARGEST_RATE = 1e9

_PART = re.compile(r"(\d{1,9})x(\d{1,9})(cpu|gpu)", re.ASCII)
_HINT = "Write e.g. 8x8gpu (8 nodes of 8 GPUs), 4x16cpu, 2x8gpu+4x32cpu, or name a TOML file (docs/workloads.md)."


class _Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    count: int = 1
    name: Name | None = None
    gpus: int = 0
    cpus: float | None = None
    memory_gib: float | None = None
    contention: float = 0.0
    speed: float = 1.0
    storage_mib_s: float = 500.0
    local_mib_s: float = LOCAL_MIB_S
    network_mib_s: float = NETWORK_MIB_S
    mtbf_s: float = 0.0
    repair_s: float = 600.0


class _ClusterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node: list[_Group]
    shared_storage_mib_s: float | None = None


def open_cluster(name: str) -> ClusterSpec:
    """The cluster of a name like ``8x8gpu``, of several joined with ``+``, or of a TOML file.

    Raises:
        InputError: It is neither, or a value is out of range; the message names the part or field.
    """
    if name.endswith(".toml") or "/" in name:
        return read_cluster(Path(name))
    groups = [_group(part, name) for part in name.split("+")]
    return _spec(groups, name)


def read_cluster(path: Path) -> ClusterSpec:
    """The nodes of a TOML file.

    It has ``shared_storage_mib_s``, and tables ``[[node]]`` with ``count``, ``name``, ``gpus``, ``cpus``, ``memory_gib``,
    ``contention``, ``speed``, ``storage_mib_s``, ``local_mib_s``, ``network_mib_s``, ``mtbf_s`` and ``repair_s``, of which
    ``gpus`` or ``cpus`` is needed.

    Raises:
        InputError: The file does not have this format; the message names the table and field.
    """
    try:
        found = msgspec.convert(tomllib.loads(read_text(path)), _ClusterFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError, ValueError) as error:
        raise InputError(f"{path}: does not describe a cluster: {error}", hint="See docs/workloads.md.") from error
    for number, group in enumerate(found.node):
        if (fault := _fault(group)) is not None:
            raise InputError(f"{path}, node {number}, {fault}", hint="See docs/workloads.md.")
    shared_mib_s = found.shared_storage_mib_s
    if shared_mib_s is not None and not 1 <= shared_mib_s <= _LARGEST_RATE:
        fault = f"shared_storage_mib_s: {shared_mib_s} is not between 1 and {_LARGEST_RATE:g}"
        raise InputError(f"{path}, {fault}", hint="See docs/workloads.md.")
    return msgspec.structs.replace(_spec(found.node, str(path)), shared_storage_mib_s=shared_mib_s)


def _group(part: str, whole: str) -> _Group:
    match = _PART.fullmatch(part.strip())
    if match is None:
        shown = f" (of {whole[:100]!r})" if part != whole else ""
        raise InputError(f"cluster {part[:100]!r}{shown}: is not <nodes>x<number>gpu or cpu", hint=_HINT)
    each = int(match[2])
    group = _Group(count=int(match[1]), gpus=each) if match[3] == "gpu" else _Group(count=int(match[1]), cpus=each)
    if not each:
        raise InputError(f"cluster {part!r}: a node needs at least one", hint=_HINT)
    if (fault := _fault(group)) is not None:
        raise InputError(f"cluster {part!r}, {fault}", hint=_HINT)
    return group


def _fault(group: _Group) -> str | None:
    bounds: Mapping[str, tuple[float | None, float, float]] = {
        "count": (group.count, 1, MOST_NODES),
        "gpus": (group.gpus, 0, _MOST_EACH),
        "cpus": (group.cpus, 0.001, _MOST_EACH),
        "memory_gib": (group.memory_gib, 0.001, _MOST_EACH * 100),
        "contention": (group.contention, 0, _LARGEST_CONTENTION),
        "speed": (group.speed, 1 / _LARGEST_SPEED, _LARGEST_SPEED),
        "storage_mib_s": (group.storage_mib_s, 1, _LARGEST_RATE),
        "local_mib_s": (group.local_mib_s, 0.001, _LARGEST_RATE),
        "network_mib_s": (group.network_mib_s, 0.001, _LARGEST_RATE),
        "mtbf_s": (group.mtbf_s or None, 1, LONGEST_S),
        "repair_s": (group.repair_s, 0, LONGEST_S),
    }
    for field, (value, least, most) in bounds.items():
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            return f"{field}: {value} is not between {least:g} and {most:g}"
    if group.name and group.count > 1 and len(group.name) + len(f"-{group.count - 1}") > _LONGEST_NAME:
        return f"name: with the nodes' numbers it has more than {_LONGEST_NAME} letters"
    if not group.gpus and group.cpus is None:
        return "cpus: a node needs gpus or cpus"
    return None


def _capacity(group: _Group) -> Resources:
    cpu_m = group.gpus * GPU_CPU_M if group.cpus is None else round(group.cpus * 1_000)
    memory_mib = group.gpus * GPU_MEMORY_MIB or cpu_m * CORE_MEMORY_MIB // 1_000
    if group.memory_gib is not None:
        memory_mib = round(group.memory_gib * 1_024)
    return Resources(cpu_m=cpu_m, memory_mib=memory_mib, gpus=group.gpus)


def _spec(groups: Sequence[_Group], source: str) -> ClusterSpec:
    total = sum(group.count for group in groups)
    if not total:
        raise InputError(f"{source}: has no nodes", hint=_HINT)
    if total > MOST_NODES:
        raise InputError(f"{source}: {total} nodes are more than {MOST_NODES}", hint="Ask for fewer.")
    digits = len(str(total - 1))
    nodes: dict[str, SimNode] = {}
    for group in groups:
        capacity = _capacity(group)
        for number in range(group.count):
            name = _name(group, number, f"node-{len(nodes):0{digits}}")
            if name in nodes:
                raise InputError(f"{source}, name: two nodes are called {name}", hint="Name each group differently.")
            nodes[name] = SimNode(
                name=name,
                capacity=capacity,
                contention=group.contention,
                speed=group.speed,
                storage_mib_s=group.storage_mib_s,
                local_mib_s=group.local_mib_s,
                network_mib_s=group.network_mib_s,
                mtbf_s=group.mtbf_s,
                repair_s=group.repair_s,
            )
    return ClusterSpec(source=source, nodes=tuple(nodes.values()))


def _name(group: _Group, number: int, unnamed: str) -> str:
    if group.name is None:
        return unnamed
    return group.name if group.count == 1 else f"{group.name}-{number}"
