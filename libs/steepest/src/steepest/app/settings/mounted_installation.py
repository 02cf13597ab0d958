"""An installation that a mounted file describes, and not a state folder: services in containers share no folder with it.

It owns the file. Such an installation's log is on Kafka, its services are run by another system, such as Kubernetes, and no
lock of a machine says whether they run. The state folder then holds only what a service itself keeps, and jobs' files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from steepest.app.settings.amounts import node
from steepest.app.settings.kinds import Kind, Namespace
from steepest.app.settings.toml_file import read_toml
from steepest.app.state_folder import KUBERNETES, Installation, PoolSpec, StateFolder
from steepest.cluster.data_source import data_source
from steepest.cluster.folders.ended_jobs import Retention
from steepest.errors import InputError
from steepest.events.common import Count, Name, Positive

_ADAPTER = "kubernetes="


class MountedInstallation(Installation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of the file.

    Attributes:
        cluster: The address of the Kubernetes cluster whose nodes it has; empty: its nodes are emulated.
        selectors: By pool, the labels of its nodes; the nodes of other pools are listed.
        node_agents: Whether each node has an agent.
    """

    cluster: str = ""
    selectors: Mapping[str, str] = {}
    node_agents: bool = False

    @property
    def has_agents(self) -> bool:
        """See ``Installation.has_agents``."""
        return self.node_agents

    def kubernetes(self, pool: str) -> str:
        """See ``Installation.kubernetes``."""
        self.layout.of_pool(pool)
        return self.cluster

    def selector(self, pool: str) -> str | None:
        """See ``Installation.selector``."""
        return self.selectors.get(pool)


class _MountedPool(msgspec.Struct, forbid_unknown_fields=True):
    """A ``[[pool]]`` of the file."""

    name: Name
    nodes: tuple[str, ...] = ()
    selector: str | None = None
    queues: tuple[Name, ...] = ()


class _InstallationFile(msgspec.Struct, forbid_unknown_fields=True):
    pool: tuple[_MountedPool, ...]
    cluster: str = ""
    image: str = ""
    heartbeat_ms: Positive = 500
    loss_partitions: Positive = 4
    storage: str = ""
    node_agents: bool = False
    checkpoints_gib: Count = 0
    system_checkpoints: bool = False
    kinds: tuple[Kind, ...] = ()
    namespaces: tuple[Namespace, ...] = ()


class MountedFolder(StateFolder):
    """A state folder of a service whose installation a file describes.

    Args:
        root: The state folder; it may be missing where nothing is kept in it.
        file: The description.
    """

    def __init__(self, root: Path, file: Path) -> None:
        super().__init__(root)
        self._file = file
        self.opening_lock = None

    @property
    def exists(self) -> bool:
        """There is always an installation."""
        return True

    @property
    def is_up(self) -> bool:
        """Whether its services run is not known here: they are expected to."""
        return True

    def read(self) -> Installation:
        """The installation of the file.

        Raises:
            InputError: It cannot be read, or describes something else; the message names the field.
        """
        return read_installation(self._file)

    def create(self, installation: Installation) -> NoReturn:
        """Refuse: the file says what it is."""
        del installation
        raise self._elsewhere("change it in that file")

    def sole(self) -> NoReturn:
        """Refuse: its services run elsewhere."""
        raise self._elsewhere("start and stop its services where that file comes from")

    def _elsewhere(self, hint: str) -> InputError:
        return InputError(f"the installation is described by {self._file}", code="described", hint=hint)


def read_installation(path: Path) -> MountedInstallation:
    """The installation that a TOML file describes.

    The file has ``[[pool]]`` tables with ``name``, ``queues``, and either ``nodes``, as for ``--node``, or ``selector``, the
    labels of nodes of a Kubernetes cluster (empty: all its nodes). Above them stand ``cluster``, as for ``--cluster``,
    ``image``, ``heartbeat_ms``, ``loss_partitions``, ``storage``, as for ``--storage``, ``node_agents``: whether each node
    of the cluster has a log-collector, ``checkpoints_gib``, as of ``Retention``, ``system_checkpoints``, ``kinds`` and
    ``namespaces``, as for ``--system-checkpoints``, ``--kind`` and ``--namespace``.

    Raises:
        InputError: It cannot be read, or describes something else; the message names the field.
    """
    hint = "see docs/kubernetes.md for an example"
    found = read_toml(path, _InstallationFile, hint=hint)
    try:
        return _installation(path, found)
    except ValueError as error:
        raise InputError(f"{path}: {error}", hint=hint) from error


def _installation(path: Path, found: _InstallationFile) -> MountedInstallation:
    cluster = _address(found.cluster)
    pools = [_pool(number, pool, cluster) for number, pool in enumerate(found.pool)]
    if not pools:
        raise InputError(f"{path}: describes no pool", hint="write [[pool]] and its name below it")
    if found.node_agents and not cluster:
        raise ValueError("$.node_agents: agents are for nodes of a cluster, and none is named")
    if found.node_agents and found.storage:
        raise ValueError("$.storage: an agent cannot count what a pod receives; leave storage or node_agents out")
    first, *others = pools
    if first.queues:
        raise InputError(
            f"{path}: {first.name} is the first pool: it gets the jobs of every queue that no other pool has",
            hint="leave its queues out",
        )
    for what, names in (
        ("pool", [pool.name for pool in pools]),
        ("node", [one.name for pool in pools for one in pool.nodes]),
        ("queue", [queue for pool in pools for queue in pool.queues]),
        ("namespace", list(found.namespaces)),
    ):
        if len(set(names)) < len(names):
            raise InputError(f"{path}: a {what} is there twice", hint=f"name each {what} once")
    return MountedInstallation(
        pool=first.name,
        nodes=first.nodes,
        pools=tuple(others),
        image=found.image,
        heartbeat_ms=found.heartbeat_ms,
        loss_partitions=found.loss_partitions,
        storage=data_source(found.storage).url if found.storage else "",
        ended=Retention(checkpoints_gib=found.checkpoints_gib),
        system_checkpoints=found.system_checkpoints,
        kinds=found.kinds,
        namespaces=found.namespaces,
        cluster=cluster,
        node_agents=found.node_agents,
        selectors={pool.name: pool.selector for pool in found.pool if pool.selector is not None},
    )


def _pool(number: int, pool: _MountedPool, cluster: str) -> PoolSpec:
    try:
        nodes = tuple(map(node, pool.nodes))
    except ValueError as error:
        raise ValueError(f"$.pool[{number}].nodes: {error}") from error
    if (pool.selector is None) == (not nodes):
        raise ValueError(f"$.pool[{number}]: it has either nodes or a selector")
    if pool.selector is not None and not cluster:
        raise ValueError(f"$.pool[{number}].selector: it selects nodes of a cluster, and none is named")
    own = tuple(msgspec.structs.replace(one, engine=cluster) for one in nodes)
    return PoolSpec(name=pool.name, nodes=own, queues=pool.queues)


def _address(cluster: str) -> str:
    if not cluster:
        return ""
    if not cluster.startswith(_ADAPTER):
        raise ValueError("$.cluster: write it like kubernetes=NAMESPACE/CLAIM:/mnt/claim")
    return f"{KUBERNETES}{cluster.removeprefix(_ADAPTER)}"
