"""Which pools a node's agent works for: those that have the node, as the installation lists it or its labels say now.

It owns when that changes. It is the share of one process, as a consumer group's is of another: what works for a pool ends
before the pool is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from steepest.app.state_folder import Installation
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.objects import ClusterNode, Listing
from steepest.cluster.kubernetes.reflector import Reflector
from steepest.errors import ClusterError, InputError
from steepest.log.base import TopicPartition
from steepest.logger import Logger

_log = Logger()
_NODES = "/api/v1/nodes"
_AGAIN_S = 2.0


class NodePools:
    """The share of a node's agent in the pools.

    Args:
        node: The node's name.
        installation: Its pools.
        api: The API server, which is closed at the end; None: that of the pod's own cluster.

    Raises:
        InputError: The installation has no agents.
    """

    def __init__(self, node: str, installation: Installation, api: KubernetesApi | None = None) -> None:
        if not installation.has_agents:
            raise InputError(
                f"the installation has no agents, and a setting says that this is the one of {node}",
                code="no-agents",
                hint="write node_agents = true into its file, and end the log-collector that is for all nodes",
            )
        self._node = {"fieldSelector": f"metadata.name={node}"}
        self._name = node
        self._installation = installation
        self._api = api or KubernetesApi()
        self._watched: Reflector[ClusterNode] = Reflector(self._api, _NODES, ClusterNode, self._node, self._changed)
        self._labels: dict[str, str] | None = None
        self._may_differ = asyncio.Event()
        self._revoked = asyncio.Event()
        self._taken: tuple[TopicPartition, ...] = ()
        self._watching: asyncio.Task[None] | None = None

    @property
    def revoked(self) -> asyncio.Event:
        """See ``Assignment.revoked``."""
        return self._revoked

    async def take(self) -> Sequence[TopicPartition]:
        """See ``Assignment.take``."""
        if self._watching is None:
            self._watched.start()
        self._may_differ.clear()
        self._taken = await self._asked()
        self._revoked = asyncio.Event()
        self._watching = asyncio.create_task(self._watch(self._revoked))
        return self._taken

    async def is_held(self, at: TopicPartition) -> bool:
        """See ``Assignment.is_held``."""
        return at in self._taken and not self._revoked.is_set()

    def give_back(self) -> None:
        """See ``Assignment.give_back``."""
        self._taken = ()
        if self._watching is not None:
            self._watching.cancel()

    async def close(self) -> None:
        """See ``Assignment.close``."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._watched.close()
        await self._api.close()

    def _changed(self, node: ClusterNode) -> None:
        """A node's status changes all the time; only its labels say whose it is."""
        if node.metadata.labels != self._labels:
            self._labels = node.metadata.labels
            self._may_differ.set()

    async def _watch(self, revoked: asyncio.Event) -> None:
        while True:
            await self._may_differ.wait()
            self._may_differ.clear()
            if await self._asked() != self._taken:
                revoked.set()
                return

    async def _asked(self) -> tuple[TopicPartition, ...]:
        """The pools that have the node now; it waits for as long as that cannot be known."""
        while True:
            try:
                return tuple([at for at in self._all() if await self._has(at)])
            except ClusterError as error:
                _log.warning("the node's pools are not known", node=self._name, why=str(error), hint=error.hint)
                await asyncio.sleep(_AGAIN_S)

    def _all(self) -> list[TopicPartition]:
        layout = self._installation.layout
        return [layout.of_pool(pool) for pool in layout.pools]

    async def _has(self, at: TopicPartition) -> bool:
        pool = self._installation.layout.pools[at.partition]
        selector = self._installation.selector(pool)
        if selector is None:
            return any(node.name == self._name for node in self._installation.nodes_of(pool))
        query = {**self._node, **({"labelSelector": selector} if selector else {})}
        return bool((await self._api.get(_NODES, Listing[ClusterNode], query)).items)
